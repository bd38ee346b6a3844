"""Performance forensics for LLM inference.

    >>> import inferscope
    >>> trace = inferscope.open("rank0.json.gz")
    >>> print(trace.why().sentence)
    >>> trace.kernels(by="class").to_polars()

The analyses, their options and their results are those of the command line; `help(inferscope.Trace)` lists them.
"""

from __future__ import annotations

from ._errors import (
    DefectError,
    InferscopeError,
    InferscopeWarning,
    InputError,
    NoAnswerError,
    OutputError,
    UsageError,
)
from ._functions import Rocpd, blkio, changed, compare, diff, memtrace, rocpd, sql, why
from ._native import __version__
from ._result import Result, Table, Why
from ._trace import Job, Trace, open

__all__ = [
    "DefectError",
    "InferscopeError",
    "InferscopeWarning",
    "InputError",
    "Job",
    "NoAnswerError",
    "OutputError",
    "Result",
    "Rocpd",
    "Table",
    "Trace",
    "UsageError",
    "Why",
    "__version__",
    "blkio",
    "changed",
    "compare",
    "diff",
    "memtrace",
    "open",
    "rocpd",
    "sql",
    "why",
]
