"""`handspan calls`: the journal of tool calls, and one call with its arguments and result (SPEC E8, U2)."""

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import json_option, settings_options
from handspan.cli.render import print_json, print_rows, render_time
from handspan.cli.requests import segment
from handspan.wire.rest.calls import CallPage, CallRecordView, TimingList


@click.group("calls", invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@click.option("--session", default="", help="Only calls of this session.")
@click.option("--tool", default="", help="Only calls of this tool.")
@json_option
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, limit: int, session: str, tool: str, as_json: bool) -> None:
    """List the calls, the last one first: id, tool, origin, agent, status, when, how long, how long for a person."""
    if ctx.invoked_subcommand is not None:
        return
    query = {"limit": str(limit), "session": session, "tool": tool}
    found = ask_gateway(lambda requests: requests.get("/api/calls", CallPage, **query), says=not as_json)
    if as_json:
        print_json(found.calls)
        return
    rows = [
        (
            call.id,
            call.tool,
            call.origin,
            call.agent,
            call.status,
            render_time(call.at),
            f"{call.duration:.3f} s",
            f"{call.waited:.0f} s" if call.waited else "",
        )
        for call in found.calls
    ]
    print_rows(("id", "tool", "origin", "agent", "status", "at", "took", "waited"), rows)


@command.command("timings")
@click.option("--session", default="", help="Only calls of this session.")
@click.option("--tool", default="", help="Only calls of this tool.")
@json_option
@settings_options
@place_options
def timings(session: str, tool: str, as_json: bool) -> None:
    """List how long tools take, over all calls of the journal: half of the calls and 95 of 100 took no longer."""
    query = {"session": session, "tool": tool}
    found = ask_gateway(lambda requests: requests.get("/api/calls/timings", TimingList, **query), says=not as_json)
    if as_json:
        print_json(found.tools)
        return
    rows = [(one.tool, str(one.calls), str(one.failed), f"{one.p50:.3f} s", f"{one.p95:.3f} s") for one in found.tools]
    print_rows(("tool", "calls", "failed", "p50", "p95"), rows)


@command.command("show")
@click.argument("call_id", metavar="ID")
@json_option
@settings_options
@place_options
def show(call_id: str, as_json: bool) -> None:
    """Print all that is known of the call ID, as JSON."""
    path = f"/api/calls/{segment(call_id)}"
    print_json(ask_gateway(lambda requests: requests.get(path, CallRecordView), says=not as_json))
