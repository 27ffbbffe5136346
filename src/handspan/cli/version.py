"""`handspan version`: which version this is (SPEC U2)."""

import platform
import sys

import click

from handspan.cli.options import json_option
from handspan.cli.render import print_json
from handspan.core.version import VERSION


@click.command("version")
@json_option
def command(as_json: bool) -> None:
    """Print the version of Handspan; with --json also those of Python and of this system."""
    if as_json:
        print_json({"version": VERSION, "python": platform.python_version(), "platform": sys.platform})
    else:
        click.echo(f"handspan {VERSION}")
