"""`handspan schema check`: does this fit that schema, and what is wrong where it does not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from handspan.core.errors import DefinitionError, WireError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json


@click.group("schema")
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
        _batch() if batch else iter([_check(_read(schema or ""), None if instance is None else [_read(instance)])])
    )
    all_fit = True
    for answer in answers:
        all_fit &= answer["valid"] is True
        click.echo(msgspec.json.encode(answer).decode())
    sys.exit(0 if all_fit else 1)


def _check(schema: Json, instances: list[Json] | None) -> JsonObject:
    """The answer for one pair; no instances means that only the schema is looked at."""
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


def _read(given: str) -> Json:
    """The value of an argument: the content of the file of that name, else the argument itself."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # longer than a file name can be: JSON, then
        is_file = False
    try:
        return strict_json.parse(path.read_bytes() if is_file else given)
    except WireError as error:
        what = f"The file {given!r}" if is_file else f"{given[:60]!r} is no file, and as JSON it"
        raise click.UsageError(f"{what} can't be read: {error}") from None
