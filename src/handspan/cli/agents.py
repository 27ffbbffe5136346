"""`handspan agents`: who there is to talk to, and which tools each may use (SPEC A1)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, get_args

import click
from msgspec import Struct, structs

from handspan.agent.agents import ticked, unticked
from handspan.cli.agents_shown import ListedAgent, ShownAgent, print_agent, print_list
from handspan.cli.as_json import print_json
from handspan.cli.embedded_agents import EmbeddedAgents
from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.place import find_gateway, place_options, remote_part
from handspan.core.agents import GENERAL, Agent, Mode
from handspan.core.names import did_you_mean, matches
from handspan.gateway.app import App

if TYPE_CHECKING:
    from handspan.cli.remote import Remote

F = TypeVar("F", bound=Callable[..., None])

_json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_OPTIONS: Final = (
    click.option("--description", help="One sentence for people who choose an agent."),
    click.option("--instructions", help="What the model is told before everything else."),
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
    """What a person said about an agent; None where they said nothing."""

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


class SomeAgents(Protocol):
    """The agents, wherever they are kept."""

    async def all(self) -> list[ListedAgent]: ...

    async def show(self, name: str) -> ShownAgent: ...

    async def find(self, name: str) -> Agent: ...

    async def create(self, agent: Agent) -> None: ...

    async def edit(self, name: str, agent: Agent) -> None: ...

    async def clone(self, name: str, new_name: str) -> None: ...

    async def delete(self, name: str) -> int: ...

    async def problems(self, agent: Agent, skills: Sequence[str], *, with_model: bool) -> list[str]: ...


def _agent_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group("agents", invoke_without_command=True)
@_json_option
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: name, where they are kept, model, mode, number of tools, description."""
    if ctx.invoked_subcommand is None:
        _run(lambda agents: _list(agents, as_json), as_json)


@command.command("show")
@click.argument("name")
@_json_option
@settings_options
@place_options
def show(name: str, as_json: bool) -> None:
    """Show the agent NAME with a checkbox for every tool."""
    _run(lambda agents: _show(agents, name, as_json), as_json)


@command.command("create")
@click.argument("name")
@_agent_options
@_json_option
@settings_options
@place_options
def create(name: str, as_json: bool, **given: Any) -> None:
    """Make an agent NAME; it has all tools unless you choose some."""

    async def work(agents: SomeAgents) -> None:
        agent = _changed(Agent(name), Wanted(**given))
        await agents.create(agent)
        await _note(agents, agent, Wanted(**given))
        await _show(agents, name, as_json)

    _run(work, as_json)


@command.command("edit")
@click.argument("name")
@click.option("--name", "new_name", help="Another name; its sessions follow.")
@_agent_options
@click.option("--enable", multiple=True, metavar="TOOL", help="Tick this tool. May be given several times.")
@click.option("--disable", multiple=True, metavar="TOOL", help="Untick this tool. May be given several times.")
@_json_option
@settings_options
@place_options
def edit(name: str, new_name: str | None, as_json: bool, **given: Any) -> None:
    """Change the agent NAME: only what you say."""

    async def work(agents: SomeAgents) -> None:
        wanted = Wanted(**given, name=new_name)
        agent = _changed(await agents.find(name), wanted)
        await agents.edit(name, agent)
        await _note(agents, agent, wanted)
        await _show(agents, agent.name, as_json)

    _run(work, as_json)


@command.command("clone")
@click.argument("name")
@click.argument("new_name")
@_json_option
@settings_options
@place_options
def clone(name: str, new_name: str, as_json: bool) -> None:
    """Make the agent NEW_NAME, the same as the agent NAME."""

    async def work(agents: SomeAgents) -> None:
        await agents.clone(name, new_name)
        await _show(agents, new_name, as_json)

    _run(work, as_json)


@command.command("delete")
@click.argument("name")
@_json_option
@settings_options
@place_options
def delete(name: str, as_json: bool) -> None:
    """Remove the agent NAME; its sessions go on with the built-in one."""

    async def work(agents: SomeAgents) -> None:
        moved = await agents.delete(name)
        if as_json:
            print_json({"deleted": name, "sessions_moved": moved})
        else:
            sessions = f" {moved} session{'s' if moved != 1 else ''} moved to {GENERAL.name!r}." if moved else ""
            click.echo(f"The agent {name!r} is deleted.{sessions}")

    _run(work, as_json)


def _run(work: Callable[[SomeAgents], Awaitable[None]], as_json: bool) -> None:
    async def in_the_house() -> None:
        async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
            await work(EmbeddedAgents(app))

    async def at_the_gateway(remote: "Remote") -> None:
        await work(remote_part("remote_agents").RemoteAgents(remote))

    remote = find_gateway(says=not as_json)
    asyncio.run(in_the_house() if remote is None else at_the_gateway(remote))


async def _list(agents: SomeAgents, as_json: bool) -> None:
    print_list(await agents.all(), as_json)


async def _show(agents: SomeAgents, name: str, as_json: bool) -> None:
    print_agent(await agents.show(name), as_json)


# What is changed.


def _changed(agent: Agent, wanted: Wanted) -> Agent:
    """The agent with all that the person said."""
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
        agent = unticked(agent, tool)
    for tool in wanted.enable:
        agent = ticked(agent, tool)
    return agent


def _split(globs: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(glob.strip() for glob in globs.split(",") if glob.strip()))


async def _note(agents: SomeAgents, agent: Agent, wanted: Wanted) -> None:
    """Say what has no effect now; it may have one later, when a device or a server is there."""
    names = [box.name for box in (await agents.show(agent.name)).boxes]
    said = (*_split(wanted.tools or ""), *_split(wanted.deny or ""), *wanted.enable, *wanted.disable)
    for glob in said:
        if not any(matches(glob, name) for name in names):
            click.echo(f"Note: {glob!r} names no tool that is here now.{did_you_mean(glob, names)}", err=True)
    for problem in await agents.problems(agent, _split(wanted.skills or ""), with_model=bool(wanted.model)):
        click.echo(f"Note: {problem}", err=True)
