"""Chooses the models that answer: puts those of a list together, lets their requests be paid, closes them at the end.

`models/choice.py` chooses one model and says why.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import structs

from handspan.agent.budgets import Budgets
from handspan.config.model_file import StoredModels
from handspan.models.budgeted import BudgetedModel
from handspan.models.chain import ModelChain, RestingModels
from handspan.models.choice import CHOSEN_OFFLINE, NAMED_OFFLINE, Choice, choose, falls_back_to_offline, find_ollama
from handspan.models.model import Model, NoModel
from handspan.models.prices import FREE, price_of
from handspan.models.scripted import Scripted
from handspan.net.guard import NetGuard

_OLLAMA_SECONDS: Final = 2.0


@runtime_checkable
class _Closable(Protocol):
    """A model that holds connections open between turns."""

    async def close(self) -> None: ...


class ModelChoices:
    """Chooses models, and closes them with the app."""

    def __init__(self, models: StoredModels, guard: NetGuard, budgets: Budgets) -> None:
        """`models`: those of the settings, and those that a person added."""
        self._models = models
        self._guard = guard
        self._budgets = budgets
        self._chosen: list[_Closable] = []
        self.rests = RestingModels()
        """The models that have failed, and how long they rest."""

    def choose_at_once(self, named: str = "") -> Choice:
        """Return the model to use, and why, without asking a local server for its models. It holds nothing open."""
        is_chosen = bool(not named and self._models.chosen_model)
        advice = CHOSEN_OFFLINE if is_chosen else NAMED_OFFLINE
        chosen = choose(self._models.settings, self._guard, os.environ, named, advice=advice)
        if is_chosen:
            why = "because it was chosen on the page or by `handspan model use`; with `auto` that takes it back."
            chosen = structs.replace(chosen, why=f"{chosen.model.name}, {why}", is_exact=True)
        return chosen

    async def choose(self, named: str = "", then: Sequence[str | Model] | None = None) -> Choice:
        """Return the model to use, and why. A local Ollama is asked briefly when the settings lead to no model.

        `then`: models that answer while that one can't; None: those that the settings give to it (SPEC L6).
        """
        return await self.with_others(await self._choose_one(named), then)

    async def with_others(self, chosen: Choice, then: Sequence[str | Model] | None = None) -> Choice:
        """Return this choice with the models that answer while its model can't, as `choose` does."""
        names = chosen.then if then is None else then
        others = {chosen.model.name: chosen}
        for one in () if chosen.is_exact else names:
            try:
                other = await self._choose_one(one) if isinstance(one, str) else self.given(one)
            except NoModel as error:
                if error.fault != "auth":  # else its key is missing: `model which` tells it, and the others can be used
                    raise
            else:
                others.setdefault(other.model.name, other)
        first, *rest = map(self.with_budget, others.values())
        if not rest:
            return first
        prices = {one.model.name: one.price for one in rest}
        chain = ModelChain([first.model, *(one.model for one in rest)], self.rests)
        why = f"{chosen.why} While it can't answer: {', '.join(prices)}."
        return structs.replace(first, model=chain, why=why, other_prices=prices)

    def given(self, model: Model) -> Choice:
        """Return a model that a program gave. A section of the settings with its name may have its price."""
        settings = self._models.settings.models.get(model.name)
        price = None if settings is None else settings.price
        free = FREE if isinstance(model, Scripted) and price_of(model.name, price) is None else None
        why = f"The model is {model.name!r}, which the program gave."
        options = {} if settings is None else settings.options
        return Choice(model, why, price=free or price or Choice(model, "").price, options=options)

    def with_budget(self, chosen: Choice) -> Choice:
        """Return the choice with a model whose requests are paid from the budgets, if there are any."""
        if not self._budgets.has_limits:
            return chosen
        model_id = chosen.model_id or chosen.model.name
        paid = BudgetedModel(chosen.model, self._budgets, chosen.price, model_id=model_id, options=chosen.options)
        return structs.replace(chosen, model=paid)

    async def close(self) -> None:
        """Close all models that were chosen."""
        for model in self._chosen:
            await model.close()

    async def close_one(self, model: Model) -> None:
        """Close a model that was made for one request."""
        if isinstance(model, _Closable):
            await model.close()

    async def _choose_one(self, named: str) -> Choice:
        """Return the model of this name, or the default, without those that answer while it can't."""
        chosen = self._close_at_end(self.choose_at_once(named))
        settings = self._models.settings
        if not falls_back_to_offline(settings, os.environ, named):
            return chosen
        try:
            async with asyncio.timeout(_OLLAMA_SECONDS):
                found = await find_ollama(self._guard, os.environ, requests=settings.model_requests)
        except TimeoutError:
            found = None
        return self._close_at_end(found) if found else chosen

    def _close_at_end(self, choice: Choice) -> Choice:
        if isinstance(choice.model, _Closable):
            self._chosen.append(choice.model)
        return choice
