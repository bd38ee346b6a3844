"""Writes small exports of Nsight Systems as seeds of a fuzzer: the argument is their folder.

Pages are as small as they can be, so that a few kilobytes have trees of several levels and rows on several pages.
"""

import sqlite3
import sys
from pathlib import Path

MACHINE = 1 << 48
PROCESS = MACHINE | 10 << 24
THREAD = PROCESS | 10

SCHEMA = """
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE StringIds (id {id}, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
  graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER,
  nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, globalPid INTEGER, deviceId INTEGER, contextId INTEGER,
  streamId INTEGER, correlationId INTEGER, syncType INTEGER, eventId INTEGER);
CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, category INTEGER, text TEXT, globalTid INTEGER,
  textId INTEGER, domainId INTEGER, uint64Value INTEGER, jsonText TEXT, binaryData BLOB);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER,
  arrayOrUnionDetail INTEGER);
CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
CREATE TABLE SCHED_EVENTS (start INTEGER, isSchedIn INTEGER, globalTid INTEGER, threadState INTEGER, threadBlock INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (globalTid INTEGER, nameId INTEGER);
"""

STRINGS = ["mystery", "ncclDevKernel_AllReduce", "cudaLaunchKernel_v7000", "cudaGraphLaunch", "main", "/usr/lib/libcudart.so", "read"]


def payload():
    header = [1, 2, 16, 32]
    return b"".join(value.to_bytes(8, "little") for value in [*header, 4096, 7])


def export(path, identifier):
    rows = sqlite3.connect(path)
    rows.execute("pragma page_size = 512")
    rows.executescript(SCHEMA.format(id=identifier))

    def add(table, *lines):
        marks = ", ".join("?" * len(lines[0]))
        rows.executemany(f"insert into {table} values ({marks})", lines)

    add("META_DATA_EXPORT", ("EXPORT_SCHEMA_VERSION", "3.23.3"), ("EXPORT_PARAM_TIME_SHIFT", "0"))
    add("StringIds", *((10 * number, text) for number, text in enumerate(STRINGS, 1)))
    for number in range(1, 21):
        at = 100 * number
        add("CUPTI_ACTIVITY_KIND_KERNEL", (at + 60, at + 90, 0, 1, 7 + number % 2, number, PROCESS, 10 + 10 * (number % 2), 10, 1, 2, 3, None))
        add("CUPTI_ACTIVITY_KIND_RUNTIME", (at + 10, at + 20, 0, THREAD, number, 30 + 10 * (number % 5 == 0), 0, number % 2))
        add("NVTX_EVENTS", (at + 8, at + 30, 59, None, f"aten::mm, seq = {number}, sizes = [[8, 4]]", THREAD, None, None, None, None, None))
        add("NVTX_EVENTS", (at + 5, at + 40, 59, None, f"nccl:all_reduce, seq = {number}, op_id = 3", THREAD, None, 0, None, None, None))
    add("CUPTI_ACTIVITY_KIND_MEMCPY", (150, 155, 0, 1, 7, 1, PROCESS, 64, 1, 1, 2))
    add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", (590, 640, 0, 1, 7, 5, PROCESS, 3, 4))
    add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", (200, 210, PROCESS, 0, 1, 7, 2, 3, 4294967295))
    add("CUDA_CALLCHAINS", (0, 50, 60, 0, 0), (0, 50, 60, 0, 1), (1, 50, 60, 1, 0))
    add(
        "NVTX_EVENTS",
        (0, None, 75, None, "NCCL", THREAD, None, 1, None, None, None),
        (0, None, 33, 4, "steps", THREAD, None, 0, None, None, None),
        (100, 400, 59, None, None, THREAD, 20, 1, None, None, payload()),
        (500, 900, 60, 4, "step", THREAD, None, 0, 9, '{"count": 3}', None),
        (600, None, 34, None, "gloo:mark", THREAD, None, 2, None, None, payload().hex()),
    )
    add("NVTX_PAYLOAD_SCHEMA_ENTRIES", (1, 2, 0, 18, "communicator", None, 0), (1, 2, 1, 22, "size", 8, 0))
    add("OSRT_API", (40, 90, THREAD, 70), (45, 30, THREAD, 70))
    add("SCHED_EVENTS", (50, 0, THREAD, 1, 2), (70, 1, THREAD, None, None))
    add("PROCESSES", (PROCESS, 10, "/usr/bin/python3"))
    add("ThreadNames", (THREAD, 50))
    rows.commit()


folder = Path(sys.argv[1])
for name, identifier in (("export.sqlite", "INTEGER NOT NULL PRIMARY KEY"), ("listed.sqlite", "BIGINT")):
    path = folder / name
    path.unlink(missing_ok=True)
    export(path, identifier)
