"""Makes the fixtures of this folder with Python's own pickle, and what they must answer by brute force.

A small caching allocator is simulated whole; the snapshot keeps the last part of its history, as a ring buffer does.
"""

import json
import os
import pickle
import random

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
STACKS = [
    [("alloc_kv", "/opt/serve/kv_cache.py", 40), ("start", "/opt/serve/engine.py", 12)],
    [("create_weights", "/opt/serve/linear.py", 88), ("load_model", "/opt/serve/loader.py", 31), ("start", "/opt/serve/engine.py", 9)],
    [("forward", "/opt/serve/mlp.py", 21), ("_call_impl", "/venv/torch/nn/modules/module.py", 1553), ("step", "/opt/serve/engine.py", 70)],
    [("empty_cpu", "??", 0), ("sample", "/opt/serve/sampler.py", 17), ("step", "/opt/serve/engine.py", 74)],
    [("mystery", "/opt/serve/other.py", 5)],
]


def frames(stack):
    return [{"name": n, "filename": f, "line": l} for n, f, l in stack]


def text(stack):
    parts = []
    for n, f, l in reversed(stack):
        f = f.split("/")[-1]
        parts.append(n if f == "??" else f"{f}:{l}:{n}")
    return ";".join(parts)


def snapshot(seed, total, kept):
    rng = random.Random(seed)
    shared = [frames(s) for s in STACKS]
    events, truth = [], []  # truth: the live allocations after each event
    segments, live, released, next_segment = [], {}, {}, 1 << 40
    time = 1_700_000_000_000_000

    def log(action, **more):
        nonlocal time
        time += rng.randint(1, 50)
        events.append({"action": action, "stream": 0, "time_us": time, **more})
        truth.append(dict(live))

    def place(size):
        for seg in segments:
            for at, block in enumerate(seg["blocks"]):
                if block["state"] == "inactive" and block["size"] >= size:
                    rest = block["size"] - size
                    block["size"] = size
                    if rest:
                        seg["blocks"].insert(
                            at + 1,
                            {"address": block["address"] + size, "size": rest, "requested_size": 0, "state": "inactive", "frames": []},
                        )
                    return block
        return None

    while len(events) < total:
        if live and rng.random() < 0.48:
            addr = rng.choice(list(live))
            size, _ = live.pop(addr)
            released[addr] = size
            log("free_requested", addr=addr, size=size, frames=frames(STACKS[2]))
            block = next(b for s in segments for b in s["blocks"] if b["address"] == addr)
            if rng.random() < 0.9:
                block.update(state="inactive", requested_size=0, frames=[])
                del released[addr]
                log("free_completed", addr=addr, size=size, frames=frames(STACKS[2]))
            else:
                block["state"] = "active_awaiting_free"
        else:
            which = rng.randrange(len(STACKS))
            asked = rng.randint(1, MIB // 2)
            size = -(-asked // 512) * 512
            block = place(size)
            if block is None:
                addr = next_segment
                next_segment += 8 * MIB
                segments.append(
                    {
                        "device": 0, "address": addr, "total_size": 2 * MIB, "stream": 0, "segment_type": "large",
                        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                        "blocks": [{"address": addr, "size": 2 * MIB, "requested_size": 0, "state": "inactive", "frames": []}],
                    }
                )
                log("segment_alloc", addr=addr, size=2 * MIB, frames=shared[which])
                block = place(size)
            block.update(state="active_allocated", requested_size=asked, frames=shared[which])
            live[block["address"]] = (asked, which)
            log("alloc", addr=block["address"], size=asked, frames=shared[which])
    first = len(events) - kept
    before = truth[first - 1] if first else {}
    states = [before] + truth[first:]
    sums = [sum(size for size, _ in state.values()) for state in states]
    peak = max(sums)
    at = sums.index(peak)
    # A stack is known if the allocation is in the kept history, or lives until the snapshot.
    logged = {}
    for number, event in enumerate(events[first:], 1):
        if event["action"] == "alloc":
            logged.setdefault(event["addr"], []).append(number)
    holders, older = {}, 0
    for addr, (size, which) in states[at].items():
        in_history = any(number <= at for number in logged.get(addr, []))
        freed = any(e["addr"] == addr and e["action"] == "free_requested" for e in events[first + at :])
        known = in_history or not freed
        key = text(STACKS[which]) if known else ""
        older += 0 if known else size
        holders[key] = holders.get(key, 0) + size
    reserved_end = sum(s["total_size"] for s in segments)
    reserved_at = reserved_end - sum(e["size"] for e in events[first + at :] if e["action"] == "segment_alloc")
    blocks = [(s, b) for s in segments for b in s["blocks"]]
    used = {id(s) for s, b in blocks if b["state"] != "inactive"}
    free = [(b["size"], id(s) in used) for s, b in blocks if b["state"] == "inactive"]
    expected = {
        "events": kept, "first_bytes": sums[0], "peak_bytes": peak, "peak_event": at, "last_bytes": sums[-1],
        "peak_us": events[first + (at or 1) - 1]["time_us"], "older_bytes": older, "holders": holders,
        "reserved_at_peak_bytes": reserved_at, "last_reserved_bytes": reserved_end,
        "split_bytes": sum(n for n, inside in free if inside), "split_blocks": sum(1 for _, inside in free if inside),
        "releasable_bytes": sum(n for n, inside in free if not inside), "largest_free_bytes": max((n for n, _ in free), default=0),
        "allocated_bytes": sum(b["size"] for _, b in blocks if b["state"] == "active_allocated"),
        "awaiting_free_bytes": sum(b["size"] for _, b in blocks if b["state"] == "active_awaiting_free"),
        "rounding_bytes": sum(b["size"] - b["requested_size"] for _, b in blocks if b["state"] != "inactive"),
    }
    data = {"segments": segments, "device_traces": [events[first:], []], "allocator_settings": {"expandable_segments": False, "max_split_size": -1}}
    return data, expected


def entry(number, seq, name, state, frames_, group=("0", "default_pg"), p2p=0, sizes=((4, 8),), dtype="BFloat16", created=0):
    return {
        "frames": frames_, "record_id": number, "pg_id": int(group[0]), "process_group": group, "thread_name": "python", "thread_id": "1",
        "collective_seq_id": seq, "p2p_seq_id": p2p, "op_id": seq, "profiling_name": name, "time_created_ns": created or 10**18 + number,
        "input_sizes": [list(s) for s in sizes], "input_dtypes": [dtype], "output_sizes": [list(s) for s in sizes], "output_dtypes": [dtype],
        "state": state, "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600000,
        "is_p2p": bool(p2p),
    }


def flight():
    """Four ranks; rank 2 stops after collective 6."""
    where = [{"name": "step", "filename": "/opt/serve/engine.py", "line": 70}]
    dumps = []
    for rank in range(4):
        entries = [entry(i, i + 1, "nccl:all_reduce", "completed", where) for i in range(6)]
        if rank != 2:
            entries.append(entry(6, 7, "nccl:all_reduce", "started", where))
        last = 6 if rank == 2 else 7
        dumps.append(
            {
                "version": "2.10", "comm_lib_version": "2.27.5", "entries": entries,
                "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
                "pg_status": {"0": {"last_enqueued_collective": last, "last_started_collective": last, "last_completed_collective": 6}},
            }
        )
    return dumps


def plain():
    shared = ["a", 1]
    return {
        "none": None, "yes": True, "no": False, "zero": 0, "byte": 255, "short": 65535, "int": -2147483648, "long": 1 << 40,
        "negative": -(1 << 62), "real": 0.1, "text": "a'b\"c\\n\n é 漢 😀", "list": [1, [2, [3]], []], "tuple": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "dict": {"x": {"y": {}}}, "shared": [shared, shared], "many": list(range(300)),
    }


def main():
    for name, seed, total, kept in [("whole", 1, 300, 300), ("cut", 2, 900, 250), ("none", 3, 200, 0)]:
        data, expected = snapshot(seed, total, max(kept, 1)) if kept else snapshot(seed, total, total)
        if not kept:
            data["device_traces"] = [[], []]
        protocol = {"whole": 2, "cut": 4, "none": 5}[name]
        with open(f"{HERE}/{name}.pickle", "wb") as file:
            pickle.dump(data, file, protocol=protocol)
        with open(f"{HERE}/{name}.json", "w") as file:
            json.dump(expected, file, indent=1, sort_keys=True)
    for rank, dump in enumerate(flight()):
        with open(f"{HERE}/nccl_trace_rank_{rank}", "wb") as file:
            pickle.dump(dump, file, protocol=2)
    with open(f"{HERE}/plain.json", "w") as file:
        json.dump(plain(), file)
    for protocol in range(6):
        with open(f"{HERE}/plain_{protocol}.pickle", "wb") as file:
            pickle.dump(plain(), file, protocol=protocol)


main()
