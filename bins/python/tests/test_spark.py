"""Spark reads recordings as one process does."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import inferscope
import pytest
from conftest import DATA

pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java (Debian: default-jre-headless)", allow_module_level=True)

JOB = DATA / "serving" / "late-host"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    # Workers take the Python of the path otherwise.
    os.environ["PYSPARK_PYTHON"] = sys.executable

    import inferscope.spark
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    inferscope.spark.register(session)
    yield session
    session.stop()


@pytest.mark.parametrize("table", ["kernels", "steps", "files", "collectives"])
def test_rows_are_those_of_sql(spark: Any, table: str) -> None:
    frame = spark.read.format("inferscope").option("table", table).load(str(JOB))
    assert frame.rdd.getNumPartitions() == 2
    found = sorted((row.asDict() for row in frame.collect()), key=repr)
    stated = sorted(inferscope.sql(f"SELECT * FROM {table}", JOB), key=repr)
    assert found == stated and found


def test_the_engine_computes_on_the_rows(spark: Any) -> None:
    frame = spark.read.format("inferscope").load(str(JOB))
    found = {row["class"]: row["sum(dur)"] for row in frame.groupBy("class").sum("dur").collect()}
    stated = inferscope.sql("SELECT class, sum(dur) AS ns FROM kernels GROUP BY class", JOB)
    assert found == {row["class"]: row["ns"] for row in stated}


def test_a_file_that_cannot_be_read_fails_unless_it_may_be_skipped(spark: Any, tmp_path: pathlib.Path) -> None:
    shutil.copy(JOB / "rank0.json.gz", tmp_path / "rank0.json.gz")
    (tmp_path / "rank1.json").write_bytes(b"\0\1no recording")
    source = spark.read.format("inferscope")
    with pytest.raises(Exception, match="rank1.json"):
        source.load(str(tmp_path)).count()
    count = inferscope.sql("SELECT count(*) AS n FROM kernels", tmp_path / "rank0.json.gz").head(1)[0]["n"]
    assert source.option("skip_failures", "true").load(str(tmp_path)).count() == count
    with pytest.raises(Exception, match="kernelz"):
        source.option("table", "kernelz").load(str(tmp_path)).count()
