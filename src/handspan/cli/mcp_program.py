"""The program of an MCP server as the gateway has to be told of it: the gateway may find another one, or none."""

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from handspan.cli.remote import Remote


def name_program(word: str, env: Mapping[str, str], remote: "Remote | None") -> str:
    """Return the name of a program, or its full path if a gateway on this computer would not find the same one.

    The person is told of the full path. `env`: the variables of the server.
    """
    path = env.get("PATH") or (remote.search_path if remote is not None else "")
    here = None if os.sep in word else shutil.which(word)
    if not path or here is None:
        return word
    here, there = os.path.abspath(here), shutil.which(word, path=path)
    if there == here:
        return word
    why = f"the gateway would start {there!r}" if there else "it is not on the gateway's PATH"
    click.echo(f"{word!r} becomes {here!r}: {why}.", err=True)
    return here
