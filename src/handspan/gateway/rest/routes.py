"""All routes, for the application to mount."""

from collections.abc import Iterator

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
from handspan.gateway.rest.route import ApiRoute, Operation

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


def routes(doors: Doors) -> list[ApiRoute]:
    """One route for each path, those without parameters first, with all its methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations():
        by_path.setdefault(operation.path, {})[operation.method] = operation
    ordered = sorted(by_path, key=lambda path: path.count("{"))
    return [ApiRoute(path, by_path[path], doors) for path in ordered]
