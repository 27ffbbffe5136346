"""All MCP servers: those of the settings, and what is added, changed and removed while the gateway runs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from handspan.config.settings import McpServer
from handspan.core.principals import GLOBAL, OPERATOR
from handspan.core.questions import Question, QuestionAction, Questions
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.net.guard import NetGuard
from handspan.registry.entry import Entry
from handspan.registry.registry import Registry
from handspan.sources.mcp.connection import McpConnection
from handspan.sources.mcp.process import Cleaner

_TRUST_SECONDS: Final = 7 * 24 * 3600.0


class McpServers:
    """The MCP servers of this gateway, by name."""

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        registry: Registry,
        guard: NetGuard,
        secret: Callable[[str], str],
        folder: Path,
        questions: Questions | None = None,
    ) -> None:
        self._settings = dict(servers)
        self._registry = registry
        self._guard = guard
        self._secret = secret
        self._folder = folder
        self._questions = questions
        self._cleaner = Cleaner()
        self._connections: dict[str, McpConnection] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[McpConnection]:
        return iter(list(self._connections.values()))

    def find(self, name: str) -> McpConnection | None:
        """Return the server of this name."""
        return self._connections.get(name)

    async def open(self) -> None:
        """Begin to connect to all servers, side by side."""
        for name, server in self._settings.items():
            await self.put(name, server)

    async def put(self, name: str, server: McpServer) -> McpConnection:
        """Add this server, or replace the one of this name."""
        await self.remove(name)
        connection = McpConnection(
            name, server, self._registry, self._guard, self._cleaner, self._secret, self._folder, self._ask_trust
        )
        self._connections[name] = connection
        await connection.open()
        return connection

    async def remove(self, name: str) -> bool:
        """End this server. Return False if there is none of that name."""
        connection = self._connections.pop(name, None)
        if connection is None:
            return False
        await connection.close()
        return True

    async def close(self) -> None:
        """End all servers."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await asyncio.gather(*(self.remove(name) for name in list(self._connections)))
        await asyncio.to_thread(self._cleaner.close)

    # Trust.

    def waiting(self, name: str) -> list[Entry]:
        """Return the tools of this server whose changed or new definition no person has accepted yet."""
        connection = self._connections.get(name)
        if connection is None:
            return []
        return [entry for entry in self._registry if entry.origin == connection.origin and entry.change is not None]

    def trust(self, name: str) -> list[str]:
        """Accept all definitions of this server as they are now. Return the names of the tools."""
        waiting = self.waiting(name)
        return [entry.spec.name for entry in waiting if self._registry.accept(entry.spec.name, entry.spec.fingerprint)]

    def _ask_trust(self, connection: McpConnection) -> None:
        """Ask the operator about each changed definition, with old and new side by side (SPEC T5)."""
        for entry in self.waiting(connection.server_name):
            question_id = f"trust-{entry.spec.fingerprint[:32]}"
            if (
                self._questions is None
                or entry.change is None
                or not entry.change.blocks
                or question_id in self._asking
            ):
                continue
            task = asyncio.create_task(self._ask(self._questions, question_id, entry, entry.change.was))
            self._asking[question_id] = task
            task.add_done_callback(partial(self._forget, question_id))

    def _forget(self, question_id: str, _: asyncio.Task[None]) -> None:
        self._asking.pop(question_id, None)

    async def _ask(self, questions: Questions, question_id: str, entry: Entry, was: ToolSpec | None) -> None:
        answer = await questions.ask(
            Question(
                id=question_id,
                kind="trust",
                call_id="",
                tool=entry.spec.name,
                arguments={},
                subject=f"{entry.origin} has changed the definition of its tool {entry.spec.name!r}.",
                owner=OPERATOR.owner,
                session="",
                fingerprint=entry.spec.fingerprint,
                expires_in=_TRUST_SECONDS,
                action=QuestionAction(old=_definition(was), new=_definition(entry.spec)),
            )
        )
        if answer is not None and answer.decision == "allow":
            self._registry.accept(entry.spec.name, entry.spec.fingerprint, GLOBAL)


def _definition(spec: ToolSpec | None) -> JsonObject | None:
    return None if spec is None else msgspec.convert(msgspec.to_builtins(spec), JsonObject)
