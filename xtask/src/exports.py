"""Compares queries over recordings and over their export in several engines; called by `cargo xtask exports`."""

import csv
import io
import json
import math
import pathlib
import subprocess
import sys

import duckdb
import polars

sql, export, trace_info, fleet, recordings, folder = json.loads(sys.argv[1])

# The same text runs in every engine. {kernels} and so on stand for the table.
QUERIES = {
    "kernels by name": "SELECT name, count(*) AS n, sum(dur) AS ns, max(dur) AS longest FROM {kernels} GROUP BY name ORDER BY name",
    "kernels by class and rank": "SELECT rank, class, sum(dur) AS ns FROM {kernels} GROUP BY rank, class ORDER BY rank, class",
    "kernels with the thread that launched them": (
        "SELECT t.name AS thread, s.name AS call, count(*) AS n, sum(k.dur) AS ns FROM {kernels} k "
        "JOIN {slices} s ON k.launch_id = s.id JOIN {threads} t ON s.utid = t.utid GROUP BY t.name, s.name ORDER BY 1, 2"
    ),
    "collectives": (
        "SELECT rank, type, group_size, count(*) AS n, sum(dur) AS ns, sum(exposed_ns) AS exposed, sum(message_bytes) AS bytes "
        "FROM {collectives} GROUP BY rank, type, group_size ORDER BY rank, type, group_size"
    ),
    "steps": (
        "SELECT rank, step, dur, gpu_ns, comm_ns, launch_ns, host_ns, sync_ns, verdict FROM {steps} ORDER BY rank, step"
    ),
    "gaps by cause": "SELECT rank, cause, count(*) AS n, sum(dur) AS ns FROM {gaps} GROUP BY rank, cause ORDER BY rank, cause",
    "launches": (
        "SELECT rank, kind, count(*) AS n, sum(latency_ns) AS latency, avg(queued_ns) AS queued FROM {launches} "
        "GROUP BY rank, kind ORDER BY rank, kind"
    ),
    "stacks of the longest kernels": (
        "SELECT k.stack_id, f.depth, f.frame FROM (SELECT stack_id FROM {kernels} WHERE stack_id IS NOT NULL "
        "ORDER BY dur DESC, id LIMIT 3) k JOIN {stacks} f ON f.id = k.stack_id ORDER BY 1, 2, 3"
    ),
    "slices within a time": (
        "SELECT category, count(*) AS n, sum(dur) AS ns FROM {slices} "
        "WHERE ts > (SELECT min(ts) + 1000000 FROM {slices}) AND name LIKE '%a%' GROUP BY category ORDER BY category NULLS FIRST"
    ),
    "functions": "SELECT kind, count(*) AS n, sum(self_ns) AS own FROM {functions} GROUP BY kind ORDER BY kind",
    "arguments": (
        "SELECT key, value_type, count(*) AS n, sum(int_value) AS total FROM {args} GROUP BY key, value_type ORDER BY key, value_type"
    ),
    "files": "SELECT file_id, format, rank, slices, flows, kernels, complete, hash FROM {files} ORDER BY file_id",
}
TABLES = ["kernels", "slices", "threads", "collectives", "steps", "gaps", "launches", "stacks", "functions", "args", "files"]


def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def cell(value):
    """A value as all engines write it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or value in ("true", "false"):
        return str(value).lower()
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return int(value) if number.is_integer() and "." not in str(value) else float(f"{number:.9g}")


def rows_of_csv(text):
    return [[cell(value) for value in row] for row in list(csv.reader(io.StringIO(text)))[1:]]


def ours(query, paths):
    plain = query.format(**{name: name for name in TABLES})
    return rows_of_csv(run(sql + ["-q", "--format", "csv", plain] + paths))


def duck(query):
    files = {name: f"read_parquet('{folder}/table={name}/**/*.parquet', hive_partitioning = false)" for name in TABLES}
    rows = duckdb.sql(query.format(**files)).fetchall()
    return [[cell(value) for value in row] for row in rows]


def same(a, b):
    def equal(x, y):
        if isinstance(x, float) or isinstance(y, float):
            return x is not None and y is not None and math.isclose(x, y, rel_tol=1e-9)
        return x == y

    return len(a) == len(b) and all(len(p) == len(q) and all(map(equal, p, q)) for p, q in zip(a, b))


run(export + ["-q"] + recordings + ["-o", folder])
failed = 0
for title, query in QUERIES.items():
    raw, stored, other = ours(query, recordings), ours(query, [folder]), duck(query)
    good = same(raw, stored) and same(raw, other)
    failed += not good
    print(f"{'equal ' if good else 'DIFFER'} {len(raw):6} rows  {title}")
    if not good:
        print("  recordings", raw[:3], "\n  data set  ", stored[:3], "\n  DuckDB    ", other[:3])

# Our own commands, by another way.
def stated(command, paths):
    return json.loads(run(trace_info + command + ["-q", "--format", "json"] + paths))


def check(title, left, right):
    global failed
    good = same(sorted(left, key=str), sorted(right, key=str))
    failed += not good
    print(f"{'equal ' if good else 'DIFFER'} {len(left):6} rows  {title}")
    if not good:
        print("  command", sorted(left, key=str)[:3], "\n  SQL    ", sorted(right, key=str)[:3])


one = recordings[:1]
sums = {}
for row in stated(["kernels"], recordings)["kernels"]["rows"]:
    count, ns = sums.get(row["name"], (0, 0))
    sums[row["name"]] = (count + row["count"], ns + row["sum_ns"])
left = [[name, *values] for name, values in sums.items()]
check("trace-info kernels", left, [row[:3] for row in ours(QUERIES["kernels by name"], recordings)])
for by in ["class", "operator", "module"]:
    sums = {}
    for row in stated(["kernels", "--by", by], one)["kernels"]["rows"]:
        # What has no launch, and what has no module.
        name = None if row["name"] in ("(launch not in the trace)", "(no Python frame)") else row["name"]
        count, ns = sums.get(name, (0, 0))
        sums[name] = (count + row["count"], ns + row["sum_ns"])
    left = [[name, *values] for name, values in sums.items()]
    right = ours(f"SELECT {by}, count(*), sum(dur) FROM {{kernels}} GROUP BY {by}", one)
    check(f"trace-info kernels --by {by}", left, right)
causes = ["host_wait", "input_wait", "synchronisation", "launch_call", "launch_latency", "kernel_wait", "blocked", "other"]
row = next(row for row in stated(["idle"], one)["idle"]["rows"] if row["scope"] == "trace")
left = [[row["gaps"], row["idle_ns"]] + [row[f"{cause}_ns"] for cause in causes]]
sums = ", ".join(f"sum({cause}_ns)" for cause in causes)
check("trace-info idle", left, ours(f"SELECT count(*), sum(dur), {sums} FROM {{gaps}}", one))
rows = stated(["launch"], one)["launches"]["rows"]
metrics = {"latency": "latency_ns", "in_call": "in_call_ns", "queued": "queued_ns", "dispatch": "dispatch_ns"}
whole = [row for row in rows if row["device"] is None and row["kind"] != "all" and row["metric"] in metrics]
left = [[row["kind"], row["metric"], row["count"], row["sum_ns"]] for row in whole]
parts = [f"SELECT kind, '{name}', count({column}), sum({column}) FROM {{launches}} GROUP BY kind" for name, column in metrics.items()]
names = {row["metric"] for row in whole}
right = [row for row in ours(" UNION ALL ".join(parts), one) if row[1] in names]
check("trace-info launch", left, right)
keys = ["start_ns", "dur_ns", "exposed_ns", "group_size", "seq", "type", "in_bytes", "out_bytes", "message_bytes", "dtype"]
left = [[row[key] for key in keys] for row in stated(["comm", "--table", "kernels"], one)["kernels"]["rows"]]
right = ours("SELECT ts, dur, exposed_ns, group_size, seq, type, in_bytes, out_bytes, message_bytes, dtype FROM {collectives}", one)
check("trace-info comm", left, right)
groups = ["gpu", "comm", "launch", "host", "sync", "wait", "input", "unknown"]
steps = stated(["critical-path"], one)["steps"]
left = [[step["step"], step["begin_ns"], step["duration_ns"], step["verdict"]] + [step["groups"][group] for group in groups] for step in steps]
sums = ", ".join(f"{group}_ns" for group in groups)
check("trace-info critical-path", left, ours(f"SELECT step, ts, dur, verdict, {sums} FROM {{steps}}", one))

# Partitions are read from the names of folders, by two more readers.
hive = duckdb.sql(
    f"SELECT rank, count(*) FROM read_parquet('{folder}/table=kernels/*/*/*.parquet', hive_partitioning = true) GROUP BY rank ORDER BY rank"
).fetchall()
frame = polars.scan_parquet(f"{folder}/table=kernels", hive_partitioning=True)
lazy = frame.group_by("rank").len().sort("rank").collect().rows()
expected = ours("SELECT rank, count(*) FROM {kernels} GROUP BY rank ORDER BY rank", recordings)
for name, rows in [("DuckDB", hive), ("polars", lazy)]:
    good = same([[cell(value) for value in row] for row in rows], expected)
    failed += not good
    print(f"{'equal ' if good else 'DIFFER'} {len(rows):6} rows  partitions in {name}")
kinds = {name: str(kind) for name, kind in frame.collect_schema().items()}
for name in ("ts", "dur", "id"):
    if kinds[name] != "Int64":
        failed += 1
        print(f"DIFFER {name} is {kinds[name]}")
if kinds["name"] not in ("String", "Utf8"):
    failed += 1
    print(f"DIFFER name is {kinds['name']}")

# The answer of a fleet: every table, read by three engines.
answer = folder + "-fleet"
run(fleet + ["-q"] + recordings + ["-o", answer])
listed = [row[0] for row in rows_of_csv(run(sql + ["-q", "--format", "csv", "SHOW TABLES", answer]))]
check("tables of a fleet", [[name] for name in sorted(listed)], [[path.stem] for path in sorted(pathlib.Path(answer).glob("*.parquet"))])
for name in listed:
    path = f"{answer}/{name}.parquet"
    left = rows_of_csv(run(sql + ["-q", "--format", "csv", f"SELECT * FROM {name}", answer]))
    check(f"fleet: {name} in DuckDB", left, [[cell(value) for value in row] for row in duckdb.sql(f"SELECT * FROM '{path}'").fetchall()])
    check(f"fleet: {name} in polars", left, [[cell(value) for value in row] for row in polars.read_parquet(path).rows()])

# Findings, from the recordings and from a data set that has them.
run(export + ["-q", "--tables", "files,findings"] + recordings + ["-o", folder])
query = "SELECT id, kind, rank, cost_ns_total, gain_pct, evidence FROM findings ORDER BY position"
left = rows_of_csv(run(sql + ["-q", "--format", "csv", query] + recordings))
check("findings in the data set", left, rows_of_csv(run(sql + ["-q", "--format", "csv", query, folder])))
other = duckdb.sql(query.replace("FROM findings", f"FROM '{folder}/table=findings/*.parquet'")).fetchall()
check("findings in DuckDB", left, [[cell(value) for value in row] for row in other])
sys.exit(1 if failed else 0)
