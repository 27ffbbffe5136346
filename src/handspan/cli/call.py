"""`handspan call`: run one tool and print the result envelope, or many, a line each (SPEC U2)."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

import click
import msgspec
from msgspec import Struct

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.edit_arguments import argument_editor
from handspan.cli.files import read_batch
from handspan.cli.options import agent_option, completes
from handspan.cli.render import print_broken
from handspan.cli.requests import RemoteRefused, Requests, segment
from handspan.cli.terminal_questions import ask_here, questions_for
from handspan.core.context import Progress
from handspan.core.errors import ErrorCode, WireError
from handspan.core.questions import Questions, find_waiting_note
from handspan.core.results import Failure, encode_envelope
from handspan.core.values import Json, JsonObject, escape_invisible, strip_invisible
from handspan.wire import strict_json
from handspan.wire.rest.agents import AgentView
from handspan.wire.rest.questions import AcceptedAnswer, QuestionList
from handspan.wire.rest.status import SourceList

_Line: TypeAlias = tuple[str, bytes | str] | Failure
SendCall: TypeAlias = Callable[[Json], Awaitable[bytes]]
"""Makes a call with these arguments, and returns its envelope."""
_DATA: Final = b"data: "
"""What stands before the JSON of an event."""
_SECONDS: Final = "1"
"""How long one request waits for a result, before the command looks whether a person is asked something."""
_INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C ended."""
_CANCELLING: Final = "Cancels the call. Ctrl-C again leaves it to the gateway."
_ABOUT_THE_CALL: Final[dict[int, ErrorCode]] = {
    404: "tool_not_found",
    413: "invalid_arguments",
    422: "invalid_arguments",
}
"""Statuses of a request that is refused for its content: the next line of a batch may succeed."""


class _Status(Struct, frozen=True):
    status: str
    code: str = ""


class _CallEvent(Struct, frozen=True):
    """An event of a call; which fields it has depends on its name."""

    event: str
    value: Json = None
    call_id: str = ""
    result: msgspec.Raw = msgspec.Raw(b"")


class _Record(Struct, frozen=True):
    result: msgspec.Raw
    """`null` while the call is open; not read further, so that the envelope is printed as it was sent."""


@click.command("call")
@click.argument("tool", required=False, shell_complete=completes("tools"))
@click.argument("arguments", required=False)
@click.option("--batch", is_flag=True, help='Read lines {"tool": …, "args": {…}} and answer each with a line.')
@agent_option("Call as this agent; default: the default agent of the settings.")
@click.option(
    "--yes",
    is_flag=True,
    help="Answer every question of the gateway with yes. A device still asks its own person, at the device.",
)
@click.option("--quiet", is_flag=True, help="Do not show what a tool reports while it runs.")
@click.option("--json", is_flag=True, expose_value=False, help="The envelope is JSON with or without this.")
@place_options
def command(tool: str | None, arguments: str | None, batch: bool, agent: str | None, yes: bool, quiet: bool) -> None:
    """Run TOOL with ARGUMENTS, a JSON object ('-' reads it from standard input), and print the result envelope.

    The exit code is 0 for a success, 1 when a tool failed, 2 for wrong usage, 130 after Ctrl-C, which cancels the call.
    """
    if batch == (tool is not None):
        raise click.UsageError("Name a TOOL, or use --batch: one of the two.")
    lines = _batch() if batch else iter([(tool or "", _arguments(arguments))])
    show = None if quiet else _show_progress if sys.stderr.isatty() else _show_waiting

    def work(requests: Requests) -> Awaitable[int]:
        return _call_each(Calls(requests, agent or "", questions_for(yes, argument_editor(requests)), show), lines)

    sys.exit(ask_gateway(work))


async def _call_each(calls: "Calls", lines: Iterator[_Line]) -> int:
    """Run line after line, since a later one may need what an earlier one did. Return the exit code."""
    is_failed = False
    refused = await calls.check()
    for line in lines:
        given = line if isinstance(line, Failure) else refused or line
        envelope = encode_envelope(given) if isinstance(given, Failure) else await calls.call(*given)
        status = _print_envelope(envelope)
        is_failed |= status.status != "success"
        if calls.is_cancelled:
            return _INTERRUPTED
        if status.code == "tool_not_found":
            await calls.print_broken()
    return int(is_failed)


def _print_envelope(envelope: bytes) -> _Status:
    """Print the envelope on one line, and return what it says."""
    sys.stdout.buffer.write(escape_invisible(envelope.decode()).encode() + b"\n")
    sys.stdout.buffer.flush()
    return msgspec.json.decode(envelope, type=_Status)


async def call_once(tool: str, arguments: str, send: SendCall) -> int:
    """Make one call, print its envelope, and return the exit code: as `handspan call` does."""
    return int(_print_envelope(await _get_envelope(tool, _arguments(arguments), send)).status != "success")


async def _get_envelope(tool: str, arguments: bytes | str, send: SendCall) -> bytes:
    """Return the result envelope, also for a call that the gateway refuses."""
    given = _read(tool, arguments)
    if isinstance(given, Failure):
        return encode_envelope(given)
    try:
        return await send(given)
    except RemoteRefused as refused:
        if refused.status not in _ABOUT_THE_CALL:
            raise
        return encode_envelope(Failure(_ABOUT_THE_CALL[refused.status], str(refused)))


class Calls:
    """Calls tools as one agent; questions are asked at this terminal."""

    def __init__(self, requests: Requests, agent: str, questions: Questions, show: Progress | None = None) -> None:
        """`show` gets what a tool reports while it runs."""
        self._requests = requests
        self._agent = agent
        self._questions = questions
        self._show = show
        self.is_cancelled = False
        """Whether the person has cancelled a call."""

    async def check(self) -> Failure | None:
        """Return the failure for all calls if there is no such agent, and print it at the terminal."""
        try:
            if self._agent:
                await self._requests.get(f"/api/agents/{segment(self._agent)}", AgentView)
        except RemoteRefused as refused:
            if refused.status != 404:
                raise
            click.echo(f"handspan: {refused}", err=True)
            return Failure("invalid_arguments", str(refused))
        return None

    async def print_broken(self) -> None:
        """Say which files with tools can't be used: the tool that is missing may be in one of them."""
        for state in (await self._requests.get("/api/sources", SourceList)).sources.values():
            print_broken(state)

    async def call(self, tool: str, arguments: bytes | str) -> bytes:
        """Return the result envelope, also for a call that the gateway refuses."""
        path = f"/api/tools/{segment(tool)}/call"
        return await _get_envelope(
            tool, arguments, lambda args: self._follow(path, {"args": args, "agent": self._agent})
        )

    async def _follow(self, path: str, body: JsonObject) -> bytes:
        """Make the call and follow its events until there is a result."""
        call_id, envelope = "", b""
        waiting: asyncio.Task[bytes] | None = None
        has_failed = asyncio.Event()
        """Set when a question could not be answered: then no result comes."""

        def on_line(line: bytes) -> None:
            """Take one event of the call's stream: progress, a question, or the result."""
            nonlocal call_id, envelope, waiting
            if not line.startswith(_DATA):
                return
            event = msgspec.json.decode(line[len(_DATA) :], type=_CallEvent)
            call_id = event.call_id or call_id
            if event.event == "progress" and self._show is not None:
                self._show(event.value)
            elif event.event == "result":
                envelope = bytes(event.result)
            elif event.event in ("question", "pending") and waiting is None:
                waiting = asyncio.create_task(self._wait(call_id))
                waiting.add_done_callback(
                    lambda done: has_failed.set() if done.cancelled() or done.exception() else None
                )

        streaming = asyncio.ensure_future(self._requests.stream(path, body, {"Accept": "text/event-stream"}, on_line))
        failing = asyncio.create_task(has_failed.wait())
        try:
            await asyncio.wait((streaming, failing), return_when=asyncio.FIRST_COMPLETED)
            if waiting is not None and has_failed.is_set():
                return await waiting  # raises the error that kept the question from being answered
            await streaming
            return envelope or await (waiting or self._wait(call_id))
        except asyncio.CancelledError:
            streaming.cancel()
            if not call_id:  # the gateway has not said that the call began
                raise
            self.is_cancelled = True
            return await self._cancel(call_id)
        finally:
            tasks = [task for task in (streaming, failing, waiting) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _cancel(self, call_id: str) -> bytes:
        """Cancel the call and return its envelope. The person pressed Ctrl-C; a second time ends the command."""
        click.echo(_CANCELLING, err=True)
        lines: list[bytes] = []  # a stream has a connection of its own: the other one may still be in use
        await self._requests.stream(f"/api/calls/{segment(call_id)}/cancel", {}, {}, lines.append)
        await asyncio.sleep(0)  # the last line may come after the answer
        return bytes(msgspec.json.decode(b"".join(lines), type=_Record).result)

    async def _wait(self, call_id: str) -> bytes:
        """Answer the call's questions until there is an envelope, and return that.

        Each request waits a limited time; the gateway limits the whole by the timeout of the call.
        """
        asked: set[str] = set()
        while True:
            await self._answer(call_id, asked)
            record = await self._requests.get(f"/api/calls/{segment(call_id)}", _Record, wait=_SECONDS)
            if (envelope := bytes(record.result)) != b"null":
                return envelope

    async def _answer(self, call_id: str, asked: set[str]) -> None:
        """Ask the person at this terminal what the gateway asks about the call. Devices ask their own person."""
        for question in (await self._requests.get("/api/questions", QuestionList)).questions:
            if question.call_id == call_id and question.id not in asked:
                asked.add(question.id)
                answer = await ask_here(question.to_question(), self._questions)
                given: JsonObject = {"decision": answer.decision, "always": answer.always, "reason": answer.reason}
                arguments = None if answer.arguments is None else dict(answer.arguments)
                body = {**given, "value": answer.value, "arguments": arguments}
                path = f"/api/questions/{segment(question.id)}/answer"
                try:
                    await self._requests.change("POST", path, AcceptedAnswer, body)
                except RemoteRefused as refused:
                    if refused.status != 404:  # 404: another client answered first, or the question has expired
                        raise


def _show_progress(value: Json) -> None:
    """Show what a tool reports: a text as it comes, any other value on a line."""
    if find_waiting_note(value) is not None:
        _show_waiting(value)
        return
    text = value.get("text") if isinstance(value, dict) else None
    is_text = isinstance(text, str)
    click.echo(strip_invisible(str(text if is_text else value)), err=True, nl=not is_text)


def _show_waiting(value: Json) -> None:
    """Show that a person is asked at a device. Questions that any client may answer are asked at this terminal."""
    text, device = find_waiting_note(value) or ("", "")
    if device:
        click.echo(strip_invisible(text), err=True, nl=False)


def _read(tool: str, arguments: bytes | str) -> Json | Failure:
    """Return the arguments as an object; for anything else, a failure in the engine's words."""
    try:
        given = strict_json.parse(arguments or b"{}")
    except WireError as error:
        remedy = f"`handspan tools show {tool}` has an example."
        return Failure("invalid_arguments", f"The arguments of {tool!r} can't be read: {error} {remedy}")
    if not isinstance(given, dict):
        return Failure("invalid_arguments", f"The arguments of {tool!r} must be a JSON object.")
    return given


def _arguments(given: str | None) -> bytes | str:
    return sys.stdin.buffer.read() if given == "-" else given or "{}"


def _batch() -> Iterator[_Line]:
    """Yield the tool and the arguments of each line of a batch, or why it can't be read."""
    for number, asked in read_batch():
        match asked:
            case {"tool": str(tool), **rest} if not set(rest) - {"args"}:
                yield tool, msgspec.json.encode(rest.get("args", {}))
                continue
            case WireError():
                wrong = f"can't be read: {asked}"
            case _:
                wrong = 'has to be an object {"tool": "…", "args": {…}}'
        yield Failure("invalid_arguments", f"Line {number} {wrong}")
