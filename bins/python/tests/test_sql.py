"""SQL from Python gives the rows of the command."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import inferscope
import pytest
from conftest import DATA, command

RANK0 = DATA / "demo" / "demo-rank0.json.gz"
JOB = DATA / "serving" / "late-host"

QUERIES = [
    "SELECT name, count(*) AS n, sum(dur) AS ns FROM kernels GROUP BY name ORDER BY ns DESC, name",
    "SELECT rank, avg(dur) AS mean_ns FROM steps GROUP BY rank ORDER BY rank",
    "SELECT 9007199254740993 AS exact, true AS yes, NULL AS nothing, 'é' AS text",
    "SELECT * FROM kernels WHERE dur < 0",
    "SHOW TABLES",
    "-- a comment first\nSELECT count(*) AS n FROM slices",
]


@pytest.mark.parametrize("query", QUERIES)
def test_rows_equal_those_of_the_command(query: str) -> None:
    rows = inferscope.sql(query, JOB)
    done = command("sql", f"\n{query}", JOB, "--json")
    assert done.returncode == 0, done.stderr
    assert rows.to_json() == done.stdout.decode()
    assert list(rows) == json.loads(done.stdout) == rows.to_dict()
    assert rows.to_arrow().to_pylist() == list(rows)


def test_columns_have_their_kinds_also_without_rows() -> None:
    none = inferscope.open(JOB).sql("SELECT name, dur, 0.5 * dur AS half, dur > 1 AS is_long FROM kernels WHERE dur < 0")
    assert [(name, kind) for name, kind, _, _ in none.schema] == [
        ("name", "text"),
        ("dur", "int"),
        ("half", "real"),
        ("is_long", "bool"),
    ]
    assert len(none) == 0


def test_a_data_set_answers_as_its_recordings(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "set"
    assert command("export", JOB, "-o", folder).returncode == 0
    query = "SELECT rank, class, sum(dur) AS ns FROM kernels GROUP BY rank, class ORDER BY rank, class"
    assert inferscope.sql(query, folder).to_dict() == inferscope.sql(query, JOB).to_dict()


def test_errors_are_those_of_the_package(tmp_path: pathlib.Path) -> None:
    with pytest.raises(inferscope.InferscopeError, match="kernel"):
        inferscope.sql("SELECT * FROM kernelz", RANK0)
    with pytest.raises(inferscope.UsageError, match="no recordings"):
        inferscope.sql("SELECT 1 AS one")
    with pytest.raises(inferscope.InferscopeError):
        inferscope.sql(f"COPY kernels TO '{tmp_path}/x.csv'", RANK0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(inferscope.UsageError, match="one query"):
        inferscope.sql("SELECT 1 AS a; SELECT 2 AS b", RANK0)
    # The name of a file is a query that fails, and is not read.
    with pytest.raises(inferscope.InferscopeError):
        inferscope.sql(str(RANK0), RANK0)


def test_files_that_cannot_be_read_are_a_warning(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rank0.json.gz").write_bytes(RANK0.read_bytes())
    (tmp_path / "rank1.json").write_bytes(b"\0\1no recording")
    with pytest.warns(inferscope.InferscopeWarning, match="rank1.json"):
        rows = inferscope.sql("SELECT count(*) AS n FROM kernels", tmp_path)
    assert list(rows) == list(inferscope.sql("SELECT count(*) AS n FROM kernels", RANK0))


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_ends_a_query() -> None:
    program = (
        "import inferscope, signal, threading, os\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        f"    inferscope.sql('SELECT count(*) FROM slices a, slices b, slices c', {str(RANK0)!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "interrupted\n"
