"""What `--json` prints."""

import click
import msgspec


def print_json(value: object) -> None:
    """For programs, and still to be read by people."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())
