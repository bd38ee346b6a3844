"""Compares answers over local files with those over the same files in buckets of moto, which speaks S3."""

import gzip
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)

TOOL, ROOT, MORE = json.loads(sys.argv[1])
SECRET = "TOPSECRET"


def run(words, **changes):
    env = {**os.environ, **ENV, **changes}
    env = {name: value for name, value in env.items() if value is not None}
    done = subprocess.run([TOOL, *words], env=env, capture_output=True, text=True)
    assert SECRET not in done.stdout + done.stderr, words
    return done


def same(words, code=0):
    """Runs a command over local files (@ is their folder) and over the bucket, and compares all that it writes."""
    here = run([word.replace("@", str(LOCAL)) for word in words])
    there = run([word.replace("@", "s3://bucket") for word in words])
    assert here.returncode == code, (words, here.stderr)
    for name in ("returncode", "stdout", "stderr"):
        one, two = getattr(here, name), getattr(there, name)
        two = two.replace("s3://bucket", str(LOCAL)) if isinstance(two, str) else two
        assert one == two, (words, name, str(one)[:2000], str(two)[:2000])
    print("same:", " ".join(words))


def fails(words, want, **changes):
    done = run(words, **changes)
    assert done.returncode != 0 and want in done.stderr, (words, done.stderr)
    print("refused:", done.stderr.strip())


def upload(folder, bucket, prefix=""):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            client.upload_file(str(path), bucket, prefix + path.relative_to(folder).as_posix())


server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
host, port = server.get_host_and_port()
ENV = {
    "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "KEY",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "NO_PROXY": "127.0.0.1",
}
client = boto3.client(
    "s3",
    endpoint_url=ENV["AWS_ENDPOINT_URL"],
    aws_access_key_id="KEY",
    aws_secret_access_key=SECRET,
    region_name="us-east-1",
)
work = tempfile.TemporaryDirectory()
LOCAL = Path(work.name)
data = Path(ROOT, "testdata")
for name in ("run", "other"):
    (LOCAL / name).mkdir()
shutil.copy(data / "demo/demo-rank0.json.gz", LOCAL / "run/rank0.json.gz")
with gzip.open(data / "demo/demo-rank1.json.gz") as packed:
    (LOCAL / "run/rank1.json").write_bytes(packed.read())
shutil.copy(data / "perfetto/sdk.pftrace", LOCAL / "other")
for path in (data / "rocpd").glob("*.db"):
    shutil.copy(path, LOCAL / "other")
for path in MORE:
    shutil.copy(path, LOCAL / "other")
client.create_bucket(Bucket="bucket")
upload(LOCAL, "bucket")

by_class = (
    "SELECT rank, class, count(*) AS n, sum(dur) AS ns FROM kernels GROUP BY rank, class ORDER BY 1, 2"
)
same(["trace-info", "gpu", "@/run/rank0.json.gz", "--json"])
same(["trace-info", "gpu", "@/run/", "--json"])
same(["trace-info", "gpu", "@/run", "--json"])
same(["why", "@/run/", "--json"])
for path in sorted((LOCAL / "other").iterdir()):
    same(["trace-info", "gpu", f"@/other/{path.name}", "--json"], code=run(["trace-info", "gpu", str(path), "--json"]).returncode)
same(["sql", by_class, "@/run/", "--format", "csv"])
same(["sql", "SELECT file, hash, rank FROM files ORDER BY 1", "@/run/", "--format", "csv"])

made = run(["export", "s3://bucket/run/", "-o", str(LOCAL / "set")])
assert made.returncode == 0, made.stderr
again = run(["export", "s3://bucket/run/", "-o", str(LOCAL / "set")])
assert "2 skipped" in again.stderr, again.stderr
upload(LOCAL / "set", "bucket", "set/")
same(["sql", by_class, "@/set", "--format", "csv"])
same(["sql", "SELECT count(*) FROM slices WHERE dur > 100000", "@/set", "--format", "csv"])

# A bad object, and one that is not there.
client.put_object(Bucket="bucket", Key="run/rank2.json.gz", Body=b"\x1f\x8b\x08\x00 cut")
done = run(["export", "s3://bucket/run/", "s3://bucket/run/rank9.json", "-o", str(LOCAL / "set2")])
assert done.returncode == 3 and "run/rank9.json" in done.stderr, done.stderr
failed = run(["sql", "SELECT file FROM failures ORDER BY 1", str(LOCAL / "set2"), "--format", "csv"])
assert failed.stdout.split()[1:] == ["s3://bucket/run/rank2.json.gz", "s3://bucket/run/rank9.json"], failed.stdout
print("failures:", failed.stdout.split())

# More objects than one page of a listing has.
client.create_bucket(Bucket="many")
for number in range(1100):
    client.put_object(Bucket="many", Key=f"notes/{number}.txt", Body=b"x")
client.upload_file(str(LOCAL / "run/rank0.json.gz"), "many", "notes/rank0.json.gz")
done = run(["sql", "SELECT count(*) AS n FROM files", "s3://many/notes/", "--format", "csv"])
assert done.stdout.split() == ["n", "1"], done.stderr
print("listed: 1,101 objects")

fails(["trace-info", "s3://nowhere/run/"], "no bucket `nowhere`")
fails(["trace-info", "s3://bucket/run/rank8.json"], "no such object")
fails(["trace-info", "s3://bucket/run/"], "AWS_ALLOW_HTTP=true", AWS_ALLOW_HTTP=None)
fails(["trace-info", "s3://bucket/run/"], "refuses the connection", AWS_ENDPOINT_URL="http://127.0.0.1:9")
fails(["export", str(LOCAL / "run"), "-o", "s3://bucket/set3"], "local folders")
server.stop()
print("objects: all equal")
