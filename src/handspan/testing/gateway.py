"""A real gateway in this process, on a port of its own.

async with running_gateway(tmp_path, model=Scripted([call("phone__add", a=2, b=3), "It is 5."])) as gateway:
    async with FakeDevice(gateway.url, gateway.token) as phone:
        ...
        await gateway.call("phone__add", a=2, b=3)
        await gateway.restart()         # the same port, the same state
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from handspan.config.settings import Settings
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Failure, Pending, Success, ToolResult
from handspan.core.values import Json
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server
from handspan.models.model import Model
from handspan.testing.device import socket_url


class RunningGateway:
    """A gateway that answers."""

    def __init__(self, settings: Settings, model: str | Model) -> None:
        self._settings = settings
        self._model = model
        self._server: Server | None = None
        self.gateway = Gateway(settings, model=model)
        """The gateway itself; another one after `restart`."""
        self.url = ""
        """Where it answers; the same after `restart`."""

    @property
    def ws_url(self) -> str:
        """The URL of its WebSocket."""
        return socket_url(self.url)

    @property
    def token(self) -> str:
        """The operator's token."""
        return self.gateway.operator_token

    async def open(self) -> None:
        """Begin to listen."""
        assert self._server is None, "it is open already"
        if self.url:
            self.gateway = Gateway(self._settings, model=self._model)
        server = Server(self.gateway, self._settings.gateway)
        self.url = await server.open()
        self._server = server
        self._settings = structs.replace(
            self._settings, gateway=structs.replace(self._settings.gateway, port=server.port)
        )

    async def close(self, seconds: float = 0.0) -> None:
        """Stop the gateway; open work may take this many seconds. Does nothing when it is closed."""
        server, self._server = self._server, None
        if server is not None:
            await server.close(seconds)

    async def restart(self) -> None:
        """Stop it and open it again: another gateway on the same port with the same state."""
        await self.close()
        await self.open()

    async def call(self, name: str, /, **arguments: Json) -> ToolResult:
        """Return the result of this tool, called as the operator's default agent."""
        return await self.call_as(new_call_id(), name, arguments)

    async def call_as(self, call_id: str, name: str, arguments: dict[str, Json], session: str = "") -> ToolResult:
        """Return the result of this tool, called with an id of your own, in a session if one is given."""
        app = self.gateway.parts.app
        caller = app.caller(await app.find_agent(), OPERATOR, session)
        result = await app.engine.call(ToolCall(name, arguments, call_id), caller)
        if not isinstance(result, Pending):
            return result
        settled = await app.engine.result(call_id)
        assert isinstance(settled, Success | Failure), f"the call {call_id} has no result"
        return settled

    async def journal(self) -> list[CallRecord]:
        """Return every stored call of the operator, the last one first."""
        records: list[CallRecord] = []
        after: str | None = None
        while True:
            page, after = await self.gateway.parts.store.ledger.page(owner=OPERATOR.owner, limit=500, after=after)
            records += page
            if after is None:
                return records


@asynccontextmanager
async def running_gateway(
    folder: Path, *, model: str | Model = "offline", **settings: Any
) -> AsyncIterator[RunningGateway]:
    """A gateway with all its files below this folder; `settings` as in the file: `gateway={"resume_grace": 1}`."""
    gateway = {"port": 0, **settings.pop("gateway", {})}
    given = {"workspace": folder / "workspace", "state": folder / "state", "gateway": gateway, **settings}
    running = RunningGateway(msgspec.convert(given, Settings, strict=False), model)
    await running.open()
    try:
        yield running
    finally:
        await running.close()
