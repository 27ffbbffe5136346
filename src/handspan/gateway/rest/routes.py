"""All routes of REST, as a table for the kit."""

from collections.abc import Iterator

from handspan.gateway.http.routing import Endpoint, Table
from handspan.gateway.rest import (
    agents,
    artifacts,
    calling,
    calls,
    devices,
    observe,
    pairing,
    questions,
    sessions,
    status,
    tokens,
    tools,
    usage,
    webhook,
)
from handspan.gateway.rest.doors import Doors
from handspan.gateway.rest.route import Operation

_FAMILIES = (
    status.family,
    pairing.family,
    tools.family,
    calling.family,
    sessions.family,
    webhook.family,
    agents.family,
    calls.family,
    questions.family,
    devices.family,
    artifacts.family,
    usage.family,
    tokens.family,
    observe.family,
)


def operations() -> Iterator[Operation]:
    """Every operation that is declared."""
    for family in _FAMILIES:
        yield from family.operations


def table(doors: Doors) -> Table:
    """Every operation as an endpoint, by path and method."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in operations():
        by_path.setdefault(operation.path, {})[operation.method] = operation.endpoint(doors)
    return by_path
