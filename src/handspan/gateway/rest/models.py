"""Models: which there are, which one answers, and new ones with a key. Changes need the scope `admin` (SPEC M1, M5)."""

import asyncio
import os
import time
from typing import Final

from msgspec import structs

from handspan.config.settings import ModelSettings, Settings
from handspan.core.budgets import Payer, paying
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.messages import Text, UserMessage
from handspan.core.values import strip_invisible
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.models.chain import RestingModels, api_of
from handspan.models.choice import Choice, choose
from handspan.models.model import ModelError, NoModel, Queued, Replied
from handspan.models.ollama import find_ollama_model
from handspan.models.vendors import ANTHROPIC, GEMINI, OPENAI, Vendor, first_set
from handspan.wire.rest import models as wire

family: Final = Family("models")
_TRIED: Final = "tried-model"
_TEST_SECONDS: Final = 30.0
_QUESTION: Final = "Answer with one word: ready."
_LONGEST_REASON: Final = 500


@family.get("/api/models")
async def models(request: RestRequest) -> wire.Models:
    """The models of the settings and those that were added, and the one that answers."""
    stored = request.app.models
    known = stored.settings.models
    listed = [_render_model(name, one, is_fixed=stored.is_fixed(name)) for name, one in known.items()]
    return wire.Models(list(known), await choose_model(request, ""), listed, stored.chosen_model)


@family.get("/api/models/which", also_refuses=(404,))
async def which_model(request: RestRequest, query: wire.WhichModel) -> wire.ChosenModel:
    """Which model answers, and why."""
    if query.model:
        return await choose_model(request, query.model, at_once=query.at_once)
    session = await request.find_session(query.session) if query.session else None
    if session is not None and session.model:
        chosen = await choose_model(request, session.model, then=())
        why = f"{chosen.model}, because this chat was given it; `/model auto` takes that back."
        return structs.replace(chosen, why=why)
    agents = request.app.agents
    known = {one.agent.name: one.agent for one in await agents.all(owner=request.owner)}
    agent = query.agent or (session.agent if session is not None else "")
    if agent and agent not in known:
        raise Refusal(404, "not_found", f"There is no agent {agent!r}. There are: {', '.join(sorted(known))}.")
    if not agent:
        return await choose_model(request, "", at_once=query.at_once)
    acting = known[agent]
    return await choose_model(request, acting.model, at_once=query.at_once, then=acting.then)


async def choose_model(
    request: RestRequest, named: str, *, at_once: bool = False, then: tuple[str, ...] | None = None
) -> wire.ChosenModel:
    """Return the model of this name, or the default one. It opens no connection, so nothing has to be closed.

    `then`: the models that answer while it can't; None: those that the settings give to it.
    """
    app, models = request.app, request.parts.models
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
    provider = api_of(model.projection()) or model.name
    return wire.ChosenModel(model.name, provider, chosen.why, _states(request, chosen, then))


def _states(request: RestRequest, chosen: Choice, then: tuple[str, ...] | None) -> list[wire.ModelState]:
    """Return whether this model, and those that answer while it can't, can be asked now."""
    app, found = request.app, {}
    for name in () if chosen.is_exact else chosen.then if then is None else then:
        try:
            other = choose(app.models.settings, app.guard, os.environ, name).model.name
            found[other] = _state(app.choices.rests, other)
        except NoModel as error:
            found[name] = wire.ModelState(name, "unusable", reason=str(error))
    return list({chosen.model.name: _state(app.choices.rests, chosen.model.name), **found}.values())


def _state(rests: RestingModels, name: str) -> wire.ModelState:
    seconds = rests.seconds_left(name)
    if not seconds:
        return wire.ModelState(name, "ready")
    return wire.ModelState(name, "resting", round(seconds, 1), strip_invisible(rests.reason(name)))


@family.get("/api/models/offers", "admin")
async def offers(request: RestRequest) -> wire.ModelOffers:
    """What can be added: the vendors, a local Ollama if it answers, any other server."""
    found = await find_ollama_model(request.app.guard, os.environ, 1.0)
    address = f"{found.address}/v1" if found else "http://127.0.0.1:11434/v1"
    return wire.ModelOffers(
        [
            _offer_vendor("anthropic", "Anthropic", ANTHROPIC),
            _offer_vendor("openai", "OpenAI", OPENAI),
            _offer_vendor("gemini", "Google Gemini", GEMINI),
            _offer("ollama", "Ollama", "openai-chat", found.model if found else "", address=address),
            _offer("custom", "Another server", "custom"),
        ]
    )


@family.post("/api/models/test", "admin", also_refuses=(409,))
async def test_model(request: RestRequest, body: wire.NewModel) -> wire.ModelTest:
    """Send the model one short question, and tell whether it answers. Nothing is stored."""
    began = time.monotonic()
    try:
        text = await _ask_once(request, _with_model(request, _TRIED, body))
    except HandspanError as error:
        reason = str(error).replace(f"models.{_TRIED}.price", "models.NAME.price")  # no field of the request has it
        reason = reason.replace(f"models.{_TRIED}.", "").replace(_TRIED, body.model)
        return wire.ModelTest(
            ok=False, reason=strip_invisible(reason)[:_LONGEST_REASON], seconds=time.monotonic() - began
        )
    return wire.ModelTest(ok=True, reason=strip_invisible(text)[:_LONGEST_REASON], seconds=time.monotonic() - began)


@family.put("/api/models/{name}", "admin", also_refuses=(409,))
async def put_model(request: RestRequest, name: str, body: wire.NewModel) -> wire.Models:
    """Add a model, or change the one of this name."""
    with_name = _with_model(request, name, body)
    request.app.models.put(name, with_name.models[name])
    return await _after_change(request)


@family.delete("/api/models/{name}", "admin", also_refuses=(409,))
async def remove_model(request: RestRequest, name: str) -> wire.RemovedModel:
    """Remove a model and its key."""
    if not request.app.models.remove(name):
        raise not_found_refusal("model", name)
    await _after_change(request)
    return wire.RemovedModel(name)


@family.post("/api/models/use", "admin", also_refuses=(404, 409))
async def use_model(request: RestRequest, body: wire.ModelUse) -> wire.ChosenModel:
    """Choose the model that answers where none is named."""
    if body.model:
        await choose_model(request, body.model)  # a wrong name is refused here
    request.app.models.choose(body.model)
    return (await _after_change(request)).default


async def _after_change(request: RestRequest) -> wire.Models:
    """Let the next request use the models as they are now, and tell other clients."""
    request.parts.forget_models()
    request.publish("models")
    return await models(request)


async def _ask_once(request: RestRequest, settings: Settings) -> str:
    """Return what the model answers to one short question, which the caller pays. Raises `ModelError`."""
    choices = request.app.choices
    chosen = choose(settings, request.app.guard, os.environ, _TRIED)
    model, advice = choices.with_budget(chosen).model, "Is the address right?"
    projection = model.projection()
    projection.append(UserMessage((Text(_QUESTION),)))
    text = ""
    before = paying.set(Payer(request.owner, may_add=False))  # the caller waits for an answer: no person is asked
    try:
        async with asyncio.timeout(_TEST_SECONDS):
            async for event in model.reply(projection, ()):
                if isinstance(event, Replied):
                    text = event.message.text
                elif isinstance(event, Queued):
                    advice = event.reason or advice
    except TimeoutError:
        raise ModelError("network", f"No answer within {_TEST_SECONDS:.0f} s. {advice}") from None
    finally:
        paying.reset(before)
        await choices.close_one(chosen.model)
    return text or "It answers."


def _with_model(request: RestRequest, name: str, body: wire.NewModel) -> Settings:
    """Return the settings with this model. An empty key keeps the one that is stored for the same server.

    Raises `Refusal` for a key or an address that can't be used.
    """
    known = request.app.models.settings
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


def _offer_vendor(offer_id: str, title: str, vendor: Vendor) -> wire.ModelOffer:
    variable = first_set(vendor.key_variables, os.environ)
    offer = _offer(offer_id, title, vendor.api, vendor.model)
    return structs.replace(offer, key_variable=variable or vendor.key_variables[0], is_key_set=bool(variable))


def _offer(offer_id: str, title: str, api: wire.ModelApi, model: str = "", *, address: str = "") -> wire.ModelOffer:
    """Return a model that the person can add. Without an address, its API's own is meant."""
    return wire.ModelOffer(
        offer_id,
        title,
        api,
        model,
        base_url=address,
        key_variable="",
        is_key_set=False,
        is_found=bool(model and address),
    )


def _render_model(name: str, one: ModelSettings, *, is_fixed: bool) -> wire.ListedModel:
    variable = one.key.removeprefix("env:") if one.key.startswith("env:") else ""
    kind: wire.KeyKind = "variable" if variable else "stored" if one.key else "none"
    return wire.ListedModel(
        name, one.api, one.model or name, one.base_url, key=kind, key_variable=variable, is_fixed=is_fixed
    )
