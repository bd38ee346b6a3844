"""The handler of torch.profiler."""

from __future__ import annotations

import json
import logging
import pathlib
import shutil
from typing import Any

import inferscope
import inferscope.torch
import pytest
from conftest import DATA


class Recorded:
    """A profiler whose recording is a file."""

    def __init__(self, source: pathlib.Path) -> None:
        self.source = source

    def export_chrome_trace(self, path: str) -> None:
        import gzip

        with gzip.open(self.source) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file)


def test_only_recordings_that_are_worth_it_stay(tmp_path: pathlib.Path) -> None:
    found: list[dict[str, Any]] = []
    recorded = Recorded(DATA / "serving" / "late-host" / "rank0.json.gz")
    inferscope.torch.handler(tmp_path / "all", keep_if=lambda why: True, on_finding=found.append)(recorded)
    [kept] = (tmp_path / "all").iterdir()
    assert [f["id"] for f in found] == [f["id"] for f in inferscope.open(kept).why().findings]
    assert all(f["recording"] == str(kept) for f in found)
    handler = inferscope.torch.handler(tmp_path / "none", keep_if=lambda why: False)
    handler(recorded)
    handler(recorded)
    assert list((tmp_path / "none").iterdir()) == []


def test_the_profiled_program_goes_on_whatever_happens(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def export_chrome_trace(self, path: str) -> None:
            pathlib.Path(path).write_text('{"traceEvents": 7}')

    def refuse(why: inferscope.Why) -> bool:
        raise KeyError("mine")

    with caplog.at_level(logging.WARNING):
        inferscope.torch.handler(tmp_path)(Broken())
        inferscope.torch.handler(tmp_path, keep_if=refuse, worker="w")(Recorded(DATA / "demo" / "demo-rank0.json.gz"))
    assert len(list(tmp_path.iterdir())) == 2 and len(caplog.records) == 2


def test_a_real_profile_of_the_cpu(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    answers: list[inferscope.Why] = []

    def keep(why: inferscope.Why) -> bool:
        answers.append(why)
        return True

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=inferscope.torch.handler(tmp_path, keep_if=keep),
    ) as profiler:
        for _ in range(10):
            model(torch.randn(16, 64))
            profiler.step()
    assert len(answers) == 2
    # No GPU: that is said, and is no error.
    assert all(answer.shape == "cannot_say" for answer in answers)
    for path in tmp_path.iterdir():
        assert json.loads(path.read_text())["traceEvents"]
        names = {row["name"] for row in inferscope.open(path).table("slice")}
        assert "aten::linear" in names
