"""One request of the graph API: its client, its path, query and body, and what its route uses (graph.md 1)."""

import re
from typing import Final

from msgspec import Struct, field

from handspan.core.store import Store
from handspan.gateway.graph.runs import GraphRuns
from handspan.gateway.http.bodies import read_body
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import OpenStreams, StreamLines
from handspan.gateway.runs.tool_sets import ToolSets
from handspan.sources.graph import GraphTools
from handspan.wire.graph import reading
from handspan.wire.graph.faults import Faults, Kind, quote

BODY_BYTES: Final = 10 * 1024 * 1024
"""The largest body: messages hold images."""
BODY_SECONDS: Final = 30.0
_MAX_LISTED: Final = 1000
"""The most entries of one list."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,15}")


class GraphParts(Struct, frozen=True, kw_only=True):
    """What the graph API has beside the parts of the gateway. `door.py` makes it."""

    gateway: GatewayParts
    runs: GraphRuns
    tools: GraphTools
    tool_sets: ToolSets
    answers: Replays[bytes]
    """Answers of `invoke`, for clients that send a request again."""
    streams: Replays[StreamLines]
    """Answers of `stream`, for clients that send a request again."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)


class Paging(Struct, frozen=True):
    """The part of a list that a request asks for."""

    search: str
    offset: int
    limit: int


class GraphRequest(Struct, frozen=True):
    """One request that was let in. Its methods raise `BodyError`, which names the place that is wrong."""

    graph: GraphParts
    client: RunClient
    asgi: AsgiRequest

    @property
    def parts(self) -> GatewayParts:
        return self.graph.gateway

    @property
    def store(self) -> Store:
        return self.graph.gateway.store

    @property
    def owner(self) -> str:
        return self.client.owner

    def path_id(self, name: str) -> str:
        """Return the id in the path under this name."""
        given, faults = self.asgi.path_params[name], Faults()
        if not given.strip():
            faults.add(("path", name), "It is blank: send the id.")
        faults.raise_if_any()
        return given

    def paging(self) -> Paging:
        """Return the part of a list that the query asks for."""
        faults, query = Faults(), self.asgi.query_params
        offset = _number(query.get("offset", "0"), "offset", range(10**15 + 1), faults)
        limit = _number(query.get("limit", "100"), "limit", range(1, _MAX_LISTED + 1), faults)
        faults.raise_if_any()
        return Paging(query.get("search", ""), offset, limit)

    async def body(self) -> bytes:
        """Return the whole body. Raises `Refusal` when it is too large or comes too slowly."""
        return await read_body(self.asgi, BODY_BYTES, BODY_SECONDS)

    async def read(self, kind: type[Kind]) -> Kind:
        """Return the body as this type."""
        return reading.read_body(await self.body(), kind)


def _number(text: str, name: str, allowed: range, faults: Faults) -> int:
    """Return the number in this text; with a fault added, for one that is not allowed."""
    place = ("query", name)
    if not _WHOLE.fullmatch(text):
        faults.add(place, f"Send a whole number, not {quote(text)}.", "type_error")
        return 0
    number = int(text)
    if number not in allowed:
        faults.add(place, f"{number} is out of range: send {allowed[0]} to {allowed[-1]}, or leave it out.")
    return number
