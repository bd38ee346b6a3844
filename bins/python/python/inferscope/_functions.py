"""Analyses of other recordings than traces, and of two sides."""

from __future__ import annotations

import os

from . import _native, _result
from ._call import paths_of, run, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Union

    from ._call import Option, Path, Paths
    from ._trace import _Recorded

    Side = Union[Paths, _Recorded]


def _side(side: Side) -> list[str]:
    paths: Any = getattr(side, "paths", side)
    return paths_of(paths)


def why(*paths: Side, **options: Option) -> _result.Why:
    """Return what limits an inference, from recordings and the logs beside them."""
    words = ["why", *words_of(options), *(path for side in paths for path in _side(side)), "--json"]
    return _result.Why(run(words, answers=(0, 1, 3)), words)


def changed(baseline: Side, candidate: Side, **options: Option) -> _result.Why:
    """Return what made the candidate slower or faster than the baseline."""
    words = ["why", "--json", *words_of(options), "--baseline", *_side(baseline), "--candidate", *_side(candidate)]
    return _result.Why(run(words, answers=(0, 1, 3)), words)


def sql(query: str, *paths: Side, **options: Option) -> _result.SqlRows:
    """Return the rows of one SQL query over recordings, or over a data set of `inferscope export`.

    `SHOW TABLES` lists the tables, `DESCRIBE kernels` the columns of one. Without paths these two are answered.
    """
    text = query.strip()
    # A word of the command line that is neither an option nor a path.
    if text.startswith("-") or len(text.split(None, 1)) < 2 or os.path.exists(text):
        text = f"\n{text}"
    words = ["sql", *words_of(options), text, *(path for side in paths for path in _side(side)), "--json"]
    return _result.SqlRows(run(words, answers=(0,)), words)


def diff(a: Side, b: Side, **options: Option) -> _result.Diff:
    """Compare two traces of one model, step with step and kernel with kernel."""
    words = ["trace-info", "diff", *words_of(options), *_side(a), *_side(b), "--json"]
    return _result.Diff(run(words), words)


def compare(a: Side, b: Side, **options: Option) -> _result.Comparison:
    """Compare two sets of samples or of per-cycle data: by how much they differ, and the cause."""
    words = ["perf-compare", *words_of(options), *_side(a), *_side(b), "--json"]
    return _result.Comparison(run(words, answers=(0, 1)), words)


def blkio(*paths: Paths, **options: Option) -> _result.Blkio:
    """Return how a block I/O trace used its disk, and what limits it."""
    words = ["blkio", "stats", *words_of(options), *(p for some in paths for p in paths_of(some)), "--json"]
    return _result.Blkio(run(words), words)


def memtrace(*paths: Paths, **options: Option) -> _result.Memtrace:
    """Return how long data lives in recorded memory accesses, and which memory tier would suffice for it."""
    words = ["memtrace", "analyse", *words_of(options), *(p for some in paths for p in paths_of(some)), "--json"]
    return _result.Memtrace(run(words), words)


class Rocpd(_result.Frozen):
    """rocPD databases, together."""

    __slots__ = ("_paths",)
    _paths: tuple[str, ...]

    def __init__(self, paths: Sequence[str]) -> None:
        object.__setattr__(self, "_paths", tuple(paths))

    def __repr__(self) -> str:
        return f"<Rocpd {', '.join(self._paths)}>"

    def info(self) -> _result.Result:
        """Return what the databases hold."""
        words = ["rocpd", "info", *self._paths, "--json"]
        return _result.Result(run(words), words)

    def query(self, sql: str, **options: Option) -> _result.RocpdTable:
        """Run SQL over all databases."""
        words = ["rocpd", "query", *self._paths, f"--query={sql}", *words_of(options)]
        return self._written(words)

    def summary(self, **options: Option) -> _result.RocpdTable:
        """Return what took how long."""
        return self._written(["rocpd", "summary", *self._paths, *words_of(options)])

    def _written(self, words: list[str]) -> _result.RocpdTable:
        # These commands write JSON to files only.
        import json
        import tempfile

        with tempfile.TemporaryDirectory(prefix="inferscope-") as folder:
            answer = run([*words, "--format=json", f"--output-path={folder}", "--output-file=rows"])
            tables = {}
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    tables[os.path.splitext(name)[0].removeprefix("rows_")] = json.load(file)
        text = json.dumps(next(iter(tables.values())) if len(tables) == 1 else tables)
        return _result.RocpdTable(_native.parse(text.encode(), answer.notes), words)


def rocpd(*paths: Path) -> Rocpd:
    """Return rocPD databases: files, folders, patterns, packages; they count as one."""
    return Rocpd(paths_of(list(paths)))
