"""`handspan artifacts`: stored images, files and large results, listed, read and added (SPEC X3, X4, U2)."""

import mimetypes
import sys
from pathlib import Path
from typing import Final

import click

from handspan.cli.door import RequestGroup, ask_gateway, fetch, place_options
from handspan.cli.files import write_new_file
from handspan.cli.options import completes
from handspan.cli.progress_line import ProgressLine
from handspan.cli.render import print_done, print_list, render_size, render_time
from handspan.cli.requests import Requests, UploadBody, segment, with_query
from handspan.core.errors import HandspanError
from handspan.wire.rest.artifacts import ArtifactList, ArtifactView

_PATH: Final = "/api/artifacts"


@click.group("artifacts", cls=RequestGroup)
@click.option("--session", default="", help="Only those of this session.")
def command(session: str) -> None:
    """List your artifacts, the newest first: id, size, kind, session, when, name."""
    listed = fetch(_PATH, ArtifactList).artifacts
    found = [one for one in listed if not session or one.session == session]
    print_list(
        ("id", "size", "kind", "session", "at", "name"),
        found,
        lambda one: (one.id, render_size(one.size), one.media_type, one.session, render_time(one.at), one.name),
        "No artifact yet: `handspan artifacts add FILE` stores one.",
    )


@command.command("get", cls=click.Command)
@click.argument("artifact_id", metavar="ID", shell_complete=completes("artifacts"))
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this new file.")
@place_options
def get(artifact_id: str, output: Path | None) -> None:
    """Write the content of the artifact ID to standard output, or to a file."""
    if output is None and sys.stdout.isatty():
        raise click.UsageError("A terminal can't show every file: name a file with --output, or use a pipe.")
    path = f"{_PATH}/{segment(artifact_id)}"
    content = ask_gateway(lambda requests: requests.send("GET", path), is_silent=True).body
    if output is None:
        sys.stdout.buffer.write(content)
        return
    write_new_file(output, content)
    click.echo(f"{output}: {render_size(len(content))}", err=True)


@command.command("add")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--session", default="", help="It is deleted with this session.")
def add(file: Path, session: str) -> None:
    """Store FILE, and print the id by which tools and messages can name it."""
    stored = ask_gateway(lambda requests: upload(requests, file.name, read_file(file), session))
    print_done(stored, stored.id)


async def upload(requests: Requests, name: str, data: bytes, session: str = "") -> ArtifactView:
    """Store these bytes as an artifact."""
    path = with_query(_PATH, {"name": name[:200], "session": session})
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    with ProgressLine(f"Sending {name}", len(data)) as progress:
        return await requests.upload(path, UploadBody(data, progress.add), kind, ArtifactView)


def read_file(file: Path) -> bytes:
    """Return the content of a file. Raises `HandspanError` when it can't be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise HandspanError(f"{str(file)!r} can't be read: {error.strerror}.") from None
