"""The ways into the gateway, each as one class: what a caller of tools can do there.

To add one: a file with a class like `Door`, and its row in `DOORS` of `behaviours.py`. The table then asks for each of
its cells: where a behaviour can't exist at that door, the table says why.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from handspan.core.values import Json
from handspan.testing import RunningGateway

Envelope: TypeAlias = dict[str, Any]


class Asked(NamedTuple):
    """One call that is made."""

    tool: str
    arguments: Mapping[str, Json] = {}
    agent: str = "General"
    allowed: bool = False
    """Whether the person who is asked about it says yes."""


class Door(Protocol):
    """One way in, as the operator."""

    async def call(self, *calls: Asked) -> list[Envelope]:
        """The result envelope of each call, in the order of the calls; several are made at once if the door can."""


@runtime_checkable
class StoppingDoor(Door, Protocol):
    """A way in where the caller can stop a call that runs."""

    async def stop(self, asked: Asked, runs: asyncio.Event) -> None:
        """Make the call, and stop it once it runs."""


OpenDoor: TypeAlias = Callable[[RunningGateway], AbstractAsyncContextManager[Door]]


def script(calls: tuple[Asked, ...]) -> str:
    """The message that makes the model of `handspan.testing` call these tools, and say their results."""
    lines = [f"call {asked.tool} {json.dumps(dict(asked.arguments))}" for asked in calls]
    return "\n".join([*lines, "then", "{results}"])
