"""The tools of clients: those that were set up before, and those that came with a request (graph.md 3)."""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.bounded import BoundedDict
from handspan.core.errors import DefinitionError, HandspanError
from handspan.core.names import is_outside_name, outside_name
from handspan.core.principals import Origin
from handspan.core.store import ToolSetBook
from handspan.sources.graph import GraphTool, GraphTools
from handspan.wire.graph.requests import OfferedTool

_MAX_CACHED: Final = 256
_SET_ID: Final = 16

_read: Final = msgspec.json.Decoder(list[OfferedTool]).decode


class OffersRefused(HandspanError):
    """A client offers tools that can't be used. `wrong` has the place of each, or None for all together, and why."""

    def __init__(self, wrong: Sequence[tuple[int | None, str]]) -> None:
        super().__init__(wrong[0][1])
        self.wrong = wrong


class ToolSet(Struct, frozen=True):
    """The tools of a run."""

    id: str
    """Finds the set again after a restart. Empty: the tools that the client has set up."""
    tools: Sequence[GraphTool]

    def origin(self, client: str, thread: str) -> Origin:
        """Return the origin of these tools in a run of this client."""
        return Origin("browser", client, f"{thread}:{self.id}")


NO_TOOLS: Final = ToolSet("", ())


class ToolSets:
    """Stores the tools of clients, and caches the sets that were used last."""

    def __init__(self, store: ToolSetBook, tools: GraphTools, limit: int) -> None:
        """`limit`: how many tools a client may have."""
        self._store = store
        self._tools = tools
        self._limit = limit
        self._tools_of: BoundedDict[bytes, tuple[GraphTool, ...]] = BoundedDict(_MAX_CACHED)
        """The tools of a set, by its JSON."""
        self._encoded: BoundedDict[tuple[str, str], bytes] = BoundedDict(_MAX_CACHED)
        """The JSON of stored sets, by the ids of client and set."""

    async def set_up(self, client: str, offered: Sequence[OfferedTool]) -> None:
        """Store these tools for the client, in place of all that it had set up before (SPEC H1).

        Raises `OffersRefused` when one of them can't be used.
        """
        encoded = msgspec.json.encode(offered)
        self._make(encoded, offered)
        await self._save(client, "", encoded)

    async def of_client(self, client: str) -> Sequence[GraphTool]:
        """Return the tools that the client has set up."""
        return self._tools_in(await self._find(client, "") or b"[]")

    async def of_run(self, client: str, offered: Sequence[OfferedTool] | None, begun_with: str = "") -> ToolSet:
        """Return the tools of a run: those of its request, else those it began with, else those that were set up.

        Tools of a request are stored: the run may be suspended, and outlive this process. Raises `OffersRefused`.
        """
        if offered is not None:
            encoded = msgspec.json.encode(offered)
            tools = self._make(encoded, offered)
            set_id = hashlib.sha256(encoded).hexdigest()[:_SET_ID]
            await self._save(client, set_id, encoded)
            return ToolSet(set_id, tools)
        if begun_with and (stored := await self._find(client, begun_with)) is not None:
            return ToolSet(begun_with, self._tools_in(stored))
        return ToolSet("", await self.of_client(client))

    async def _find(self, client: str, set_id: str) -> bytes | None:
        """Return the tools that the client has stored under this id; None if there are none."""
        key = (client, set_id)
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        stored = await self._store.find(client, set_id)
        if stored is not None:
            self._encoded[key] = stored
        return stored

    async def _save(self, client: str, set_id: str, encoded: bytes) -> None:
        if await self._find(client, set_id) != encoded:
            await self._store.save(client, set_id, encoded)
            # The write may not be committed yet, and it may have removed other sets of this client: read them again.
            for key in [key for key in self._encoded if key[0] == client]:
                del self._encoded[key]

    def _find_made(self, encoded: bytes) -> tuple[GraphTool, ...] | None:
        if encoded in self._tools_of:
            self._tools_of.move_to_end(encoded)
        return self._tools_of.get(encoded)

    def _tools_in(self, encoded: bytes) -> tuple[GraphTool, ...]:
        """Return the tools of a stored set. Tools that today's settings forbid are left out."""
        if (made := self._find_made(encoded)) is not None:
            return made
        tools: list[GraphTool] = []
        stored = _read(encoded)
        for offered in stored:
            try:
                tools.append(self._tools.make(offered))
            except DefinitionError:
                continue
        # A set that is not whole is not cached: a request that offers the same tools has to be refused.
        if len(tools) == len(stored):
            self._tools_of[encoded] = tuple(tools)
        return tuple(tools)

    def _make(self, encoded: bytes, offered: Sequence[OfferedTool]) -> tuple[GraphTool, ...]:
        """Return the tools that a request brings. Raises `OffersRefused` when one of them can't be used."""
        if (made := self._find_made(encoded)) is not None:
            return made
        if len(offered) > self._limit:
            raise OffersRefused([(None, f"A client may have {self._limit} tools here: send fewer.")])
        tools: list[GraphTool] = []
        wrong: list[tuple[int | None, str]] = []
        for place, one in enumerate(offered):
            try:
                tools.append(self._tools.make(one))
            except DefinitionError as error:
                wrong.append((place, str(error)))
        if wrong:
            raise OffersRefused(wrong)
        self._tools_of[encoded] = tuple(tools)
        return tuple(tools)


def tool_set_id(origin: Origin | None) -> str:
    """Return the id of the tool set that a call's tool belongs to. Empty: the client has set it up."""
    return origin.connection.rpartition(":")[2] if origin is not None else ""


def tool_names(tools: Sequence[GraphTool]) -> dict[str, str]:
    """Return the client's own names of tools, by every name that a model may use (graph.md 3.6).

    A name without a prefix wins.
    """
    names: dict[str, str] = {}
    prefixed = [(tool, f"{tool.node}__{tool.own_name}") for tool in tools]
    names |= {outside_name(name, taken=(name,)): tool.own_name for tool, name in prefixed}
    names |= {name: tool.own_name for tool, name in prefixed if is_outside_name(name)}
    names |= {tool.spec.name: tool.own_name for tool in tools}
    return names
