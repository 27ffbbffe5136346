"""`handspan schema`: check values against a schema, and show how a model API gets a schema (SPEC M3)."""

import sys
from collections.abc import Iterator, Sequence
from typing import get_args

import click
import msgspec

from handspan.cli.files import as_specs, read_batch, read_json
from handspan.cli.options import CommandGroup
from handspan.core.errors import DefinitionError, WireError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool, QuarantinedTool
from handspan.models.schema.lowering import Target, lower


@click.group("schema", cls=CommandGroup)
def command() -> None:
    """Check JSON Schemas and what should fit them."""


@command.command("check")
@click.argument("schema", required=False)
@click.argument("instance", required=False)
@click.option("--batch", is_flag=True, help='Read lines {"schema": …, "instance": …} and answer each with a line.')
@click.option("--json", is_flag=True, expose_value=False, help="The answer is JSON with or without this.")
def check(schema: str | None, instance: str | None, batch: bool) -> None:
    """Print every problem that INSTANCE has with SCHEMA. Each is a file, or JSON itself.

    Without INSTANCE only the schema is checked, as when a tool is registered. Exit code 1: something does not fit.
    """
    if batch == (schema is not None):
        raise click.UsageError("Name a SCHEMA, or use --batch: one of the two.")
    instances = [] if instance is None else [read_json(instance)]
    all_fit = True
    for answer in _check_lines() if batch else [_check(read_json(schema or ""), instances)]:
        all_fit &= answer["valid"] is True
        click.echo(msgspec.json.encode(answer).decode())
    sys.exit(0 if all_fit else 1)


@command.command("compile")
@click.argument("tools", required=False)
@click.option("--for", "target", type=click.Choice(list(get_args(Target))), required=True, help="Whose subset.")
@click.option("--batch", is_flag=True, help="Read lines, each a tool {name, description, parameters}, and answer each.")
@click.option("--json", is_flag=True, expose_value=False, help="The answer is JSON with or without this.")
def compile_schemas(tools: str | None, target: Target, batch: bool) -> None:
    """Print TOOLS (a file, '-' or JSON) as a model API gets them, and what its subset can't say.

    Exit code 1: one of them can't be lowered at all.
    """
    if batch == (tools is not None):
        raise click.UsageError("Name TOOLS, or use --batch: one of the two.")
    all_lowered = True
    for answer in _compile_lines(target) if batch else _compile(read_json(tools or ""), target):
        all_lowered &= "schema" in answer
        click.echo(msgspec.json.encode(answer).decode())
    sys.exit(0 if all_lowered else 1)


def _compile_lines(target: Target) -> Iterator[JsonObject]:
    for number, tools in read_batch():
        try:
            if isinstance(tools, WireError):
                raise tools
            yield from _compile(tools, target)
        except (WireError, click.UsageError) as error:
            yield {"error": f"line {number}: {error}"}


def _compile(tools: Json, target: Target) -> Iterator[JsonObject]:
    return (_render_lowered(lower(spec, target)) for spec in as_specs(tools))


def _render_lowered(found: LoweredTool | QuarantinedTool) -> JsonObject:
    if isinstance(found, QuarantinedTool):
        return {"name": found.spec.name, "quarantined": found.reason}
    losses: list[Json] = list(found.losses)
    return {"name": found.name, "strict": found.strict, "schema": found.schema, "losses": losses}


def _check(schema: Json, instances: Sequence[Json]) -> JsonObject:
    """Return whether these instances fit the schema, with all errors. Without instances, only the schema is checked."""
    if not isinstance(schema, dict):
        return {"valid": False, "errors": ["the schema must be a JSON object"]}
    try:
        validator = Validator(schema)
    except DefinitionError as error:
        return {"valid": False, "errors": [str(error)]}
    problems: list[Json] = [problem for instance in instances for problem in validator.problems(instance)]
    return {"valid": not problems, "errors": problems}


def _check_lines() -> Iterator[JsonObject]:
    """Yield the outcome for each line of standard input."""
    for number, pair in read_batch():
        match pair:
            case WireError():
                yield {"valid": False, "errors": [f"line {number} can't be read: {pair}"]}
            case dict() if "schema" in pair and not set(pair) - {"schema", "instance"}:
                yield _check(pair["schema"], [pair["instance"]] if "instance" in pair else [])
            case _:
                yield {"valid": False, "errors": [f'line {number} has to be an object {{"schema": …, "instance": …}}']}
