"""Results that a client brings for its calls, and the calls that they answer. One wrong result refuses them all."""

import time
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, UnsetType, structs

from handspan.core.calls import CallRecord
from handspan.core.errors import HandspanError
from handspan.core.results import Failure, ToolResult
from handspan.core.store import Journal
from handspan.gateway.runs.client import RunClient

ResultFault: TypeAlias = Literal["unknown", "answered", "expired", "several_runs", "other_session"]
"""Why results are refused. `answered`: the call has its result; the last two are about all results together."""


class GivenResult(Struct, frozen=True):
    """What a client reports of one call. A failure without a message gets one that names the tool."""

    call_id: str
    outcome: ToolResult


class AnsweredCall(Struct, frozen=True):
    """An open call, and its outcome."""

    record: CallRecord
    outcome: ToolResult


class WrongResult(Struct, frozen=True):
    """One result that is refused: its place in the request, and why."""

    place: int
    fault: ResultFault
    text: str


class ResultsRefused(HandspanError):
    """The results of a request are refused. Nothing has changed."""

    def __init__(self, fault: ResultFault, message: str, wrong: Sequence[WrongResult] = ()) -> None:
        """`wrong`: each result that is refused by itself."""
        super().__init__(message)
        self.fault: ResultFault = fault
        self.message = message
        self.wrong = wrong


class ResultReader:
    """Finds the calls that the results of a request answer."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def read(
        self, results: Sequence[GivenResult], client: RunClient, session: str = "", most: int = 50
    ) -> list[AnsweredCall]:
        """Return calls of one run, with their outcomes. Raises `ResultsRefused`, which names `most` wrong results.

        `session`: the session that the client names, if it names one.
        """
        wrong: list[WrongResult] = []
        answered: list[AnsweredCall] = []
        seen: set[str] = set()
        for place, given in enumerate(results):
            record = await self._journal.find(given.call_id)
            why = _why_refused(record, given.call_id, seen, client)
            seen.add(given.call_id)
            if why is not None or record is None:
                fault, text = why or ("unknown", "")
                wrong.append(WrongResult(place, fault, text))
                if len(wrong) == most:
                    break
                continue
            answered.append(AnsweredCall(record, _with_message(given.outcome, record.name)))
        if wrong:
            raise ResultsRefused(wrong[0].fault, wrong[0].text, wrong)
        _check_session(answered, session)
        return answered

    async def find_repeated(self, results: Sequence[GivenResult], client: RunClient) -> CallRecord | None:
        """Return one call of a run, if each of these results was taken before; None otherwise.

        A client repeats results whose answer it did not get.
        """
        records = [await self._journal.find(given.call_id) for given in results]
        taken = [record for record in records if record is not None and _was_taken(record, client)]
        if len(taken) < len(records) or len({record.session for record in taken}) != 1:
            return None
        return taken[0]


def _why_refused(
    record: CallRecord | None, call_id: str, seen: set[str], client: RunClient
) -> tuple[ResultFault, str] | None:
    """Return why a result is refused: the kind and a message. None: it is accepted."""
    quoted = repr(call_id[:80])
    if call_id in seen:
        return "answered", f"The call {quoted} is answered twice in this request: send one result for each."
    if record is None or not client.runs(record):
        return "unknown", f"No call {quoted} waits for a result of this client: send the ids of its open calls."
    if isinstance(record.result, UnsetType):
        return None
    code = record.result.code if isinstance(record.result, Failure) else ""
    if code == "timeout" and record.expires_at is not None and record.expires_at <= time.time():
        return "expired", f"The call {quoted} has expired: its run waits no longer. Send a new request."
    if code == "cancelled":
        return "answered", f"The call {quoted} was given up: its run was stopped, or a new one begun."
    return "answered", f"The call {quoted} has its result: each call can be answered only once."


def _was_taken(record: CallRecord, client: RunClient) -> bool:
    """Whether this client has answered this call."""
    if not client.runs(record) or isinstance(record.result, UnsetType):
        return False
    return not isinstance(record.result, Failure) or record.result.code not in ("timeout", "cancelled", "interrupted")


def _check_session(answered: Sequence[AnsweredCall], wanted: str) -> None:
    """Raise `ResultsRefused` if these calls have several sessions, or not the wanted one."""
    sessions = {one.record.session for one in answered}
    if len(sessions) > 1:
        text = "These calls belong to several runs: send the results of one run in one request."
        raise ResultsRefused("several_runs", text)
    if wanted and wanted not in sessions:
        text = f"These calls belong to another thread than {wanted[:80]!r}: leave thread_id out, or send theirs."
        raise ResultsRefused("other_session", text)


def _with_message(outcome: ToolResult, name: str) -> ToolResult:
    if isinstance(outcome, Failure) and not outcome.message:
        return structs.replace(outcome, message=f"Tool {name!r} failed and did not say why.")
    return outcome
