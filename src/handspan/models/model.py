"""The Protocols of models and their wire formats, the events of an answer and the errors (SPEC M1, M2).

A session owns one projection for each model that it talks to: the conversation in that API's format. A projection is
encoded once and appended to, until its context marks move. `Model.reply` sends it and yields events as they arrive.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from handspan.core.errors import ConfigError, HandspanError
from handspan.core.images import ImageLimits, ImageReader
from handspan.core.messages import Api, AssistantMessage, Message, Substitution
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject


@final
class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

    text: str


@final
class ThinkingDelta(Struct, frozen=True):
    """A piece of the model's thinking."""

    text: str


@final
class CallDelta(Struct, frozen=True):
    """A call begins (with its name), or a piece of its arguments arrives. `index` tells parallel calls apart."""

    index: int
    name: str = ""
    arguments: str = ""


@final
class Replied(Struct, frozen=True):
    """The answer is complete, so its calls may be run. A stream that was cut never has this event."""

    message: AssistantMessage


@final
class Retrying(Struct, frozen=True):
    """The request failed, and is sent again after these seconds."""

    reason: str
    seconds: float


@final
class Queued(Struct, frozen=True):
    """The request waits for its turn: so many requests run already."""

    running: int
    reason: str = ""
    """Why it waits, for a person; empty: so many requests to this model may run at once."""


@final
class Substituted(Struct, frozen=True):
    """Another model answers than the one that was meant; what follows is its answer."""

    substitution: Substitution
    is_new: bool
    """Whether it did not answer the request before this one in the same turn."""


@final
class NearlySpent(Struct, frozen=True):
    """A budget is nearly spent (SPEC L5)."""

    text: str


ModelEvent: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Retrying | Queued | Substituted | NearlySpent | Replied

ModelFault: TypeAlias = Literal[
    "auth",
    "quota",
    "unknown_model",
    "overloaded",
    "rejected",
    "too_long",
    "cut",
    "network",
    "refused",
    "unreadable",
    "budget_spent",
    "unpriced",
]


class ModelError(HandspanError):
    """A model can't answer. The message tells a person what happened and what to do."""

    def __init__(
        self, fault: ModelFault, message: str, *, status: int | None = None, wait: float | None = None
    ) -> None:
        """`wait`: the seconds that the body of the answer asks to wait."""
        super().__init__(message)
        self.fault: ModelFault = fault
        self.status = status
        self.wait = wait
        self.model = ""
        """The name of the model, where it is not the one that was meant."""


class NoModel(ConfigError):
    """The settings name a model that can't be used. The message names the setting and the remedy."""

    def __init__(self, fault: ModelFault, message: str) -> None:
        super().__init__(message)
        self.fault: ModelFault = fault


class Projection(Protocol):
    """A conversation in one API's format."""

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it must not follow the last one."""
        ...

    def __len__(self) -> int:
        """Return the number of messages."""
        ...


class Model(Protocol):
    """An LLM behind its API."""

    @property
    def name(self) -> str:
        """The name under which usage is counted."""
        ...

    def projection(self, instructions: str = "") -> Projection:
        """Return an empty conversation in this model's format, with these instructions (the system prompt)."""
        ...

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Send the conversation and the tools. Yield events, `Replied` last; raises `ModelError` when it fails.

        `artifacts` reads the images of the conversation. Without it, only images that came inline can be sent.
        """
        ...


@final
class LoweredTool(Struct, frozen=True):
    """A tool in the format of one API (SPEC M3)."""

    name: str
    """The name on that API's wire; `Toolset.names` leads back to ours."""
    spec: ToolSpec
    schema: JsonObject
    strict: bool = False
    losses: tuple[str, ...] = ()
    """What the API's subset can't express, in words. The engine enforces the original schema."""


@final
class QuarantinedTool(Struct, frozen=True):
    """A tool that this API can't take. The request goes on without it."""

    spec: ToolSpec
    reason: str


@final
class Prompt(Struct, frozen=True):
    """What one request asks a model."""

    model: str
    instructions: str
    items: Sequence[bytes]
    """The conversation, as `Codec.encode` returns it."""
    tools: Sequence[LoweredTool]
    stream: bool
    options: JsonObject = {}
    """The settings' extra fields (max_tokens, temperature …)."""


class Codec(Protocol):
    """One wire format: what to send and how to read the answer. Stateless, and without sockets."""

    api: Api
    images: ImageLimits
    """The images that the API takes."""

    def encode(self, message: Message, before: Message | UnsetType | None = UNSET) -> list[bytes]:
        """Return the message as JSON items of this API's list (messages, input items or contents).

        Native content of the same API is used verbatim. `before` is the message before this one: results take the
        model's own ids of their calls from it. When it is unset, all ids are made from ours, and match too.
        """
        ...

    def request(self, prompt: Prompt) -> bytes:
        """Return the body of the request."""
        ...

    def path(self, model: str, *, stream: bool) -> str:
        """Return the path below the base URL, with its query."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key and the API's version."""
        ...

    def decoder(self, names: dict[str, str], model: str) -> "Decoder":
        """Return a reader for one streamed answer. `names` leads from wire names back to ours."""
        ...

    def decode(self, body: JsonObject, names: dict[str, str], model: str) -> AssistantMessage:
        """Return the message of an answer that was not streamed. Raises `ModelError` when it makes no sense."""
        ...

    def fault(self, status: int, body: bytes) -> ModelError:
        """Return the error that an error answer means, in words for a person."""
        ...


class Decoder(Protocol):
    """Reads one streamed answer, event by event."""

    def feed(self, event: str, data: str) -> Sequence[ModelEvent]:
        """Return what this server-sent event says, never `Replied`. Raises `ModelError` for an error event."""
        ...

    def finish(self) -> AssistantMessage:
        """Return the whole answer after the stream. Raises `ModelError` ("cut") when its end never came."""
        ...
