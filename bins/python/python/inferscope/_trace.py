"""Traces and jobs: what was recorded, and the analyses of it."""

from __future__ import annotations

import os

from . import _native, _result
from ._call import paths_of, run, words_of
from ._errors import InputError, UsageError, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar, Union

    from ._call import Option, Path, Paths
    from ._events import Events

    #: Rows for the table of kernel classes: a file (docs/kernels.md), or a function from a kernel's name to its class or None.
    Classes = Union[Path, Callable[[str], Union[str, None]]]
    #: Changes of a what-if: `"host=0.5"`, several of them, or `{"host": 0.5}`.
    WhatIf = Union[str, Sequence[str], Mapping[str, float]]
    #: Numbers from and to, or the same as text.
    Range = Union[str, int, tuple[int, int]]
    R = TypeVar("R", bound=_result.Result)


class _Recorded(_result.Frozen):
    """What a trace and a job have in common.

    Keyword arguments of the analyses are the options of the commands with `_` for `-`; options that are not named in a signature
    are passed on, and a wrong one is a UsageError that names the right one.
    """

    __slots__ = ("_paths", "_files")
    _paths: tuple[str, ...]
    _files: tuple[str, ...]

    def __init__(self, paths: Sequence[str], files: Sequence[str]) -> None:
        object.__setattr__(self, "_paths", tuple(paths))
        object.__setattr__(self, "_files", tuple(files))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._paths, self._files))

    @property
    def paths(self) -> list[str]:
        """The paths as they were given."""
        return list(self._paths)

    @property
    def files(self) -> list[str]:
        """The traces that the paths stand for."""
        return list(self._files)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(self._paths)}>"

    def _ask(self, kind: type[R], words: Sequence[str], options: dict[str, Any], answers: tuple[int, ...] = (0, 1)) -> R:
        classes = options.get("classes")
        if not callable(classes):
            line = [*words, *words_of(options), *self._paths, "--json"]
            return kind(run(line, answers), line)
        import io
        import tempfile

        with tempfile.TemporaryDirectory(prefix="inferscope-") as folder:
            options["classes"] = os.path.join(folder, "classes.rules")
            with io.open(options["classes"], "w", encoding="utf-8") as file:
                file.write(self._rules(classes))
            return self._ask(kind, words, options, answers)

    def _rules(self, classes: Callable[[str], str | None]) -> str:
        """Return rows for the kernels to which a function gives a class.

        Rows know functions without their template arguments, so all kernels of one function need one class.
        """
        kernels = self._ask(_result.Kernels, ["trace-info", "kernels"], {"by": "name"})
        found: dict[str, str | None] = {}
        for name in dict.fromkeys(str(row["name"]) for row in kernels):
            function, given = _function(name), classes(name)
            if found.setdefault(function, given) != given:
                raise UsageError(
                    f"classes: kernels of {function} get the classes {found[function]} and {given}: "
                    "return one class for all template arguments of a function"
                )
        rows = [f"kernel {given} {name} | {name}<*>\n" for name, given in found.items() if given is not None]
        return "".join(rows)

    def sql(self, query: str, **options: Option) -> _result.SqlRows:
        """Return the rows of one SQL query; `inferscope.sql` has the details."""
        from ._functions import sql

        return sql(query, self, **options)

    def summary(self, **options: Option) -> _result.Summary:
        """Return what is in each trace, and what is missing in it."""
        return self._ask(_result.Summary, ["trace-info", "summary"], dict(options))

    def gpu_time(
        self,
        *,
        per_stream: bool = False,
        per_device: bool = False,
        per_step: bool = False,
        step: Range | None = None,
        window: Range | None = None,
        classes: Classes | None = None,
        **options: Option,
    ) -> _result.GpuTime:
        """Return where GPU time goes: computation, exposed communication, exposed memcpy, idle."""
        return self._ask(
            _result.GpuTime,
            ["trace-info", "gpu"],
            dict(per_stream=per_stream, per_device=per_device, per_step=per_step, step=step, window=window, classes=classes, **options),
        )

    def kernels(
        self,
        *,
        by: str | None = None,
        sort: str | None = None,
        top: int | None = None,
        per_step: bool = False,
        step: Range | None = None,
        window: Range | None = None,
        classes: Classes | None = None,
        **options: Option,
    ) -> _result.Kernels:
        """Return durations of kernels by name, class, operator, module, shape or stream (`by`)."""
        return self._ask(
            _result.Kernels,
            ["trace-info", "kernels"],
            dict(by=by, sort=sort, top=top, per_step=per_step, step=step, window=window, classes=classes, **options),
        )

    def idle(
        self,
        *,
        longest: int | None = None,
        per_step: bool = False,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Idle:
        """Return GPU idle time by cause, and with `longest` the longest gaps."""
        return self._ask(
            _result.Idle,
            ["trace-info", "idle"],
            dict(longest=longest, per_step=per_step, step=step, window=window, **options),
        )

    def launches(
        self,
        *,
        per_step: bool = False,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Launches:
        """Return launch latency, launch gaps and queue depth."""
        return self._ask(_result.Launches, ["trace-info", "launch"], dict(per_step=per_step, step=step, window=window, **options))

    def comm(
        self,
        *,
        table: str | None = None,
        top: int | None = None,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Comm:
        """Return the collectives of all ranks: bandwidth, exposure, clocks, waits, stragglers."""
        return self._ask(_result.Comm, ["trace-info", "comm"], dict(table=table, top=top, step=step, window=window, **options))

    def steps(self, **options: Option) -> _result.Steps:
        """Return the time of each step and what bounds it."""
        return self._ask(_result.Steps, ["trace-info", "critical-path"], dict(options))

    def critical_path(
        self,
        *,
        what_if: WhatIf | None = None,
        opportunities: int | None = None,
        path: bool = False,
        ops: bool = False,
        step: int | None = None,
        **options: Option,
    ) -> _result.CriticalPath:
        """Return the critical path of each step, and with `what_if` the gain of a change."""
        changes: Any = what_if
        if what_if is not None and not isinstance(what_if, str) and hasattr(what_if, "items"):
            changes = [f"{name}={factor}" for name, factor in what_if.items()]
        return self._ask(
            _result.CriticalPath,
            ["trace-info", "critical-path"],
            dict(what_if=changes, opportunities=opportunities, path=path, ops=ops, step=step, **options),
        )

    def roofline(
        self,
        *,
        by: str | None = None,
        top: int | None = None,
        device: str | None = None,
        model: Path | None = None,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Roofline:
        """Return how far operators and steps are from the limits of the device."""
        return self._ask(
            _result.Roofline,
            ["trace-info", "roofline"],
            dict(by=by, top=top, device=device, model=model, step=step, window=window, **options),
        )

    def nccl_stacks(
        self,
        *,
        kernel: str | Sequence[str] | None = None,
        kernel_name: str | None = None,
        collectives: bool = False,
        capture: Paths | None = None,
        **options: Option,
    ) -> _result.NcclStacks:
        """Return the host call stacks that launched kernels, collectives unless others are named, and their cost."""
        return self._ask(
            _result.NcclStacks,
            ["nccl-stacks"],
            dict(kernel=kernel, kernel_name=kernel_name, collectives=collectives, capture=capture, **options),
        )

    def why(
        self,
        *,
        phase: str | None = None,
        rank: int | None = None,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Why:
        """Return what limits the inference, why, and what would help by how much. Shows its page in a notebook."""
        return self._why(_result.Why, phase=phase, rank=rank, step=step, window=window, **options)

    def findings(
        self,
        *,
        phase: str | None = None,
        rank: int | None = None,
        step: Range | None = None,
        window: Range | None = None,
        **options: Option,
    ) -> _result.Findings:
        """Return the findings of `why`, as a table."""
        return self._why(_result.Findings, phase=phase, rank=rank, step=step, window=window, **options)

    def _why(self, kind: type[R], **options: Any) -> R:
        return self._ask(kind, ["why"], options, answers=(0, 1, 3))

    def show(self, finding: str, **options: Option) -> Any:
        """Return one finding of `why` with all its evidence, by its id."""
        import json

        line = ["show", finding, *words_of(options), *self._paths, "--json"]
        return json.loads(run(line).json())


def _function(name: str) -> str:
    """Return a kernel's function as a pattern: without return type, parameters and template arguments."""
    text = name.replace("(anonymous namespace)::", "")
    kept, depth = [], 0
    for at, letter in enumerate(text):
        if letter == "(" and depth == 0:
            break
        if letter == "<":
            depth += 1
        elif letter == ">" and at and text[at - 1] != "-":
            depth -= 1
        elif depth == 0:
            kept.append(letter)
    function = "".join(kept).strip().rsplit(" ", 1)[-1]
    # Letters with a meaning in patterns, and the separators of rows, match any letter.
    return "".join("?" if letter in "*[]|#\\" else letter for letter in function)


class Trace(_Recorded):
    """One trace."""

    __slots__ = ()

    def table(self, name: str) -> _result.TraceTable:
        """Return a table of the trace: slice, flow, counter, track, process, thread, args or stats.

        The columns are those of Perfetto's trace processor; `slice` has the ids that other results refer to.
        """
        words = ["trace-info", "tables", self._paths[0], f"--table={name}", "--json"]
        return _result.TraceTable(run(words), words)

    def events(self) -> Events:
        """Return the events by their ids: stacks, subtrees, what was launched by what."""
        from ._events import Events

        return Events(self.table)

    def to_perfetto(self, path: Path) -> None:
        """Write the trace for ui.perfetto.dev."""
        run(["trace-info", "convert", self._paths[0], "--to=perfetto", f"--output={os.fspath(path)}"])

    def to_chrome_json(self, path: Path) -> None:
        """Write the trace as Chrome JSON, for analysers of PyTorch traces."""
        run(["trace-info", "convert", self._paths[0], "--to=chrome-json", f"--output={os.fspath(path)}"])


class Job(_Recorded):
    """Several traces, such as those of the ranks of a job."""

    __slots__ = ()

    @property
    def traces(self) -> list[Trace]:
        """Each trace by itself."""
        return [Trace([file], [file]) for file in self._files]

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[Trace]:
        return iter(self.traces)

    def __getitem__(self, index: int) -> Trace:
        return self.traces[index]

    def __repr__(self) -> str:
        return f"<Job of {len(self):,} traces: {', '.join(self._paths)}>"

    def to_perfetto(self, path: Path) -> None:
        """Write the traces as one, on one clock, for ui.perfetto.dev."""
        run(["trace-info", "merge", *self._paths, f"--output={os.fspath(path)}"])


def open(*paths: Paths) -> Trace | Job:
    """Return the trace of a file, or the job of a folder, a pattern, an archive or several files.

    Nothing is read yet but the list of files: each analysis reads what it needs, beside the interpreter's lock.
    """
    given = [path for some in paths for path in paths_of(some)]
    if not given:
        raise UsageError("no path given: name at least one file, folder or pattern")
    for path in given:
        if not os.path.exists(path) and not any(letter in path for letter in "*?!"):
            raise InputError(f"{path}: no such file: check the path", file=path, remedy="check the path")
    files, error = _native.expand(given)
    if error is not None:
        raise error_of(3, error, given, ())
    if len(files) == 1:
        return Trace(files, files)
    return Job(given, files)
