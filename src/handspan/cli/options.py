"""What commands share: the options that every one takes (--config, --workspace, --state, --json), and their groups."""

import importlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click

from handspan.config.load import FILE_VARIABLE, LoadedSettings, find_file, folder_of, load_place, load_with_sources
from handspan.config.settings import Settings
from handspan.core.values import Json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
CompleteWord: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"

OF_COMMANDS: Final = frozenset(("HANDSPAN_URL", "HANDSPAN_TOKEN", "HANDSPAN_CA", "HANDSPAN_DEVICE_INFO_DELAY"))
"""Variables that commands read themselves: they are no settings."""
_COMPLETION: Final = "handspan.cli.completion"
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_WHOLE: Final = 1000
"""Characters of a description in a list of commands: more than any has."""


class CommandGroup(click.Group):
    """A command with subcommands. Its help has the whole first sentence of each: click would cut it, even in a pipe."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*self.described()])

    def described(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it does."""
        for name, command in sorted(self.commands.items()):
            yield name, command.get_short_help_str(_WHOLE)


class ListingGroup(CommandGroup):
    """A group that lists something when no subcommand is named. `list` does the same: many people type it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if args[:1] == ["list"] else args)

    def described(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it does, the list first."""
        yield "list", "The same as without a command."
        yield from super().described()


def completes(kind: str) -> CompleteWord:
    """Return a function with which a shell completes names of this kind. It loads its module when a shell asks."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        found: list[CompletionItem] = importlib.import_module(_COMPLETION).complete(kind, ctx, incomplete)
        return found

    return complete


def settings_options(function: F) -> F:
    """Let a command take the options that say where the settings come from."""
    path = click.Path(path_type=Path)
    for name, text in (
        ("state", "Folder for what must last."),
        ("workspace", "Folder that file and shell tools work in."),
        ("config", "Settings file (TOML or JSON)."),
    ):
        option = click.option(f"--{name}", type=path, expose_value=False, callback=_keep, help=text)
        function = option(function)
    return function


def _keep(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    """Keep the value of an option for `config_folder` and `read_loaded_settings`."""
    if value is not None:
        ctx.find_root().ensure_object(dict)[param.name] = value


def config_folder() -> Path:
    """Return the folder of the settings file. A person's own tools are in its folder `tools/`."""
    given: dict[str, Path] = click.get_current_context().find_root().ensure_object(dict)
    return folder_of(given.get("config") or find_file(os.environ), os.environ)


def place_words(loaded: LoadedSettings) -> str:
    """Return the options with which a command in another terminal has the state folder of these settings; or nothing.

    They begin with a space. What is in the usual settings file is found without options.
    """
    given: dict[str, Path] = click.get_current_context().find_root().ensure_object(dict)
    is_named = "config" in given or FILE_VARIABLE in os.environ
    config = f" --config {shlex.quote(str(loaded.file.absolute()))}" if is_named and loaded.file is not None else ""
    is_told = loaded.sources.get(("state",), "").startswith(("command line", "environment variable"))
    return config + (f" --state {shlex.quote(str(loaded.settings.state.absolute()))}" if is_told else "")


def read_settings(more: Mapping[str, Json] | None = None) -> Settings:
    """Return the settings as file, environment and options give them; `more` are options of the command itself."""
    return read_loaded_settings(more).settings


def read_client_settings() -> Settings:
    """Return the settings that a command itself needs: all but those of `mcp.json`.

    Only a gateway needs these: a mistake there may not keep a command from one that runs.
    """
    return read_loaded_settings(with_servers=False).settings


def read_place() -> Settings:
    """Return what a command needs to find its gateway: the state folder, the workspace and the certificate.

    The gateway has the other settings: a mistake in them may not keep a command from one that runs.
    """
    given: dict[str, Path] = click.get_current_context().find_root().ensure_object(dict)
    return load_place(given.get("config"), _environ(), _overrides(given))


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_COMMANDS}


def _overrides(given: Mapping[str, Path]) -> dict[str, Json]:
    return {name: str(given[name]) for name in ("workspace", "state") if name in given}


def read_loaded_settings(
    more: Mapping[str, Json] | None = None, *, with_servers: bool = True, may_be_missing: bool = False
) -> LoadedSettings:
    """Return the settings as `read_settings` does, with the source of each; `with_servers`: with `mcp.json`.

    `may_be_missing`: a settings file that is named need not be there.
    """
    given: dict[str, Path] = click.get_current_context().find_root().ensure_object(dict)
    overrides = {**_overrides(given), **(more or {})}
    return load_with_sources(
        given.get("config"), _environ(), overrides, with_servers=with_servers, may_be_missing=may_be_missing
    )
