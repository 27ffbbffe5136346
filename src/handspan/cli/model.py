"""`handspan model`: which model answers, and exactly what it would be sent (SPEC M1, M3)."""

import sys

import click
import msgspec

from handspan.cli.door import RequestCommand, ask_gateway, note_changed_settings
from handspan.cli.files import as_messages, as_specs, read_batch, read_json
from handspan.cli.options import CommandGroup, agent_option, completes, is_json
from handspan.cli.render import one_line, print_done, render_columns
from handspan.cli.requests import AUTO, Requests, find_agent
from handspan.core.errors import HandspanError, WireError
from handspan.core.messages import Api, UnpairedCalls
from handspan.core.values import Json, JsonObject, strip_invisible
from handspan.models.choice import CODECS, codec_for, target_for
from handspan.models.model import Prompt
from handspan.models.projection import EncodedProjection
from handspan.models.schema.lowering import lower_all
from handspan.wire.rest.models import ChosenModel, ModelState

_API = click.Choice(list(CODECS))


@click.group("model", cls=CommandGroup)
def command() -> None:
    """See which model answers, and exactly what it would be sent."""


@command.command("which", cls=RequestCommand)
@agent_option("As for `handspan chat`.")
@click.option("--model", "named", default="", shell_complete=completes("models"), help="As for `handspan chat`.")
def which(agent: str | None, named: str) -> None:
    """Say which model `handspan chat` would use, and why."""
    chosen = ask_gateway(lambda requests: _choose(requests, agent or "", named))
    if is_json():
        click.echo(msgspec.json.encode({"model": chosen.model, "why": chosen.why, "models": chosen.models}).decode())
        return
    click.echo(chosen.why)
    if len(chosen.models) > 1:
        click.echo("\n".join(render_columns([(one.name, _state_text(one)) for one in chosen.models])))


def _state_text(one: ModelState) -> str:
    """Return whether this model can be asked now, in words."""
    rest = f" for {one.seconds:.0f} s more" if one.seconds else ""
    return one_line(strip_invisible(f"{one.state}{rest}{f': {one.reason}' if one.reason else ''}"))


async def _choose(requests: Requests, agent: str, named: str) -> ChosenModel:
    await note_changed_settings(requests)
    acting = await find_agent(requests, agent)
    return await requests.get("/api/models/which", ChosenModel, model=named, agent="" if named else acting.name)


@command.command("use", cls=RequestCommand)
@click.argument("name", shell_complete=completes("models"))
def use(name: str) -> None:
    """Let agents that name no model use the one called NAME; 'auto': as the settings, a key or Ollama decide."""
    body = {"model": "" if name == AUTO else name}
    chosen = ask_gateway(lambda requests: requests.change("POST", "/api/models/use", ChosenModel, body))
    print_done(chosen, chosen.why)


@command.command("request")
@click.option("--api", type=_API, help="The wire format.")
@click.option("--model", default="a-model", help="The model's id.")
@click.option("--messages", help="The conversation: a file, '-' or JSON. A text alone is what a person says.")
@click.option("--tools", help="The tools: a file or JSON, a list of {name, description, parameters}.")
@click.option("--instructions", default="", help="The system prompt.")
@click.option("--strict", is_flag=True, help="Ask the API to keep to the schemas, where it can.")
@click.option("--no-stream", is_flag=True, help="For an answer in one piece.")
@click.option("--batch", is_flag=True, help='Read lines {"api": …, "messages": …, "tools": …} and answer each.')
@click.option("--json", is_flag=True, expose_value=False, help="The request is JSON with or without this.")
def request(
    api: Api | None, messages: str | None, tools: str | None, no_stream: bool, batch: bool, **more: Json
) -> None:
    """Print the exact JSON that an adapter would send for this conversation and these tools."""
    if batch:
        sys.exit(_batch())
    if api is None or messages is None:
        raise click.UsageError("Say --api and --messages, or use --batch.")
    wanted: JsonObject = {"api": api, "messages": read_json(messages), "tools": read_json(tools) if tools else []}
    try:
        click.echo(_request({**wanted, **more, "stream": not no_stream}).decode())
    except UnpairedCalls as error:
        raise click.UsageError(f"No API would take this conversation: {error}.") from None


def _batch() -> int:
    """Print the request for each line of standard input. Return the exit code."""
    failed = False
    for number, wanted in read_batch():
        try:
            if isinstance(wanted, WireError):
                raise wanted
            if not isinstance(wanted, dict) or wanted.get("api") not in list(CODECS):
                raise WireError(f"it has to be an object with an api of {', '.join(CODECS)}")
            click.echo(_request(wanted).decode())
        except (HandspanError, click.UsageError) as error:
            failed = True
            click.echo(msgspec.json.encode({"error": f"line {number}: {error}"}).decode())
    return 1 if failed else 0


def _request(wanted: JsonObject) -> bytes:
    """Return the JSON that an adapter would send. Tools that its API can't take are named on standard error."""
    api: Api = wanted["api"]  # type: ignore[assignment] # the callers have checked it
    model = str(wanted.get("model", "a-model"))
    codec = codec_for(api, model)
    projection = EncodedProjection(codec, str(wanted.get("instructions", "")))
    for message in as_messages(wanted.get("messages", [])):
        projection.append(message)
    projection.check_complete()
    target = target_for(api, strict=wanted.get("strict") is True)
    toolset = lower_all(as_specs(wanted.get("tools", [])), target)
    for put_aside in toolset.quarantined:
        click.echo(f"left out {put_aside.spec.name!r}: {put_aside.reason}", err=True)
    stream: Json = wanted.get("stream", True)
    return codec.request(
        Prompt(model, projection.instructions, projection.items, toolset.tools, stream=stream is not False)
    )
