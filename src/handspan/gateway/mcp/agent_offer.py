"""What an MCP client gets from the gateway: the tools of one agent, through the engine and its policy."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from handspan.core.agents import Agent
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import no_progress
from handspan.core.errors import InvalidAnswer, ToolError
from handspan.core.question_rights import AnsweringClient, mcp_client
from handspan.core.questions import FIRST_KINDS, Answer, Question, waiting_text
from handspan.core.results import Attachment, Failure, Pending, Success, ToolResult
from handspan.core.tasks import Tasks
from handspan.core.values import Arguments, JsonObject, encode
from handspan.engine.caller import Caller, QuestionListener, ignore_question
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.http.calls import RunningCalls
from handspan.gateway.parts import GatewayParts
from handspan.mcp.offer import ClientRequest, ProvidedPrompt, ProvidedResource, ResourceTemplate
from handspan.mcp.provider import ProvidedTool
from handspan.skills.file import fill

AGENT: Final = "handspan.mcp.agent"
"""The key of the request's agent in the ASGI scope; the door sets it."""
_INLINE_BYTES: Final = 8 * 1024 * 1024
"""Images up to this size are sent as images; larger ones are links to their artifacts."""
_KEPT_BOXES: Final = 64
"""Toolboxes that stay alive between requests. The registry forgets an unused one, and a new one costs a search."""
_ARTIFACT: Final = "artifact:///"
_DECISION: Final[JsonObject] = {
    "type": "object",
    "properties": {"decision": {"type": "string", "enum": ["allow", "deny"], "description": "May this call run?"}},
    "required": ["decision"],
}


class AgentOffer:
    """Implements `McpOffer`: tools of the agent that a request names, skills as prompts, artifacts as resources."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._toolbox = lru_cache(_KEPT_BOXES)(parts.app.registry.toolbox)
        self.running_calls = RunningCalls()
        """The calls that run now. The door ends them."""

    async def list_tools(self, request: ClientRequest) -> Sequence[ProvidedTool]:
        """Return the tools that the agent can use now, without a turn around the call."""
        box = self._caller(request).box
        entries = [entry for spec in box.specs() if (entry := box.find(spec.name)) is not None and not entry.needs_turn]
        return [
            ProvidedTool(one.spec.name, one.spec.description, one.spec.parameters, one.spec.annotations)
            for one in entries
        ]

    def find_schema(self, name: str, scope: Mapping[str, Any]) -> JsonObject | None:
        """Return the schema of this tool for the client of this HTTP request; None if the client has no such tool."""
        entry = self._caller(ClientRequest(scope, no_progress, None)).box.find(name)
        return None if entry is None else entry.spec.parameters

    async def call_tool(self, name: str, arguments: Arguments, request: ClientRequest) -> ToolResult:
        """Run a tool of the agent. The client waits while a person is asked, and sees where that is."""
        asking = Tasks()
        call = ToolCall(name, arguments, new_call_id())
        may_approve = self._parts.app.settings.mcp.answers
        answerer = mcp_client(admitted_of(request).who, call.id, may_approve=may_approve)

        def ask(question: Question) -> None:
            request.progress({"message": waiting_text(question)})
            if request.elicit is not None and answerer.may_answer(question):
                asking.start(self._ask_client(request, question, answerer))

        caller = self._caller(request, ask)
        try:
            result = await self.running_calls.run(self._parts.app.engine.call(call, caller))
        finally:
            asking.cancel()
        if isinstance(result, Pending):
            result = await self._failure_of_pending(call)
        return result if isinstance(result, Failure) else await self._with_images(result, caller)

    async def _failure_of_pending(self, call: ToolCall) -> Failure:
        """Return what the client is told of a call whose result it can't wait for."""
        if not self._parts.app.engine.hands_over:
            text = f"Tool {call.name!r} answers later, and an MCP client can't wait for that."
            return Failure("execution_failed", text)
        record = await self._parts.store.ledger.find(call.id)
        if record is None or record.state == "done":
            return Failure("cancelled", "The gateway is being stopped: try again in a moment.")
        is_open = f"The call of {call.name!r} is open, and goes on when the gateway runs again"
        text = f"The gateway is being stopped. {is_open}: look at `handspan calls` before you call it again."
        return Failure("unknown_outcome", text)

    async def list_prompts(self, request: ClientRequest) -> Sequence[ProvidedPrompt]:
        """Return the skills."""
        await self._parts.app.skills.refresh()
        return [
            ProvidedPrompt(skill.name, skill.description, tuple(skill.variables))
            for skill in self._parts.app.skills.usable()
        ]

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: ClientRequest) -> str:
        """Return the text of a skill."""
        return fill(self._parts.app.skills.find(name), arguments).instructions

    async def list_resources(self, request: ClientRequest) -> Sequence[ProvidedResource]:
        """Return none: artifacts are found by the links in results."""
        return ()

    async def list_templates(self, request: ClientRequest) -> Sequence[ResourceTemplate]:
        """Return one template: the address of artifacts."""
        return (ResourceTemplate(f"{_ARTIFACT}{{id}}", "artifact", "A large result or a file, by the id in a result."),)

    async def read_resource(self, uri: str, request: ClientRequest) -> Attachment:
        """Return an artifact of the caller."""
        owner, artifacts = admitted_of(request).who.owner, self._parts.app.artifacts
        if not uri.startswith(_ARTIFACT):
            raise ToolError("file_not_found", f"There is no resource {uri!r}: artifacts begin with {_ARTIFACT!r}.")
        ref = await artifacts.get(uri.removeprefix(_ARTIFACT), owner=owner)
        return Attachment("file", ref.media_type, await artifacts.read(ref.id, owner=owner), name=ref.name)

    def _caller(self, request: ClientRequest, on_question: QuestionListener = ignore_question) -> Caller:
        assert request.scope is not None  # this door is HTTP
        agent: Agent = request.scope["state"][AGENT]
        who = admitted_of(request).who
        box, is_closing = self._toolbox(agent, who), self.running_calls.is_closing
        return Caller(who, agent, box, progress=request.progress, on_question=on_question, goes_on_elsewhere=is_closing)

    async def _ask_client(self, request: ClientRequest, question: Question, answerer: AnsweringClient) -> None:
        """Ask the person at the client, too. The first answer counts, wherever it is given (SPEC P5)."""
        assert request.elicit is not None
        is_plain = question.kind in FIRST_KINDS
        text = f"{question.tool}: {question.subject}"
        if is_plain:
            text = f"{text}\nArguments: {encode(question.arguments).decode()}"
        answer = await request.elicit(text, _DECISION if is_plain else question.schema or {})
        if is_plain and answer.decision == "allow":
            is_allowed = isinstance(answer.value, dict) and answer.value.get("decision") == "allow"
            answer = Answer("allow" if is_allowed else "deny")
        if answer.decision != "expired":
            with suppress(InvalidAnswer):
                await self._parts.questions.answer(question.id, answer, answerer)

    async def _with_images(self, result: Success, caller: Caller) -> Success:
        """Return the result with the bytes of stored images and sounds: clients show these, but not links to them."""
        attachments = [
            Attachment(
                item.kind,
                item.media_type,
                await self._parts.app.artifacts.read(item.artifact.id, owner=caller.who.owner),
                name=item.name,
            )
            if item.artifact is not None and item.kind != "file" and item.artifact.size <= _INLINE_BYTES
            else item
            for item in result.attachments
        ]
        return Success(result.value, tuple(attachments), notice=result.notice)


def admitted_of(request: ClientRequest) -> Admitted:
    """Return the principal and the token of this request."""
    assert request.scope is not None
    admitted: Admitted = request.scope["state"]["admitted"]
    return admitted
