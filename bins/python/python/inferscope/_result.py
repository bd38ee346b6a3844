"""Results: frozen objects with tables that any library reads as Arrow streams."""

from __future__ import annotations

from . import _native
from ._call import run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn

#: Number of rows that a notebook shows.
_SHOWN = 10
#: Number of characters of a cell that a notebook shows.
_WIDE = 80


class Frozen:
    """An object whose attributes do not change."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} objects do not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} objects do not change")


class _Rows(Frozen):
    """What a table and a result, which stands for its main table, have in common."""

    __slots__ = ()

    def _table(self) -> _native.Table:
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """Names of the columns; a name ends in its unit (`dur_ns`, `share_pct`)."""
        return self._table().columns

    @property
    def schema(self) -> list[tuple[str, str, str, str]]:
        """Name, kind (int, uint, real, text, bool), unit and title of each column."""
        return self._table().schema

    def __len__(self) -> int:
        return len(self._table())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dicts."""
        table = self._table()
        names = table.columns
        for start in range(0, len(table), 1024):
            for row in table.rows(start, start + 1024):
                yield dict(zip(names, row))

    def head(self, count: int = 5) -> list[dict[str, Any]]:
        """Return the first rows as dicts."""
        table = self._table()
        return [dict(zip(table.columns, row)) for row in table.rows(0, count)]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows by the Arrow PyCapsule interface, without a copy."""
        return self._table().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the schema by the Arrow PyCapsule interface."""
        return self._table().__arrow_c_schema__()

    def to_polars(self) -> Any:
        """Return a polars.DataFrame over the same memory."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame."""
        import pandas

        if hasattr(pandas.DataFrame, "from_arrow"):
            return pandas.DataFrame.from_arrow(self)
        import pyarrow

        return pyarrow.table(self).to_pandas()

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table over the same memory."""
        import pyarrow

        return pyarrow.table(self)


class Table(_Rows):
    """A table of a result."""

    __slots__ = ("_shared",)
    _shared: _native.Table

    def __init__(self, shared: _native.Table) -> None:
        object.__setattr__(self, "_shared", shared)

    def _table(self) -> _native.Table:
        return self._shared

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._shared.name

    def __repr__(self) -> str:
        return f"<Table {self.name}: {len(self):,} rows, {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        return _html_table(self._shared)


class Result(_Rows):
    """The answer of one analysis.

    It stands for its main table: `polars.DataFrame(result)`, `pyarrow.table(result)` and `duckdb.from_arrow(result)` read that
    without a copy, `result["name"]` is another of its `tables`, and `to_dict()` is the JSON document of the command line.
    """

    __slots__ = ("_answer", "_words", "_cached")
    _answer: _native.Answer
    _words: tuple[str, ...]
    _cached: dict[str, Any]
    #: Candidates for the main table, the first of which exists.
    _MAIN: tuple[str, ...] = ()

    def __init__(self, answer: _native.Answer, words: Sequence[str]) -> None:
        object.__setattr__(self, "_answer", answer)
        object.__setattr__(self, "_words", tuple(words))
        object.__setattr__(self, "_cached", {})

    def _table(self) -> _native.Table:
        table: _native.Table | None = self._cached.get("main")
        if table is None:
            names = self._answer.names()
            if not names:
                table = _native.parse(b'[{"empty":null}]', []).table("rows")
            else:
                table = self._answer.table(next((n for n in self._MAIN if n in names), names[0]))
            self._cached["main"] = table
        return table

    @property
    def command(self) -> str:
        """The command line that gives the same answer."""
        import shlex

        return shlex.join(("inferscope", *self._words))

    @property
    def notes(self) -> list[str]:
        """Notes and warnings: what was left out, what limits the answer."""
        return self._answer.notes

    @property
    def sentences(self) -> list[str]:
        """The answer in words, where the analysis has one."""
        return self._answer.sentences

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 1 if a condition such as `fail_on_empty` is met."""
        return self._answer.code

    @property
    def tables(self) -> list[str]:
        """Names of the tables, for `result[name]`."""
        return self._answer.names()

    def __getitem__(self, name: str) -> Table:
        return Table(self._answer.table(name))

    def __contains__(self, name: object) -> bool:
        return name in self._answer.names()

    def to_json(self) -> str:
        """Return the JSON document of the command line, byte by byte."""
        return self._answer.json().decode()

    def to_dict(self) -> Any:
        """Return the JSON document of the command line as Python objects."""
        import json

        return json.loads(self._answer.json())

    def __repr__(self) -> str:
        table = self._table()
        rows = f"{len(table):,} row{'s' if len(table) != 1 else ''}"
        text = f"<{type(self).__name__}: {rows} of {table.name}, {len(table.columns)} columns"
        sentences = self.sentences
        return f"{text}; {sentences[0]}>" if sentences else text + ">"

    def _repr_html_(self) -> str:
        from html import escape

        parts = [f"<p><b>{escape(text)}</b></p>" for text in self.sentences[:3]]
        parts.append(_html_table(self._table()))
        trust = [escape(note) for note in self.notes[:5]]
        if len(self.notes) > 5:
            trust.append(f"and {len(self.notes) - 5} more notes")
        trust.append(f"<code>{escape(_cut(self.command, 200))}</code>")
        parts.append(f"<p><small>{'<br>'.join(trust)}</small></p>")
        return "".join(parts)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else _cut(str(value), _WIDE)


def _html_table(table: _native.Table) -> str:
    from html import escape

    head = "".join(f'<th title="{escape(title)}">{escape(name)}</th>' for name, _, _, title in table.schema)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
        for row in table.rows(0, _SHOWN)
    )
    count = len(table)
    rest = f"<p><small>{_SHOWN} of {count:,} rows</small></p>" if count > _SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


class Summary(Result):
    """What is in each trace, and what is missing in it: `trace-info summary`."""

    __slots__ = ()
    _MAIN = ("traces",)


class GpuTime(Result):
    """Where GPU time goes: `trace-info gpu`."""

    __slots__ = ()


class Kernels(Result):
    """Durations of kernels: `trace-info kernels`."""

    __slots__ = ()


class Idle(Result):
    """GPU idle time by cause: `trace-info idle`."""

    __slots__ = ()


class Launches(Result):
    """Launch latency, launch gaps and queue depth: `trace-info launch`."""

    __slots__ = ()


class Comm(Result):
    """Collectives of all ranks: `trace-info comm`."""

    __slots__ = ()


class CriticalPath(Result):
    """Steps, the critical path of each, and what a change would gain: `trace-info critical-path`."""

    __slots__ = ()


class Steps(CriticalPath):
    """Time and bound of each step: the table `steps` of `trace-info critical-path`."""

    __slots__ = ()


class Roofline(Result):
    """Distance of operators and steps from the limits of the device: `trace-info roofline`."""

    __slots__ = ()


class NcclStacks(Result):
    """Host call stacks that launched kernels: `nccl-stacks`."""

    __slots__ = ()
    _MAIN = ("stacks",)


class Diff(Result):
    """Two traces of one model, step with step and kernel with kernel: `trace-info diff`."""

    __slots__ = ()


class Comparison(Result):
    """Two sets of samples: by how much they differ, and the cause: `perf-compare`."""

    __slots__ = ()


class Blkio(Result):
    """How a disk was used, and what limits it: `blkio stats`."""

    __slots__ = ()
    _MAIN = ("phases_phases",)


class Memtrace(Result):
    """How long data lives in memory, and which tier suffices: `memtrace analyse`."""

    __slots__ = ()
    _MAIN = ("retention_summary",)


class TraceTable(Result):
    """A table of a trace, with the columns of Perfetto's trace processor: `trace-info tables`."""

    __slots__ = ()


class SqlRows(Result):
    """Rows of an SQL query: `sql`."""

    __slots__ = ()


class RocpdTable(Result):
    """Rows from rocPD databases."""

    __slots__ = ()
    _MAIN = ("kernels_summary",)


class Why(Result):
    """What limits an inference, why, and what would help by how much: `why`.

    It stands for the table of its findings. In a notebook it shows the page.
    """

    __slots__ = ()
    _MAIN = ("findings",)

    def _document(self) -> Any:
        if "document" not in self._cached:
            self._cached["document"] = self.to_dict()
        return self._cached["document"]

    @property
    def sentences(self) -> list[str]:
        return [self.sentence]

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return str(self._document()["answer"]["sentence"])

    @property
    def shape(self) -> str:
        """`limit`, `cause`, `nothing` or `cannot_say`."""
        return str(self._document()["answer"]["shape"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings, as in the JSON document."""
        return list(self.to_dict()["findings"])

    def __repr__(self) -> str:
        count = len(self._document()["findings"])
        return f"<Why: {count} finding{'s' if count != 1 else ''}; {self.sentence}>"

    def to_html(self, path: Any) -> None:
        """Write the page."""
        self._also("--output", path)

    def to_perfetto(self, path: Any) -> None:
        """Write findings, steps and paths as tracks, to be opened beside the recording."""
        self._also("--perfetto", path)

    def _also(self, option: str, path: Any) -> None:
        import os

        run([self._words[0], option, os.fspath(path), *self._words[1:]], answers=(0, 1, 3))

    def html(self) -> str:
        """Return the page."""
        if "page" not in self._cached:
            import os
            import tempfile

            with tempfile.TemporaryDirectory(prefix="inferscope-") as folder:
                path = os.path.join(folder, "why.html")
                self.to_html(path)
                with open(path, encoding="utf-8") as file:
                    self._cached["page"] = file.read()
        return str(self._cached["page"])

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.html(), quote=True)
        style = "width:100%;height:720px;border:1px solid #8888"
        # A frame of its own, so that the page and the notebook cannot reach each other.
        return f'<iframe sandbox="allow-scripts" style="{style}" title="why" srcdoc="{page}"></iframe>'


class Findings(Why):
    """The findings of `why`, as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return Result.__repr__(self)

    def _repr_html_(self) -> str:
        return Result._repr_html_(self)
