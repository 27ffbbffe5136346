"""The command line of an MCP server as the gateway needs it: it runs in another folder, with another PATH."""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from handspan.cli.remote import Remote

_RUNNERS: Final = {"bunx", "npx", "uvx"}
"""Programs whose first word that is no option is the name of a package."""


def name_command(words: Sequence[str], env: Mapping[str, str], remote: "Remote | None") -> list[str]:
    """Return a program and its arguments, with full paths where the gateway would find something else, or nothing.

    The person is told of each full path. `env`: the variables of the server.
    """
    program = name_program(words[0], env, remote)
    if program == words[0] and os.path.isfile(program):
        program = full_path(program)
    return [program, *(word if kept else full_path(word) for word, kept in _mark_names(words))]


def full_path(word: str, *, finds_names: bool = True) -> str:
    """Return a relative path of this folder as its full path, and say so: the program runs in the workspace.

    A path is what `is_path` says and, with `finds_names`, each name of a file or folder that is here. `--option=PATH`
    has one, too.
    """
    option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
    is_here = finds_names and bool(value) and not os.path.isabs(value) and os.path.exists(value)
    if not is_here and not is_path(value):
        return word
    click.echo(f"{value!r} becomes {os.path.abspath(value)!r}: the program runs in the workspace.", err=True)
    return f"{option}{sign}{os.path.abspath(value)}"


def is_path(word: str) -> bool:
    """Say whether a word is written as a relative path: `.`, `..`, `./x` or `../x`."""
    return word in (".", "..") or word.startswith((f".{os.sep}", f"..{os.sep}"))


def _mark_names(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each argument, and whether it is the name of a package or module: a folder may have the same name."""
    is_package_next = os.path.basename(words[0]) in _RUNNERS
    for before, word in itertools.pairwise(words):
        is_package = is_package_next and not is_path(word) and not word.startswith("-")
        yield word, is_package or before == "-m"
        is_package_next = is_package_next and not is_package


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
