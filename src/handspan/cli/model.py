"""`handspan model`: which model answers, and exactly what it would be sent (SPEC M1, M3)."""

import sys

import click
import msgspec

from handspan.cli.door import ask_gateway, note_changed_settings, place_options
from handspan.cli.files import as_messages, as_specs, read_json
from handspan.cli.options import CommandGroup, completes, json_option
from handspan.cli.requests import Requests, find_agent
from handspan.core.errors import HandspanError, WireError
from handspan.core.messages import Api, UnpairedCalls
from handspan.core.values import Json, JsonObject
from handspan.models.choice import CODECS, codec_for, target_for
from handspan.models.projection import EncodedProjection
from handspan.models.schema.lowering import lower_all
from handspan.wire import strict_json
from handspan.wire.rest.models import ChosenModel

_API = click.Choice(list(CODECS))


@click.group("model", cls=CommandGroup)
def command() -> None:
    """See which model answers, and exactly what it would be sent."""


@command.command("which")
@click.option("--agent", shell_complete=completes("agents"), help="As for `handspan chat`.")
@click.option("--model", "named", default="", shell_complete=completes("models"), help="As for `handspan chat`.")
@json_option
@place_options
def which(agent: str | None, named: str, as_json: bool) -> None:
    """Say which model `handspan chat` would use, and why."""
    chosen = ask_gateway(lambda requests: _choose(requests, agent or "", named), says=not as_json)
    answer = {"model": chosen.model, "why": chosen.why}
    click.echo(msgspec.json.encode(answer).decode() if as_json else chosen.why)


async def _choose(requests: Requests, agent: str, named: str) -> ChosenModel:
    await note_changed_settings(requests)
    acting = await find_agent(requests, agent)
    return await requests.get("/api/models/which", ChosenModel, model=named, agent="" if named else acting.name)


@command.command("request")
@click.option("--api", type=_API, help="The wire format.")
@click.option("--model", default="a-model", help="The model's id.")
@click.option("--messages", help="The conversation: a file, '-' or JSON. A text alone is what a person says.")
@click.option("--tools", help="The tools: a file or JSON, a list of {name, description, parameters}.")
@click.option("--instructions", default="", help="The system prompt.")
@click.option("--strict", is_flag=True, help="Ask the API to keep to the schemas, where it can.")
@click.option("--no-stream", is_flag=True, help="For an answer in one piece.")
@click.option("--batch", is_flag=True, help='Read lines {"api": …, "messages": …, "tools": …} and answer each.')
@click.option("--json", "_json", is_flag=True, help="The request is JSON with or without this.")
def request(
    api: Api | None,
    model: str,
    messages: str | None,
    tools: str | None,
    instructions: str,
    strict: bool,
    no_stream: bool,
    batch: bool,
    _json: bool,
) -> None:
    """Print the exact JSON that an adapter would send for this conversation and these tools."""
    if batch:
        sys.exit(_batch())
    if api is None or messages is None:
        raise click.UsageError("Say --api and --messages, or use --batch.")
    asked: JsonObject = {"messages": read_json(messages), "tools": read_json(tools) if tools else []}
    more: JsonObject = {"model": model, "instructions": instructions, "strict": strict, "stream": not no_stream}
    try:
        click.echo(_request({"api": api, **asked, **more}).decode())
    except UnpairedCalls as error:
        raise click.UsageError(f"No API would take this conversation: {error}.") from None


def _batch() -> int:
    failed = False
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            asked = strict_json.parse(line.strip())
            if not isinstance(asked, dict) or asked.get("api") not in list(CODECS):
                raise WireError(f"it has to be an object with an api of {', '.join(CODECS)}")
            click.echo(_request(asked).decode())
        except (HandspanError, click.UsageError) as error:
            failed = True
            text = error.message if isinstance(error, click.UsageError) else str(error)
            click.echo(msgspec.json.encode({"error": f"line {number}: {text}"}).decode())
    return 1 if failed else 0


def _request(asked: JsonObject) -> bytes:
    """Return the JSON that an adapter would send. Tools that its API can't take are named on standard error."""
    api: Api = asked["api"]  # type: ignore[assignment] # the callers have checked it
    model = str(asked.get("model", "a-model"))
    codec = codec_for(api, model)
    projection = EncodedProjection(codec, str(asked.get("instructions", "")))
    for message in as_messages(asked.get("messages", [])):
        projection.append(message)
    projection.check_complete()
    target = target_for(api, strict=asked.get("strict") is True)
    toolset = lower_all(as_specs(asked.get("tools", [])), target)
    for put_aside in toolset.quarantined:
        click.echo(f"left out {put_aside.spec.name!r}: {put_aside.reason}", err=True)
    stream: Json = asked.get("stream", True)
    return codec.request(
        model, projection.instructions, projection.items, toolset.tools, stream=stream is not False, options={}
    )
