"""Tools of a connected client: of a phone, of a bridge, of a chat (SPEC W; ws.md 4).

`RemoteTools` keeps the tools of one peer in the registry while its link is up. `RemoteTool` is one of them: its `run`
sends the call to the client.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError, HandspanError, NameTaken
from handspan.core.names import outside_name
from handspan.core.principals import Origin, ToolScope
from handspan.core.questions import Answer, Questions, ToolQuestion
from handspan.core.results import Success
from handspan.core.tool import DEFAULT_TIMEOUT, UNKNOWN_EFFECTS, Handling, ToolSpec
from handspan.core.values import Arguments, Json, strip_invisible
from handspan.registry.name_rights import DisplacedTool
from handspan.registry.pins import DefinitionChange
from handspan.registry.registry import Registry
from handspan.sources.offers import OfferedSchema, OfferRules, SchemaCache, SessionOffers, annotations_of
from handspan.sources.ws.calls import Outcome, RemoteCall, RemoteCalls
from handspan.sources.ws.logins import await_login
from handspan.sources.ws.outcome import read_outcome
from handspan.sources.ws.questions import RemoteQuestions
from handspan.wire.ws import offered_name, read_offer
from handspan.wire.ws_frames import FailureFrame, Offer, RejectedTool, ResultFrame, ToolsRegistered

_log = logging.getLogger(__name__)
_DEFAULT_VERSION: Final = Offer("", "", {}).version
_LONGEST_NAME: Final = 128
_MAX_REJECTED: Final = 64
"""The most rejected tools of a client that are remembered."""


class RemoteTool(Struct, eq=False):
    """A tool whose code runs in a client."""

    spec: ToolSpec
    own_name: str
    schema: OfferedSchema
    """Kept in memory: the cache has only a weak reference."""
    calls: RemoteCalls
    idle_seconds: float | None
    """The longest time without a progress report; None for a client that sends none.

    The gateway measures it, and each report starts it again.
    """

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Return the output that the client answers."""
        calls = self.calls
        call = RemoteCall(
            ctx.call_id,
            self.own_name,
            arguments,
            ctx.deadline,
            report=ctx.progress,
            idle_seconds=self.idle_seconds,
            outcome=calls.new_outcome(),
        )
        try:
            calls.ask(call)
            answer = await call.outcome
            if type(answer) is FailureFrame and calls.wants_login(answer):
                answer = await self._log_in(answer, call, ctx)
        except asyncio.CancelledError:
            if ctx.stays_open():  # ws.md 6.7 p: the client comes back with the outcome
                raise
            is_late = ctx.deadline is not None and ctx.deadline.at <= time.monotonic()
            calls.cancel(call, "timeout" if is_late else "shutdown" if calls.is_stopping else "aborted")
            if (lost := calls.find_loss(call)) is not None:  # the turn was aborted because its client is gone
                return await read_outcome(lost, self.spec.name, ctx)
            raise
        finally:
            calls.forget(call)
        if type(answer) is ResultFrame and answer.success and not answer.parts:
            return answer.output
        return await read_outcome(answer, self.spec.name, ctx)

    async def _log_in(self, answer: FailureFrame, call: RemoteCall, ctx: ToolContext) -> Outcome:
        """Return the client's answer after a login of the person. The time of the person does not count."""

        async def ask(tool_question: ToolQuestion) -> Answer:
            return await ctx.ask(tool_question.kind, tool_question.subject, action=tool_question.action)

        return await await_login(answer, call, self.calls, self.spec.name, ask=ask, deadline=lambda: ctx.deadline)


class RemoteTools(Struct, eq=False):
    """The tools of one peer. `register` adds tools in the scope where its sessions find them, `close` removes all."""

    registry: Registry
    schemas: SchemaCache
    rules: OfferRules
    calls: RemoteCalls
    origin: Origin
    scope: ToolScope
    namespace: str = ""
    """What stands before each tool's own name, such as a device's label."""
    questions: Questions | None = None
    earlier: SessionOffers | None = None
    """What was offered in the session before; None: another part notes changes, as for devices."""
    is_elsewhere: bool = False
    """Whether the client is connected to another node, so that an answer can come when this process is gone."""
    rejected: dict[str, str] = {}
    """The tools that this client does not have, because they were rejected or have lost their names, and why."""
    _tools: dict[str, RemoteTool] = {}
    """The tools by the client's own names."""
    _unconfirmed: frozenset[str] = frozenset()
    """The tools of the connection before, which the client has not offered again yet."""

    def __len__(self) -> int:
        return len(self._tools)

    def register(self, offered: Sequence[Json]) -> ToolsRegistered:
        """Add these tools, or replace those of the same name. Return which were rejected, and why."""
        rejected: list[RejectedTool] = []
        for one in offered:
            try:
                offer = read_offer(one)
                self._register(offer)
                if self.rejected:
                    self.rejected.pop(_clean_name(offer.name), None)
            except HandspanError as error:
                rejected.append(RejectedTool(_clean_name(offered_name(one)), str(error)))
        self._note_rejected(rejected)
        return ToolsRegistered(len(offered), len(self._tools), rejected)

    def take_over(self, earlier: "RemoteTools") -> None:
        """Keep the tools that the client had at another node, until it has offered them again (ws.md 4.5)."""
        if (earlier.origin, earlier.scope, earlier.namespace) != (self.origin, self.scope, self.namespace):
            earlier.close()
            return
        self._tools, earlier._tools = earlier._tools, {}
        self._unconfirmed = frozenset(self._tools)

    def drop_unconfirmed(self) -> int:
        """Remove the tools that the client had before and has not offered again. Return how many there were."""
        names, self._unconfirmed = self._unconfirmed, frozenset()
        return self.unregister(list(names))

    def drop(self, displaced: Iterable[DisplacedTool]) -> list[RejectedTool]:
        """Forget tools that have lost their names in the registry. Return them, by the client's own names."""
        reasons = {one.entry.tool: one.reason for one in displaced}
        lost = [RejectedTool(name, reasons[tool]) for name, tool in self._tools.items() if tool in reasons]
        for one in lost:
            del self._tools[one.name]
        self._note_rejected(lost)
        return lost

    def rename(self, label: str) -> None:
        """Use another label of the device for the tools that it registers from now on: it has none at the moment."""
        self.origin = structs.replace(self.origin, name=label)
        self.namespace = label if self.namespace else ""

    def conflicting_clients(self, offered: Sequence[Json]) -> set[str]:
        """Return the connections of other clients that have a tool of one of these names in the same scope."""
        holders = (self._find_holder(outside_name(offered_name(one), self.namespace)) for one in offered)
        return {holder.connection for holder in holders if holder is not None}

    def resume_calls(self) -> None:
        """Send the calls that an earlier process of the gateway left open, if their tools are back."""
        for own_name, tool in self._tools.items():
            self.calls.resume_tool(tool.spec.name, own_name)

    def own_name(self, known_as: str) -> str:
        """Return the client's own name of the tool that models know by this name; empty: there is no such tool."""
        return next((name for name, tool in self._tools.items() if tool.spec.name == known_as), "")

    def unregister(self, names: Sequence[str]) -> int:
        """Remove these tools. Return how many there were."""
        gone = [tool for name in names if (tool := self._tools.pop(name, None)) is not None]
        for tool in gone:
            self.registry.unregister(tool.spec.name, self.scope, self.origin)
        return len(gone)

    def offers(self) -> list[Json]:
        """Return the tools as the client offered them."""
        return [_offer_of(name, tool.spec) for name, tool in self._tools.items()]

    def fingerprints(self) -> dict[str, str]:
        """Return the identity of each definition, by the client's own name (SPEC T5)."""
        # The fingerprint is made without the device's label, which a person may change.
        return {name: structs.replace(tool.spec, name=name).fingerprint for name, tool in self._tools.items()}

    def close(self) -> int:
        """Remove all tools from the registry at once (SPEC W4). Return how many there were."""
        self._tools.clear()
        self._unconfirmed = frozenset()
        self.rejected.clear()
        return self.registry.unregister_by_source(self.origin)

    def _note_rejected(self, rejected: Iterable[RejectedTool]) -> None:
        for one in rejected:
            if len(self.rejected) < _MAX_REJECTED:
                self.rejected[one.name] = one.reason

    def _register(self, offer: Offer) -> None:
        """Register one tool that the client offers. Raises `DefinitionError` or `NameTaken`."""
        self._check(offer)
        schema = self.schemas.get(offer.parameters)
        self.rules.check_schema(schema)
        spec = ToolSpec(
            outside_name(offer.name, self.namespace),
            strip_invisible(offer.description),
            schema.parameters,
            tuple(offer.permissions),
            timeout=DEFAULT_TIMEOUT if offer.timeout is None else offer.timeout,
            version=offer.version,
            annotations=annotations_of(offer.annotations),
        )
        idle_seconds = spec.timeout if "progress" in self.calls.capabilities else None
        tool = RemoteTool(spec, offer.name, schema, self.calls, idle_seconds=idle_seconds)
        try:
            entry = self.registry.register_or_replace(tool, self.origin, self.scope, self._handling(spec, schema))
        except NameTaken:
            self._check_free(spec.name)
            raise
        self._tools[offer.name] = tool
        if self._unconfirmed:
            self._unconfirmed -= {offer.name}
        before = None if self.earlier is None else self.earlier.compare(self.scope.id, spec)
        if before is not None:
            _log.info("The definition of the tool %r in the session %s has changed.", spec.name, self.scope.id)
            entry.mark(DefinitionChange(before, "records"))

    def _handling(self, spec: ToolSpec, schema: OfferedSchema) -> Handling:
        """Return how calls of this tool are handled: that follows from what the client can do."""
        capabilities = self.calls.capabilities
        return Handling(
            "loop",
            "connection",
            outlives=self.is_elsewhere or "resume" in capabilities,
            longest=self.rules.longest_call if "progress" in capabilities else spec.timeout,
            can_be_stopped="cancel" in capabilities,
            asks_itself=self.questions is None,  # the client asks its person when the request arrives
            questions=self.questions,
            validator=schema.validator,
        )

    def _check(self, offer: Offer) -> None:
        limit = self.rules.limits.tools
        if offer.name not in self._tools and len(self._tools) >= limit:
            raise DefinitionError(f"A client may have {limit} tools here at most: unregister one first.")
        self.rules.check(offer.name, offer.description, offer.permissions)

    def _check_free(self, name: str) -> None:
        """Raise `NameTaken` while another connected client has a tool of this name in the same scope."""
        holder = self._find_holder(name)
        if holder is not None:
            where = "in this session" if self.scope.kind == "session" else f"(device {holder.name!r})"
            text = f"Another connected client has a tool {name!r} {where}: choose another name, or close that client."
            raise NameTaken(text)

    def _find_holder(self, name: str) -> Origin | None:
        """Return the origin of another client that has a tool of this name in the same scope; None if there is none."""
        holder = self.registry.holder(name, self.scope)
        return None if holder == self.origin else holder


class Waiting(Struct, frozen=True):
    """What waits on this node for a client that connects to another node, or comes from there."""

    calls: RemoteCalls | None = None
    questions: RemoteQuestions | None = None
    tools: RemoteTools | None = None
    """Its tools, still in the registry; None if they went with its connection."""


def place_of_tools(
    role: str, label: str, session: str, *, peer: str, owner: str, prefix: bool
) -> tuple[Origin, ToolScope, str]:
    """Return origin, scope and namespace of the tools of a client. `prefix`: they are named by its label."""
    if role == "device":
        return Origin("device", label, peer), ToolScope("owner", owner), label if prefix else ""
    return Origin("remote", session, peer), ToolScope("session", session), ""


def _clean_name(name: str) -> str:
    """Return a name as a client gave it, for people to read."""
    return strip_invisible(name)[:_LONGEST_NAME]


def _offer_of(own_name: str, spec: ToolSpec) -> dict[str, Json]:
    """Return the definition as the client gave it, without fields that have their defaults (ws.md 4.6)."""
    offer: dict[str, Json] = {"name": own_name, "description": spec.description, "parameters": spec.parameters}
    if spec.permissions:
        offer["permissions"] = list(spec.permissions)
    if spec.timeout != DEFAULT_TIMEOUT:
        offer["timeout"] = spec.timeout
    if spec.annotations is not UNKNOWN_EFFECTS:
        claims = {name: value for name, value in structs.asdict(spec.annotations).items() if value}
        offer["annotations"] = claims or {"destructive": False}
    if spec.version != _DEFAULT_VERSION:
        offer["version"] = spec.version
    return offer
