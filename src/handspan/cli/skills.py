"""`handspan skills`: what skills there are, and which of the workspace's a person lets be used (SPEC A3)."""

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import settings_options
from handspan.cli.render import print_json
from handspan.cli.requests import Requests, segment
from handspan.core.errors import ConfigError
from handspan.core.values import JsonObject
from handspan.wire.rest.status import SkillList, SkillState, SkillText


@click.group("skills", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the skills: name, where from, whether it can be used, description."""
    if ctx.invoked_subcommand is not None:
        return
    listed = ask_gateway(lambda requests: requests.get("/api/skills", SkillList), says=not as_json).skills
    if as_json:
        print_json(listed)
        return
    for skill in listed:
        state = "on " if skill.enabled else "off"
        click.echo(f"{state}  {skill.name:<24} {skill.where:<10} {' '.join(skill.description.split())}")
        for problem in skill.problems:
            click.echo(f"     {problem}")


@command.command("show")
@click.argument("name")
@settings_options
@place_options
def show(name: str) -> None:
    """Print the instructions of the skill NAME, as a model would get them."""
    click.echo(ask_gateway(lambda requests: requests.get(_path(name), SkillText)).instructions)


@command.command("enable")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not show it and ask first.")
@settings_options
@place_options
def enable(name: str, yes: bool) -> None:
    """Let the skill NAME of the workspace be used, as it is now. A changed file is off again."""
    state = ask_gateway(lambda requests: _enable(requests, name, is_confirmed=yes))
    click.echo(f"{name} can be used." if state.changed else f"{name} could be used already.")


async def _enable(requests: Requests, name: str, *, is_confirmed: bool) -> SkillState:
    skill = await requests.get(_path(name), SkillText)
    if not is_confirmed:
        click.echo(skill.instructions)
        click.confirm(f"Let agents follow {name!r}?", abort=True)
    body: JsonObject = {"enabled": True, "fingerprint": skill.fingerprint}
    return await requests.change("PUT", _path(name), SkillState, body)


@command.command("disable")
@click.argument("name")
@settings_options
@place_options
def disable(name: str) -> None:
    """Take back `enable`."""
    state = ask_gateway(lambda requests: requests.change("PUT", _path(name), SkillState, {"enabled": False}))
    if not state.changed:
        raise ConfigError(f"The skill {name!r} was not enabled here: `handspan skills` lists those that are on.")
    click.echo(f"{name} can't be used any more.")


def _path(name: str) -> str:
    return f"/api/skills/{segment(name)}"
