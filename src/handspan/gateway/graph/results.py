"""Results that a client brings: whose calls they answer, and what they say (graph.md 5)."""

import time
from collections.abc import Sequence

import msgspec
from msgspec import Struct, UnsetType

from handspan.core.artifacts import Artifacts
from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.store import Journal
from handspan.core.values import Json, strip_invisible
from handspan.gateway.http.refusals import Refusal
from handspan.sources.ws.outcome import attachment, code_of_client
from handspan.wire.graph.blocks import ToolResultBlock
from handspan.wire.graph.faults import MOST_DETAILS, Detail
from handspan.wire.graph.requests import Asked


class AnsweredCall(Struct, frozen=True):
    """An open call, and what its client says came of it."""

    record: CallRecord
    outcome: ToolResult


class Results:
    """Finds the calls that results answer. What can't be taken refuses all of a request."""

    def __init__(self, journal: Journal, artifacts: Artifacts) -> None:
        self._journal = journal
        self._artifacts = artifacts

    async def read(self, asked: Asked, *, owner: str, client: str) -> tuple[str, list[AnsweredCall]]:
        """The run's thread, and the calls with their outcomes. `Refusal` when one of them can't be taken."""
        faults: list[tuple[str, Detail]] = []
        answered: list[AnsweredCall] = []
        seen: set[str] = set()
        for place, block in zip(asked.result_places, asked.results, strict=True):
            record = await self._journal.find(block.call_id)
            why = _refusal(record, block.call_id, seen, owner, client)
            seen.add(block.call_id)
            if why is not None or record is None:
                code, text = why or ("GRAPH_UNKNOWN_CALL", "")
                faults.append((code, Detail([*place, "call_id"], text, "value_error")))
                if len(faults) == MOST_DETAILS:  # nobody reads more, and nobody looks for more
                    break
                continue
            answered.append(AnsweredCall(record, await self._outcome(block, record.name, owner)))
        if faults:
            code, first = faults[0]
            raise Refusal(422, code, first.msg, details=[detail for _, detail in faults])
        return _one_thread(answered, asked.config.thread_id), answered

    async def _outcome(self, block: ToolResultBlock, name: str, owner: str) -> ToolResult:
        if block.failed:
            return _failure(block.output, name)
        try:
            return Success(
                block.output, tuple([await attachment(part, self._artifacts, owner) for part in block.parts])
            )
        except ToolError as error:
            return Failure(error.code, error.message)


def _refusal(
    record: CallRecord | None, call_id: str, seen: set[str], owner: str, client: str
) -> tuple[str, str] | None:
    """Why a result is not taken: code and words; None when it is."""
    shown = repr(call_id[:80])
    if call_id in seen:
        return "GRAPH_ANSWERED_CALL", f"The call {shown} is answered twice in this request: send one result for each."
    if record is None or record.owner != owner or not is_of(record, client):
        return (
            "GRAPH_UNKNOWN_CALL",
            f"No call {shown} waits for a result of this client: send the ids that it was asked.",
        )
    if isinstance(record.result, UnsetType):
        return None
    if isinstance(record.result, Failure) and record.result.code == "timeout" and _is_late(record):
        return "GRAPH_EXPIRED_CALL", f"The call {shown} has expired: nobody waits for it. Say what you want again."
    if isinstance(record.result, Failure) and record.result.code == "cancelled":
        return "GRAPH_ANSWERED_CALL", f"The call {shown} was given up: its run was stopped, or a new one begun."
    return "GRAPH_ANSWERED_CALL", f"The call {shown} has its result: each call can be answered only once."


def is_of(record: CallRecord, client: str) -> bool:
    """Whether this is a call that was handed to this client."""
    tool = record.tool
    return tool.answered_by == "request" and tool.origin is not None and tool.origin.name == client


def _is_late(record: CallRecord) -> bool:
    return record.expires_at is not None and record.expires_at <= time.time()


def _one_thread(answered: Sequence[AnsweredCall], wanted: str) -> str:
    threads = {one.record.session for one in answered}
    if len(threads) > 1:
        text = "These calls belong to several runs: send the results of one run in one request."
        raise Refusal(422, "GRAPH_WRONG_THREAD", text)
    thread = next(iter(threads))
    if wanted and wanted != thread:
        text = f"These calls belong to another thread than {wanted[:80]!r}: leave thread_id out, or send theirs."
        raise Refusal(422, "GRAPH_WRONG_THREAD", text)
    return thread


def _failure(output: Json, name: str) -> Failure:
    said = output.get("error", output) if isinstance(output, dict) else output
    code = output.get("code") if isinstance(output, dict) else None
    text = said if isinstance(said, str) else "" if said is None else msgspec.json.encode(said).decode()
    return Failure(code_of_client(code), strip_invisible(text) or f"Tool {name!r} failed and did not say why.")
