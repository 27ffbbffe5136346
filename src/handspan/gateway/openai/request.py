"""One request of a client of OpenAI's API: its client, the name of its chat, and what its route uses."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from handspan.gateway.http.bodies import read_body
from handspan.gateway.http.idempotency import Replays, fingerprint
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.chats import Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import OpenStreams, StreamLines
from handspan.gateway.runs.question_lines import page_address

_BODY_SECONDS: Final = 60.0
_SETTING: Final = "fronts.request_bytes"
_CHAT_HEADERS: Final = ("x-chat-id", "x-openwebui-chat-id")
_OPEN_WEBUI: Final = "x-openwebui-"
_LONGEST_KEY: Final = 256


class OpenAiParts(Struct, frozen=True, kw_only=True):
    """What OpenAI's door has beside the parts of the gateway. `door.py` makes it."""

    gateway: GatewayParts
    chats: Chats
    answers: Replays[bytes]
    """Whole answers, for clients that send a request again."""
    streams: Replays[StreamLines]
    """Streams, for clients that send a request again."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)


class OpenAiRequest(Struct, frozen=True):
    """One request that was let in."""

    door: OpenAiParts
    client: RunClient
    asgi: AsgiRequest

    @property
    def parts(self) -> GatewayParts:
        """The parts of the gateway."""
        return self.door.gateway

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by their names in lower case."""
        return self.asgi.headers

    @property
    def token(self) -> str:
        """The hash of the client's token."""
        return str(self.asgi.scope["state"]["admitted"].token)

    @property
    def idempotency_key(self) -> str:
        """The client's key for this request; empty: it has none."""
        return self.headers.get("idempotency-key", "")[:_LONGEST_KEY]

    @property
    def sends_all(self) -> bool:
        """Whether the client sends the whole history each time: it says so, or is Open WebUI, which does."""
        says_so = self.headers.get("x-chat-history", "").strip().lower() == "whole"
        return says_so or any(name.startswith(_OPEN_WEBUI) for name in self.headers)

    @property
    def task(self) -> str:
        """The task of Open WebUI that it is, such as a title; empty: none."""
        return self.headers.get("x-openwebui-task", "")

    def chat_key(self, user: str) -> str:
        """Return the client's name of its chat; empty: the request is a conversation of its own (SPEC F3)."""
        named = next((found for name in _CHAT_HEADERS if (found := self.headers.get(name, "").strip())), "")
        return (named or (user if user.startswith("chat:") else ""))[:_LONGEST_KEY]

    @property
    def request_id(self) -> str:
        """The client's own id of this request: the same request again gets the same answer."""
        return self.headers.get("x-openwebui-message-id", "")[:_LONGEST_KEY] or self.idempotency_key

    @property
    def page(self) -> str:
        """The address of the gateway's page, as this client reaches the gateway."""
        return page_address(self.parts.settings.gateway, self.asgi)

    def fingerprint(self, raw: bytes) -> bytes:
        """Return what tells this request from others under the same key."""
        return fingerprint(raw)

    async def body(self) -> bytes:
        """Return the whole body. Raises `Refusal` when it is too large or comes too slowly."""
        limit = self.parts.app.settings.fronts.request_bytes
        return await read_body(self.asgi, limit, _BODY_SECONDS, _SETTING)
