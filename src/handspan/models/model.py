"""The seam between a conversation and a model (SPEC M1, M2).

A session owns one projection for each model it talks to: the conversation in that API's words, encoded once, appended
to, never rebuilt. `Model.reply` sends it and yields events while the answer arrives; the last one is `Replied`.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.messages import Api, AssistantMessage, Message
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject


@final
class TextDelta(Struct, frozen=True):
    """More words."""

    text: str


@final
class ThinkingDelta(Struct, frozen=True):
    """More thinking."""

    text: str


@final
class CallDelta(Struct, frozen=True):
    """A call begins (with its name), or more of its arguments arrives. `index` tells parallel calls apart."""

    index: int
    name: str = ""
    arguments: str = ""


@final
class Replied(Struct, frozen=True):
    """The answer is complete. Only now may its calls be run: a stream that was cut never gets here."""

    message: AssistantMessage


@final
class Retrying(Struct, frozen=True):
    """The request failed in a way that is worth another try."""

    reason: str
    seconds: float


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Retrying | Replied

ModelFault: TypeAlias = Literal[
    "auth", "quota", "unknown_model", "overloaded", "rejected", "too_long", "cut", "network", "refused", "unreadable"
]


class ModelError(HandspanError):
    """A model can't answer. The message is for a person: what happened and what to do."""

    def __init__(self, fault: ModelFault, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.fault: ModelFault = fault
        self.status = status


class NoModel(ConfigError):
    """The settings name a model that can't be used. The message names the setting and the remedy."""

    def __init__(self, fault: ModelFault, message: str) -> None:
        super().__init__(message)
        self.fault: ModelFault = fault


class Projection(Protocol):
    """A conversation in one API's words."""

    def append(self, message: Message) -> None:
        """Add a message; `UnpairedCalls` when it must not stand there."""
        ...

    def __len__(self) -> int:
        """How many messages it holds."""
        ...


class Model(Protocol):
    """An LLM behind its API."""

    @property
    def name(self) -> str:
        """The name under which usage is counted."""
        ...

    def projection(self, instructions: str = "") -> Projection:
        """An empty conversation in this model's words, with these instructions (the system prompt)."""
        ...

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: Artifacts | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Send the conversation and the tools; yields what arrives, `Replied` last. `ModelError` otherwise."""
        ...


@final
class LoweredTool(Struct, frozen=True):
    """A tool in the words of one API (SPEC M3)."""

    name: str
    """The name on that API's wire; the caller keeps the way back to ours."""
    spec: ToolSpec
    schema: JsonObject
    strict: bool = False
    losses: tuple[str, ...] = ()
    """What the API's subset could not say, in words. The engine enforces the original all the same."""


@final
class QuarantinedTool(Struct, frozen=True):
    """A tool that this API can't take; the request goes on without it."""

    spec: ToolSpec
    reason: str


class Codec(Protocol):
    """One wire format, without sockets: what to send and how to read the answer. Pure and stateless."""

    api: Api

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """The message as encoded JSON items of this API's list (chat, anthropic: messages; responses: input items;
        gemini: contents). Native content of the same API is used verbatim.

        Given the message `before` it, results know the model's own ids of their calls; unset, ids are made from ours.
        """
        ...

    def request(
        self,
        model: str,
        instructions: str,
        items: Sequence[bytes],
        tools: Sequence[LoweredTool],
        *,
        stream: bool,
        options: JsonObject,
    ) -> bytes:
        """The body of the request; `options` are extra top-level fields (max_tokens, temperature …) of the settings."""
        ...

    def path(self, model: str, *, stream: bool) -> str:
        """The path below the base URL, with its query."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """The headers that carry the key and pin the API's version."""
        ...

    def decoder(self, names: dict[str, str], model: str) -> "Decoder":
        """A reader for one streamed answer; `names` leads from wire names back to ours."""
        ...

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """A whole answer that was not streamed; `ModelError` when it makes no sense."""
        ...

    def fault(self, status: int, body: bytes) -> ModelError:
        """What an error answer means, in words for a person: bad key, unknown model, quota, too long …"""
        ...


class Decoder(Protocol):
    """Reads one streamed answer, event by event."""

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """What this server-sent event says; `ModelError` for an error event. Never yields `Replied`."""
        ...

    def finish(self) -> AssistantMessage:
        """The whole answer, after the stream ended. `ModelError` ("cut") when the end never came."""
        ...
