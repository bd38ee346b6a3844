"""Tables of recordings as a data source of Spark 4.

    >>> import inferscope.spark
    >>> inferscope.spark.register(spark)
    >>> spark.read.format("inferscope").load("run/").groupBy("class").sum("dur").show()
    >>> spark.read.format("inferscope").option("table", "steps").load("run/")

Tables and columns are those of `inferscope sql`. Each file is a partition, which an executor reads with the package of its own Python;
paths are as the executors see them. A file that cannot be read fails its task, unless the option `skip_failures` is `true`.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

__all__ = ["InferscopeDataSource", "register"]

#: Number of rows of a batch that goes to Spark.
_ROWS = 1 << 16

#: Types of the catalogue, and of Spark.
_TYPES = {"BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN", "VARCHAR": "STRING"}


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


class _File(InputPartition):
    """The file of a partition: its number among all."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Reader(DataSourceReader):
    def __init__(self, paths: Sequence[str], table: str, columns: Sequence[str], skips: bool) -> None:
        self.paths = list(paths)
        self.table = table
        self.columns = list(columns)
        self.skips = skips

    def partitions(self) -> Sequence[InputPartition]:
        return [_File(number) for number in range(len(self.paths))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import warnings

        import pyarrow

        import inferscope

        assert isinstance(partition, _File)
        columns = ", ".join(map(_quoted, self.columns))
        # All files are named, so that their numbers, runs and ids are those of one query over all; this one is opened.
        query = f"SELECT {columns} FROM {_quoted(self.table)} WHERE file_id = {partition.number}"
        with warnings.catch_warnings():
            if not self.skips:
                warnings.simplefilter("error", inferscope.InferscopeWarning)
            found = inferscope.sql(query, self.paths)
        yield from pyarrow.table(found).to_batches(max_chunksize=_ROWS)


class InferscopeDataSource(DataSource):
    """`spark.read.format("inferscope")`, with the options `table` (`kernels` unless given) and `skip_failures`."""

    @classmethod
    def name(cls) -> str:
        return "inferscope"

    @property
    def _table(self) -> str:
        return str(self.options.get("table", "kernels"))

    def schema(self) -> str:
        import inferscope

        described = inferscope.sql(f"DESCRIBE {_quoted(self._table)}")
        columns = {row["column"]: _TYPES[row["type"]] for row in described}
        if "file_id" not in columns:
            raise inferscope.UsageError(f"{self._table} does not say which file a row is of: load a table of docs/guide/tables.md")
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def reader(self, schema: Any) -> DataSourceReader:
        import inferscope

        path = self.options.get("path")
        if not path:
            raise inferscope.UsageError('no recordings: spark.read.format("inferscope").load(PATH)')
        opened = inferscope.open(path)
        skips = str(self.options.get("skip_failures", "false")).lower() == "true"
        return _Reader(opened.files, self._table, schema.names, skips)


def register(spark: Any) -> None:
    """Make the format `inferscope` known to a session."""
    spark.dataSource.register(InferscopeDataSource)
