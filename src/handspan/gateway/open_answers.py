"""What everybody may ask, and gets the same answer to: is somebody there? It does not even load REST (SPEC S5)."""

from typing import Final, Literal

import msgspec
from msgspec import Struct


class Health(Struct, frozen=True):
    """A constant: who has no token learns nothing (SPEC S5)."""

    status: Literal["ok"] = "ok"
    paired: Literal[True] = True
    require_pairing: Literal[True] = True
    runtime: dict[str, str] = {}


class PongMetadata(Struct, frozen=True):
    """A constant too: who has no token learns not even the time."""

    request_id: Literal["ping"] = "ping"
    timestamp: Literal[""] = ""
    message: Literal["OK"] = "OK"


class Pong(Struct, frozen=True):
    """A constant, in the form of the graph API (graph.md 1.4)."""

    status: Literal["ok"] = "ok"
    data: Literal["pong"] = "pong"
    metadata: PongMetadata = PongMetadata()


ANSWERS: Final = {"/health": msgspec.json.encode(Health()), "/ping": msgspec.json.encode(Pong())}
