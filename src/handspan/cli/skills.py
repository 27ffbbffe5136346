"""`handspan skills`: what skills there are, and which of the workspace's a person lets be used (SPEC A3)."""

import sys
from typing import Final

import click

from handspan.cli.door import RequestGroup, ask_gateway, change, fetch
from handspan.cli.options import completes, is_json
from handspan.cli.render import one_line, print_as_json, print_done, print_line
from handspan.cli.requests import segment
from handspan.cli.wrapping import wrap_for
from handspan.core.errors import ConfigError
from handspan.core.values import strip_invisible
from handspan.wire.rest.skills import SkillList, SkillState, SkillText

_COLUMN: Final = 11
"""Where the names begin."""


@click.group("skills", cls=RequestGroup)
def command() -> None:
    """List the skills: name, where from, whether it can be used, description."""
    listed = fetch("/api/skills", SkillList).skills
    if print_as_json(listed):
        return
    for skill in listed:
        state = "available" if skill.enabled else "off"
        print_line(f"{state:<9}  {skill.name:<24} {skill.where:<10} {one_line(strip_invisible(skill.description))}")
        for problem in skill.problems:
            click.echo(wrap_for(sys.stdout, f"{' ' * _COLUMN}{strip_invisible(problem)}", _COLUMN))


@command.command("show")
@click.argument("name", shell_complete=completes("skills"))
def show(name: str) -> None:
    """Print the tools of the skill NAME, and its instructions as a model would get them."""
    skill = fetch(_path(name), SkillText)
    print_done(skill, _render_text(skill))


@command.command("enable")
@click.argument("name", shell_complete=completes("skills"))
@click.option("--yes", is_flag=True, help="Do not show it and ask first.")
def enable(name: str, yes: bool) -> None:
    """Let the skill NAME of the workspace be used, as it is now. A changed file is off again."""
    if is_json() and not yes:
        raise click.UsageError("--json asks nothing: give --yes, too.")
    skill = fetch(_path(name), SkillText)
    if not yes:
        click.echo(_render_text(skill))
        click.confirm(f"Let agents follow {name!r}?", abort=True)
    body = {"enabled": True, "fingerprint": skill.fingerprint}
    state = ask_gateway(lambda requests: requests.change("PUT", _path(name), SkillState, body), is_silent=True)
    text = f"{name} can be used." if state.changed else f"{name} could be used already."
    print_done(state, text)


@command.command("disable")
@click.argument("name", shell_complete=completes("skills"))
def disable(name: str) -> None:
    """Take back `enable`."""
    state = change("PUT", _path(name), SkillState, {"enabled": False})
    if not state.changed:
        raise ConfigError(f"The skill {name!r} was not enabled here: `handspan skills` lists those that are on.")
    print_done(state, f"{name} can't be used any more.")


def _render_text(skill: SkillText) -> str:
    """Return what a person reads before it is enabled."""
    tools = ["those of the agent"] if skill.allowed_tools is None else skill.allowed_tools or ["none"]
    return f"Tools while it is on: {', '.join(tools)}\n\n{skill.instructions}"


def _path(name: str) -> str:
    return f"/api/skills/{segment(name)}"
