"""Tasks of notebooks with Inferscope and with HTA: the same questions about one folder of ranks, each timed.

    python bins/python/bench/tasks.py FOLDER [--hta PYTHON]

PYTHON is the interpreter of an environment that has HolisticTraceAnalysis; Inferscope runs in this one. Each task runs three times in a
fresh process and its fastest time counts. HTA reads all ranks once, before its tasks; Inferscope reads them in every task.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

LIBRARIES = {
    "inferscope": {
        "import": "import inferscope",
        "load": "job = inferscope.open(folder)",
        "breakdown": "job.gpu_time().to_dict()",
        "kernels": "job.kernels(by='name').to_dict()",
        "overlap": "job.gpu_time().to_dict()",
        "idle": "job.idle().to_dict()",
        "launches": "job.launches().to_dict()",
    },
    "hta": {
        "import": "from hta.trace_analysis import TraceAnalysis",
        "load": "job = TraceAnalysis(trace_dir=folder)",
        "breakdown": "job.get_temporal_breakdown(visualize=False)",
        "kernels": "job.get_gpu_kernel_breakdown(visualize=False)",
        "overlap": "job.get_comm_comp_overlap(visualize=False)",
        "idle": "job.get_idle_time_breakdown(visualize=False, ranks=list(job.t.traces))",
        "launches": "job.get_cuda_kernel_launch_stats(visualize=False, ranks=list(job.t.traces))",
    },
}


def measure(library: str, folder: str) -> None:
    """Print the seconds of each task as JSON."""
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    names: dict[str, object] = {"folder": folder}
    seconds = {}
    for task, code in LIBRARIES[library].items():
        start = time.perf_counter()
        exec(code, names)
        seconds[task] = time.perf_counter() - start
    print(json.dumps(seconds))


def best(python: str, library: str, folder: str) -> dict[str, float]:
    """Return the fastest time of each task."""
    runs = []
    for _ in range(3):
        line = [python, __file__, folder, "--measure", library]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {task: min(run[task] for run in runs) for task in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--measure", choices=sorted(LIBRARIES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.folder)
        return
    ours = best(sys.executable, "inferscope", args.folder)
    theirs = best(args.hta, "hta", args.folder) if args.hta else {}
    print("| task | Inferscope | HTA | ratio |\n|---|---|---|---|")
    for task, seconds in ours.items():
        other = theirs.get(task)
        more = f"{other:.3f} s | {other / seconds:.0f}" if other else " | "
        print(f"| {task} | {seconds:.4f} s | {more} |")


if __name__ == "__main__":
    main()
