"""All MCP servers: those of the settings, and what is added, changed and removed while the gateway runs."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from handspan.config.mcp_file import NAME, names_in, read_servers, write_server
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError, DefinitionError
from handspan.core.names import SEPARATOR, check_namespace
from handspan.core.principals import GLOBAL, OPERATOR, Origin
from handspan.core.questions import Question, QuestionAction, Questions
from handspan.core.tasks import Tasks
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.net.guard import NetGuard
from handspan.registry.entry import Entry
from handspan.registry.registry import Registry
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.process import Cleaner
from handspan.sources.mcp.sharing import OWN_SERVER, ServerShare, ServerSnapshot

if TYPE_CHECKING:
    from handspan.sources.mcp.connection import McpConnection

_log = logging.getLogger(__name__)

_TRUST_SECONDS: Final = 7 * 24 * 3600.0
"""How long the operator has to answer whether a changed definition is trusted."""


class ServerExists(ConfigError):
    """A server of this name is there already, and may not be replaced."""


class McpServers:
    """The MCP servers of this gateway, by name."""

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        registry: Registry,
        guard: NetGuard,
        secret: Callable[[str], str],
        folder: Path,
        logins: McpLogins,
        questions: Questions | None = None,
        file: Path | None = None,
        share: Callable[[str], ServerShare] = lambda _: OWN_SERVER,
    ) -> None:
        """`file`: where servers that are added at run time are stored; None: nowhere.

        `share` returns this node's share in a program that one node runs for all.
        """
        self.settings = dict(servers)
        """The servers of this node as they are in force: those of its settings, and those that a person added."""
        self._file = file
        self._stored, self._listed = _read_names(file)
        """The servers of the file, and all of its names: also of those that are switched off."""
        self._elsewhere: frozenset[str] = frozenset()
        """The names of servers in the settings of other nodes."""
        self._registry = registry
        self._guard = guard
        self._secret = secret
        self._folder = folder
        self.logins = logins
        self._questions = questions
        self._cleaner = Cleaner()
        self._connections: dict[str, McpConnection] = {}
        self._foreign: set[str] = set()
        """Servers that are not in the settings of this node: another node runs them."""
        self._share = share
        self._changing = asyncio.Lock()
        """Held while servers are added, forgotten or read again: each of these reads and writes the same file."""
        self._asking: set[str] = set()
        """The ids of the questions of trust that are open."""
        self._tasks = Tasks()
        self._reserve()

    def __iter__(self) -> "Iterator[McpConnection]":
        return iter(list(self._connections.values()))

    def find(self, name: str) -> "McpConnection | None":
        """Return the server of this name."""
        return self._connections.get(name)

    def explain_absence(self, tool: str) -> str:
        """Return why this tool is missing, if it belongs to a server that is not up; else an empty text."""
        name, separator, _ = tool.partition(SEPARATOR)
        connection = self._connections.get(name) if separator else None
        if connection is None and separator and name in self._listed and name not in self.settings:
            return f"the MCP server {name!r} is switched off in {NAME}."
        if connection is None or connection.state.status == "ready":
            return ""
        return f"the MCP server {name!r} is not up. `handspan mcp` says why."

    @property
    def names(self) -> frozenset[str]:
        """The names of all servers in the settings of this node, also of those that are switched off."""
        return self._listed.union(self.settings)

    def keep_names(self, names: frozenset[str]) -> None:
        """Keep the names of servers that are in the settings of other nodes, and no others of theirs."""
        self._elsewhere = names
        self._reserve()

    def _reserve(self) -> None:
        """Keep the names of all servers for them: also of those that are down, logged out or switched off (SPEC R2)."""
        names = {*self.names, *self._elsewhere, *self._connections}
        self._registry.reserve("mcp", {f"{name}{SEPARATOR}": Origin("mcp", name) for name in names})

    async def open(self) -> None:
        """Begin to connect to all servers, side by side."""
        for name, server in self.settings.items():
            await self.put(name, server)

    def is_fixed(self, name: str) -> bool:
        """Whether this server comes from the settings file: then only a person with an editor changes it."""
        return name in self.settings and name not in self._stored

    def is_foreign(self, name: str) -> bool:
        """Whether this server is not in the settings of this node: another node runs it."""
        return name in self._foreign

    async def add_foreign(self, name: str, snapshot: "ServerSnapshot") -> None:
        """Use a server that another node runs, and that is not in the settings of this node."""
        async with self._changing:
            if name not in self._connections:
                server = McpServer(internal_only=snapshot.internal_only, trusted=snapshot.trusted)
                await self.put(name, server, is_foreign=True)

    async def remove_foreign(self, name: str) -> None:
        """Forget a server that `add_foreign` added: no node runs it any more."""
        async with self._changing:
            if name in self._foreign:
                await self.remove(name)
                self._reserve()

    async def add(self, name: str, server: McpServer, *, may_replace: bool = True) -> "McpConnection":
        """Add this server, or change it, and store it. Raises `ConfigError` when that can't be done.

        Without `may_replace`, a server of this name stays as it is: `ServerExists` is raised.
        """
        check_server(name, server)
        async with self._changing:
            if not may_replace and self._is_known(name):
                raise ServerExists(f"There is an MCP server {name!r} already: replace it, or choose another name.")
            if self.is_fixed(name):
                raise ConfigError(f"The MCP server {name!r} is in the settings file: change it there.")
            self._write(name, server)
            await self._forget_login(name, server)
            connection = await self.put(name, server)
            self.settings[name] = server
            self._stored.add(name)
            return connection

    def _is_known(self, name: str) -> bool:
        """Whether a server has this name, also one that is switched off."""
        return name in self._connections or (self._file is not None and name in names_in(self._file))

    async def forget(self, name: str) -> bool:
        """Remove this server, also from the file. Return False if there is none.

        Raises `ConfigError` for a server of the settings file, or of another node.
        """
        async with self._changing:
            if self.is_fixed(name):
                raise ConfigError(f"The MCP server {name!r} is in the settings file: remove it there.")
            if self.is_foreign(name):
                raise ConfigError(f"The MCP server {name!r} is in the settings of another node: remove it there.")
            self._write(name, None)
            is_gone = await self.remove(name)
            await self.logins.forget(name)
            self.settings.pop(name, None)
            self._stored.discard(name)
            self._listed = _read_names(self._file)[1]
            self._reserve()
            return is_gone

    async def reload(self, read: Callable[[], Mapping[str, McpServer]]) -> None:
        """Change to these servers. Those that stay the same go on, with their calls.

        `read` returns the servers of the settings as they are now; a thread runs it. When it raises, nothing changes.
        The login of a server that is gone stays stored: the person may only have switched the server off for a while.
        """
        async with self._changing:
            servers = await asyncio.to_thread(read)
            self._stored, self._listed = _read_names(self._file)
            gone = self.settings.keys() - servers.keys()
            changed = {name: server for name, server in servers.items() if self.settings.get(name) != server}
            for name, server in changed.items():
                await self._forget_login(name, server)
            self.settings = dict(servers)
            self._reserve()
            await asyncio.gather(*map(self._end, gone), *(self.put(*one) for one in changed.items()))
            self._reserve()
        if gone or changed:
            names = (", ".join(sorted(names)) or "none" for names in (changed, gone))
            _log.info("MCP servers of the settings: %s started, %s removed", *names)

    async def _forget_login(self, name: str, server: McpServer) -> None:
        """Forget the login if the server gets another address, or another OAuth client."""
        before = self.settings.get(name)
        if before is not None and (before.url, before.oauth) != (server.url, server.oauth):
            await self.logins.forget(name)

    async def _end(self, name: str) -> None:
        """End a server that is gone from the settings. Its stored login stays."""
        self.logins.renew(name)
        await self.remove(name)

    def _write(self, name: str, server: McpServer | None) -> None:
        if self._file is None:
            return
        try:
            write_server(self._file, name, server)
        except OSError as error:
            raise ConfigError(f"{self._file} can't be written: {error.strerror}.") from None

    async def settle(self, seconds: float) -> None:
        """Open what is not open yet, and wait until each server is up or has failed, at most `seconds`."""
        if not self._connections:
            await self.open()
        await asyncio.gather(*(one.settle(seconds) for one in self))

    async def put(self, name: str, server: McpServer, *, is_foreign: bool = False) -> "McpConnection":
        """Open this server in place of any other of this name. `is_foreign`: only another node can run it."""
        from handspan.sources.mcp import connection, opening  # noqa: PLC0415 - 12 ms, only with a server: start-up counts

        await self.remove(name)
        self.logins.renew(name)
        is_shared = bool(server.command) or is_foreign
        share = self._share(name) if is_shared else OWN_SERVER
        opener = opening.LinkOpener(
            name, server, self._guard, self._cleaner, secret=self._secret, folder=self._folder, logins=self.logins
        )
        opened = connection.McpConnection(
            name, server, self._registry, opener, changed=self._ask_trust, logins=self.logins, share=share
        )
        self._connections[name] = opened
        self._reserve()
        if is_foreign:
            self._foreign.add(name)
        await opened.open()
        return opened

    async def remove(self, name: str) -> bool:
        """End this server. Return False if there is none of that name."""
        connection = self._connections.pop(name, None)
        self._foreign.discard(name)
        if connection is None:
            return False
        await connection.close()
        return True

    async def close(self) -> None:
        """End all servers."""
        await self._tasks.close()
        await self.logins.close()
        await asyncio.gather(*(self.remove(name) for name in list(self._connections)))
        await asyncio.to_thread(self._cleaner.close)

    # Trust.

    def waiting(self, name: str) -> list[Entry]:
        """Return the tools of this server whose changed or new definition no person has accepted yet."""
        connection = self._connections.get(name)
        if connection is None:
            return []
        return [entry for entry in self._registry if entry.origin == connection.origin and entry.change is not None]

    async def trust(self, name: str) -> list[str]:
        """Accept all definitions of this server as they are now. Return the names of the tools.

        Raises `LinkDown` and `NoSuchNode` when the node that runs it can't be asked.
        """
        connection = self._connections.get(name)
        share = OWN_SERVER if connection is None else connection.share
        return self.trust_here(name) if share.is_held else await share.trust()

    def trust_here(self, name: str) -> list[str]:
        """Accept all definitions of a server that this node runs. Return the names of the tools."""
        waiting = self.waiting(name)
        return [entry.spec.name for entry in waiting if self._registry.accept(entry.spec.name, entry.spec.fingerprint)]

    def _ask_trust(self, connection: "McpConnection") -> None:
        """Ask the operator about each changed definition, with old and new side by side (SPEC T5)."""
        for entry in self.waiting(connection.server_name):
            question_id = f"trust-{entry.spec.fingerprint[:32]}"
            if self._questions is None or question_id in self._asking or not (entry.change and entry.change.blocks):
                continue
            self._asking.add(question_id)
            self._tasks.start(self._ask(self._questions, question_id, entry, entry.change.was))

    async def _ask(self, questions: Questions, question_id: str, entry: Entry, was: ToolSpec | None) -> None:
        """Ask about one changed definition, and accept the definition after a yes."""
        try:
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
                    action=QuestionAction(old=None if was is None else definition(was), new=definition(entry.spec)),
                )
            )
        finally:
            self._asking.discard(question_id)
        if answer is not None and answer.decision == "allow":
            self._registry.accept(entry.spec.name, entry.spec.fingerprint, GLOBAL)


def _read_names(file: Path | None) -> tuple[set[str], frozenset[str]]:
    return (set(), frozenset()) if file is None else (set(read_servers(file)), names_in(file))


def check_server(name: str, server: McpServer) -> None:
    """Raise `ConfigError` when a server can't have this name, or nothing says how to reach it, or two things do."""
    try:
        check_namespace(name)
    except DefinitionError as error:
        raise ConfigError(f"The MCP server needs another name: {error}.") from None
    if not server.command and not server.url:
        raise ConfigError(f"The MCP server {name!r} needs a 'command' to start or a 'url' to ask.")
    if server.command and server.url:
        raise ConfigError(f"The MCP server {name!r} has a 'command' and a 'url': keep one.")


def definition(spec: ToolSpec) -> JsonObject:
    """Return the definition of a tool as a person compares it with another one."""
    return msgspec.convert(msgspec.to_builtins(spec), JsonObject)
