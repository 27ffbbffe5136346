"""A conversation with the offline model over real tools, for its tests."""

import inspect
import json
from collections.abc import Sequence
from pathlib import Path

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, Text, UserMessage
from handspan.core.results import Attachment, Failure, Success, encode_envelope, succeed
from handspan.core.schema import Validator
from handspan.core.tool import UNKNOWN_EFFECTS, Annotations, Tool, ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.model import Replied
from handspan.models.offline import Offline
from handspan.tools.artifact import ReadArtifact
from handspan.tools.clock import GetCurrentTime
from handspan.tools.files import EditFile, ListDirectory, ReadFile, WriteFile
from handspan.tools.memory import MemoryRead, MemoryWrite
from handspan.tools.message import SendMessage
from handspan.tools.sandbox import Sandbox, SandboxReport
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import shell_tools
from handspan.tools.web import HttpRequest, WebFetch
from handspan.tools.web_search import WebSearch
from tests import recorded

BUILTIN: list[ToolSpec] = [
    GetCurrentTime.spec,
    ReadFile.spec,
    WriteFile.spec,
    EditFile.spec,
    ListDirectory.spec,
    MemoryRead.spec,
    MemoryWrite.spec,
    *(tool.spec for tool in shell_tools(Path("ws"), CommandPolicy(), Sandbox(Path("ws"), SandboxReport(True, "on")))),
    WebSearch.spec,
    WebFetch.spec,
    HttpRequest.spec,
    ReadArtifact.spec,
    SendMessage.spec,
]


def foreign(name: str, description: str, properties: JsonObject | None = None, *required: str) -> ToolSpec:
    """A tool from outside that says nothing about its effects."""
    parameters: JsonObject = {"type": "object", "properties": properties or {}, "required": list(required)}
    return ToolSpec(name, description, parameters, annotations=UNKNOWN_EFFECTS)


def device(label: str) -> list[ToolSpec]:
    """The seed's four device tools (SPEC W11), as a device with this label offers them."""
    sensors: list[Json] = ["accelerometer", "gyroscope", "gps"]
    return [
        foreign(f"{label}__device_info", "Get device information"),
        foreign(f"{label}__camera", "Take a photo", {"quality": {"type": "string", "enum": ["low", "high"]}}),
        foreign(f"{label}__contacts", "Query phone contacts", {"query": {"type": "string"}}, "query"),
        foreign(f"{label}__sensors", "Read sensor data", {"type": {"type": "string", "enum": sensors}}, "type"),
    ]


def mcp_tools() -> list[ToolSpec]:
    """The tools that real MCP servers list, with the annotations that they claim."""
    return [_mcp_tool(entry) for entry in recorded.mcp_tools()]


def _mcp_tool(entry: recorded.Fields) -> ToolSpec:
    tool = entry["tool"]
    claims = tool.get("annotations", {})
    effects = Annotations(bool(claims.get("readOnlyHint", False)), bool(claims.get("destructiveHint", True)))
    name, description = f"{entry['source']}__{tool['name']}", str(tool.get("description", ""))
    return ToolSpec(name, description, tool["inputSchema"], annotations=effects)


class Talk:
    """One conversation. Calls are run by the tools given; others answer with `outcomes` or their own name."""

    def __init__(
        self,
        specs: Sequence[ToolSpec] = tuple(BUILTIN),
        *,
        tools: Sequence[Tool] = (),
        ctx: ToolContext | None = None,
        outcomes: dict[str, Json | Failure | Success] | None = None,
        model: Offline | None = None,
    ) -> None:
        self.specs = list(specs)
        self.model = model or Offline()
        self.projection = self.model.projection("You are helpful.")
        self.rounds: list[list[tuple[str, JsonObject]]] = []
        self._tools = {tool.spec.name: tool for tool in tools}
        self._ctx = ctx
        self._outcomes = outcomes or {}

    async def say(self, text: str) -> str:
        """The model's answer, after all rounds; `rounds` has the calls."""
        self.projection.append(UserMessage((Text(text),)))
        return await self.go_on()

    async def go_on(self) -> str:
        self.rounds = []
        while True:
            message = await self.reply()
            if not message.calls:
                return message.text
            self.rounds.append([(call.name, self.checked(call)) for call in message.calls])
            self.projection.append(ResultsMessage(tuple([await self.run(call) for call in message.calls])))

    async def reply(self) -> AssistantMessage:
        """The next message, which is kept."""
        events = [event async for event in self.model.reply(self.projection, self.specs)]
        last = events[-1]
        assert isinstance(last, Replied)
        self.projection.append(last.message)
        return last.message

    def checked(self, call: CallPart) -> JsonObject:
        """The arguments; only an offered tool may be called, and only in the way that its schema allows."""
        spec = next(spec for spec in self.specs if spec.name == call.name)
        arguments: JsonObject = json.loads(call.arguments)
        Validator(spec.parameters).check(arguments)
        return arguments

    async def run(self, call: CallPart) -> CallResult:
        result = await self._outcome(call)
        attachments: tuple[Attachment, ...] = result.attachments if isinstance(result, Success) else ()
        envelope = encode_envelope(result).decode()
        return CallResult(call.id, call.name, envelope, isinstance(result, Failure), attachments)

    async def _outcome(self, call: CallPart) -> Success | Failure:
        outcome = self._outcomes.get(call.name, f"[{call.name}]")
        if isinstance(outcome, Success | Failure):
            return outcome
        if call.name not in self._tools:
            return succeed(outcome)
        assert self._ctx is not None
        try:
            value = self._tools[call.name].run(json.loads(call.arguments), self._ctx)
            return succeed(await value if inspect.isawaitable(value) else value)
        except ToolError as error:
            return Failure(error.code, error.message)


async def calls_for(text: str, specs: list[ToolSpec] | None = None) -> list[list[tuple[str, JsonObject]]]:
    """The rounds of calls that this text leads to."""
    talk = Talk(BUILTIN if specs is None else specs)
    await talk.say(text)
    return talk.rounds


async def answer_to(text: str, specs: list[ToolSpec] | None = None, outcomes: dict[str, Json] | None = None) -> str:
    """The answer in the end."""
    talk = Talk(BUILTIN if specs is None else specs, outcomes={**outcomes} if outcomes else None)
    return await talk.say(text)
