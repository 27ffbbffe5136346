"""Chooses the model, and says why: the named one, else the first of `models`, else one whose key is set (SPEC M5).

Else it is `offline`.
"""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from handspan.config.secrets import read_secret
from handspan.config.settings import ModelPrice, ModelSettings, Settings
from handspan.core.errors import ConfigError
from handspan.core.messages import Api, AssistantMessage
from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.models.model import Codec, Model, NoModel
from handspan.models.ollama import find_ollama_model, ollama_address
from handspan.models.prices import FREE, price_here, window_of
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
CHOSEN_OFFLINE: Final = (
    "It was chosen on the page or by `handspan model use`: for a real model, `handspan model use auto` takes that back."
)

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
    known_context: int | None = None
    """The tokens that the model can read, if it is one of the known models."""
    model_id: str = ""
    """The model's id in the words of its API; empty: its name."""
    options: JsonObject = {}
    """The extra fields of its requests."""
    then: tuple[str, ...] = ()
    """The names of the models that answer while this one can't, as the settings say (SPEC L6)."""
    is_exact: bool = False
    """Whether a person chose this very model: then no other one answers in its place."""
    other_prices: Mapping[str, ModelPrice] = {}
    """The prices that the settings give to the models that answer in place of this one, by their names."""

    def price_for(self, message: AssistantMessage) -> ModelPrice:
        """Return the price that the settings give to the model of this reply."""
        by = message.substitution
        return self.price if isinstance(by, UnsetType) else self.other_prices.get(by.by, ModelPrice())


def choose(
    settings: Settings, guard: NetGuard, environ: Environ, named: str = "", *, advice: str = NAMED_OFFLINE
) -> Choice:
    """Return the named model, else that of `model`, the first of `models`, one whose key is set, or `offline`.

    Send no request and never wait. Raises `NoModel` for an unknown name. When the choice falls back to `offline`
    (`falls_back_to_offline`), `find_ollama` may find a better one. `advice`: what an `offline` that was named tells a
    person who wants a real model.
    """
    wanted = named or settings.model or next(iter(settings.models), "")
    if not wanted:
        return _choose_by_key(settings, guard, environ)
    check_name(wanted, settings)
    reason = _reason(settings, named)
    if wanted in settings.models:
        return _from_settings(wanted, settings, guard, environ, reason=reason)
    if wanted == OFFLINE:
        return Choice(_load(_OFFLINE_MODEL)(advice), f"offline, a rule-based stand-in, because {reason}.", price=FREE)
    prefix, _, model = wanted.partition(":")
    if prefix == OLLAMA:
        made = _make_ollama_model(model, guard, environ, settings.model_requests)
        address = ollama_address(environ)
    else:
        nickname = _BY_NICKNAME.get(prefix)
        vendor = vendor_at_address(nickname, environ) if nickname else _BY_API[cast("Api", prefix)]
        made = _make_vendor_model(vendor, model, settings, guard, environ=environ)
        address = base_url_of(vendor, environ)
    return Choice(
        made, f"{wanted}, because {reason}.", price=price_here(model, address), known_context=window_of(model)
    )


def _choose_by_key(settings: Settings, guard: NetGuard, environ: Environ) -> Choice:
    """Return the default model of the first vendor whose key is set, else `offline`."""
    for vendor in VENDORS:
        if variable := first_set(vendor.key_variables, environ):
            model = environ.get(vendor.model_variable, "").strip() or vendor.model
            made = _make_vendor_model(vendor_at_address(vendor, environ), model, settings, guard, environ=environ)
            why = f"{model}, because {variable} is set and no model is named in the settings."
            price = price_here(model, base_url_of(vendor, environ))
            return Choice(made, why, price=price, known_context=window_of(model))
    variables = ", ".join(name for vendor in VENDORS for name in vendor.key_variables)
    return Choice(
        _load(_OFFLINE_MODEL)(),
        f"offline, a rule-based stand-in: no model is named in the settings and no key is set ({variables}).",
        price=FREE,
    )


def check_name(wanted: str, settings: Settings, setting: str = "model") -> None:
    """Raise `NoModel` when there is no model of this name, which the `setting` has. Its key is not looked for."""
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
    made = _make_ollama_model(found.model, guard, environ, requests)
    return Choice(made, why, price=price_here(found.model, found.address))


def codec_for(api: Api, model: str = "", base_url: str = "") -> Codec:
    """Return the codec of this API for this model at this server."""
    make = _load(CODECS[api])
    codec: Codec = make(_load(_SERVER_AT)(base_url), model) if api == "openai-chat" else make(model)
    return codec


def target_for(api: Api, *, strict: bool = False) -> "Target":
    """Return the target of the schema compiler for this API."""
    if api == "openai-chat" or api == "openai-responses":
        return "openai-strict" if strict else "openai"
    return api


def _reason(settings: Settings, named: str) -> str:
    """Return why `choose` takes the model that it does when one is named, or `models` has one."""
    if named and named != settings.model:
        return "it is named so"
    if settings.model:
        return "the setting `model` names it"
    place = "the only one" if len(settings.models) == 1 else "the first"
    return f"it is {place} of `models`, and the setting `model` names none"


def _from_settings(name: str, settings: Settings, guard: NetGuard, environ: Environ, *, reason: str) -> Choice:
    """Return the model that the settings have under this name. Raises `NoModel` when its key can't be read."""
    given, setting = settings.models[name], f"models.{name}.key"
    vendor = _BY_API[_api_of(given)]
    try:
        key = read_secret(given.key, environ, setting)
    except ConfigError as error:
        raise NoModel("auth", str(error)) from None
    if not key and not given.base_url:  # a vendor's key goes to that vendor only
        key = key_of(vendor, environ, setting)
    whole = replace(given, model=given.model or name, base_url=given.base_url or base_url_of(vendor, environ), key=key)
    model = _make_http_model(whole, name, guard, settings.model_requests)
    return Choice(
        model,
        f"{name} ({whole.model}), because {reason}.",
        given.context,
        given.price if given.price != ModelPrice() else price_here(whole.model, whole.base_url),
        model_id=whole.model,
        options=given.options,
        known_context=window_of(whole.model),
        then=given.then,
    )


def _make_vendor_model(vendor: Vendor, model: str, settings: Settings, guard: NetGuard, environ: Environ) -> Model:
    key, url = key_of(vendor, environ, "model"), base_url_of(vendor, environ)
    return _make_http_model(ModelSettings(vendor.api, url, key, model), model, guard, settings.model_requests)


def _make_ollama_model(model: str, guard: NetGuard, environ: Environ, requests: int) -> Model:
    given = ModelSettings("openai-chat", f"{ollama_address(environ)}/v1", model=model)
    return _make_http_model(given, model, guard, requests)


def _make_http_model(given: ModelSettings, name: str, guard: NetGuard, requests: int) -> Model:
    """Return the model of these settings, which have its address, its id and the key itself."""
    api = _api_of(given)
    codec, target = codec_for(api, given.model, given.base_url), target_for(api, strict=given.strict)
    made: Model = _load(_HTTP_MODEL)(codec, guard, given, target=target, name=name, requests=requests)
    return made


def _api_of(given: ModelSettings) -> Api:
    return "openai-chat" if given.api == "custom" else given.api


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
