"""Repeats the rows of an export of Nsight Systems, later each time and with other correlation ids."""

import lzma
import sqlite3
import sys
from pathlib import Path

source, times, output = sys.argv[1], int(sys.argv[2]), sys.argv[3]
Path(output).write_bytes(lzma.decompress(Path(source).read_bytes()))
rows = sqlite3.connect(output)


def one(query):
    return rows.execute(query).fetchone()[0]


tables = {}
for (name,) in rows.execute("select name from sqlite_master where type = 'table'").fetchall():
    columns = rows.execute(f'pragma table_info("{name}")').fetchall()
    names = [column[1] for column in columns if not column[5]]
    # Rows that describe the recording stay as they are.
    if "start" in names and one(f'select count(*) from "{name}"') > 100:
        tables[name] = names
begin = min(one(f'select min(start) from "{name}"') for name in tables)
end = max(one(f'select max(start) from "{name}"') for name in tables)
ids = max(one(f'select max(correlationId) from "{name}"') or 0 for name in tables if "correlationId" in tables[name])
shift = {"start": ":time", "end": ":time", "correlationId": ":id"}
for name, columns in tables.items():
    wanted = ", ".join(f'"{column}"' for column in columns)
    moved = ", ".join(f'"{column}"' + (f" + {shift[column]}" if column in shift else "") for column in columns)
    rows.execute(f'create temp table once as select * from "{name}"')
    for time in range(1, times):
        values = {"time": (end - begin + 10_000_000) * time, "id": (ids + 1) * time}
        rows.execute(f'insert into "{name}" ({wanted}) select {moved} from once', values)
    rows.execute("drop table once")
rows.commit()
