"""Chooses the model, and says why: the named one, else the first of `models`, else one whose key is set (SPEC M5).

Else it is `offline`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from handspan.config.secrets import read_secret
from handspan.config.settings import ModelPrice, Settings
from handspan.core.errors import ConfigError
from handspan.core.messages import Api
from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.models.model import Codec, Model, NoModel
from handspan.models.ollama import find_ollama_model, ollama_address
from handspan.models.vendors import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    OPENAI_CHAT,
    VENDORS,
    Environ,
    Vendor,
    base_url_of,
    first_set,
    key_of,
    vendor_at_address,
)
from handspan.net.guard import MAX_CONNECTIONS, NetGuard

if TYPE_CHECKING:
    from handspan.models.schema.lowering import Target

OFFLINE: Final = "offline"
OLLAMA: Final = "ollama"
NAMED_OFFLINE: Final = (
    "It answers because it was named: for a real model, name another one where that was done (the settings, an agent, "
    "--model, or the program); `handspan model which` says more."
)
CHOSEN_OFFLINE: Final = "It was chosen on the page or by /model: for a real model, `/model auto` takes that back."

# Loaded when a model is chosen, so that the other adapters cost nothing.
CODECS: Final[dict[Api, str]] = {
    "openai-chat": "handspan.models.chat.codec:ChatCodec",
    "openai-responses": "handspan.models.responses.codec:ResponsesCodec",
    "anthropic": "handspan.models.anthropic.codec:AnthropicCodec",
    "gemini": "handspan.models.gemini.codec:GeminiCodec",
}
_OFFLINE_MODEL: Final = "handspan.models.offline:Offline"
_HTTP_MODEL: Final = "handspan.models.http:HttpModel"
_SERVER_AT: Final = "handspan.models.chat.servers:server_at"

_BY_API: Final[dict[Api, Vendor]] = {
    "anthropic": ANTHROPIC,
    "openai-responses": OPENAI,
    "openai-chat": OPENAI_CHAT,
    "gemini": GEMINI,
}
_BY_NICKNAME: Final = {"openai": OPENAI, "google": GEMINI}


class Choice(Struct, frozen=True):
    """A model, and one sentence that says which model it is and why."""

    model: Model
    why: str
    context: int | None = None
    """The tokens that the model can read, if the settings say so."""
    price: ModelPrice = ModelPrice()
    """The price that the settings give."""


def choose(
    settings: Settings, guard: NetGuard, environ: Environ, named: str = "", *, advice: str = NAMED_OFFLINE
) -> Choice:
    """Return the named model, else the one that `model` names, else the first of `models`, else one whose key is set.

    Else `offline`.

    Send no request and never wait. Raises `NoModel` for an unknown name. When the choice falls back to `offline`
    (`falls_back_to_offline`), `find_ollama` may find a better one. `advice`: what an `offline` that was named tells a
    person who wants a real model.
    """
    wanted = named or settings.model or next(iter(settings.models), "")
    if wanted:
        return _resolve(wanted, _reason(settings, named), settings, guard, environ, advice=advice)
    for vendor in VENDORS:
        if variable := first_set(vendor.key_variables, environ):
            model = environ.get(vendor.model_variable, "").strip() or vendor.model
            made = _make_vendor_model(
                vendor_at_address(vendor, environ), model, guard, environ, settings.model_requests
            )
            return Choice(made, f"{model}, because {variable} is set and no model is named in the settings.")
    variables = ", ".join(name for vendor in VENDORS for name in vendor.key_variables)
    return Choice(
        _load(_OFFLINE_MODEL)(),
        f"offline, a rule-based stand-in: no model is named in the settings and no key is set ({variables}).",
    )


def check_name(wanted: str, settings: Settings, setting: str = "model") -> None:
    """Raise `NoModel` when the settings lead to no model of this name. Its key is not looked for.

    `setting`: the one that has the name.
    """
    if wanted in settings.models:
        if settings.models[wanted].api == "custom" and not settings.models[wanted].base_url:
            text = f"models.{wanted}.base_url: a custom model needs the address of its server."
            raise NoModel("rejected", text)
        return
    prefix, _, model = wanted.partition(":")
    known, apis = [*settings.models, OFFLINE], (*_BY_API, *_BY_NICKNAME, OLLAMA)
    if wanted != OFFLINE and not (model and prefix in apis):
        raise NoModel(
            "unknown_model",
            f"{setting}: there is no model {wanted!r}.{did_you_mean(wanted, known)} Name one of {', '.join(known)}, "
            f"or 'API:MODEL' with an API of {', '.join(apis)}.",
        )


def falls_back_to_offline(settings: Settings, environ: Environ, named: str = "") -> bool:
    """Return whether `choose` takes `offline` only because no model is named and no key is set."""
    return not (named or settings.model or settings.models) and not any(
        first_set(vendor.key_variables, environ) for vendor in VENDORS
    )


async def find_ollama(
    guard: NetGuard, environ: Environ, seconds: float = 2.0, requests: int = MAX_CONNECTIONS
) -> Choice | None:
    """Return a model of the local Ollama, if possible one that calls tools; None when there is none or no answer."""
    found = await find_ollama_model(guard, environ, seconds)
    if found is None:
        return None
    tools = "" if found.can_call else ", which may not be able to call tools"
    why = f"{found.model}{tools}, because a local Ollama answers at {found.address} and no other model is set."
    return Choice(_make_ollama_model(found.model, guard, environ, requests), why)


def codec_for(api: Api, model: str = "", base_url: str = "") -> Codec:
    """Return the codec of this API for this model at this server."""
    make = _load(CODECS[api])
    match api:
        case "openai-chat":
            codec: Codec = make(_load(_SERVER_AT)(base_url), model)
        case _:
            codec = make(model)
    return codec


def target_for(api: Api, *, strict: bool = False) -> "Target":
    """Return the target of the schema compiler for this API."""
    match api:
        case "openai-chat" | "openai-responses":
            return "openai-strict" if strict else "openai"
        case _:
            return api


def _reason(settings: Settings, named: str) -> str:
    """Return why `choose` takes the model that it does when one is named, or `models` has one."""
    if named and named != settings.model:
        return "it is named so"
    if settings.model:
        return "the setting `model` names it"
    place = "the only one" if len(settings.models) == 1 else "the first"
    return f"it is {place} of `models`, and the setting `model` names none"


def _resolve(wanted: str, reason: str, settings: Settings, guard: NetGuard, environ: Environ, *, advice: str) -> Choice:
    """Return the model of this name. Raises `NoModel` when there is none."""
    check_name(wanted, settings)
    if wanted in settings.models:
        return _from_settings(wanted, reason, settings, guard, environ)
    if wanted == OFFLINE:
        return Choice(_load(_OFFLINE_MODEL)(advice), f"offline, a rule-based stand-in, because {reason}.")
    prefix, _, model = wanted.partition(":")
    nicknames = {name: vendor_at_address(vendor, environ) for name, vendor in _BY_NICKNAME.items()}
    vendors: dict[str, Vendor] = {vendor.api: vendor for vendor in _BY_API.values()} | nicknames
    if prefix == OLLAMA:
        return Choice(
            _make_ollama_model(model, guard, environ, settings.model_requests), f"{wanted}, because {reason}."
        )
    made = _make_vendor_model(vendors[prefix], model, guard, environ, settings.model_requests)
    return Choice(made, f"{wanted}, because {reason}.")


def _read_key(reference: str, environ: Environ, setting: str) -> str:
    try:
        return read_secret(reference, environ, setting)
    except ConfigError as error:
        raise NoModel("auth", str(error)) from None


def _from_settings(name: str, reason: str, settings: Settings, guard: NetGuard, environ: Environ) -> Choice:
    given, place = settings.models[name], f"models.{name}"
    api: Api = "openai-chat" if given.api == "custom" else given.api
    key = _read_key(given.key, environ, f"{place}.key")
    if not key and not given.base_url:  # a vendor's key goes to that vendor only
        key = key_of(_BY_API[api], environ, f"{place}.key")
    model = _make_http_model(
        api,
        given.model or name,
        guard,
        base_url=given.base_url or base_url_of(_BY_API[api], environ),
        key=key,
        name=name,
        options=given.options,
        strict=given.strict,
        stream=given.stream,
        requests=settings.model_requests,
    )
    return Choice(model, f"{name} ({given.model or name}), because {reason}.", given.context, given.price)


def _make_vendor_model(vendor: Vendor, model: str, guard: NetGuard, environ: Environ, requests: int) -> Model:
    key, url = key_of(vendor, environ, "model"), base_url_of(vendor, environ)
    return _make_http_model(vendor.api, model, guard, base_url=url, key=key, name=model, requests=requests)


def _make_ollama_model(model: str, guard: NetGuard, environ: Environ, requests: int) -> Model:
    url = f"{ollama_address(environ)}/v1"
    return _make_http_model("openai-chat", model, guard, base_url=url, key="", name=model, requests=requests)


def _make_http_model(
    api: Api,
    model: str,
    guard: NetGuard,
    *,
    base_url: str,
    key: str,
    name: str,
    options: JsonObject | None = None,
    strict: bool = False,
    stream: bool = True,
    requests: int = MAX_CONNECTIONS,
) -> Model:
    made: Model = _load(_HTTP_MODEL)(
        codec_for(api, model, base_url),
        guard,
        model,
        base_url=base_url,
        key=key,
        target=target_for(api, strict=strict),
        options=options,
        stream=stream,
        name=name,
        requests=requests,
    )
    return made


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
