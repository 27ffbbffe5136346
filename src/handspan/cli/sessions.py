"""`handspan sessions`: list your conversations, show, rename, export and delete them (SPEC A2, U2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.files import write_new_file
from handspan.cli.options import ListingGroup, completes, json_option
from handspan.cli.questions import question_lines
from handspan.cli.render import print_done, print_json, print_rows, render_time
from handspan.cli.requests import Requests, segment
from handspan.cli.session_text import (
    SessionDocument,
    export_text,
    find_session,
    load_document,
    messages_with_ends,
    render_markdown,
)
from handspan.core.values import strip_invisible
from handspan.wire.rest.questions import QuestionList, QuestionView
from handspan.wire.rest.sessions import DeletedSession, FoundSessions, Renamed, SessionList

_ID: Final = click.argument("session_id", metavar="ID", shell_complete=completes("sessions"))


@click.group("sessions", cls=ListingGroup, invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@json_option
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
    columns = ("id", "agent", "messages", "last active", "name")
    print_rows(columns, rows, "No session yet: `handspan chat` begins one.", short_ids=True)


@command.command("search")
@click.argument("words")
@json_option
@place_options
def search(words: str, as_json: bool) -> None:
    """List the sessions with these WORDS in their name or in what was said."""
    found = ask_gateway(
        lambda requests: requests.get("/api/sessions/search", FoundSessions, query=words), says=not as_json
    )
    if as_json:
        print_json(found.found)
        return
    rows = [(one.session.session_id, one.session.name, one.excerpt) for one in found.found]
    print_rows(("id", "name", "words"), rows, "No session has these words.", short_ids=True)


@command.command("show")
@_ID
@json_option
@place_options
def show(session_id: str, as_json: bool) -> None:
    """Print the messages of the session ID, with calls and their results. 'last' is the one that was active last."""
    document, asked = ask_gateway(lambda requests: _load_with_questions(requests, session_id), says=not as_json)
    if as_json:
        print_json(messages_with_ends(document))
        return
    click.echo(render_markdown(document), nl=False)
    for question in asked:
        click.echo("\nA question waits for an answer:")
        for line in question_lines(question):
            click.echo(strip_invisible(line))


async def _load_with_questions(requests: Requests, session_id: str) -> tuple[SessionDocument, Sequence[QuestionView]]:
    """Return the session, and the questions of its calls that are open now."""
    document = await load_document(requests, session_id)
    found = await requests.get("/api/questions", QuestionList, session=document.session.session_id)
    return document, [*found.questions, *found.at_devices]


@command.command("export")
@_ID
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this new file.")
@json_option
@place_options
def export(session_id: str, output: Path | None, as_json: bool) -> None:
    """Print the session ID as Markdown, or with --json as JSON; or write it to a file."""
    document = ask_gateway(lambda requests: load_document(requests, session_id), says=False)
    text = export_text(document, as_json=as_json)
    if output is None:
        click.echo(text, nl=False)
        return
    write_new_file(output, text.encode())
    click.echo(f"The session is in {str(output)!r}.", err=True)


@command.command("rename")
@_ID
@click.argument("name")
@json_option
@place_options
def rename(session_id: str, name: str, as_json: bool) -> None:
    """Give the session ID another NAME."""
    renamed = ask_gateway(lambda requests: _rename(requests, session_id, name), says=not as_json)
    print_done(renamed, f"The session {renamed.session_id} is called {renamed.name!r}.", as_json=as_json)


@command.command("delete")
@_ID
@json_option
@place_options
def delete(session_id: str, as_json: bool) -> None:
    """Remove the session ID with its calls, artifacts and usage."""
    deleted = ask_gateway(lambda requests: _delete(requests, session_id), says=not as_json)
    print_done(deleted, f"The session {deleted.session_id} is deleted.", as_json=as_json)


async def _rename(requests: Requests, session_id: str, name: str) -> Renamed:
    found = await find_session(requests, session_id)
    return await requests.change("PUT", f"/api/sessions/{segment(found.session_id)}", Renamed, {"name": name})


async def _delete(requests: Requests, session_id: str) -> DeletedSession:
    found = await find_session(requests, session_id)
    return await requests.change("DELETE", f"/api/sessions/{segment(found.session_id)}", DeletedSession)
