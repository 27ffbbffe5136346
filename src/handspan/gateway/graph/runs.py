"""Runs in the words of the graph API: requests become runs of the kit, ends become `meta` (graph.md 4, 5)."""

from collections.abc import Sequence
from typing import Final

from handspan.agent.requests import NOTHING_TO_DO
from handspan.core.events import Ended, EndReason
from handspan.core.messages import UserMessage
from handspan.gateway.graph.listener import GraphListener, RunOutput
from handspan.gateway.graph.renderer import MessageNumbers
from handspan.gateway.graph.requests import read_history, read_results, read_user_message
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.parts import GatewayParts
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.results import ResultFault, ResultsRefused
from handspan.gateway.runs.runs import HistoryRefused, RunPlace, Runs
from handspan.gateway.runs.wishes import RunWishes
from handspan.wire.graph.answers import Meta, RunStatus
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.messages import WRONG_ROLE
from handspan.wire.graph.requests import RunRequest

_STATUS: Final[dict[EndReason, RunStatus]] = {
    "pending": "interrupted",
    "limit": "limit",
    "errors": "limit",
    "aborted": "stopped",
}
_CODES: Final[dict[ResultFault, str]] = {
    "unknown": "GRAPH_UNKNOWN_CALL",
    "answered": "GRAPH_ANSWERED_CALL",
    "expired": "GRAPH_EXPIRED_CALL",
    "several_runs": "GRAPH_WRONG_THREAD",
    "other_session": "GRAPH_WRONG_THREAD",
}


class GraphRuns:
    """Begins and resumes runs for clients of the graph API."""

    def __init__(self, parts: GatewayParts, runs: Runs) -> None:
        self._store, self._artifacts, self._runs = parts.store, parts.artifacts, runs
        self.start, self.hold, self.close = runs.start, runs.hold, runs.close
        self.stop, self.open_calls = runs.stop, runs.open_calls

    async def run(self, client: RunClient, run_request: RunRequest, out: RunOutput) -> Meta:
        """Begin or resume a run, and send its messages to `out`. Return the state of the run.

        Raises `Refusal`, `TurnRefused` or `BodyError`.
        """
        listeners: list[GraphListener] = []

        async def listen(place: RunPlace) -> GraphListener:
            numbers = await self._numbers(client, run_request, place)
            listeners.append(GraphListener(place, numbers, out, client))
            return listeners[-1]

        config = run_request.config
        wishes = RunWishes(
            session=config.thread_id,
            agent=config.agent,
            kind="run",
            tools=run_request.tools,
            most_rounds=run_request.recursion_limit,
        )
        if run_request.results:
            results = await read_results(run_request, self._artifacts, client.owner)
            try:
                ended = await self._runs.resume(client, wishes, results, listen)
            except ResultsRefused as refused:
                raise _result_refusal(refused, run_request) from None
        elif config.retry:
            ended = await self._runs.retry(client, wishes, listen)
        else:
            message = await read_user_message(run_request.user_content, self._artifacts, client.owner)
            history = await read_history(run_request.history, self._artifacts, client.owner)
            try:
                ended = await self._runs.say(client, wishes, message, listen, history=history)
            except HistoryRefused:
                raise _history_refusal(run_request) from None
        return await self._finish(client, listeners[-1], ended)

    async def _numbers(self, client: RunClient, run_request: RunRequest, place: RunPlace) -> MessageNumbers:
        """Return the numbers of the thread's messages, those of the run too."""
        retries, removed = run_request.config.retry and not run_request.results, place.removed
        known: Sequence[int] = ()
        if removed or retries:
            known = await self._store.threads.numbers(place.session, owner=client.owner)
        if not retries:
            return MessageNumbers(known, removed)
        messages = await self._store.conversations.load(place.session, owner=client.owner)
        left = max((seq for seq, message in enumerate(messages, 1) if isinstance(message, UserMessage)), default=0)
        # What follows the person's message is removed: new messages get numbers after those.
        return MessageNumbers(known[:left], removed + len(messages) - left)

    async def _finish(self, client: RunClient, listener: GraphListener, ended: Ended) -> Meta:
        """Send the open calls, and return the state of the run. Raises `Refusal` for a run that failed."""
        if ended.reason == "error":
            raise Refusal(500, "GRAPH_ERROR", ended.text)
        thread, owner = listener.place.session, client.owner
        await listener.suspend(self._store.ledger)
        opened = listener.open
        if ended.reason == "pending" and not opened:  # other results of the round are still missing (graph.md 5.4)
            opened = [record.id for record in await self.open_calls(client, thread)]
        known = await self._store.conversations.find(thread, owner=owner)
        status = _STATUS.get(ended.reason, "completed")
        if ended is NOTHING_TO_DO and (known is None or known.state != "waiting"):
            status = "stopped"  # another request ended the run before it could resume
        return Meta(
            is_new_thread=listener.place.is_new,
            thread_id=thread,
            thread_name=(known.name or None) if known else None,
            run_id=listener.run or listener.resumed_run,
            status=status,
            open_calls=opened,
        )


def _result_refusal(refused: ResultsRefused, run_request: RunRequest) -> Refusal:
    """Return the refusal of results, with the place of each wrong one in the body."""
    places = run_request.result_places
    details = [Detail([*places[one.place], "call_id"], one.text, "value_error") for one in refused.wrong]
    return Refusal(422, _CODES[refused.fault], refused.message, details=details)


def _history_refusal(run_request: RunRequest) -> BodyError:
    """Return why a thread that has messages takes no history (SPEC H1)."""
    roles = [message.role for message in run_request.history]
    place, role = next((place, role) for place, role in enumerate(roles) if role != "user")
    text = f"{WRONG_ROLE.format(role=role)} A history is taken only where a thread begins."
    return BodyError([Detail(["body", run_request.key, str(place), "role"], text, "value_error")])
