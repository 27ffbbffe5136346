"""The responses API: the request. Answers are objects that `gateway/openai/response_events.py` builds."""

from typing import Literal

from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.wire.openai.chat import ResponseFormat


class FlatTool(Struct, frozen=True):
    """A tool that the client offers."""

    type: str
    name: str = ""
    description: str = ""
    parameters: JsonObject = {}


class FlatChoice(Struct, frozen=True):
    """The tool that has to be called."""

    type: str
    name: str = ""


class FlatFormat(Struct, frozen=True):
    """The form that the answer has to have."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = ""
    schema: JsonObject = {}

    @property
    def as_chat(self) -> ResponseFormat | None:
        """The same with the words of Chat Completions, without its schema; None: text."""
        return None if self.type == "text" else ResponseFormat(self.type)


class TextOptions(Struct, frozen=True):
    """How the text is."""

    format: FlatFormat = FlatFormat()


class ReasoningOptions(Struct, frozen=True):
    """How much the model thinks."""

    effort: str = ""


class NamedConversation(Struct, frozen=True):
    """The conversation, by the client's name for it."""

    id: str


class ResponsesBody(Struct, frozen=True):
    """A request."""

    model: str
    input: str | list[JsonObject] = ""
    instructions: str = ""
    tools: list[FlatTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | FlatChoice = "auto"
    parallel_tool_calls: bool = True
    previous_response_id: str = ""
    conversation: str | NamedConversation = ""
    store: bool = True
    background: bool = False
    stream: bool = False
    include: list[str] = []
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: ReasoningOptions = ReasoningOptions()
    text: TextOptions = TextOptions()
    metadata: JsonObject = {}
    user: str = ""
    truncation: Json = None
