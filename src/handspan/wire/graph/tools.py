"""Reads the tools that a client offers, in either of two forms (`protocol/graph.md` 3.1)."""

from typing import Final

import msgspec

from handspan.core.values import Json
from handspan.wire.graph.faults import Faults, Place
from handspan.wire.graph.requests import DEFAULT_NODE, MAX_ENTRIES, OfferedTool, OpenAiTool

EXAMPLE: Final = '[{"node_name": "tools", "name": "read_clipboard", "description": "…", "parameters": {}}]'


def read_tools(value: Json, place: Place, faults: Faults) -> list[OfferedTool]:
    """Return the tools of a list, in order. Each wrong tool adds its own faults."""
    if isinstance(value, list) and len(value) > MAX_ENTRIES:
        faults.add(place, f"It has {len(value):,} tools, and {MAX_ENTRIES:,} is the most: send fewer in one request.")
        return []
    read = [_read_tool(entry, here, faults) for here, entry in faults.read_list(value, place, EXAMPLE)]
    return [tool for tool in read if tool is not None]


def _read_tool(entry: Json, place: Place, faults: Faults) -> OfferedTool | None:
    if isinstance(entry, dict) and "function" in entry:
        return _read_function(entry, place, faults)
    tool = faults.read(entry, OfferedTool, place)
    return None if tool is None else _check_name(tool, (*place, "name"), faults)


def _read_function(entry: Json, place: Place, faults: Faults) -> OfferedTool | None:
    form = faults.read(entry, OpenAiTool, place)
    if form is None:
        return None
    tool = OfferedTool(
        form.node_name,
        form.function.name,
        form.function.description or "",
        form.function.parameters or {},
        form.permissions,
        form.timeout,
        form.version,
        form.annotations,
    )
    return _check_name(tool, (*place, "function", "name"), faults)


def _check_name(tool: OfferedTool, name_place: Place, faults: Faults) -> OfferedTool | None:
    """Return the tool, with the default node if it names none. Without a name: add a fault, and return None."""
    if not tool.name.strip():
        faults.add(name_place, "A tool needs a name: send one, as in 'read_clipboard'.")
        return None
    if tool.node_name:
        return tool
    return msgspec.structs.replace(tool, node_name=DEFAULT_NODE)
