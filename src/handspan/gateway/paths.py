"""Paths before any door is chosen: the prefix behind a reverse proxy, double slashes, and the two constant answers."""

from typing import Final, Literal

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.gateway.http.refusals import Refusal, send_refusal


def below_prefix(app: ASGIApp, prefix: str) -> ASGIApp:
    """Return the application with the prefix as `root_path`. Requests that are not below it are refused."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == prefix or path.startswith(f"{prefix}/"):
            await app({**scope, "root_path": prefix}, receive, send)
            return
        text = f"There is nothing at this address: this gateway is below {prefix!r}."
        await send_refusal(Refusal(404, "not_found", text), scope, send)

    return answer


def merge_slashes(scope: Scope) -> Scope:
    """Return the scope with `/v1/…` in place of `//v1/…`: a client whose base address ends with `/` sends that."""
    root, path = scope.get("root_path", ""), scope["path"]
    if not path.startswith(f"{root}//"):
        return scope
    raw: bytes = scope.get("raw_path") or b""
    begin = root.encode()
    if raw.startswith(begin + b"//"):  # the routes read `raw_path`
        raw = begin + b"/" + raw.removeprefix(begin).lstrip(b"/")
    return {**scope, "path": f"{root}/{path.removeprefix(root).lstrip('/')}", "raw_path": raw}


class Health(Struct, frozen=True):
    """The answer of `/health`: a constant, so that a client without a token learns nothing (SPEC S5)."""

    status: Literal["ok"] = "ok"
    paired: Literal[True] = True
    require_pairing: Literal[True] = True
    runtime: dict[str, str] = {}


class Ready(Struct, frozen=True):
    """The answer of `/ready`, when the gateway can do work."""

    status: Literal["ready"] = "ready"


class PongMetadata(Struct, frozen=True):
    """Constants too: a client without a token does not even learn the time."""

    request_id: Literal["ping"] = "ping"
    timestamp: Literal[""] = ""
    message: Literal["OK"] = "OK"


class Pong(Struct, frozen=True):
    """The answer of `/ping`: a constant, in the form of the graph API (graph.md 1.4)."""

    status: Literal["ok"] = "ok"
    data: Literal["pong"] = "pong"
    metadata: PongMetadata = PongMetadata()


OPEN_ANSWERS: Final = {"/health": msgspec.json.encode(Health()), "/ping": msgspec.json.encode(Pong())}
