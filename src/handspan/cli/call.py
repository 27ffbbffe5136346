"""`handspan call`: run one tool and print the result envelope, or many, a line each (SPEC U2)."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import click
import msgspec
from msgspec import Struct

from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.place import find_gateway, place_options, remote_part
from handspan.cli.terminal import questions_for
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import Progress, no_progress
from handspan.core.errors import WireError
from handspan.core.results import Failure, Pending, ToolResult, encode_envelope
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.gateway.app import App
from handspan.wire import strict_json

if TYPE_CHECKING:
    from handspan.cli.remote import Remote
    from handspan.cli.remote_call import RemoteCalls

_Line: TypeAlias = tuple[str, bytes | str] | Failure


class _Status(Struct, frozen=True):
    status: str


@click.command("call")
@click.argument("tool", required=False)
@click.argument("arguments", required=False)
@click.option("--batch", is_flag=True, help='Read lines {"tool": …, "args": {…}} and answer each with a line.')
@click.option("--agent", help="Call as this agent; default: the default agent of the settings.")
@click.option("--yes", is_flag=True, help="Answer every question with yes.")
@click.option("--quiet", is_flag=True, help="Do not show what a tool reports while it runs.")
@click.option("--json", "_json", is_flag=True, help="The envelope is JSON with or without this.")
@settings_options
@place_options
def command(
    tool: str | None, arguments: str | None, batch: bool, agent: str | None, yes: bool, quiet: bool, _json: bool
) -> None:
    """Run TOOL with ARGUMENTS, a JSON object ('-' reads it from standard input), and print the result envelope.

    The exit code is 0 for a success, 1 when a tool failed, 2 for wrong usage.
    """
    if batch == (tool is not None):
        raise click.UsageError("Name a TOOL, or use --batch: one of the two.")
    lines = _batch(sys.stdin.buffer) if batch else iter([(tool or "", _arguments(arguments))])
    remote = find_gateway()
    if remote is None:
        failed = asyncio.run(_call_each(lines, agent, yes, no_progress if quiet else _show))
    else:
        failed = _call_each_there(remote, lines, agent, yes)
    sys.exit(1 if failed else 0)


async def _call_each(lines: Iterator[_Line], agent: str | None, yes: bool, progress: Progress) -> bool:
    """Run line after line, since a later one may need what an earlier one did; whether any failed."""
    failed = False
    async with App(read_settings(), questions_for(yes), config_folder(), durable=True) as app:
        caller = app.caller(await app.find_agent(agent), progress=progress)
        for line in lines:
            result = line if isinstance(line, Failure) else await _call(app.engine, line, caller)
            failed |= isinstance(result, Failure)
            _write(encode_envelope(result))
    return failed


def _call_each_there(remote: "Remote", lines: Iterator[_Line], agent: str | None, yes: bool) -> bool:
    """The same at the gateway."""
    failed = False
    calls: RemoteCalls = remote_part("remote_call").RemoteCalls(remote, agent, questions_for(yes))
    calls.check()
    for line in lines:
        envelope = encode_envelope(line) if isinstance(line, Failure) else calls.call(*line)
        failed |= msgspec.json.decode(envelope, type=_Status).status != "success"
        _write(envelope)
    return failed


def _write(envelope: bytes) -> None:
    sys.stdout.buffer.write(envelope + b"\n")
    sys.stdout.buffer.flush()


async def _call(engine: Engine, line: tuple[str, bytes | str], caller: Caller) -> ToolResult:
    call = ToolCall(line[0], line[1], new_call_id())
    result = await engine.call(call, caller)
    if isinstance(result, Pending):
        return await engine.result(call.id) or Failure(
            "unknown_outcome", "The call waits for somebody who is not here."
        )
    return result


def _arguments(given: str | None) -> bytes | str:
    return sys.stdin.buffer.read() if given == "-" else given or "{}"


def _batch(lines: Iterable[bytes]) -> Iterator[_Line]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _read_line(line, number)


def _read_line(line: bytes, number: int) -> _Line:
    try:
        match strict_json.parse(line.strip()):
            case {"tool": str(tool), **rest} if not set(rest) - {"args"}:
                return tool, msgspec.json.encode(rest.get("args", {}))
            case _:
                wrong = 'has to be an object {"tool": "…", "args": {…}}'
    except WireError as error:
        wrong = f"can't be read: {error}"
    return Failure("invalid_arguments", f"Line {number} {wrong}")


def _show(value: Json) -> None:
    """What a tool reports, on standard error where a person sees it."""
    if sys.stderr.isatty():
        text = value.get("text") if isinstance(value, dict) else None
        click.echo(text if isinstance(text, str) else str(value), err=True, nl=not isinstance(text, str))
