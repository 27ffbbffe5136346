"""Models: which there are, which one answers, and new ones with a key. Changes need the scope `admin` (SPEC M1, M5)."""

import asyncio
import os
import time
from typing import Final

from msgspec import structs

from handspan.config.settings import ModelSettings, Settings
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.messages import Text, UserMessage
from handspan.core.values import strip_invisible
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, RestRequest
from handspan.models.choice import choose
from handspan.models.model import Model, Replied
from handspan.models.ollama import find_ollama_model
from handspan.models.projection import EncodedProjection
from handspan.models.vendors import ANTHROPIC, GEMINI, OPENAI, Vendor, first_set
from handspan.wire.rest.models import (
    ChosenModel,
    KeyKind,
    ListedModel,
    ModelOffer,
    ModelOffers,
    Models,
    ModelTest,
    ModelUse,
    NewModel,
    RemovedModel,
    WhichModel,
)

family: Final = Family("models")
_TRIED: Final = "tried-model"
_TEST_SECONDS: Final = 30.0
_QUESTION: Final = "Answer with one word: ready."
_LONGEST_REASON: Final = 500


@family.get("/api/models")
async def models(request: RestRequest) -> Models:
    """The models of the settings and those that were added, and the one that answers."""
    stored = request.parts.app.models
    known = stored.settings.models
    listed = [_render_model(name, one, stored.is_fixed(name)) for name, one in known.items()]
    return Models(list(known), await choose_model(request, ""), listed, stored.chosen)


@family.get("/api/models/which", also_refuses=(404,))
async def which_model(request: RestRequest, query: WhichModel) -> ChosenModel:
    """Which model answers, and why."""
    if query.model:
        return await choose_model(request, query.model, at_once=query.at_once)
    agents = request.parts.app.agents
    known = {one.agent.name: one.agent for one in await agents.all(owner=request.owner)}
    if query.agent and query.agent not in known:
        raise Refusal(404, "not_found", f"There is no agent {query.agent!r}. There are: {', '.join(sorted(known))}.")
    return await choose_model(request, known[query.agent].model if query.agent else "", at_once=query.at_once)


async def choose_model(request: RestRequest, named: str, *, at_once: bool = False) -> ChosenModel:
    """Return the model of this name, or the default one. It opens no connection, so nothing has to be closed."""
    app, models = request.parts.app, request.parts.models
    try:
        if named:
            chosen = choose(app.models.settings, app.guard, os.environ, named)
        else:
            chosen = models.default_at_once() if at_once else await models.default()
    except ConfigError as error:
        if not named:
            raise
        raise Refusal(404, "not_found", str(error)) from None
    model = chosen.model
    projection = model.projection()
    provider = projection.api if isinstance(projection, EncodedProjection) else model.name
    return ChosenModel(model.name, provider, chosen.why)


@family.get("/api/models/offers", "admin")
async def offers(request: RestRequest) -> ModelOffers:
    """What can be added: the vendors, a local Ollama if it answers, any other server."""
    found = await find_ollama_model(request.parts.app.guard, os.environ, 1.0)
    address = f"{found.address}/v1" if found else "http://127.0.0.1:11434/v1"
    return ModelOffers(
        [
            _offer_vendor("anthropic", "Anthropic", ANTHROPIC),
            _offer_vendor("openai", "OpenAI", OPENAI),
            _offer_vendor("gemini", "Google Gemini", GEMINI),
            ModelOffer(
                "ollama", "Ollama", "openai-chat", found.model if found else "", address, "", False, found is not None
            ),
            ModelOffer("custom", "Another server", "custom", "", "", "", False, False),
        ]
    )


@family.post("/api/models/test", "admin", also_refuses=(409,))
async def test_model(request: RestRequest, body: NewModel) -> ModelTest:
    """Send the model one short question, and tell whether it answers. Nothing is stored."""
    began = time.monotonic()
    try:
        text = await _ask_once(_with_model(request, _TRIED, body), request)
    except TimeoutError:
        return ModelTest(False, f"No answer within {_TEST_SECONDS:.0f} s. Is the address right?", _TEST_SECONDS)
    except HandspanError as error:
        reason = str(error).replace(f"models.{_TRIED}.", "").replace(_TRIED, body.model)
        return ModelTest(False, strip_invisible(reason)[:_LONGEST_REASON], time.monotonic() - began)
    return ModelTest(True, strip_invisible(text)[:_LONGEST_REASON], time.monotonic() - began)


@family.put("/api/models/{name}", "admin", also_refuses=(409,))
async def put_model(request: RestRequest, name: str, body: NewModel) -> Models:
    """Add a model, or change the one of this name."""
    with_name = _with_model(request, name, body)
    try:
        request.parts.app.models.put(name, with_name.models[name])
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    return await _changed(request)


@family.delete("/api/models/{name}", "admin", also_refuses=(409,))
async def remove_model(request: RestRequest, name: str) -> RemovedModel:
    """Remove a model and its key."""
    try:
        is_gone = request.parts.app.models.remove(name)
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    if not is_gone:
        raise not_found("model", name)
    await _changed(request)
    return RemovedModel(name)


@family.post("/api/models/use", "admin", also_refuses=(404, 409))
async def use_model(request: RestRequest, body: ModelUse) -> ChosenModel:
    """Choose the model that answers where none is named."""
    if body.model:
        await choose_model(request, body.model)  # a wrong name is refused here
    try:
        request.parts.app.models.choose(body.model)
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    return (await _changed(request)).default


async def _changed(request: RestRequest) -> Models:
    """Let the next request use the models as they are now, and tell other clients."""
    request.parts.forget_models()
    request.publish("models")
    return await models(request)


async def _ask_once(settings: Settings, request: RestRequest) -> str:
    app = request.parts.app
    chosen = choose(settings, app.guard, os.environ, _TRIED)
    try:
        async with asyncio.timeout(_TEST_SECONDS):
            return await _first_answer(chosen.model)
    finally:
        await app.close_model(chosen.model)


async def _first_answer(model: Model) -> str:
    projection = model.projection()
    projection.append(UserMessage((Text(_QUESTION),)))
    async for event in model.reply(projection, ()):
        if isinstance(event, Replied):
            return event.message.text or "It answers."
    return "It answers."


def _with_model(request: RestRequest, name: str, body: NewModel) -> Settings:
    """Return the settings with this model. An empty key keeps the one that is stored for the same server.

    Raises `Refusal` for a key or an address that can't be used.
    """
    known = request.parts.app.models.settings
    key = body.key.strip()
    if key.startswith(("env:", "file:")):
        text = "A key can't begin with 'env:' or 'file:'. Name a variable in `key_variable`, or use the settings file."
        raise Refusal(409, "settings", text)
    before, base_url = known.models.get(name), body.base_url.rstrip("/")
    if body.key_variable:
        key = f"env:{body.key_variable}"
    elif not key and before is not None and (before.api, before.base_url.rstrip("/")) == (body.api, base_url):
        key = before.key
    if body.base_url and not body.base_url.startswith(("http://", "https://")):
        raise Refusal(409, "settings", f"{body.base_url!r} is no address: it begins with http:// or https://.")
    added = ModelSettings(api=body.api, base_url=base_url, key=key, model=body.model.strip())
    return structs.replace(known, models={**known.models, name: added})


def _offer_vendor(offer_id: str, title: str, vendor: Vendor) -> ModelOffer:
    variable = first_set(vendor.key_variables, os.environ)
    return ModelOffer(
        offer_id, title, vendor.api, vendor.model, "", variable or vendor.key_variables[0], bool(variable), False
    )


def _render_model(name: str, one: ModelSettings, is_fixed: bool) -> ListedModel:
    variable = one.key.removeprefix("env:") if one.key.startswith("env:") else ""
    kind: KeyKind = "variable" if variable else "stored" if one.key else "none"
    return ListedModel(name, one.api, one.model or name, one.base_url, kind, variable, is_fixed)
