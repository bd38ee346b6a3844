"""Calls of the tools: options as words of a command line, progress, errors."""

from __future__ import annotations

import os
import sys
import time
import warnings

from . import _native
from ._errors import InferscopeWarning, UsageError, error_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Union

    Path = Union[str, os.PathLike[str]]
    Paths = Union[Path, Sequence[Path]]
    #: A value of an option: True gives the option alone, None and False leave it out, a list repeats it.
    Option = Union[bool, int, float, str, os.PathLike[str], Sequence[Union[int, float, str, os.PathLike[str]]], None]

#: Options whose pair of numbers is a range `A..B`.
_RANGES = frozenset({"window", "step", "nth"})

#: Exit codes of an answer: 0, and 1 where a condition that the caller stated is met.
_ANSWERS = (0, 1)


def paths_of(given: Paths) -> list[str]:
    """Return paths as text; standard input is not read."""
    many = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    paths = [os.fspath(path) for path in many]
    if not paths:
        raise UsageError("no path given: name at least one file, folder or pattern")
    if "-" in paths:
        raise UsageError("standard input belongs to Python: write the trace to a file")
    # A path is never an option.
    return [f"./{path}" if path.startswith("-") else path for path in paths]


def words_of(options: Mapping[str, Option]) -> list[str]:
    """Return keyword arguments as options of a command line: `per_step=True` is `--per-step`, `top=5` is `--top=5`."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (str, os.PathLike)):
            words.append(f"{option}={os.fspath(value)}")
        elif isinstance(value, (int, float)):
            words.append(f"{option}={value}")
        elif name in _RANGES and len(value) == 2:
            words.append(f"{option}={value[0]}..{value[1]}")
        else:
            words.extend(f"{option}={os.fspath(v) if isinstance(v, os.PathLike) else v}" for v in value)
    return words


#: Seconds after which a call shows its progress.
_PATIENCE = 0.5


class _Bar:
    """A progress bar of tqdm where that is installed and someone is looking, after half a second."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self.bar is None:
            if time.monotonic() - self.start < _PATIENCE or not total:
                return
            try:
                from tqdm.auto import tqdm
            except ImportError:
                self.bar = False
                return
            self.bar = tqdm(total=total, unit="B", unit_scale=True, leave=False, desc="reading")
        if self.bar:
            self.bar.total = total
            self.bar.update(done - self.bar.n)

    def close(self) -> None:
        if self.bar:
            self.bar.close()


def _is_watched() -> bool:
    stderr = sys.stderr
    return "ipykernel" in sys.modules or bool(stderr is not None and stderr.isatty())


def run(words: Iterable[str], answers: tuple[int, ...] = _ANSWERS) -> _native.Answer:
    """Run a command line and return what it answered.

    Raises an InferscopeError if there is no answer, and warns if it is made of a part of the inputs.
    """
    words = [str(word) for word in words]
    bar = _Bar() if _is_watched() else None
    try:
        answer = _native.call(["inferscope", *words], bar)
    finally:
        if bar is not None:
            bar.close()
    if answer.error is None and answer.code in answers:
        return answer
    error = error_of(answer.code, answer.error or f"exit code {answer.code}", words, answer.notes)
    if answer.code == 3 and answer.error and answer.error.startswith("not all ") and answer.json():
        for note in answer.notes:
            warnings.warn(note, InferscopeWarning, stacklevel=4)
        warnings.warn(answer.error, InferscopeWarning, stacklevel=4)
        return answer
    raise error
