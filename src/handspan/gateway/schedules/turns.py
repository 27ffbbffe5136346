"""The turn of a run, and where its answer goes (SPEC J1).

The turn is an ordinary one. Its message and its fresh session have ids that are made of schedule and due time, so a run
that begins again after a crash says nothing twice: an answer that is stored is only delivered.
"""

import asyncio
import contextlib
import logging
from typing import Final

from msgspec import structs

from handspan.agent.agents import Agents
from handspan.agent.refusals import GatewayStops, SessionBusy, TurnRefused
from handspan.agent.sessions import Sessions
from handspan.agent.turn_events import SessionEvent
from handspan.channels.bus import Unsent
from handspan.channels.page import EVERY_CLIENT, ShowMessage, show_nowhere
from handspan.core.bus import ScheduleChanged
from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ConfigError, StoreError, ToolError
from handspan.core.events import Ended, QuestionAsked
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import Principal
from handspan.core.questions import waiting_text
from handspan.core.schedule_times import describe_moment
from handspan.core.schedules import TO_NOWHERE, TO_PAGE, ClaimedRun, RunEnd, Schedule, ScheduleBook, ScheduledRun
from handspan.core.tasks import Tasks
from handspan.core.values import clip
from handspan.gateway.channels.delivery import ChannelDelivery
from handspan.gateway.sessions.turn_ends import TurnEnds

_LOOK_SECONDS: Final = 30.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_SEND_TRIES: Final = 20
"""How often a part is sent that certainly did not arrive: a quarter of an hour."""
_LATE_SECONDS: Final = 60.0
_LOST_DELIVERY: Final = "The gateway stopped while the answer was sent: it may have arrived."
_log = logging.getLogger(__name__)


class ScheduledTurns:
    """Runs turns for schedules, and delivers their answers."""

    def __init__(
        self,
        book: ScheduleBook,
        sessions: Sessions,
        agents: Agents,
        delivery: ChannelDelivery,
        show: ShowMessage = show_nowhere,
    ) -> None:
        """`show` shows a message on the owner's pages and clients."""
        self._book = book
        self._sessions = sessions
        self._agents = agents
        self._delivery = delivery
        self._show = show
        self._telling = Tasks()

    async def run(self, claimed: ClaimedRun) -> None:
        """Do this run to its end. If the gateway stops before that, the next process goes on with it."""
        schedule, run = claimed.schedule, claimed.run
        try:
            if run.state == "delivering":
                await self._book.end_delivery(run, _LOST_DELIVERY)
                return
            end, text = await self._answer(schedule, run)
            await self._finish(schedule, run, end, text=text)
        except GatewayStops:
            return
        except StoreError as error:  # the run stays this process's, and goes on in the next one
            _log.error("The run of the schedule %s could not be stored: %s", schedule.id, error)
        finally:
            self._sessions.nodes.bus.publish(ScheduleChanged(schedule.maker.owner, schedule.id, None))

    async def _answer(self, schedule: Schedule, run: ScheduledRun) -> tuple[RunEnd, str]:
        """Run the turn, and return how it ended, with the answer. Raises `GatewayStops`."""
        plan, owner, pause = schedule.plan, schedule.maker.owner, _FIRST_PAUSE
        if plan.agent or not plan.session:
            try:
                await self._agents.find(plan.agent or None, owner=owner)
            except ConfigError as error:
                await self._pause(schedule, str(error))
                return "error", str(error)
        while True:
            try:
                ended = await self._say(schedule, run)
            except GatewayStops:
                raise
            except SessionBusy:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            except (TurnRefused, ToolError) as refused:
                return "error", str(refused)
            if ended.reason == "aborted" and not self._sessions.is_open:
                raise GatewayStops
            return ended.reason, ended.text

    async def _say(self, schedule: Schedule, run: ScheduledRun) -> Ended:
        """Run the turn, and return its end. A turn that waits for a person is waited for, too."""
        plan, maker = schedule.plan, schedule.maker
        session, ends = self._sessions.get(run.session, maker.owner), TurnEnds()
        told: set[str] = set()

        def listen(event: SessionEvent, turn: str) -> None:
            ends(event, turn)
            if isinstance(event, QuestionAsked) and event.question.id not in told:
                told.add(event.question.id)
                self._telling.start(self._tell(schedule, waiting_text(event.question), run.session))

        said = UserMessage((Text(_message(schedule, run)),), run.message_id)
        unlisten = session.listen(listen)
        try:
            while True:
                who = Principal(maker.owner, maker.scopes)
                handle = session.say(who, said, listen, agent=plan.agent, name=plan.name, kind="run")
                ended = await handle.wait_for_end(elsewhere=False)  # another node goes on with the run then
                if ended.reason != "pending":
                    return ended
                with contextlib.suppress(TimeoutError):  # then it is said again: the session may have been deleted
                    async with asyncio.timeout(_LOOK_SECONDS):
                        return await ends.wait(handle.turn.id)
        finally:
            unlisten()

    # The end.

    async def _finish(self, schedule: Schedule, run: ScheduledRun, end: RunEnd, text: str) -> None:
        """Store the end, deliver the answer, and tell the owner if the schedule is paused now."""
        channel, _, chat = schedule.plan.deliver.partition(":")
        delivers = channel not in (TO_PAGE, TO_NOWHERE)
        outcome = await self._book.end_run(run, end, text, delivers=delivers)
        if outcome is None:  # another process has taken it over
            return
        answer = text.strip() or "(no answer)"
        if end == "error":
            answer = f"The schedule {_name(schedule)!r} failed: {text}"
        if delivers:
            await self._book.end_delivery(run, await self._deliver(schedule, run, answer, channel=channel, chat=chat))
        elif channel == TO_PAGE:
            await self._tell(schedule, answer, run.session)
        if outcome.paused:
            resume = f"`handspan schedule resume {schedule.id}` lets it run again."
            told = f"The schedule {_name(schedule)!r} is paused: {outcome.paused} {text} {resume}"
            await self._tell(schedule, told, run.session)

    async def _pause(self, schedule: Schedule, reason: str) -> None:
        with contextlib.suppress(ToolError):  # it was removed meanwhile
            await self._book.pause(schedule.id, reason, owner=schedule.maker.owner)
            await self._tell(schedule, f"The schedule {_name(schedule)!r} is paused: {reason}", "")

    async def _tell(self, schedule: Schedule, text: str, session: str) -> None:
        """Tell the owner where the answers go; if they go nowhere, on the page. It may be lost: the history has it."""
        channel, _, chat = schedule.plan.deliver.partition(":")
        owner = schedule.maker.owner
        if channel in (TO_PAGE, TO_NOWHERE):
            await self._show(OutgoingMessage(TO_PAGE, EVERY_CLIENT, text, owner, session=session))
            return
        try:
            await self._delivery.send(OutgoingMessage(channel, chat, text, owner, session=session))
        except ToolError as error:
            _log.warning("The schedule %s could not tell its owner: %s", schedule.id, error.message)

    async def _deliver(self, schedule: Schedule, run: ScheduledRun, text: str, *, channel: str, chat: str) -> str:
        """Send the answer to a channel. Return why it was not delivered; empty if it was."""
        for number, part in enumerate(self._delivery.split(channel, text)):
            message = OutgoingMessage(channel, chat, part, schedule.maker.owner, session=run.session)
            try:
                await self._send(message, f"{run.message_id}-answer-{number + 1}")
            except ToolError as error:
                return error.message
        return ""

    async def _send(self, message: OutgoingMessage, message_id: str) -> None:
        """Send one part. As long as it certainly did not arrive, it is tried again. Raises `ToolError` otherwise."""
        pause = _FIRST_PAUSE
        for last in (*(False,) * (_SEND_TRIES - 1), True):
            try:
                await self._delivery.send(structs.replace(message, id=message_id))
            except Unsent as error:
                if last:
                    raise
                await asyncio.sleep(max(error.wait, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                return

    async def close(self) -> None:
        """Tell nothing more."""
        await self._telling.close()


def _message(schedule: Schedule, run: ScheduledRun) -> str:
    """Return what the agent is told: the same in each try. A late run says so."""
    plan = schedule.plan
    if run.began - run.due <= _LATE_SECONDS and run.since == run.due:
        return plan.text
    late = f"(This was due on {describe_moment(run.due, plan.zone)} and runs late."
    if run.since < run.due:
        late += f" It stands for all times since {describe_moment(run.since, plan.zone)}, which were missed."
    return f"{plan.text}\n\n{late})"


def _name(schedule: Schedule) -> str:
    return schedule.plan.name or clip(schedule.plan.text, 60)
