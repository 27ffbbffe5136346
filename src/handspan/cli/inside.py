"""The gateway that a command opens inside its own process when none runs. Loaded then: all rooms come with it."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from handspan.cli.options import config_folder, read_loaded_settings
from handspan.cli.requests import GatewayAnswer, GatewayRequest, Requests, UploadBody, check_answer
from handspan.gateway.inside import URL, InsideGateway

if TYPE_CHECKING:
    from handspan.cli.chat.terminal_chat import TerminalChat
    from handspan.cli.requests import ChatLink
    from handspan.client.chat import ChatKind


def make_inside(model: str = "") -> InsideGateway:
    """Return a gateway for this process, not open yet."""
    return InsideGateway(read_loaded_settings().settings, config_folder(), model=model)


@contextlib.asynccontextmanager
async def open_inside(model: str = "") -> AsyncIterator[Requests]:
    """Open requests to a gateway inside this process, where `model`, if given, answers for every agent."""
    inside = make_inside(model)

    async def send(request: GatewayRequest) -> GatewayAnswer:
        body = request.body.data if isinstance(request.body, UploadBody) else request.body
        data = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = request.headers if body is None else {"Content-Type": "application/json", **request.headers}
        answer = await inside.send(request.method, request.path, data, headers, on_line=request.on_line)
        return check_answer("This gateway", answer.status, answer.body)

    def chat(
        session: str, agent: str, talk: "TerminalChat", kind: "ChatKind"
    ) -> AbstractAsyncContextManager["ChatLink"]:
        return inside.chat(session, agent, talk.on_message, kind)

    await inside.open()
    try:
        yield Requests(URL, send, chat)
    finally:
        await inside.close()
