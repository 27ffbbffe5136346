"""`handspan skills`: what skills there are, and which of the workspace's a person lets be used (SPEC A3)."""

import asyncio

import click

from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.render import print_json
from handspan.core.errors import ConfigError
from handspan.gateway.app import skills_of
from handspan.skills.skills import Skills


@click.group("skills", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@settings_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the skills: name, where from, whether it can be used, description."""
    if ctx.invoked_subcommand is not None:
        return
    listed = _skills().listing()
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
def show(name: str) -> None:
    """Print the instructions of the skill NAME, as a model would get them."""
    click.echo(_skills().find_any(name).instructions)


@command.command("enable")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not show it and ask first.")
@settings_options
def enable(name: str, yes: bool) -> None:
    """Let the skill NAME of the workspace be used, as it is now. A changed file is off again."""
    skills = _skills()
    skill = skills.find_any(name)
    if not yes:
        click.echo(skill.instructions)
        click.confirm(f"Let agents follow {name!r}?", abort=True)
    changed = asyncio.run(skills.enable(name, skill.fingerprint))
    click.echo(f"{name} can be used." if changed else f"{name} could be used already.")


@command.command("disable")
@click.argument("name")
@settings_options
def disable(name: str) -> None:
    """Take back `enable`."""
    if not asyncio.run(_skills().disable(name)):
        raise ConfigError(f"The skill {name!r} was not enabled here.")
    click.echo(f"{name} can't be used any more.")


def _skills() -> Skills:
    skills = skills_of(read_settings(), config_folder())
    asyncio.run(skills.refresh())
    return skills
