"""A program for the type checker: what a user writes, with the types that come out."""

from __future__ import annotations

from typing import Any

import inferscope
import inferscope.torch


def program(path: str) -> None:
    trace = inferscope.open(path)
    why: inferscope.Why = trace.why(phase="decode")
    sentence: str = why.sentence
    findings: list[dict[str, Any]] = why.findings
    kernels = trace.kernels(by="class", top=5, classes=lambda name: "gemm" if "mm" in name else None)
    names: list[str] = kernels.columns
    for row in kernels:
        print(row["name"], sentence, findings, names)
    if isinstance(trace, inferscope.Job):
        first: inferscope.Trace = trace[0]
        first.to_perfetto("t.pftrace")
    path_of_step = trace.critical_path(what_if={"host": 0.5}, step=3)
    table: inferscope.Table = path_of_step["steps"]
    count: int = len(table)
    print(count, inferscope.diff(trace, path).to_dict(), inferscope.compare("a", "b").notes)
    rows = inferscope.sql("SELECT count(*) AS n FROM kernels", trace, "more.json", limit=1)
    print(rows.to_dict(), trace.sql("SHOW TABLES").head(1))
    try:
        inferscope.rocpd("a.db").query("SELECT 1")
    except inferscope.InputError as error:
        print(error.file, error.place, error.remedy)
    handler = inferscope.torch.handler("traces", keep_if=lambda answer: answer.shape == "cause", on_finding=print)
    handler(None)
