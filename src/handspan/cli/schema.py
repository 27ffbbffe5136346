"""`handspan schema`: check values against a schema, and show how a model API gets a schema (SPEC M3)."""

import sys
from collections.abc import Iterator
from typing import get_args

import click
import msgspec

from handspan.cli.files import as_specs, read_json
from handspan.cli.options import CommandGroup
from handspan.core.errors import DefinitionError, WireError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool, QuarantinedTool
from handspan.models.schema.lowering import Target, lower
from handspan.wire import strict_json


@click.group("schema", cls=CommandGroup)
def command() -> None:
    """Check JSON Schemas and what should fit them."""


@command.command("check")
@click.argument("schema", required=False)
@click.argument("instance", required=False)
@click.option("--batch", is_flag=True, help='Read lines {"schema": …, "instance": …} and answer each with a line.')
@click.option("--json", "_json", is_flag=True, help="The answer is JSON with or without this.")
def check(schema: str | None, instance: str | None, batch: bool, _json: bool) -> None:
    """Print every problem that INSTANCE has with SCHEMA. Each is a file, or JSON itself.

    Without INSTANCE only the schema is checked, as when a tool is registered. Exit code 1: something does not fit.
    """
    if batch == (schema is not None):
        raise click.UsageError("Name a SCHEMA, or use --batch: one of the two.")
    answers = (
        _batch()
        if batch
        else iter([_check(read_json(schema or ""), None if instance is None else [read_json(instance)])])
    )
    all_fit = True
    for answer in answers:
        all_fit &= answer["valid"] is True
        click.echo(msgspec.json.encode(answer).decode())
    sys.exit(0 if all_fit else 1)


@command.command("compile")
@click.argument("tools", required=False)
@click.option("--for", "target", type=click.Choice(list(get_args(Target))), required=True, help="Whose subset.")
@click.option("--batch", is_flag=True, help="Read lines, each a tool {name, description, parameters}, and answer each.")
@click.option("--json", "_json", is_flag=True, help="The answer is JSON with or without this.")
def compile_schemas(tools: str | None, target: Target, batch: bool, _json: bool) -> None:
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
    for number, line in enumerate(sys.stdin.buffer, 1):
        if line.strip():
            try:
                yield from _compile(strict_json.parse(line.strip()), target)
            except (WireError, click.UsageError) as error:
                text = error.message if isinstance(error, click.UsageError) else str(error)
                yield {"error": f"line {number}: {text}"}


def _compile(tools: Json, target: Target) -> Iterator[JsonObject]:
    return (_render_lowered(lower(spec, target)) for spec in as_specs(tools))


def _render_lowered(found: LoweredTool | QuarantinedTool) -> JsonObject:
    if isinstance(found, QuarantinedTool):
        return {"name": found.spec.name, "quarantined": found.reason}
    losses: list[Json] = list(found.losses)
    return {"name": found.name, "strict": found.strict, "schema": found.schema, "losses": losses}


def _check(schema: Json, instances: list[Json] | None) -> JsonObject:
    """Return whether these instances fit the schema, with all errors. Without instances, only the schema is checked."""
    if not isinstance(schema, dict):
        return {"valid": False, "errors": ["the schema must be a JSON object"]}
    try:
        validator = Validator(schema)
    except DefinitionError as error:
        return {"valid": False, "errors": [str(error)]}
    problems: list[Json] = [problem for instance in instances or [] for problem in validator.problems(instance)]
    return {"valid": not problems, "errors": problems}


def _batch() -> Iterator[JsonObject]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            pair = strict_json.parse(line.strip())
        except WireError as error:
            yield {"valid": False, "errors": [f"line {number} can't be read: {error}"]}
            continue
        if isinstance(pair, dict) and "schema" in pair and not set(pair) - {"schema", "instance"}:
            yield _check(pair["schema"], [pair["instance"]] if "instance" in pair else None)
        else:
            yield {"valid": False, "errors": [f'line {number} has to be an object {{"schema": …, "instance": …}}']}
