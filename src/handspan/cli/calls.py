"""`handspan calls`: the journal of tool calls, one call in full, and calls as they end (SPEC E8, U2)."""

import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Final, get_args

import click
import msgspec

from handspan.cli.door import RequestGroup, ask_gateway, fetch, find_gateway
from handspan.cli.options import completes, is_json
from handspan.cli.render import print_done, print_line, print_list, render_columns, render_time, shorten_line
from handspan.cli.requests import RemoteRefused, Requests, find_id, segment
from handspan.core.errors import ErrorCode, HandspanError
from handspan.core.values import Json, describe_seconds, escape_invisible, strip_invisible
from handspan.wire.rest.calls import CallPage, CallRecordView, ListedCall, TimingList

_COLUMNS: Final = ("id", "tool", "origin", "agent", "model", "status", "at", "took", "waited")
_NO_CALLS: Final = "The journal has no such call."
_FOLLOWED: Final = ("at", "tool", "status", "took", "waited", "agent", "id")
"""The columns of --follow; `_WIDTHS` are theirs."""
_WIDTHS: Final = (19, 24, 18, 9, 7, 12, 36)

_STATUSES: Final = ("success", "error", "open", *get_args(ErrorCode))


def _moment(_: click.Context, param: click.Parameter, given: str) -> str:
    """Return the time as the gateway reads it. Raises `BadParameter` for what is no time."""
    try:
        if given in ("", "today"):
            return datetime.combine(date.today(), datetime.min.time()).astimezone().isoformat() if given else ""
        return datetime.fromisoformat(given).astimezone(UTC).isoformat()
    except ValueError:
        text = f"{given!r} is no time: say today, 2026-01-31, or 2026-01-31T12:00."
        raise click.BadParameter(text, param=param) from None


@click.group("calls", cls=RequestGroup)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@click.option("--session", default="", shell_complete=completes("sessions"), help="Only calls of this session.")
@click.option("--tool", default="", shell_complete=completes("tools"), help="Only calls of this tool.")
@click.option("--origin", default="", help="Only of this origin: a kind (device), or with a name (device(phone)).")
@click.option(
    "--status",
    type=click.Choice(_STATUSES),
    metavar="STATUS",
    help="Only with this status: success, error, open, or a code such as timeout.",
)
@click.option("--since", default="", callback=_moment, help="Only calls that began then or later.")
@click.option("--until", default="", callback=_moment, help="Only calls that began earlier.")
@click.option("--follow", "-f", is_flag=True, help="Go on with each call that ends, until Ctrl-C.")
def command(limit: int, follow: bool, **given: str | None) -> None:
    """List the calls, the last one first: id, tool, origin, agent, model, status, when, how long it took and waited."""
    filters = {name: value or "" for name, value in given.items()}
    if follow:
        _follow(filters, limit)
        return
    print_list(
        _COLUMNS,
        fetch("/api/calls", CallPage, **filters, limit=str(limit)).calls,
        lambda one: (one.id, one.tool, one.origin, one.agent, one.model, one.status, *_times(one)),
        _NO_CALLS,
        short_ids=True,
    )


@command.command("timings")
@click.option("--session", default="", help="Only calls of this session.")
@click.option("--tool", default="", help="Only calls of this tool.")
def timings(session: str, tool: str) -> None:
    """List how long tools take, over all calls of the journal: half of the calls and 95 of 100 took no longer."""
    print_list(
        ("tool", "calls", "failed", "p50", "p95"),
        fetch("/api/calls/timings", TimingList, session=session, tool=tool).tools,
        lambda one: (one.tool, one.calls, one.failed, describe_seconds(one.p50), describe_seconds(one.p95)),
        _NO_CALLS,
    )


@command.command("show")
@click.argument("call_id", metavar="ID")
def show(call_id: str) -> None:
    """Print all that is known of the call ID: who called what, with which arguments, and its result."""
    record = ask_gateway(lambda requests: _find_call(requests, call_id))
    print_done(record, "\n".join(_lines(record)))


async def _find_call(requests: Requests, call_id: str) -> CallRecordView:
    """Return the call with this id, or the only one whose id begins so."""
    try:
        return await requests.get(f"/api/calls/{segment(call_id)}", CallRecordView)
    except RemoteRefused as refused:
        listed = (await requests.get("/api/calls", CallPage, limit="1000")).calls
        whole = find_id(call_id, (call.id for call in listed), refused)
        return await requests.get(f"/api/calls/{segment(whole)}", CallRecordView)


def _lines(call: CallRecordView) -> Iterator[str]:
    """Yield all that is known of a call, as lines for a terminal."""
    at, took, waited = _times(call)
    facts = {
        "call": call.id,
        "tool": f"{call.tool} {call.version}".rstrip(),
        "origin": call.origin,
        "agent": call.agent,
        "model": f"{call.model}, in place of {call.in_place_of}: {call.reason}" if call.in_place_of else call.model,
        "session": call.session,
        "asked by call": call.parent,
        "status": call.status,
        "at": at,
        "took": f"{took}{f', and {waited} for a person' if waited else ''}",
        "expires": "" if call.expires_at is None else render_time(call.expires_at),
    }
    yield from render_columns([(f"{name}:", strip_invisible(value)) for name, value in facts.items() if value])
    yield f"arguments:\n{_indent(call.arguments)}"
    yield "result:\n" + (_indent(msgspec.to_builtins(call.result)) if call.result is not None else "  none yet")
    if call.true_result is not None:
        yield "what the tool itself answered, before a hook replaced it:"
        yield _indent(msgspec.to_builtins(call.true_result))
    for note in call.notes:
        yield strip_invisible(f"{render_time(note.at, seconds=True)}  {note.text}")


def _times(call: ListedCall | CallRecordView) -> tuple[str, str, str]:
    """Return when the call began, how long it took, and how long it waited for a person."""
    waited = f"{call.waited:.0f} s" if call.waited else ""
    return render_time(call.at, seconds=True), describe_seconds(call.duration), waited


def _indent(value: Json) -> str:
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    return "\n".join(f"  {escape_invisible(line)}" for line in text.split("\n"))


# Calls as they end.


def _follow(filters: dict[str, str], limit: int) -> None:
    if find_gateway(is_silent=True) is None:
        raise HandspanError("No gateway is running, so there is nothing to follow: `handspan serve` starts one.")
    if not is_json():
        print_line(_followed_line(_FOLLOWED))
    ask_gateway(lambda requests: _print_ended(requests, filters, limit), is_silent=True)


async def _print_ended(requests: Requests, filters: dict[str, str], limit: int) -> None:
    """Print the last calls, then each one that ends. An event only says that calls changed; the first comes at once."""
    changed, printed = asyncio.Event(), set[str]()

    def on_line(line: bytes) -> None:
        if line.strip() in (b"event: ready", b"event: calls"):
            changed.set()

    following = asyncio.create_task(requests.follow("/api/live", on_line))
    try:
        while not following.done():
            await asyncio.wait(
                (following, waiting := asyncio.create_task(changed.wait())), return_when="FIRST_COMPLETED"
            )
            waiting.cancel()
            changed.clear()
            page = await requests.get("/api/calls", CallPage, **filters, limit=str(limit))
            for call in reversed(page.calls):
                if call.id not in printed and (call.status != "open" or filters["status"] == "open"):
                    printed.add(call.id)
                    _print_followed(call)
        await following
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _print_followed(call: ListedCall) -> None:
    if is_json():
        click.echo(escape_invisible(msgspec.json.encode(call).decode()))
    else:
        at, *times = _times(call)
        print_line(_followed_line((at, call.tool, call.status, *times, call.agent, call.id)))


def _followed_line(cells: tuple[str, ...]) -> str:
    """Return a line of a table whose further rows are not known yet. A terminal gets what fits into each column."""
    texts = [strip_invisible(cell) for cell in cells]
    if sys.stdout.isatty():
        texts = [shorten_line(text, width) for text, width in zip(texts, _WIDTHS, strict=True)]
    return "  ".join(text.ljust(width) for text, width in zip(texts, _WIDTHS, strict=True)).rstrip()
