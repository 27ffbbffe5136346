"""Looks for a local Ollama and for one of its models that can call tools."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.values import JsonObject
from handspan.models.json_values import json_list, json_object, json_objects, json_text, parse_json
from handspan.net.exchange import OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.urls import parse_url

_MAX_MODELS: Final = 8
_DEFAULT_ADDRESS: Final = "http://127.0.0.1:11434"


class OllamaModel(Struct, frozen=True):
    """A model of a local Ollama."""

    model: str
    address: str
    can_call: bool
    """Ollama says that the model can call tools."""


def ollama_address(environ: Mapping[str, str]) -> str:
    """Return the URL of Ollama. OLLAMA_HOST may lack the scheme, and may be 0.0.0.0 for all interfaces."""
    host = environ.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not host:
        return _DEFAULT_ADDRESS
    scheme, separator, location = host.rpartition("://")
    name, colon, port = location.rpartition(":")
    if not colon or not port.isdecimal():
        name, port = location, "443" if scheme == "https" else "80" if separator else "11434"
    return f"{scheme or 'http'}://{'127.0.0.1' if name in ('', '0.0.0.0') else name}:{port}"


async def find_ollama_model(guard: NetGuard, environ: Mapping[str, str], seconds: float) -> OllamaModel | None:
    """Return the model that OLLAMA_MODEL names, else the first that can call tools, else the first that can chat.

    Return None when there is no such model, or when Ollama does not answer within these seconds.
    """
    address, wanted = ollama_address(environ), environ.get("OLLAMA_MODEL", "").strip()
    try:
        async with asyncio.timeout(seconds):
            trusted, url = guard.trust(address), parse_url(address)
            # Whether anything listens at all: this needs no HTTP library, which takes 0.1 s to load.
            _, writer = await trusted.open_streams(url.host, url.port, seconds)
            writer.close()
            answer = await _fetch_object(trusted, OutgoingRequest(f"{address}/api/tags"), seconds)
            listed = json_objects(answer.get("models"))
            names = [name for item in listed if (name := json_text(item.get("model")) or json_text(item.get("name")))]
            return await _pick_model(trusted, address, [name for name in names if wanted in ("", name)], seconds)
    except (ToolError, TimeoutError):
        return None


async def _pick_model(trusted: NetGuard, address: str, names: list[str], seconds: float) -> OllamaModel | None:
    """Return the first model that can call tools; without one, the first that can chat; None if none can."""
    fallback: OllamaModel | None = None
    for name in names[:_MAX_MODELS]:
        request = OutgoingRequest(f"{address}/api/show", "POST", body=msgspec.json.encode({"model": name}))
        abilities = json_list((await _fetch_object(trusted, request, seconds)).get("capabilities"))
        if "tools" in abilities:
            return OllamaModel(name, address, can_call=True)
        if fallback is None and (not abilities or "completion" in abilities):  # a model for embeddings can't chat
            fallback = OllamaModel(name, address, can_call=False)
    return fallback


async def _fetch_object(trusted: NetGuard, request: OutgoingRequest, seconds: float) -> JsonObject:
    """Send the request, and return the JSON object of the answer; an empty one when there is none."""
    answer = await trusted.fetch(request, RequestLimits(seconds, redirects=0))
    return json_object(parse_json(answer.body)) if answer.status == 200 else {}
