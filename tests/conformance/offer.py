"""The tools, prompts and resources that the suite asks for, through our own API."""

import asyncio
import io
import re
import wave
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from handspan.core.errors import ToolError
from handspan.core.questions import Answer
from handspan.core.results import Attachment, Failure, Success, ToolResult
from handspan.core.values import Arguments, JsonObject, encode
from handspan.mcp.offer import ClientRequest, PromptContent, ProvidedPrompt, ProvidedResource, ResourceTemplate
from handspan.mcp.provider import ProvidedTool

_Run: TypeAlias = Callable[[Arguments, ClientRequest], Awaitable[ToolResult]]


def make_png() -> bytes:
    """Return a picture of one red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0))
    points = zlib.compress(bytes((0, 255, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", points) + chunk(b"IEND", b"")


def make_wav() -> bytes:
    """Return a sound of a hundredth of a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(bytes(80))
    return file.getvalue()


PNG: Final = Attachment("image", "image/png", make_png())
WAV: Final = Attachment("audio", "audio/wav", make_wav())
_PAUSE: Final = 0.05
_TEMPLATE: Final = re.compile(r"test://template/([^/]+)/data")


def text_file(uri: str, text: str, media_type: str = "text/plain") -> Attachment:
    """Return a text under this address."""
    return Attachment("file", media_type, text.encode(), name=uri)


async def _simple_text(_: Arguments, __: ClientRequest) -> ToolResult:
    return Success("This is a simple text response for testing.")


async def _image(_: Arguments, __: ClientRequest) -> ToolResult:
    return Success(None, (PNG,))


async def _audio(_: Arguments, __: ClientRequest) -> ToolResult:
    return Success(None, (WAV,))


async def _embedded(_: Arguments, __: ClientRequest) -> ToolResult:
    return Success(None, (text_file("test://embedded-resource", "This is an embedded resource content."),))


async def _mixed(_: Arguments, __: ClientRequest) -> ToolResult:
    data = text_file("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return Success("Multiple content types test:", (PNG, data))


async def _error(_: Arguments, __: ClientRequest) -> ToolResult:
    return Failure("execution_failed", "This tool intentionally returns an error for testing")


async def _progress(_: Arguments, request: ClientRequest) -> ToolResult:
    for done in (0, 50, 100):
        request.progress({"progress": done, "total": 100})
        await asyncio.sleep(_PAUSE)  # the suite asks for pauses
    return Success("done")


def _asks(schema: JsonObject) -> _Run:
    """Return a tool that asks the person at the client for a value of this schema."""

    async def run(arguments: Arguments, request: ClientRequest) -> ToolResult:
        if request.elicit is None:
            return Failure("execution_failed", "The client can't ask its person.")
        answer: Answer = await request.elicit(str(arguments.get("message", "Please fill this in.")), schema)
        return Success(f"Elicitation completed: action={answer.decision}, content={encode(answer.value).decode()}")

    return run


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


def _titled(*pairs: tuple[str, str]) -> list[JsonObject]:
    return [{"const": value, "title": title} for value, title in pairs]


_OPTIONS: Final[JsonObject] = {"type": "string", "enum": ["option1", "option2", "option3"]}
_ASK_NAME: Final = _object({"username": {"type": "string"}, "email": {"type": "string"}}, "username", "email")
_ASK_DEFAULTS: Final = _object(
    {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
)
_ASK_ENUMS: Final = _object(
    {
        "untitledSingle": _OPTIONS,
        "titledSingle": {
            "type": "string",
            "oneOf": [*_titled(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option"))],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": _OPTIONS},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [*_titled(("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice"))]
            },
        },
    }
)
_SCHEMA_2020: Final[JsonObject] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_NO_ARGUMENTS: Final = _object({})

FIXTURE_TOOLS: Final[Mapping[str, tuple[_Run, JsonObject]]] = {
    "test_simple_text": (_simple_text, _NO_ARGUMENTS),
    "test_image_content": (_image, _NO_ARGUMENTS),
    "test_audio_content": (_audio, _NO_ARGUMENTS),
    "test_embedded_resource": (_embedded, _NO_ARGUMENTS),
    "test_multiple_content_types": (_mixed, _NO_ARGUMENTS),
    "test_error_handling": (_error, _NO_ARGUMENTS),
    "test_tool_with_progress": (_progress, _NO_ARGUMENTS),
    "test_elicitation": (_asks(_ASK_NAME), _object({"message": {"type": "string"}}, "message")),
    "test_elicitation_sep1034_defaults": (_asks(_ASK_DEFAULTS), _NO_ARGUMENTS),
    "test_elicitation_sep1330_enums": (_asks(_ASK_ENUMS), _NO_ARGUMENTS),
    "test_streaming_elicitation": (_asks(_ASK_NAME), _NO_ARGUMENTS),
    "test_custom_header": (_simple_text, _object({"region": {"type": "string", "x-mcp-header": "Region"}}, "region")),
    "json_schema_2020_12_tool": (_simple_text, _SCHEMA_2020),
}
_RESOURCES: Final = (
    text_file("test://static-text", "This is the content of the static text resource."),
    Attachment("image", "image/png", PNG.data, name="test://static-binary"),
    text_file("test://watched-resource", "This resource can be watched."),
)


class FixtureOffer:
    """What the suite asks for. `more` are tools that run elsewhere and are listed here."""

    def __init__(self, more: Sequence[ProvidedTool] = (), more_prompts: Sequence[ProvidedPrompt] = ()) -> None:
        self._more = more
        self._more_prompts = more_prompts

    async def list_tools(self, request: ClientRequest) -> Sequence[ProvidedTool]:
        """Return the tools."""
        return [
            *(ProvidedTool(name, f"The tool {name}.", schema) for name, (_, schema) in FIXTURE_TOOLS.items()),
            *self._more,
        ]

    async def call_tool(self, name: str, arguments: Arguments, request: ClientRequest) -> ToolResult:
        """Run a tool."""
        if name not in FIXTURE_TOOLS:
            return Failure("tool_not_found", f"There is no tool {name!r}.")
        return await FIXTURE_TOOLS[name][0](arguments, request)

    async def list_prompts(self, request: ClientRequest) -> Sequence[ProvidedPrompt]:
        """Return the prompts."""
        return [
            ProvidedPrompt("test_simple_prompt", "A prompt without arguments."),
            ProvidedPrompt("test_prompt_with_arguments", "A prompt with two arguments.", ("arg1", "arg2")),
            ProvidedPrompt("test_prompt_with_embedded_resource", "A prompt with a resource.", ("resourceUri",)),
            ProvidedPrompt("test_prompt_with_image", "A prompt with an image."),
            *self._more_prompts,
        ]

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: ClientRequest) -> PromptContent:
        """Return the messages of a prompt."""
        match name:
            case "test_simple_prompt":
                return "This is a simple prompt for testing."
            case "test_prompt_with_arguments":
                return f"Prompt with arguments: arg1={arguments['arg1']!r}, arg2={arguments['arg2']!r}"
            case "test_prompt_with_embedded_resource":
                found = text_file(arguments["resourceUri"], "Embedded resource content for testing.")
                return (found, "Please process the embedded resource above.")
            case "test_prompt_with_image":
                return (PNG, "Please analyze the image above.")
        raise ToolError("tool_not_found", f"There is no prompt {name!r}.")

    async def list_resources(self, request: ClientRequest) -> Sequence[ProvidedResource]:
        """Return the resources."""
        return [
            ProvidedResource(item.name, item.name.rpartition("/")[2], item.media_type, len(item.data))
            for item in _RESOURCES
        ]

    async def list_templates(self, request: ClientRequest) -> Sequence[ResourceTemplate]:
        """Return the template."""
        return [ResourceTemplate("test://template/{id}/data", "data", "The data of an id.", "application/json")]

    async def read_resource(self, uri: str, request: ClientRequest) -> Attachment:
        """Return a resource, or the template with its variable filled in."""
        filled = _TEMPLATE.fullmatch(uri)
        if filled is not None:
            value: JsonObject = {"id": filled[1], "templateTest": True, "data": f"Data for ID: {filled[1]}"}
            return text_file(uri, encode(value).decode(), "application/json")
        for item in _RESOURCES:
            if item.name == uri:
                return item
        raise ToolError("file_not_found", f"There is no resource {uri!r}.")
