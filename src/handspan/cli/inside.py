"""The gateway that a command opens inside its own process when none runs. Loaded then: all rooms come with it."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from handspan.cli.options import config_folder, read_settings
from handspan.cli.requests import GatewayAnswer, Method, OnLine, Requests, UploadBody, check_answer
from handspan.gateway.inside import URL, InsideGateway

if TYPE_CHECKING:
    from handspan.cli.chat.chat_link import ChatLink, ChatWatcher


def make_inside(model: str = "") -> InsideGateway:
    """Return a gateway for this process, not open yet."""
    return InsideGateway(read_settings(), config_folder(), model=model)


@contextlib.asynccontextmanager
async def open_inside(model: str = "") -> AsyncIterator[Requests]:
    """Open requests to a gateway inside this process, where `model`, if given, answers for every agent."""
    inside = make_inside(model)
    await inside.open()
    try:
        yield _requests_of(inside)
    finally:
        await inside.close()


def _requests_of(inside: InsideGateway) -> Requests:
    async def send(
        method: Method, path: str, body: object, headers: Mapping[str, str], on_line: OnLine | None
    ) -> GatewayAnswer:
        given_body = body.data if isinstance(body, UploadBody) else body
        data = b"" if body is None else given_body if isinstance(given_body, bytes) else msgspec.json.encode(body)
        given = headers if body is None else {"Content-Type": "application/json", **headers}
        answer = await inside.send(method, path, data, given, on_line=on_line)
        return check_answer("This gateway", answer.status, answer.body)

    def chat(session: str, agent: str, watcher: "ChatWatcher") -> AbstractAsyncContextManager["ChatLink"]:
        return inside.chat(session, agent, watcher.on_message)

    return Requests(URL, send, chat)
