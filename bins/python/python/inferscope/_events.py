"""The events of a trace: from an id in a result to the event, what is around it, and what it launched."""

from __future__ import annotations

from ._result import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._result import TraceTable

    Event = dict[str, Any]


class Events(Frozen):
    """The events of one trace, by their ids.

    An id is the row of the table `slice`, as in findings (`event_id`) and the other tables of a trace.
    """

    __slots__ = ("_slices", "_read", "_cached")
    _slices: TraceTable
    _read: Callable[[str], TraceTable]
    _cached: dict[str, dict[int, list[int]]]

    def __init__(self, read: Callable[[str], TraceTable]) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_slices", read("slice"))
        object.__setattr__(self, "_cached", {})

    def __len__(self) -> int:
        return len(self._slices)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._slices)

    def __repr__(self) -> str:
        return f"<Events: {len(self):,}>"

    def __getitem__(self, event: int) -> Event:
        """Return an event by its id."""
        table = self._slices._table()
        if not 0 <= event < len(table):
            raise IndexError(f"no event {event}: ids are 0 to {len(table) - 1}")
        [row] = table.rows(event, event + 1)
        return dict(zip(table.columns, row))

    def find(self, name: str) -> list[int]:
        """Return the ids of the events of a name, in the order of time."""
        return [event["id"] for event in self if event["name"] == name]

    def stack(self, event: int) -> list[Event]:
        """Return the events around an event, the innermost first, beginning with itself."""
        found = [self[event]]
        while found[-1]["parent_id"] is not None:
            found.append(self[found[-1]["parent_id"]])
        return found

    def subtree(self, event: int) -> list[Event]:
        """Return an event and all that it contains, in the order of time."""
        root = self[event]
        inside = {event}
        found = [root]
        end = None if root["dur"] is None or root["dur"] < 0 else root["ts"] + root["dur"]
        table = self._slices._table()
        columns = table.columns
        # What is inside begins later, so its ids are larger.
        for start in range(event + 1, len(table), 1024):
            for row in table.rows(start, start + 1024):
                other: Event = dict(zip(columns, row))
                if end is not None and other["ts"] > end:
                    return found
                if other["parent_id"] in inside:
                    inside.add(other["id"])
                    found.append(other)
        return found

    def launched(self, event: int) -> list[Event]:
        """Return the GPU activities that an event and what it contains launched."""
        links = self._links()["out"]
        ids = [other for inner in self.subtree(event) for other in links.get(inner["id"], ())]
        return [self[other] for other in sorted(set(ids))]

    def launch(self, activity: int) -> list[Event]:
        """Return the call that launched a GPU activity and the events around it, the innermost first."""
        calls = self._links()["in"].get(activity)
        return self.stack(calls[0]) if calls else []

    def _links(self) -> dict[str, dict[int, list[int]]]:
        """Return which events launched which: by flows, else by equal correlations."""
        if not self._cached:
            out: dict[int, list[int]] = {}
            into: dict[int, list[int]] = {}
            for call, activity in self._pairs():
                out.setdefault(call, []).append(activity)
                into.setdefault(activity, []).append(call)
            self._cached.update({"out": out, "in": into})
        return self._cached

    def _pairs(self) -> Iterator[tuple[int, int]]:
        is_empty = True
        for flow in self._read("flow"):
            if flow["slice_out"] is not None and flow["slice_in"] is not None and flow["cat"] == "ac2g":
                is_empty = False
                yield flow["slice_out"], flow["slice_in"]
        if not is_empty:
            return
        by_number: dict[str, list[int]] = {}
        for arg in self._read("args"):
            if arg["key"] == "args.correlation":
                by_number.setdefault(arg["value"], []).append(arg["slice_id"])
        for same in by_number.values():
            calls = [event for event in same if str(self[event]["cat"]).endswith(("_runtime", "_driver"))]
            for activity in same:
                if calls and activity not in calls:
                    yield calls[0], activity
