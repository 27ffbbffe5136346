"""`handspan completion`: what a shell needs to complete commands; and the names that commands complete (SPEC U2)."""

from collections.abc import Mapping
from typing import Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from handspan.cli.door import ask_gateway
from handspan.cli.names import list_names
from handspan.cli.render import one_line
from handspan.core.errors import HandspanError

_VARIABLE: Final = "_HANDSPAN_COMPLETE"
"""The variable with which a shell asks the command for completions."""
_INSTALL: Final = {
    "bash": 'add to ~/.bashrc:  eval "$(handspan completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit:  eval "$(handspan completion zsh)"',
    "fish": "handspan completion fish > ~/.config/fish/completions/handspan.fish",
}
_FIRST: Final = {
    "sessions": ("last", "the one that was active last"),
    "models": ("offline", "a stand-in that needs no key"),
}
"""Words that may stand in place of the names of a kind."""


class WholeFish(FishComplete):
    """click's script for fish, which splits each line at its first comma only: descriptions have commas, too."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


_SHELLS: Final[Mapping[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": WholeFish}


@click.command("completion", epilog=f"\b\n{chr(10).join(f'{shell}: {how}' for shell, how in _INSTALL.items())}")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that lets your SHELL complete commands, options, tools, agents, sessions and more."""
    click.echo(_SHELLS[shell](ctx.find_root().command, {}, "handspan", _VARIABLE).source())


def complete(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the names of this kind that begin with `incomplete`. Prints nothing: a shell would show it."""
    try:
        with ctx.scope(cleanup=False):
            words = ask_gateway(lambda requests: list_names(requests, kind), is_silent=True)
    except (HandspanError, click.ClickException):
        return []
    words = [_FIRST[kind], *words] if kind in _FIRST else words
    return [CompletionItem(name, help=one_line(text)) for name, text in words if name.startswith(incomplete)]
