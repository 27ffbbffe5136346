"""Chat Completions: the request, the answer and the chunks of a stream."""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

from handspan.core.values import Json, JsonObject

Finish: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool", "function"]


# The request.


class ImageUrl(Struct, frozen=True):
    """Where an image is: an address, or the image itself as `data:`."""

    url: str


class FileData(Struct, frozen=True):
    """A file in a message."""

    file_data: str = ""
    filename: str = ""
    file_id: str = ""


class ContentPart(Struct, frozen=True):
    """A part of a message. Which fields count depends on the type."""

    type: str
    text: str = ""
    image_url: ImageUrl | None = None
    file: FileData | None = None
    refusal: str = ""


class CalledFunction(Struct, frozen=True):
    """The function of a call."""

    name: str
    arguments: str = ""


class ToolCallEntry(Struct, frozen=True):
    """A call of an earlier reply."""

    id: str
    function: CalledFunction | None = None


class ChatMessage(Struct, frozen=True):
    """One message."""

    role: Role
    content: str | list[ContentPart] = ""
    tool_calls: list[ToolCallEntry] = []
    tool_call_id: str = ""


class FunctionSpec(Struct, frozen=True):
    """A function that the client offers."""

    name: str
    description: str = ""
    parameters: JsonObject = {}


class ToolEntry(Struct, frozen=True):
    """A tool that the client offers."""

    type: str
    function: FunctionSpec | None = None


class StreamOptions(Struct, frozen=True):
    """What a stream brings beside the answer."""

    include_usage: bool = False


class JsonSchemaForm(Struct, frozen=True):
    """The schema that the answer has to fit."""

    schema_: JsonObject = field(name="schema", default={})
    name: str = ""
    strict: bool = False
    description: str = ""


class ResponseFormat(Struct, frozen=True):
    """The form that the answer has to have."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaForm | None = None


class NamedFunction(Struct, frozen=True):
    """The function that has to be called."""

    name: str


class ToolChoice(Struct, frozen=True):
    """The tool that has to be called."""

    type: str = "function"
    function: NamedFunction | None = None


class ChatBody(Struct, frozen=True):
    """A request."""

    model: str
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    tools: list[ToolEntry] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] = []
    seed: int | None = None
    response_format: ResponseFormat = ResponseFormat("text")
    reasoning_effort: str = ""
    user: str = ""
    n: int = 1
    modalities: list[str] = []
    audio: Json = None


# The answer.


class PromptDetails(Struct, frozen=True):
    """Of which the input consists."""

    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionDetails(Struct, frozen=True):
    """Of which the output consists."""

    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class UsageView(Struct, frozen=True):
    """What all rounds of the answer used."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails = PromptDetails()
    completion_tokens_details: CompletionDetails = CompletionDetails()
    cost: float | UnsetType = UNSET
    """US dollars, where the price is known."""


class ToolCallView(Struct, frozen=True):
    """A call that the client has to run."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"
    index: int | UnsetType = UNSET
    """In a stream: the place of the call."""


class ReplyView(Struct, frozen=True):
    """The message of the answer."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None
    tool_calls: list[ToolCallView] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChoiceView(Struct, frozen=True):
    """The one answer."""

    message: ReplyView
    finish_reason: Finish
    index: int = 0
    logprobs: None = None


class ChatAnswer(Struct, frozen=True):
    """A whole answer."""

    id: str
    created: int
    model: str
    choices: list[ChoiceView]
    usage: UsageView | UnsetType = UNSET
    object: Literal["chat.completion"] = "chat.completion"


class Delta(Struct, frozen=True):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    refusal: str | UnsetType = UNSET
    tool_calls: list[ToolCallView] | UnsetType = UNSET


class ChunkChoice(Struct, frozen=True):
    """The part of a chunk that is about the one answer."""

    delta: Delta
    finish_reason: Finish | None = None
    index: int = 0
    logprobs: None = None


class ChatChunk(Struct, frozen=True):
    """One chunk of a stream."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: UsageView | UnsetType | None = UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
