"""`handspan version`: which version this is (SPEC U2)."""

import platform
import sys

import click

from handspan.cli.options import json_option
from handspan.cli.render import print_done
from handspan.core.version import VERSION


@click.command("version")
@json_option
def command() -> None:
    """Print the version of Handspan; with --json also those of Python and of this system."""
    answer = {"version": VERSION, "python": platform.python_version(), "platform": sys.platform}
    print_done(answer, f"handspan {VERSION}")
