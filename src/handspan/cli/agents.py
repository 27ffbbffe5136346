"""`handspan agents`: list agents, make and change them, tick their tools (SPEC A1)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, get_args

import click
from msgspec import Struct, structs

from handspan.agent.agents import tick_tool, untick_tool
from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import ListingGroup, completes, json_option
from handspan.cli.render import plain_agent, print_agent, print_agents, print_json
from handspan.cli.requests import RemoteRefused, Requests, find_agent, segment
from handspan.core.agents import GENERAL, Agent, Mode
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches
from handspan.wire.rest.agent_requests import check_agent_name
from handspan.wire.rest.agents import AgentList, AgentTools, AgentView, DeletedAgent
from handspan.wire.rest.models import ChosenModel
from handspan.wire.rest.skills import SkillList

F = TypeVar("F", bound=Callable[..., None])

_OPTIONS: Final = (
    click.option("--description", help="One sentence for people who choose an agent."),
    click.option("--instructions", help="The text that the model gets first."),
    click.option("--model", help="As for `handspan chat`; '' means whichever the gateway uses."),
    click.option("--mode", type=click.Choice(get_args(Mode)), help="When a person is asked first."),
    click.option("--tools", help="Only these tools: names and globs, with commas between them."),
    click.option("--all-tools", is_flag=True, help="All tools."),
    click.option("--no-tools", is_flag=True, help="No tools."),
    click.option("--deny", help="Never these tools: names and globs, with commas between them; '' means none."),
    click.option("--skills", help="Skills that are on from the start, with commas between them; '' means none."),
    click.option("--max-rounds", type=click.IntRange(min=0), help="Rounds of tool calls in one turn; 0 for no limit."),
)


class Wanted(Struct, frozen=True):
    """The options of an agent that a person gave; None where an option was left out."""

    description: str | None
    instructions: str | None
    model: str | None
    mode: Mode | None
    tools: str | None
    all_tools: bool
    no_tools: bool
    deny: str | None
    skills: str | None
    max_rounds: int | None
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    name: str | None = None


def _agent_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group("agents", cls=ListingGroup, invoke_without_command=True)
@json_option
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: name, where they are kept, model, mode, number of tools, description."""
    if ctx.invoked_subcommand is None:
        listed = ask_gateway(lambda requests: requests.get("/api/agents", AgentList), says=not as_json)
        print_agents(listed.agents, as_json)


@command.command("show")
@click.argument("name", shell_complete=completes("agents"))
@json_option
@place_options
def show(name: str, as_json: bool) -> None:
    """Show the agent NAME with a checkbox for every tool."""
    _run(lambda requests: _show(requests, name, as_json), as_json)


@command.command("create")
@click.argument("name", shell_complete=completes("agents"))
@_agent_options
@json_option
@place_options
def create(name: str, as_json: bool, **given: Any) -> None:
    """Make an agent NAME; it has all tools unless you choose some."""

    async def work(requests: Requests) -> None:
        wanted = Wanted(**given)
        agent = _change(Agent(_check_name(name)), wanted)
        await requests.change("POST", "/api/agents", AgentView, structs.asdict(agent))
        await _warn_about_names(requests, agent, wanted)
        await _show(requests, name, as_json)

    _run(work, as_json)


@command.command("edit")
@click.argument("name", shell_complete=completes("agents"))
@click.option("--name", "new_name", help="Another name; its sessions follow.")
@_agent_options
@click.option("--enable", multiple=True, metavar="TOOL", help="Tick this tool. May be given several times.")
@click.option("--disable", multiple=True, metavar="TOOL", help="Untick this tool. May be given several times.")
@json_option
@place_options
def edit(name: str, new_name: str | None, as_json: bool, **given: Any) -> None:
    """Change the agent NAME: only the options that you give."""

    async def work(requests: Requests) -> None:
        wanted = Wanted(**given, name=None if new_name is None else _check_name(new_name))
        agent = _change(plain_agent(await find_agent(requests, name)), wanted)
        await requests.change("PATCH", f"/api/agents/{segment(name)}", AgentView, structs.asdict(agent))
        await _warn_about_names(requests, agent, wanted)
        await _show(requests, agent.name, as_json)

    _run(work, as_json)


@command.command("clone")
@click.argument("name", shell_complete=completes("agents"))
@click.argument("new_name")
@json_option
@place_options
def clone(name: str, new_name: str, as_json: bool) -> None:
    """Make the agent NEW_NAME, the same as the agent NAME."""

    async def work(requests: Requests) -> None:
        await requests.change("POST", f"/api/agents/{segment(name)}/clone", AgentView, {"name": _check_name(new_name)})
        await _show(requests, new_name, as_json)

    _run(work, as_json)


@command.command("delete")
@click.argument("name", shell_complete=completes("agents"))
@json_option
@place_options
def delete(name: str, as_json: bool) -> None:
    """Remove the agent NAME; its sessions go on with the built-in one."""

    async def work(requests: Requests) -> None:
        moved = (await requests.change("DELETE", f"/api/agents/{segment(name)}", DeletedAgent)).sessions_moved
        if as_json:
            print_json({"deleted": name, "sessions_moved": moved})
        else:
            sessions = f" {moved} session{'s' if moved != 1 else ''} moved to {GENERAL.name!r}." if moved else ""
            click.echo(f"The agent {name!r} is deleted.{sessions}")

    _run(work, as_json)


def _run(work: Callable[[Requests], Awaitable[None]], as_json: bool) -> None:
    ask_gateway(work, says=not as_json)


async def _show(requests: Requests, name: str, as_json: bool) -> None:
    agent = await find_agent(requests, name)
    selection = await requests.get(f"/api/agents/{segment(name)}/tools", AgentTools)
    print_agent(agent, selection.tools, as_json)


# What is changed.


def _change(agent: Agent, wanted: Wanted) -> Agent:
    """Return the agent with every option that the person gave."""
    if sum((wanted.tools is not None, wanted.all_tools, wanted.no_tools)) > 1:
        raise click.UsageError("--tools, --all-tools and --no-tools: one of the three.")
    if both := set(wanted.enable) & set(wanted.disable):
        raise click.UsageError(f"--enable and --disable both name {min(both)!r}: one of the two.")
    for field in ("name", "description", "instructions", "model", "mode"):
        if (value := getattr(wanted, field)) is not None:
            agent = structs.replace(agent, **{field: value})
    if wanted.max_rounds is not None:
        agent = structs.replace(agent, max_tool_iterations=wanted.max_rounds or None)
    if wanted.skills is not None:
        agent = structs.replace(agent, skills=_split(wanted.skills))
    if wanted.deny is not None:
        agent = structs.replace(agent, deny=_split(wanted.deny))
    if wanted.tools is not None or wanted.all_tools or wanted.no_tools:
        agent = structs.replace(agent, tools=None if wanted.all_tools else _split(wanted.tools or ""))
    for tool in wanted.disable:
        agent = untick_tool(agent, tool)
    for tool in wanted.enable:
        agent = tick_tool(agent, tool)
    return agent


def _check_name(name: str) -> str:
    """Return the name, if an agent may have it; raises `ConfigError` in words for a person if not."""
    try:
        check_agent_name(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return name


def _split(globs: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(glob.strip() for glob in globs.split(",") if glob.strip()))


async def _warn_about_names(requests: Requests, agent: Agent, wanted: Wanted) -> None:
    """Warn about names that have no effect now. A device or a server may bring such a tool later."""
    selection = await requests.get(f"/api/agents/{segment(agent.name)}/tools", AgentTools)
    names = [box.name for box in selection.tools]
    globs = (*_split(wanted.tools or ""), *_split(wanted.deny or ""), *wanted.enable, *wanted.disable)
    for glob in globs:
        if not any(matches(glob, name) for name in names):
            click.echo(f"Note: {glob!r} names no tool that is here now.{did_you_mean(glob, names)}", err=True)
    for problem in await _skill_problems(requests, _split(wanted.skills or "")):
        click.echo(f"Note: {problem}", err=True)
    if wanted.model:
        try:
            await requests.get("/api/models/which", ChosenModel, model=agent.model)
        except RemoteRefused as refused:
            click.echo(f"Note: this model can't be asked now. {refused}", err=True)


async def _skill_problems(requests: Requests, names: Sequence[str]) -> list[str]:
    """Return what keeps these skills from being used."""
    if not names:
        return []
    known = {skill.name: skill for skill in (await requests.get("/api/skills", SkillList)).skills}
    missing = [f"There is no skill {name!r}." for name in names if name not in known]
    broken = [skill for name in names if (skill := known.get(name)) is not None and not skill.enabled]
    return [*missing, *(f"The skill {skill.name!r} can't be used: {' '.join(skill.problems)}" for skill in broken)]
