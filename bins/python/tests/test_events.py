"""Stacks, subtrees and launches, against the JSON of the trace itself."""

from __future__ import annotations

import gzip
import json
from typing import Any

import inferscope
import pytest
from conftest import DATA

RANK0 = DATA / "demo" / "demo-rank0.json.gz"


@pytest.fixture(scope="module")
def written() -> list[dict[str, Any]]:
    """The complete events of the file."""
    with gzip.open(RANK0, "rt") as file:
        found = json.load(file)
    return [event for event in found["traceEvents"] if event.get("ph") == "X" and "dur" in event]


@pytest.fixture(scope="module")
def trace() -> inferscope.Trace:
    trace = inferscope.open(RANK0)
    assert isinstance(trace, inferscope.Trace)
    return trace


def test_a_kernel_leads_to_the_call_that_launched_it(trace: inferscope.Trace, written: list[dict[str, Any]]) -> None:
    events = trace.events()
    calls = {e["args"]["correlation"]: e["name"] for e in written if e["cat"] == "cuda_runtime" and "correlation" in e["args"]}
    kernels = [e for e in written if e["cat"] == "kernel"]
    checked = 0
    for kernel in kernels:
        found = [i for i in events.find(kernel["name"]) if abs(events[i]["dur"] - kernel["dur"] * 1000) < 1]
        stacks = [events.launch(i) for i in found]
        names = {stack[0]["name"] for stack in stacks if stack}
        if kernel["args"]["correlation"] in calls and names:
            assert calls[kernel["args"]["correlation"]] in names
            checked += 1
        if checked == 40:
            break
    assert checked == 40


def test_stacks_and_subtrees_contain_each_other_in_time(trace: inferscope.Trace) -> None:
    events = trace.events()
    operator = next(e["id"] for e in events if e["cat"] == "cpu_op" and len(events.subtree(e["id"])) > 3)
    subtree = events.subtree(operator)
    root = events[operator]
    every = [
        e
        for e in events
        if e["track_id"] == root["track_id"] and root["ts"] <= e["ts"] and e["ts"] + e["dur"] <= root["ts"] + root["dur"] and e["id"] >= operator
    ]
    assert [e["id"] for e in subtree] == [e["id"] for e in every]
    for inner in subtree[1:]:
        assert operator in [e["id"] for e in events.stack(inner["id"])]
    assert events.stack(operator)[-1]["parent_id"] is None
    with pytest.raises(IndexError):
        events[len(events)]


def test_what_an_event_launches_was_launched_by_it(trace: inferscope.Trace) -> None:
    events = trace.events()
    launching = [e["id"] for e in events if e["cat"] == "cpu_op" and events.launched(e["id"])][:5]
    assert launching
    for operator in launching:
        for activity in events.launched(operator):
            assert operator in [e["id"] for e in events.launch(activity["id"])]


def test_flows_are_not_needed(tmp_path: Any) -> None:
    with gzip.open(RANK0, "rt") as file:
        found = json.load(file)
    found["traceEvents"] = [e for e in found["traceEvents"] if e.get("ph") not in ("s", "f")]
    (tmp_path / "t.json").write_text(json.dumps(found))
    bare, whole = inferscope.open(tmp_path / "t.json"), inferscope.open(RANK0)
    assert isinstance(bare, inferscope.Trace) and isinstance(whole, inferscope.Trace)
    kernels = [e["id"] for e in whole.events() if e["cat"] == "kernel"][:30]
    assert len(bare.table("flow")) == 0
    with_flows, without = whole.events(), bare.events()
    expected = [[e["id"] for e in with_flows.launch(kernel)] for kernel in kernels]
    assert [[e["id"] for e in without.launch(kernel)] for kernel in kernels] == expected
    assert sum(map(bool, expected)) > 5
