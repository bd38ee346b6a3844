"""Analysis of each recording of `torch.profiler` in the process that is profiled.

    >>> import torch, inferscope.torch
    >>> with torch.profiler.profile(
    ...     schedule=torch.profiler.schedule(wait=95, warmup=2, active=3),
    ...     on_trace_ready=inferscope.torch.handler("traces", on_finding=print),
    ... ) as profiler:
    ...     for batch in batches:
    ...         step(batch)
    ...         profiler.step()
"""

from __future__ import annotations

import os

from ._errors import InferscopeError
from ._functions import why

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._result import Why

__all__ = ["handler"]


def _is_worth_it(answer: Why) -> bool:
    """Return True if a finding is at least likely."""
    return any(finding["confidence"] in ("likely", "established") for finding in answer.findings)


def handler(
    dir: str | os.PathLike[str],
    *,
    keep_if: Callable[[Why], bool] | None = None,
    on_finding: Callable[[dict[str, Any]], object] | None = None,
    worker: str | None = None,
) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` of `torch.profiler.profile`.

    Each recording is written to `dir` and analysed. `on_finding` gets each finding of `why`, with the path of the recording as
    `recording`. The recording stays where `keep_if` returns True for the answer; by default where a finding is at least likely.

    The program that is profiled comes first: if the recording cannot be analysed, or a function that was given raises, that is
    logged, the recording stays, and the program goes on.
    """
    folder = os.fspath(dir)
    os.makedirs(folder, exist_ok=True)
    name = worker if worker is not None else f"{os.uname().nodename}_{os.getpid()}"
    count = 0

    def on_trace_ready(profiler: Any) -> None:
        nonlocal count
        path = os.path.join(folder, f"{name}.{count}.pt.trace.json")
        count += 1
        profiler.export_chrome_trace(path)
        try:
            answer = why(path)
            [recording] = answer.to_dict()["scope"]["files"]
            if recording["problem"] is not None:
                _log(f"{path} stays: {recording['problem']}")
                return
            for finding in answer.findings:
                if on_finding is not None:
                    on_finding({**finding, "recording": path})
            keep = (keep_if or _is_worth_it)(answer)
        except InferscopeError as error:
            _log(f"{path} stays: {error}")
            return
        except Exception as error:  # noqa: BLE001
            _log(f"{path} stays: {type(error).__name__}: {error}")
            return
        if not keep:
            os.remove(path)

    return on_trace_ready


def _log(line: str) -> None:
    import logging

    logging.getLogger("inferscope").warning(line)
