"""The model of agents that name none: given by the program, named by the settings, or found on this computer."""

import asyncio

from msgspec import structs

from handspan.gateway.app import App
from handspan.models.choice import OFFLINE, Choice
from handspan.models.model import Model


class DefaultModel:
    """Chooses the model for each turn. The first turn that needs the default begins the search for it."""

    def __init__(self, app: App, model: str | Model, *, is_inside: bool) -> None:
        """`model`: a name as in the settings, or a model object. `is_inside`: a name is for every agent."""
        self._app = app
        self._model = model
        self._is_inside = is_inside
        self._choosing: asyncio.Task[Choice] | None = None

    async def open(self) -> None:
        """Check the name of the default. A local model is looked for later. Raises `ConfigError` for a wrong name."""
        named = self._model or ("" if self._is_inside else self._app.settings.model)
        if isinstance(named, str) and named not in ("", OFFLINE):
            await self.default()

    async def close(self) -> None:
        """End the search."""
        if self._choosing is not None:
            self._choosing.cancel()
            await asyncio.gather(self._choosing, return_exceptions=True)

    async def default(self) -> Choice:
        """Return the model for agents that name none, and why. The first caller starts the search for it."""
        if self._choosing is None or self._choosing.cancelled():
            self._choosing = asyncio.create_task(self._choose(""))
        return await asyncio.shield(self._choosing)

    def default_at_once(self) -> Choice:
        """Return the default as far as it is known now: no local model is looked for."""
        return self._given_choice() or self._app.choices.choose_at_once(self._name)

    async def find(self, name: str, then: tuple[str, ...] | None = None, /) -> Choice:
        """Return the model of this name, or the default, with the models that answer while it can't (`ChooseModel`)."""
        return await (self._choose(name, then) if name or then is not None else self.default())

    def forget(self) -> None:
        """Choose the default anew: the models have changed."""
        self._choosing = None

    async def _choose(self, name: str, then: tuple[str, ...] | None = None) -> Choice:
        if self._is_inside and isinstance(self._model, str) and self._model:
            return await self._app.choices.choose(self._model, ())  # a person named this very model
        given = None if name else self._given_choice()
        if given is not None:
            return await self._app.choices.with_others(given, then)
        return await self._app.choices.choose(name or self._name, then)

    @property
    def _name(self) -> str:
        return self._model if isinstance(self._model, str) else ""

    def _given_choice(self) -> Choice | None:
        model = self._model
        if isinstance(model, str):
            return None
        return structs.replace(
            self._app.choices.given(model), why=f"The model is {model.name!r}, which was given to this gateway."
        )
