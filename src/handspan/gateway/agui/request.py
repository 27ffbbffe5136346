"""One request of a client that speaks AG-UI, and what it uses."""

from typing import Final

from msgspec import Struct, field

from handspan.gateway.http.bodies import read_body
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.chats import Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import OpenStreams, StreamLines

_BODY_SECONDS: Final = 60.0
_SETTING: Final = "fronts.request_bytes"
_LONGEST_KEY: Final = 256


class AguiParts(Struct, frozen=True, kw_only=True):
    """What AG-UI's door has beside the parts of the gateway. `door.py` makes it."""

    gateway: GatewayParts
    chats: Chats
    streams: Replays[StreamLines]
    """Streams, for clients that send a request again."""
    open_streams: OpenStreams = field(default_factory=OpenStreams)


class AguiRequest(Struct, frozen=True):
    """One request that was let in."""

    door: AguiParts
    client: RunClient
    asgi: AsgiRequest

    @property
    def parts(self) -> GatewayParts:
        """The parts of the gateway."""
        return self.door.gateway

    @property
    def token(self) -> str:
        """The hash of the client's token."""
        return str(self.asgi.scope["state"]["admitted"].token)

    @property
    def agent(self) -> str:
        """The agent that the path names; empty: the default one."""
        return self.asgi.path_params.get("agent", "")

    @property
    def idempotency_key(self) -> str:
        """The client's key for this request; empty: it has none."""
        return self.asgi.headers.get("idempotency-key", "")[:_LONGEST_KEY]

    async def body(self) -> bytes:
        """Return the whole body. Raises `Refusal` when it is too large or comes too slowly."""
        return await read_body(self.asgi, self.parts.app.settings.fronts.request_bytes, _BODY_SECONDS, _SETTING)
