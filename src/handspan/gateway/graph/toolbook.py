"""The tools of clients: what each has set up, and what its requests brought (graph.md 3)."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import DefinitionError
from handspan.core.principals import Origin
from handspan.core.store import ToolSetBook
from handspan.sources.graph import GraphTool, GraphTools
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.requests import OfferedTool

_MOST_AT_HAND: Final = 256
_SET_ID: Final = 16

_read: Final = msgspec.json.Decoder(list[OfferedTool]).decode


class ToolSet(Struct, frozen=True):
    """The tools of a run."""

    id: str
    """By which it is found again after a restart; empty: whatever the client has set up."""
    tools: Sequence[GraphTool]

    def origin(self, client: str, thread: str) -> Origin:
        """Where these tools come from in a run of this client."""
        return Origin("browser", client, f"{thread}:{self.id}")


class ToolBook:
    """Keeps the tools of clients, and has those at hand that were used last."""

    def __init__(self, kept: ToolSetBook, tools: GraphTools, most: int) -> None:
        """`most`: how many tools a client may have."""
        self._kept = kept
        self._tools = tools
        self._most = most
        self._made: OrderedDict[bytes, tuple[GraphTool, ...]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._setting_up = asyncio.Lock()

    async def set_up(self, client: str, offered: Sequence[OfferedTool]) -> Sequence[OfferedTool]:
        """Keep these for the client, in place of what its nodes had; all that it has now. `BodyError`."""
        nodes = {tool.node_name for tool in offered}
        async with self._setting_up:  # two pages of one client that load at once: what both bring is kept
            before = _read(await self._of(client, "") or b"[]")
            others = [tool for tool in before if tool.node_name not in nodes]
            all_tools = [*others, *offered]
            encoded = msgspec.json.encode(all_tools)
            self._make(encoded, all_tools, len(others))
            if offered:
                await self._save(client, "", encoded)
        return all_tools

    async def of_client(self, client: str) -> Sequence[GraphTool]:
        """What the client has set up."""
        return self._tools_in(await self._of(client, "") or b"[]")

    async def of_run(self, client: str, offered: Sequence[OfferedTool] | None, begun_with: str = "") -> ToolSet:
        """What a run has: what its request brings, else what it was begun with, else what was set up. `BodyError`.

        What a request brings is kept: the run may be suspended, and outlive this process.
        """
        if offered is not None:
            encoded = msgspec.json.encode(offered)
            tools = self._make(encoded, offered, 0)
            set_id = hashlib.sha256(encoded).hexdigest()[:_SET_ID]
            await self._save(client, set_id, encoded)
            return ToolSet(set_id, tools)
        if begun_with and (kept := await self._of(client, begun_with)) is not None:
            return ToolSet(begun_with, self._tools_in(kept))
        return ToolSet("", await self.of_client(client))

    async def _of(self, client: str, set_id: str) -> bytes | None:
        key = (client, set_id)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        kept = await self._kept.find(client, set_id)
        if kept is not None:
            self._remember(key, kept)
        return kept

    async def _save(self, client: str, set_id: str, encoded: bytes) -> None:
        if await self._of(client, set_id) != encoded:
            await self._kept.save(client, set_id, encoded)
            # It may yet not be committed, and others of this client may have gone for it: who needs one looks.
            for key in [key for key in self._known if key[0] == client]:
                del self._known[key]

    def _remember(self, key: tuple[str, str], encoded: bytes) -> None:
        self._known[key] = encoded
        self._known.move_to_end(key)
        if len(self._known) > _MOST_AT_HAND:
            self._known.popitem(last=False)

    def _tools_in(self, encoded: bytes) -> tuple[GraphTool, ...]:
        """What was kept, as tools; what the settings forbid meanwhile is not among them."""
        made = self._made.get(encoded)
        if made is not None:
            self._made.move_to_end(encoded)
            return made
        tools: list[GraphTool] = []
        for offered in _read(encoded):
            try:
                tools.append(self._tools.make(offered))
            except DefinitionError:
                continue
        return self._at_hand(encoded, tuple(tools))

    def _make(self, encoded: bytes, offered: Sequence[OfferedTool], known: int) -> tuple[GraphTool, ...]:
        """What a request brings, as tools; the first `known` of them were there before it."""
        if encoded in self._made:
            self._made.move_to_end(encoded)
            return self._made[encoded]
        if len(offered) > self._most:
            text = f"A client may have {self._most} tools here: send fewer."
            raise BodyError([Detail(["body", "tools"], text, "value_error")])
        tools: list[GraphTool] = []
        details: list[Detail] = []
        for place, one in enumerate(offered):
            try:
                tools.append(self._tools.make(one))
            except DefinitionError as error:
                if place >= known:
                    details.append(Detail(["body", "tools", str(place - known)], str(error), "value_error"))
        if details:
            raise BodyError(details)
        return self._at_hand(encoded, tuple(tools))

    def _at_hand(self, encoded: bytes, tools: tuple[GraphTool, ...]) -> tuple[GraphTool, ...]:
        self._made[encoded] = tools
        if len(self._made) > _MOST_AT_HAND:
            self._made.popitem(last=False)
        return tools


def set_of(origin: Origin | None) -> str:
    """The set of tools that a call's tool was one of; empty where it was set up."""
    return origin.connection.rpartition(":")[2] if origin is not None else ""
