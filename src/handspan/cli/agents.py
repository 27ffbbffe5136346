"""`handspan agents`: who there is to talk to, and which tools each may use (SPEC A1)."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar, get_args

import click
import msgspec
from msgspec import Struct, structs

from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.core.agents import GENERAL, Agent, Mode, mode_asks, mode_refuses
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches
from handspan.core.values import JsonObject
from handspan.gateway.agents import KnownAgent, selects, ticked, unticked
from handspan.gateway.app import App
from handspan.registry.entry import Entry

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


def _agent_options(function: F) -> F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.group("agents", invoke_without_command=True)
@_json_option
@settings_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: name, where they are kept, model, mode, number of tools, description."""
    if ctx.invoked_subcommand is None:
        _run(lambda app: _list(app, as_json))


@command.command("show")
@click.argument("name")
@_json_option
@settings_options
def show(name: str, as_json: bool) -> None:
    """Show the agent NAME with a checkbox for every tool."""
    _run(lambda app: _show(app, name, as_json))


@command.command("create")
@click.argument("name")
@_agent_options
@_json_option
@settings_options
def create(name: str, as_json: bool, **given: Any) -> None:
    """Make an agent NAME; it has all tools unless you choose some."""

    async def work(app: App) -> None:
        agent = _changed(Agent(name), Wanted(**given))
        await app.agents.create(agent)
        await _note(app, agent, Wanted(**given))
        await _show(app, name, as_json)

    _run(work)


@command.command("edit")
@click.argument("name")
@click.option("--name", "new_name", help="Another name; its sessions follow.")
@_agent_options
@click.option("--enable", multiple=True, metavar="TOOL", help="Tick this tool. May be given several times.")
@click.option("--disable", multiple=True, metavar="TOOL", help="Untick this tool. May be given several times.")
@_json_option
@settings_options
def edit(name: str, new_name: str | None, as_json: bool, **given: Any) -> None:
    """Change the agent NAME: only what you say."""

    async def work(app: App) -> None:
        wanted = Wanted(**given, name=new_name)
        agent = _changed(await app.find_agent(name), wanted)
        await app.agents.edit(name, agent)
        await _note(app, agent, wanted)
        await _show(app, agent.name, as_json)

    _run(work)


@command.command("clone")
@click.argument("name")
@click.argument("new_name")
@_json_option
@settings_options
def clone(name: str, new_name: str, as_json: bool) -> None:
    """Make the agent NEW_NAME, the same as the agent NAME."""

    async def work(app: App) -> None:
        await app.agents.clone(name, new_name)
        await _show(app, new_name, as_json)

    _run(work)


@command.command("delete")
@click.argument("name")
@_json_option
@settings_options
def delete(name: str, as_json: bool) -> None:
    """Remove the agent NAME; its sessions go on with the built-in one."""

    async def work(app: App) -> None:
        moved = await app.agents.delete(name)
        if as_json:
            _print_json({"deleted": name, "sessions_moved": moved})
        else:
            sessions = f" {moved} session{'s' if moved != 1 else ''} moved to {GENERAL.name!r}." if moved else ""
            click.echo(f"The agent {name!r} is deleted.{sessions}")

    _run(work)


def _run(work: Callable[[App], Awaitable[None]]) -> None:
    async def in_the_house() -> None:
        async with App(read_settings(), config_folder=config_folder(), durable=True) as app:
            await work(app)

    asyncio.run(in_the_house())


# What is shown.


async def _list(app: App, as_json: bool) -> None:
    rows: list[JsonObject] = [
        {
            "name": known.agent.name,
            "from": _kept_where(known),
            "model": known.agent.model,
            "mode": known.agent.mode,
            "tools": len(app.caller(known.agent).box.specs()),
            "description": known.agent.description,
        }
        for known in await app.agents.all()
    ]
    if as_json:
        _print_json(rows)
        return
    columns = list(rows[0])
    lines = [columns, *([_line_of(str(row[column])) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        _print_line("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


async def _show(app: App, name: str, as_json: bool) -> None:
    known = await app.agents.find(name)
    agent, entries = known.agent, sorted(app.registry, key=lambda entry: entry.spec.name)
    if as_json:
        _print_json(msgspec.to_builtins(agent) | {"from": _kept_where(known), "selection": _selection(agent, entries)})
        return
    click.echo(f"{agent.name} ({_kept_where(known)})" + (f": {agent.description}" if agent.description else ""))
    if known.is_of_settings:
        click.echo("It is from the settings: change it there.")
    click.echo(f"model:        {agent.model or 'whichever the gateway uses'}")
    click.echo(f"mode:         {agent.mode}")
    click.echo(f"rounds:       {agent.max_tool_iterations or 'no limit'}")
    click.echo(f"instructions: {agent.instructions or 'none'}")
    click.echo(f"skills:       {', '.join(agent.skills) or 'none'}")
    click.echo(f"tools:        {_globs(agent)}")
    for entry in entries:
        _print_line(_checkbox(agent, entry, app))


def _checkbox(agent: Agent, entry: Entry, app: App) -> str:
    """One tool: ticked or not, its name, what it needs, what keeps it from being used, its description."""
    spec, is_on = entry.spec, selects(agent, entry.spec.name)
    remarks = [f"needs {', '.join(spec.permissions)}"] if spec.permissions else []
    if app.registry.disabled_by(entry) is not None:
        remarks.append("off for everybody")
    if is_on and mode_refuses(agent.mode, spec.annotations):
        remarks.append("refused: read-only agent")
    if is_on and mode_asks(agent.mode, spec.annotations):
        remarks.append("asks first")
    said = f" ({'; '.join(remarks)})" if remarks else ""
    return f"[{'x' if is_on else ' '}] {spec.name}{said} - {_line_of(spec.description)}"


def _selection(agent: Agent, entries: Iterable[Entry]) -> list[JsonObject]:
    """What the agent's globs make of the tools that are here now."""
    return [
        {
            "name": entry.spec.name,
            "description": entry.spec.description,
            "permissions": list(entry.spec.permissions),
            "selected": selects(agent, entry.spec.name),
        }
        for entry in entries
    ]


def _globs(agent: Agent) -> str:
    chosen = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    return chosen + (f"; never {', '.join(agent.deny)}" if agent.deny else "")


def _kept_where(known: KnownAgent) -> str:
    if known.is_of_settings:
        return "settings"
    return "built in" if known.agent.name == GENERAL.name else "kept"


def _line_of(text: str) -> str:
    return " ".join(text.split())


def _print_line(text: str) -> None:
    click.echo(text[: shutil.get_terminal_size((120, 24)).columns])


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


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


async def _note(app: App, agent: Agent, wanted: Wanted) -> None:
    """Say what has no effect now; it may have one later, when a device or a server is there."""
    names = [entry.spec.name for entry in app.registry]
    said = (*_split(wanted.tools or ""), *_split(wanted.deny or ""), *wanted.enable, *wanted.disable)
    for glob in said:
        if not any(matches(glob, name) for name in names):
            click.echo(f"Note: {glob!r} names no tool that is here now.{did_you_mean(glob, names)}", err=True)
    for problem in app.skills.chosen(_split(wanted.skills or ""))[1]:
        click.echo(f"Note: {problem}", err=True)
    if wanted.model:
        try:
            await app.choose_model(agent.model)
        except ConfigError as error:
            click.echo(f"Note: this model can't be asked now. {error}", err=True)
