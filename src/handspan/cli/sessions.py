"""`handspan sessions`: list your conversations, show one, rename and delete them (SPEC A2, U2)."""

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import json_option, settings_options
from handspan.cli.render import print_done, print_json, print_rows, render_time
from handspan.cli.requests import segment
from handspan.core.values import strip_invisible
from handspan.wire.rest.sessions import DeletedSession, MessageList, Renamed, SessionList


@click.group("sessions", invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@json_option
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List your sessions, the last active first: id, agent, messages, when last active, name."""
    if ctx.invoked_subcommand is not None:
        return
    found = ask_gateway(lambda requests: requests.get("/api/sessions", SessionList, limit=str(limit)), says=not as_json)
    if as_json:
        print_json(found.sessions)
        return
    rows = [
        (one.session_id, one.persona, one.message_count, render_time(one.last_activity), one.name)
        for one in found.sessions
    ]
    print_rows(("id", "agent", "messages", "last active", "name"), rows)


@command.command("show")
@click.argument("session_id", metavar="ID")
@json_option
@settings_options
@place_options
def show(session_id: str, as_json: bool) -> None:
    """Print the messages of the session ID, with calls and their results."""
    path = f"/api/sessions/{segment(session_id)}/messages"
    found = ask_gateway(lambda requests: requests.get(path, MessageList, full="true"), says=not as_json)
    if as_json:
        print_json(found.messages)
        return
    for message in found.messages:
        calls = "".join(f"\n  {call.name} {call.arguments}" for call in message.calls)
        click.echo(strip_invisible(f"{message.role}: {message.content}{calls}"))


@command.command("rename")
@click.argument("session_id", metavar="ID")
@click.argument("name")
@json_option
@settings_options
@place_options
def rename(session_id: str, name: str, as_json: bool) -> None:
    """Give the session ID another NAME."""
    path, body = f"/api/sessions/{segment(session_id)}", {"name": name}
    renamed = ask_gateway(lambda requests: requests.change("PUT", path, Renamed, body), says=not as_json)
    print_done(renamed, f"The session {renamed.session_id} is called {renamed.name!r}.", as_json=as_json)


@command.command("delete")
@click.argument("session_id", metavar="ID")
@json_option
@settings_options
@place_options
def delete(session_id: str, as_json: bool) -> None:
    """Remove the session ID with its calls, artifacts and usage."""
    path = f"/api/sessions/{segment(session_id)}"
    deleted = ask_gateway(lambda requests: requests.change("DELETE", path, DeletedSession), says=not as_json)
    print_done(deleted, f"The session {deleted.session_id} is deleted.", as_json=as_json)
