"""`handspan sessions`: list your conversations, search, show, rename, pin, archive, export, delete them (SPEC A2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

import click

from handspan.cli.door import RequestGroup, ask_gateway, fetch
from handspan.cli.files import write_new_file
from handspan.cli.options import completes, is_json
from handspan.cli.questions import question_lines
from handspan.cli.render import print_as_json, print_done, print_list, render_time
from handspan.cli.requests import Requests, segment
from handspan.cli.session_text import (
    SessionDocument,
    export_text,
    find_session,
    load_document,
    messages_with_ends,
    render_markdown,
)
from handspan.core.values import JsonObject, strip_invisible
from handspan.wire.rest.questions import QuestionList, QuestionView
from handspan.wire.rest.sessions import (
    OF_PEOPLE,
    ChangedSession,
    DeletedSession,
    FoundSessions,
    Kind,
    SessionList,
    SessionView,
)

_OFF: Final = click.option("--off", is_flag=True, help="Take that back.")
_ID: Final = click.argument("session_id", metavar="ID", shell_complete=completes("sessions"))


@click.group("sessions", cls=RequestGroup)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@click.option(
    "--kind",
    type=click.Choice(get_args(Kind)),
    help="Only chats, runs of pages, single questions, or what agents asked each other.",
)
@click.option("--pinned", is_flag=True, help="Only pinned ones.")
@click.option("--archived", is_flag=True, help="Those in the archive; without it, those that are not.")
def command(limit: int, kind: str | None, pinned: bool, archived: bool) -> None:
    """List your sessions, the last active first: id, agent, messages, when last active, name with its marks."""
    wanted = {"kind": kind or OF_PEOPLE, "pinned": "true" if pinned else "", "archived": str(archived).lower()}
    found = fetch("/api/sessions", SessionList, limit=str(limit), **wanted)
    print_list(
        ("id", "agent", "messages", "last active", "name"),
        found.sessions,
        _session_row,
        "No session yet, or none like this: `handspan chat` begins one.",
        short_ids=True,
    )


def _session_row(one: SessionView) -> tuple[object, ...]:
    marks = {"pinned": one.pinned, "archived": one.archived, one.kind.replace("_", "-"): one.kind != "chat"}
    marked = ", ".join([*(mark for mark, is_set in marks.items() if is_set), *filter(None, [one.model])])
    name = f"{one.name} ({marked})" if marked else one.name
    return (one.session_id, one.persona, one.message_count, render_time(one.last_activity), name)


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--results", is_flag=True, help="Search results of calls, too.")
@click.option("--left", is_flag=True, help="Search versions that were left, too.")
def search(words: tuple[str, ...], results: bool, left: bool) -> None:
    """List the sessions that have all these WORDS in one message or in their name, or words that begin with them."""
    wanted = {"results": "true" if results else "", "left": "true" if left else ""}
    found = fetch("/api/sessions/search", FoundSessions, query=" ".join(words), **wanted)
    if found.unindexed:
        click.echo(f"(Older messages of {found.unindexed} sessions can't be searched yet: try again soon.)", err=True)
    print_list(
        ("id", "name", "words"),
        found.found,
        lambda one: (one.session.session_id, one.session.name, one.excerpt),
        "No session has these words.",
        short_ids=True,
    )


@command.command("show")
@_ID
def show(session_id: str) -> None:
    """Print the messages of the session ID, with calls and their results. 'last' is the one that was active last."""
    document, asked = ask_gateway(lambda requests: _load_with_questions(requests, session_id))
    if print_as_json(messages_with_ends(document)):
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
def export(session_id: str, output: Path | None) -> None:
    """Print the session ID as Markdown, or with --json as JSON; or write it to a file."""
    text = ask_gateway(lambda requests: export_text(requests, session_id, as_json=is_json()), is_silent=True)
    if output is None:
        click.echo(text, nl=False)
        return
    write_new_file(output, text.encode())
    click.echo(f"The session is in {str(output)!r}.", err=True)


@command.command("rename")
@_ID
@click.argument("name")
def rename(session_id: str, name: str) -> None:
    """Give the session ID another NAME."""
    renamed = ask_gateway(lambda requests: _change(requests, session_id, {"name": name}))
    print_done(renamed, f"The session {renamed.session_id} is called {renamed.name!r}.")


@command.command("pin")
@_ID
@_OFF
def pin(session_id: str, off: bool) -> None:
    """Pin the session ID: the page shows it first."""
    changed = ask_gateway(lambda requests: _change(requests, session_id, {"pinned": not off}))
    print_done(changed, f"The session {changed.session_id} is {'pinned' if changed.pinned else 'not pinned any more'}.")


@command.command("archive")
@_ID
@_OFF
def archive(session_id: str, off: bool) -> None:
    """Put the session ID into the archive: lists leave it out."""
    changed = ask_gateway(lambda requests: _change(requests, session_id, {"archived": not off}))
    where = "in the archive" if changed.archived else "not in the archive any more"
    print_done(changed, f"The session {changed.session_id} is {where}.")


@command.command("delete")
@_ID
def delete(session_id: str) -> None:
    """Remove the session ID with its calls, artifacts and usage, at once and for good."""
    deleted = ask_gateway(lambda requests: _delete(requests, session_id))
    print_done(deleted, f"The session {deleted.session_id} is deleted.")


async def _change(requests: Requests, session_id: str, change: JsonObject) -> ChangedSession:
    found = await find_session(requests, session_id)
    return await requests.change("PUT", f"/api/sessions/{segment(found.session_id)}", ChangedSession, change)


async def _delete(requests: Requests, session_id: str) -> DeletedSession:
    found = await find_session(requests, session_id)
    return await requests.change("DELETE", f"/api/sessions/{segment(found.session_id)}", DeletedSession)
