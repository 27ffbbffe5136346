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
_WHOLE: Final = 1000
"""Characters of a description in a list of commands: more than any has."""


class CommandGroup(click.Group):
    """A command with subcommands. Its own function runs only where none of them is named.

    Its help has the whole first sentence of each: click would cut it, even in a pipe.
    """

    def __init__(self, name: str, callback: Callable[..., None], **more: Any) -> None:
        def run_alone(**given: Any) -> None:
            if click.get_current_context().invoked_subcommand is None:
                callback(**given)

        super().__init__(name, callback=run_alone, **more)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*self.described_commands()])

    def described_commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it does."""
        for name, command in sorted(self.commands.items()):
            yield name, command.get_short_help_str(_WHOLE)


class ListingGroup(CommandGroup):
    """A group that lists something when no subcommand is named. `list` does the same: many people type it."""

    def __init__(self, name: str, callback: Callable[..., None], **more: Any) -> None:
        super().__init__(name, callback, invoke_without_command=True, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if args[:1] == ["list"] else args)

    def described_commands(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it does, the list first."""
        yield "list", "The same as without a command."
        yield from super().described_commands()


def completes(kind: str) -> CompleteWord:
    """Return a function with which a shell completes names of this kind. It loads its module when a shell asks."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        found: list[CompletionItem] = importlib.import_module(_COMPLETION).complete(kind, ctx, incomplete)
        return found

    return complete


def given_options(ctx: click.Context | None = None) -> dict[str, Any]:
    """Return the values of the options that `kept_option` made, as far as they were given."""
    given: dict[str, Any] = (ctx or click.get_current_context()).find_root().ensure_object(dict)
    return given


def kept_option(name: str, **more: Any) -> Callable[[F], F]:
    """Return an option that is no argument of the command's function: `given_options` has its value."""
    return click.option(f"--{name}", expose_value=False, callback=_keep, **more)


def _keep(ctx: click.Context, param: click.Parameter, value: Path | str | bool | None) -> None:
    if value:
        given_options(ctx)[str(param.name)] = value


def agent_option(text: str) -> Callable[[F], F]:
    """Return the option that names an agent."""
    return click.option("--agent", shell_complete=completes("agents"), help=text)


def settings_options(function: F) -> F:
    """Let a command take the options that say where the settings come from."""
    for name, text in (
        ("state", "Folder for what must last."),
        ("workspace", "Folder that file and shell tools work in."),
        ("config", "Settings file (TOML or JSON)."),
    ):
        function = kept_option(name, type=click.Path(path_type=Path), help=text)(function)
    return function


def json_option(function: F) -> F:
    """Let a command take --json."""
    option = click.option("--json", is_flag=True, expose_value=False, callback=_keep_json, help="Print JSON.")
    return option(function)


def _keep_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        given_options(ctx)["json"] = ctx


def is_json() -> bool:
    """Whether `json_option` is given to the command that runs."""
    return given_options().get("json") is click.get_current_context()


def config_folder() -> Path:
    """Return the folder of the settings file. A person's own tools are in its folder `tools/`."""
    return folder_of(given_options().get("config") or find_file(os.environ), os.environ)


def place_words(loaded: LoadedSettings) -> str:
    """Return the options with which a command in another terminal has the state folder of these settings; or nothing.

    They begin with a space. What is in the usual settings file is found without options.
    """
    is_named = "config" in given_options() or FILE_VARIABLE in os.environ
    config = f" --config {shlex.quote(str(loaded.file.absolute()))}" if is_named and loaded.file is not None else ""
    is_told = loaded.sources.get(("state",), "").startswith(("command line", "environment variable"))
    return config + (f" --state {shlex.quote(str(loaded.settings.state.absolute()))}" if is_told else "")


def read_client_settings() -> Settings:
    """Return the settings that a command itself needs: all but those of `mcp.json`.

    Only a gateway needs these: a mistake there may not keep a command from one that runs.
    """
    return read_loaded_settings(with_servers=False).settings


def read_place() -> Settings:
    """Return what a command needs to find its gateway: the state folder, the workspace and the certificate.

    The gateway has the other settings: a mistake in them may not keep a command from one that runs.
    """
    return load_place(given_options().get("config"), _environ(), _overrides())


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in OF_COMMANDS}


def _overrides() -> dict[str, Json]:
    given = given_options()
    return {name: str(given[name]) for name in ("workspace", "state") if name in given}


def read_loaded_settings(
    more: Mapping[str, Json] | None = None, *, with_servers: bool = True, may_be_missing: bool = False
) -> LoadedSettings:
    """Return the settings as file, environment and options give them, with the source of each.

    `more`: options of the command itself. `with_servers`: with `mcp.json`. `may_be_missing`: a settings file that is
    named need not be there.
    """
    overrides = {**_overrides(), **(more or {})}
    return load_with_sources(
        given_options().get("config"), _environ(), overrides, with_servers=with_servers, may_be_missing=may_be_missing
    )
