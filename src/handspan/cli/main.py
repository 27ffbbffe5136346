"""The command line `handspan`, with click: finds the file of the subcommand that was typed; prints our errors."""

import errno
import gc
import importlib
import io
import os
import sys
from typing import Any, Final

import click

from handspan.cli import late
from handspan.cli.options import settings_options
from handspan.cli.wrapping import wrap_for
from handspan.core.errors import HandspanError
from handspan.core.names import did_you_mean
from handspan.core.version import VERSION

# Loaded when used, so that `handspan --help` answers at once.
COMMANDS: Final = {
    "agents": ("handspan.cli.agents", "List agents, make and change them, tick their tools."),
    "artifacts": ("handspan.cli.artifacts", "List stored images, files and large results, get and add them."),
    "backup": ("handspan.cli.backup", "Put everything that must last into one file."),
    "bridge": ("handspan.cli.bridge", "Offer the tools of other apps on this computer to agents."),
    "budget": ("handspan.cli.budget", "See how much models may cost and what is left; add money for today."),
    "call": ("handspan.cli.call", "Run one tool, or many."),
    "calls": ("handspan.cli.calls", "See the journal of tool calls."),
    "channels": ("handspan.cli.channels", "See the ways to people, try one, let a person write to your agents."),
    "chat": ("handspan.cli.chat.command", "Talk to an agent that uses your tools."),
    "completion": ("handspan.cli.completion", "Let your shell complete commands, tools, agents and sessions."),
    "config": ("handspan.cli.config", "See and check the settings, and where each comes from."),
    "device": ("handspan.cli.device.command", "Make this computer a device whose tools agents can use."),
    "devices": ("handspan.cli.devices", "List your devices, rename and forget them."),
    "doctor": ("handspan.cli.doctor", "See whether everything works here, and what to do where it does not."),
    "mcp": ("handspan.cli.mcp", "Add MCP servers, see and try them."),
    "model": ("handspan.cli.model", "See which model answers, and exactly what it would be sent."),
    "nodes": ("handspan.cli.nodes", "List the gateways that are one with this one."),
    "pair": ("handspan.cli.pair", "Let a device, a program or a browser in: a new code or link."),
    "provider": ("handspan.cli.provider", "Offer an app's data to agents: make a provider, test and install it."),
    "push": ("handspan.cli.push", "List browsers that get notifications, test and remove them."),
    "questions": ("handspan.cli.questions", "See and answer what agents ask."),
    "reload": ("handspan.cli.reload", "Let the gateway that runs take the settings as they are now."),
    "restore": ("handspan.cli.backup", "Put back what `handspan backup` saved."),
    "rules": ("handspan.cli.rules", "See and take back what you answered with always or never."),
    "schedule": ("handspan.cli.schedule", "Let agents be told something later or regularly; see what came of it."),
    "schema": ("handspan.cli.schema", "Check JSON Schemas, and see how model APIs get them."),
    "serve": ("handspan.cli.serve", "Serve agents to people, and tools of any device to agents."),
    "sessions": ("handspan.cli.sessions", "List your conversations, show, rename, export and delete them."),
    "skills": ("handspan.cli.skills", "List skills, and let those of the workspace be used."),
    "store": ("handspan.cli.store", "Check what is stored, and move it into PostgreSQL."),
    "tokens": ("handspan.cli.tokens", "List tokens, make one for a page or a program, revoke one."),
    "tools": ("handspan.cli.tools", "List the tools, say why one can't be used, switch them on and off."),
    "usage": ("handspan.cli.usage", "See what replies used: tokens and cost."),
    "version": ("handspan.cli.version", "Print the version."),
}
_OBJECTS: Final = {"restore": "restore"}
"""The name of a command's object in its module, where that is not `command`."""

_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name. Only now is its module loaded."""
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # nothing that is loaded here becomes garbage: looking for it is a tenth of the time
        try:
            module = importlib.import_module(COMMANDS[cmd_name][0])
            command: click.Command = vars(module)[_OBJECTS.get(cmd_name, "command")]
        finally:
            gc.freeze()  # later collections skip these objects
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that was typed. For a word that is none, raise `UsageError` with the nearest command."""
        if args and args[0].isidentifier() and args[0] not in COMMANDS:
            raise click.UsageError(f"No such command {args[0]!r}.{did_you_mean(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="handspan")
@settings_options
def handspan(**_: Any) -> None:
    """Hands for an AI agent, wherever the tools are."""


def main() -> None:
    """Run the command. The exit code is 0 for success, 1 for an error of a tool or of the gateway, 2 for wrong usage.

    After Ctrl-C it is 130.
    """
    if sys.platform == "win32":
        click.echo("handspan: Windows itself can't run this. Use it inside WSL, where it is a Linux program.", err=True)
        sys.exit(1)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that a terminal can't show are no reason to fail
            stream.reconfigure(errors="replace")
    try:
        code = handspan(prog_name="handspan", standalone_mode=False)
    except click.ClickException as error:
        if not _print_as_json(error):
            error.show()
        code = error.exit_code
    except HandspanError as error:
        if not _print_as_json(error):
            _print_error(f"handspan: {error}")
        code = 1
    except click.Abort as abort:  # Ctrl-C, or no more input
        if not isinstance(abort.__cause__, KeyboardInterrupt):  # else click has ended the line, and that is enough
            click.echo("Aborted.", err=True)
        code = 130 if isinstance(abort.__context__, KeyboardInterrupt) else 1
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        code = 0
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the end of the process would try to write the rest
        _print_error(f"handspan: The output can't be written: {error.strerror}. Make room, or write it elsewhere.")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(text: str) -> None:
    click.echo(wrap_for(sys.stderr, text), err=True)


def _print_as_json(error: HandspanError | click.ClickException) -> bool:
    """Print the error as JSON if `--json` is given, and return whether it is: all output must be JSON then."""
    words = sys.argv[1:]
    if "--json" not in (words[: words.index("--")] if "--" in words else words):
        return False
    click.echo(late.json_errors.render_error(error))
    return True


if __name__ == "__main__":
    main()
