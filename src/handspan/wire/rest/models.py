"""Models in REST: those that are there, and those that a person adds with a key (SPEC M1)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.wire.rest.fields import SOMETHING, SessionId

ModelApi = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "custom"]
KeyKind: TypeAlias = Literal["stored", "variable", "none"]
Secret = Annotated[str, Meta(max_length=4096, extra_json_schema={"writeOnly": True})]


class ListedModel(Struct, frozen=True):
    """A model by its name. Its key is never shown."""

    name: str
    api: str
    model: str
    """Its id in the words of its API."""
    base_url: str
    key: KeyKind
    key_variable: str
    """The environment variable with its key."""
    is_fixed: bool
    """It is in the settings file, and is changed there."""


class ModelOffer(Struct, frozen=True):
    """A kind of model that a person can add, with what is known of it."""

    id: str
    title: str
    api: ModelApi
    model: str
    """The model to begin with; empty: it has to be named."""
    base_url: str
    """Empty: the vendor's own address."""
    key_variable: str
    """The usual variable of its key; empty: it needs none."""
    is_key_set: bool
    """The gateway's environment has that variable."""
    is_found: bool
    """A server on this computer answers."""


class ModelOffers(Struct, frozen=True):
    """What can be added."""

    offers: list[ModelOffer]


class NewModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model to add, to change or to try. An empty `key` keeps the stored one."""

    api: ModelApi
    model: Annotated[str, Meta(pattern=SOMETHING, max_length=200)]
    base_url: Annotated[str, Meta(max_length=500)] = ""
    key: Secret = ""
    """It is stored in the state folder, in a file that only the gateway's user can read, and never shown again."""
    key_variable: Annotated[str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", max_length=100)] = ""
    """The environment variable of the gateway that has the key."""


class ModelTest(Struct, frozen=True):
    """Whether the model answers."""

    ok: bool
    reason: str
    """What it answered, or why it can't."""
    seconds: float


class ModelUse(Struct, frozen=True, forbid_unknown_fields=True):
    """The model that answers where none is named. Empty: as the settings say."""

    model: Annotated[str, Meta(max_length=200)] = ""


class RemovedModel(Struct, frozen=True):
    """The model and its key are gone."""

    name: str


class WhichModel(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a model, or of an agent whose model is meant."""

    model: Annotated[str, Meta(max_length=200)] = ""
    agent: Annotated[str, Meta(max_length=100)] = ""
    session: SessionId = ""
    """A session: its own model is meant if it has one, else that of the agent: the named one, or the session's."""
    at_once: bool = False
    """Answer at once, without a search for a local model."""


class ModelState(Struct, frozen=True, omit_defaults=True):
    """Whether a model can be asked now."""

    name: str
    state: Literal["ready", "resting", "unusable"]
    """`resting`: it has failed, and is asked last until its rest is over. `unusable`: it is never asked."""
    seconds: float = 0.0
    """How long it still rests."""
    reason: str = ""
    """Why it rests, or can't be used."""


class ChosenModel(Struct, frozen=True):
    """The model that answers."""

    model: str
    provider: str
    """The model's API. A model without an API: its own name."""
    why: str
    models: list[ModelState] = []
    """That model and those that answer while it can't, in their order (SPEC L6)."""


class Models(Struct, frozen=True):
    """The models of the settings and those that were added."""

    models: list[str]
    default: ChosenModel
    listed: list[ListedModel]
    """The same with what is known of them."""
    chosen: str
    """The model that a person chose; empty: the settings decide."""
