"""Tables reach other libraries without a copy."""

from __future__ import annotations

import duckdb
import inferscope
import pandas
import polars
import pyarrow
import pytest
from conftest import DATA

RANK0 = DATA / "demo" / "demo-rank0.json.gz"


@pytest.fixture(scope="module")
def kernels() -> inferscope.Result:
    return inferscope.open(RANK0).kernels()


def rows_of(result: inferscope.Result) -> list[dict[str, object]]:
    """Return the rows of the JSON document."""
    return list(result.to_dict()["kernels"]["rows"])


def test_all_libraries_have_the_rows_of_the_document(kernels: inferscope.Result) -> None:
    rows = rows_of(kernels)
    assert len(kernels) == len(rows) > 5
    assert list(kernels) == rows
    assert kernels.to_arrow().to_pylist() == rows
    assert kernels.to_polars().to_dicts() == rows
    frame = kernels.to_pandas()
    assert list(frame.columns) == list(rows[0])
    assert frame["name"].tolist() == [row["name"] for row in rows]
    stream = pyarrow.RecordBatchReader.from_stream(kernels)
    assert stream.read_all().num_rows == len(rows)
    arrow = kernels.to_arrow()
    [(count, total)] = duckdb.sql("SELECT count(*), sum(sum_ns) FROM arrow").fetchall()
    assert arrow.num_rows == count
    assert (count, total) == (len(rows), sum(row["sum_ns"] for row in rows))


def test_duckdb_reads_a_result_by_its_name(kernels: inferscope.Result) -> None:
    [(count,)] = duckdb.sql("SELECT count(*) FROM kernels").fetchall()
    assert count == len(kernels)


def test_buffers_are_shared(kernels: inferscope.Result) -> None:
    column = "sum_ns"

    def address(table: pyarrow.Table) -> int:
        return int(table[column].chunk(0).buffers()[1].address)

    first, second = pyarrow.table(kernels), pyarrow.table(kernels)
    assert address(first) == address(second)
    frame = kernels.to_polars()
    assert address(frame.to_arrow()) == address(first)
    assert pandas.api.types.is_numeric_dtype(kernels.to_pandas()[column])


def test_buffers_live_as_long_as_a_reader() -> None:
    table = pyarrow.table(inferscope.open(RANK0).kernels())
    frame = polars.DataFrame(inferscope.open(RANK0).kernels())
    import gc

    gc.collect()
    assert table["sum_ns"].to_pylist() == frame["sum_ns"].to_list()


def test_fields_have_units_and_titles(kernels: inferscope.Result) -> None:
    schema = pyarrow.schema(kernels)
    field = schema.field("sum_ns")
    assert field.metadata[b"unit"] == b"ns" and field.metadata[b"title"]
    assert schema.metadata[b"schema_version"].decode() == kernels.to_dict()["schema_version"]
    assert dict((name, kind) for name, kind, _, _ in kernels.schema)["sum_ns"] in ("int", "uint")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: inferscope.open(RANK0).summary(),
        lambda: inferscope.open(RANK0).steps(),
        lambda: inferscope.open(RANK0).roofline(),
        lambda: inferscope.open(RANK0).nccl_stacks(),
        lambda: inferscope.open(RANK0).table("slice"),
        lambda: inferscope.open(DATA / "serving" / "late-host").why(),
        lambda: inferscope.blkio(DATA / "blkio" / "offload.events.txt"),
        lambda: inferscope.memtrace(DATA / "memtrace" / "mapped.perf.txt"),
        lambda: inferscope.rocpd(DATA / "rocpd").info(),
    ],
)
def test_every_table_of_every_result_is_a_frame(ask: object) -> None:
    result = ask()  # type: ignore[operator]
    assert result.tables
    for name in result.tables:
        frame = result[name].to_polars()
        assert frame.shape == (len(result[name]), len(result[name].columns)), name
    assert len(result) > 0


def test_empty_tables_keep_their_columns() -> None:
    empty = inferscope.open(RANK0).idle(longest=0)["gaps"]
    assert len(empty) == 0 and len(empty.to_polars().columns) == len(empty.columns) > 3
