"""`handspan agents`: list agents, make and change them, tick their tools (SPEC A1)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, get_args

import click
from msgspec import structs

from handspan.agent.agents import tick_tool, untick_tool
from handspan.cli.door import RequestGroup, ask_gateway, change, fetch
from handspan.cli.options import completes
from handspan.cli.render import agent_body, plain_agent, print_agent, print_agents, print_done
from handspan.cli.requests import RemoteRefused, Requests, find_agent, segment
from handspan.core.agents import GENERAL, Agent, Mode
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches
from handspan.wire.rest.agents import AgentList, AgentTools, AgentView, DeletedAgent, check_agent_name
from handspan.wire.rest.models import ChosenModel
from handspan.wire.rest.skills import SkillList

F = TypeVar("F", bound=Callable[..., None])

_NAME: Final = click.argument("name", shell_complete=completes("agents"))
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


def _agent_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group("agents", cls=RequestGroup)
def command() -> None:
    """List the agents: name, where they are kept, model, mode, number of tools, description."""
    print_agents(fetch("/api/agents", AgentList).agents)


@command.command("show")
@_NAME
def show(name: str) -> None:
    """Show the agent NAME with a checkbox for every tool."""
    ask_gateway(lambda requests: _show(requests, name))


@command.command("create")
@_NAME
@_agent_options
def create(name: str, **given: Any) -> None:
    """Make an agent NAME; it has all tools unless you choose some."""

    async def work(requests: Requests) -> None:
        agent = _change(Agent(_check_name(name)), given)
        await requests.change("POST", "/api/agents", AgentView, agent_body(agent))
        await _warn_about_names(requests, agent, given)
        await _show(requests, name)

    ask_gateway(work)


@command.command("edit")
@_NAME
@click.option("--name", "new_name", help="Another name; its sessions follow.")
@_agent_options
@click.option("--enable", multiple=True, metavar="TOOL", help="Tick this tool. May be given several times.")
@click.option("--disable", multiple=True, metavar="TOOL", help="Untick this tool. May be given several times.")
def edit(name: str, new_name: str | None, **given: Any) -> None:
    """Change the agent NAME: only the options that you give."""

    async def work(requests: Requests) -> None:
        if new_name is not None:
            given["name"] = _check_name(new_name)
        agent = _change(plain_agent(await find_agent(requests, name)), given)
        await requests.change("PATCH", f"/api/agents/{segment(name)}", AgentView, agent_body(agent))
        await _warn_about_names(requests, agent, given)
        await _show(requests, agent.name)

    ask_gateway(work)


@command.command("clone")
@_NAME
@click.argument("new_name")
def clone(name: str, new_name: str) -> None:
    """Make the agent NEW_NAME, the same as the agent NAME."""

    async def work(requests: Requests) -> None:
        await requests.change("POST", f"/api/agents/{segment(name)}/clone", AgentView, {"name": _check_name(new_name)})
        await _show(requests, new_name)

    ask_gateway(work)


@command.command("delete")
@_NAME
def delete(name: str) -> None:
    """Remove the agent NAME; its sessions go on with the built-in one."""
    moved = change("DELETE", f"/api/agents/{segment(name)}", DeletedAgent).sessions_moved
    sessions = f" {moved} session{'s' if moved != 1 else ''} moved to {GENERAL.name!r}." if moved else ""
    print_done({"deleted": name, "sessions_moved": moved}, f"The agent {name!r} is deleted.{sessions}")


async def _show(requests: Requests, name: str) -> None:
    agent = await find_agent(requests, name)
    selection = await requests.get(f"/api/agents/{segment(name)}/tools", AgentTools)
    print_agent(agent, selection.tools)


# What is changed.


def _change(agent: Agent, given: Mapping[str, Any]) -> Agent:
    """Return the agent with every option that the person gave; one that was left out is None."""
    chooses_tools = given["tools"] is not None, given["all_tools"], given["no_tools"]
    if sum(chooses_tools) > 1:
        raise click.UsageError("--tools, --all-tools and --no-tools: one of the three.")
    ticked, unticked = given.get("enable", ()), given.get("disable", ())
    if both := set(ticked) & set(unticked):
        raise click.UsageError(f"--enable and --disable both name {min(both)!r}: one of the two.")
    texts = ("name", "description", "instructions", "model", "mode")
    changes = {field: given[field] for field in texts if given.get(field) is not None}
    changes |= {field: _split(given[field]) for field in ("skills", "deny") if given[field] is not None}
    if given["max_rounds"] is not None:
        changes["max_tool_iterations"] = given["max_rounds"] or None
    if any(chooses_tools):
        changes["tools"] = None if given["all_tools"] else _split(given["tools"])
    agent = structs.replace(agent, **changes)
    for tool in unticked:
        agent = untick_tool(agent, tool)
    for tool in ticked:
        agent = tick_tool(agent, tool)
    return agent


def _check_name(name: str) -> str:
    """Return the name, if an agent may have it; raises `ConfigError` in words for a person if not."""
    try:
        check_agent_name(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return name


def _split(globs: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(glob.strip() for glob in (globs or "").split(",") if glob.strip()))


async def _warn_about_names(requests: Requests, agent: Agent, given: Mapping[str, Any]) -> None:
    """Warn about names that have no effect now. A device or a server may bring such a tool later."""
    selection = await requests.get(f"/api/agents/{segment(agent.name)}/tools", AgentTools)
    names = [box.name for box in selection.tools]
    named = (*_split(given["tools"]), *_split(given["deny"]))
    globs = (*named, *given.get("enable", ()), *given.get("disable", ()))
    for glob in globs:
        if not any(matches(glob, name) for name in names):
            click.echo(f"Note: {glob!r} names no tool that is here now.{did_you_mean(glob, names)}", err=True)
    for problem in await _skill_problems(requests, _split(given["skills"])):
        click.echo(f"Note: {problem}", err=True)
    if given["model"]:
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
