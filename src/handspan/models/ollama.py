"""A local Ollama: is one there, and which of its models can call tools?"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.values import Json, JsonObject
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard

_MOST_ASKED: Final = 8
_DEFAULT: Final = "http://127.0.0.1:11434"


class OllamaModel(Struct, frozen=True):
    """A model of a local Ollama."""

    model: str
    address: str
    can_call: bool
    """It says that it can call tools."""


def ollama_address(environ: Mapping[str, str]) -> str:
    """Where Ollama listens: OLLAMA_HOST may lack the scheme, and is 0.0.0.0 where it listens everywhere."""
    host = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return _DEFAULT
    scheme, there, place = host.rpartition("://")
    name, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        name, port = place, "443" if scheme == "https" else "80" if there else "11434"
    return f"{scheme or 'http'}://{'127.0.0.1' if name in ('', '0.0.0.0') else name}:{port}"


async def find_ollama_model(guard: NetGuard, environ: Mapping[str, str], seconds: float) -> OllamaModel | None:
    """The model that OLLAMA_MODEL names, else the first that can call tools, else the first that can talk.

    None when there is none, or when nobody answers within these seconds.
    """
    address, wanted = ollama_address(environ), environ.get("OLLAMA_MODEL", "").strip()
    try:
        async with asyncio.timeout(seconds):
            near = guard.trust(address)
            listed = _list((await _ask(near, OutgoingRequest(f"{address}/api/tags"), seconds)).get("models"))
            names = [name for item in listed if (name := _text(item, "model") or _text(item, "name"))]
            return await _best(near, address, [name for name in names if wanted in ("", name)], seconds)
    except (ToolError, TimeoutError):
        return None


async def _best(near: NetGuard, address: str, names: list[str], seconds: float) -> OllamaModel | None:
    talking: OllamaModel | None = None
    for name in names[:_MOST_ASKED]:
        request = OutgoingRequest(f"{address}/api/show", "POST", body=msgspec.json.encode({"model": name}))
        abilities = _list((await _ask(near, request, seconds)).get("capabilities"))
        if "tools" in abilities:
            return OllamaModel(name, address, can_call=True)
        if talking is None and (not abilities or "completion" in abilities):  # one that only embeds can't talk
            talking = OllamaModel(name, address, can_call=False)
    return talking


async def _ask(near: NetGuard, request: OutgoingRequest, seconds: float) -> JsonObject:
    """What it says; nothing where that is no JSON object."""
    answer = await near.fetch(request, RequestLimits(seconds, redirects=0))
    try:
        value: Json = msgspec.json.decode(answer.body) if answer.status == 200 else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(item: Json, key: str) -> str:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""
