"""Each method gives the JSON document of its command."""

from __future__ import annotations

import pathlib
from typing import Any, Callable

import inferscope
import pytest
from conftest import DATA, command, document, published

RANK0 = DATA / "demo" / "demo-rank0.json.gz"
RANK1 = DATA / "demo" / "demo-rank1.json.gz"
CAPTURE = DATA / "demo" / "demo-capture-rank0.json.gz"

Ask = Callable[[inferscope.Trace], inferscope.Result]

METHODS: list[tuple[Ask, list[str]]] = [
    (lambda t: t.summary(), ["trace-info", "summary"]),
    (lambda t: t.gpu_time(), ["trace-info", "gpu"]),
    (lambda t: t.gpu_time(per_stream=True, window=(0, 10**18)), ["trace-info", "gpu", "--per-stream", "--window=0..1000000000000000000"]),
    (lambda t: t.kernels(), ["trace-info", "kernels"]),
    (lambda t: t.kernels(by="class", top=3), ["trace-info", "kernels", "--by=class", "--top=3"]),
    (lambda t: t.idle(longest=4), ["trace-info", "idle", "--longest=4"]),
    (lambda t: t.launches(), ["trace-info", "launch"]),
    (lambda t: t.comm(), ["trace-info", "comm"]),
    (lambda t: t.steps(), ["trace-info", "critical-path"]),
    (lambda t: t.critical_path(what_if={"host": 0.5}), ["trace-info", "critical-path", "--what-if=host=0.5"]),
    (lambda t: t.roofline(top=5), ["trace-info", "roofline", "--top=5"]),
    (lambda t: t.nccl_stacks(), ["nccl-stacks"]),
    (lambda t: t.table("slice"), ["trace-info", "tables", "--table=slice"]),
]


def without_command(found: Any) -> Any:
    """Remove what states how the tool was called."""
    if isinstance(found, dict):
        return {key: without_command(value) for key, value in found.items() if key != "command"}
    return found


@pytest.mark.parametrize("path", [RANK0, DATA / "perfetto" / "rocprof.pftrace", *published()], ids=lambda p: p.name)
@pytest.mark.parametrize(("ask", "words"), METHODS, ids=lambda v: "-".join(v) if isinstance(v, list) else "")
def test_methods_of_a_trace_equal_their_commands(path: pathlib.Path, ask: Ask, words: list[str]) -> None:
    trace = inferscope.open(path)
    assert isinstance(trace, inferscope.Trace)
    done = command(*words, path, "--json")
    if done.returncode not in (0, 1):
        with pytest.raises(inferscope.InferscopeError) as error:
            ask(trace)
        assert error.value.exit_code == done.returncode
        assert error.value.message in done.stderr.decode()
        return
    result = ask(trace)
    assert result.to_json() == done.stdout.decode()
    assert result.exit_code == done.returncode


def test_answers_in_words_are_those_of_the_text() -> None:
    for ask, words in ((lambda t: t.gpu_time(), "gpu"), (lambda t: t.steps(), "critical-path"), (lambda t: t.roofline(), "roofline")):
        sentences = ask(inferscope.open(RANK0)).sentences
        text = " ".join(command("trace-info", words, RANK0).stdout.decode().split())
        assert sentences and all(sentence and " ".join(sentence.split()) in text for sentence in sentences)


@pytest.mark.parametrize("scope", [{}, {"phase": "decode"}])
def test_why_equals_its_command(scope: dict[str, str]) -> None:
    job = inferscope.open(DATA / "serving" / "late-host")
    assert isinstance(job, inferscope.Job)
    why = job.why(**scope)
    stated = document("why", *(f"--{key}={value}" for key, value in scope.items()), job.paths[0], "--json")
    assert without_command(why.to_dict()) == without_command(stated)
    assert why.sentence == stated["answer"]["sentence"]
    assert len(job.findings(**scope)) == stated["total"] == len(why.findings)
    first = job.show(why.findings[0]["id"], **scope)
    assert first["id"] == why.findings[0]["id"] and first["evidence"]


def test_a_job_has_its_ranks() -> None:
    job = inferscope.open([RANK0, RANK1])
    assert isinstance(job, inferscope.Job)
    assert [len(job), [t.files for t in job]] == [2, [[str(RANK0)], [str(RANK1)]]]
    comm = job.comm()
    assert comm.to_dict() == document("trace-info", "comm", RANK0, RANK1, "--json")
    assert [row["rank"] for row in comm["ranks"]] == [0, 1]
    assert inferscope.open(str(DATA / "demo" / "demo-rank*.json.gz")).comm()["ranks"].head(2) == comm["ranks"].head(2)
    stacks = job.nccl_stacks(capture=[CAPTURE])
    assert stacks.to_dict() == document("nccl-stacks", f"--capture={CAPTURE}", RANK0, RANK1, "--json")


def test_two_sides() -> None:
    diff = inferscope.diff(RANK0, inferscope.open(RANK1))
    assert diff.to_dict() == document("trace-info", "diff", RANK0, RANK1, "--json")
    changed = inferscope.changed(DATA / "pair" / "normal", DATA / "pair" / "abnormal")
    stated = document("why", "--json", "--baseline", DATA / "pair" / "normal", "--candidate", DATA / "pair" / "abnormal")
    assert without_command(changed.to_dict()) == without_command(stated)


def test_samples(tmp_path: pathlib.Path) -> None:
    for side, shift in (("a", 0), ("b", 40)):
        rows = [f"step_time,{100 + shift + (i * 7) % 11},us,{i}" for i in range(60)]
        (tmp_path / f"{side}.csv").write_text("metric,value,unit,cycle\n" + "\n".join(rows) + "\n")
    sides = [tmp_path / "a.csv", tmp_path / "b.csv"]
    compared = inferscope.compare(*sides, permutations=199)
    assert compared.to_dict() == document("perf-compare", "--permutations=199", *sides, "--json")


def test_other_recordings() -> None:
    events = DATA / "blkio" / "offload.events.txt"
    assert inferscope.blkio(events).to_dict() == document("blkio", "stats", events, "--json")
    accesses = DATA / "memtrace" / "mapped.perf.txt"
    assert inferscope.memtrace(accesses).to_dict() == document("memtrace", "analyse", accesses, "--json")
    rocpd = inferscope.rocpd(DATA / "rocpd")
    assert rocpd.info().to_dict() == document("rocpd", "info", DATA / "rocpd", "--json")
    [row] = rocpd.query("SELECT count(*) AS n FROM kernels")
    lines = command("rocpd", "query", DATA / "rocpd", "--query=SELECT count(*) AS n FROM kernels").stdout.decode()
    assert str(row["n"]) in lines and row["n"] > 0
    summary = rocpd.summary()
    assert {"kernels_summary", "hip_summary"} <= set(summary.tables)
    assert sum(kernel["Calls"] for kernel in summary) == row["n"]


def test_classes_from_a_function_and_from_a_file(tmp_path: pathlib.Path) -> None:
    trace = inferscope.open(RANK0)
    name = trace.kernels(by="name").head(1)[0]["name"]
    function = name.removeprefix("void ").split("(")[0].split("<")[0]
    by_function = trace.kernels(by="name", classes=lambda kernel: "pooling" if kernel.startswith(name.split("<")[0]) else None)
    rules = tmp_path / "rules"
    rules.write_text(f"kernel pooling {function} | {function}<*>\n")
    assert by_function.to_dict() == trace.kernels(by="name", classes=rules).to_dict()
    if "nccl" not in name:
        assert by_function.head(1)[0]["class"] == "pooling"
    with pytest.raises(inferscope.UsageError):
        trace.kernels(classes=lambda kernel: "no such class")


def test_a_trace_becomes_a_perfetto_trace(tmp_path: pathlib.Path) -> None:
    trace = inferscope.open(RANK0)
    trace.to_perfetto(tmp_path / "t.pftrace")
    again = inferscope.open(tmp_path / "t.pftrace")
    assert len(again.table("slice")) == len(trace.table("slice"))
    assert sum(r["sum_ns"] for r in again.kernels()) == sum(r["sum_ns"] for r in trace.kernels())
    inferscope.open([RANK0, RANK1]).to_perfetto(tmp_path / "job.pftrace")
    assert (tmp_path / "job.pftrace").stat().st_size > 1000


def test_the_command_is_the_command_line() -> None:
    result = inferscope.open(RANK0).kernels(by="class")
    import shlex

    words = shlex.split(result.command)
    assert words[0] == "inferscope"
    assert document(*words[1:]) == result.to_dict()
