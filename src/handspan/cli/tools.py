"""`handspan tools`: list the tools and what they cost, say why one can't be used, switch them (SPEC R4, R8, R9, A1)."""

import sys
from typing import Final

import click

from handspan.cli.door import RequestGroup, ask_gateway, change, fetch, note_changed_settings
from handspan.cli.options import agent_option, completes
from handspan.cli.render import print_as_json, print_broken, print_costs, print_done, print_tools, print_why, tool_row
from handspan.cli.render_tool import print_tool
from handspan.cli.requests import Requests, segment
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean, matches
from handspan.core.principals import Origin
from handspan.core.sources import SourceState
from handspan.wire.rest.agents import AgentView
from handspan.wire.rest.status import SourceList
from handspan.wire.rest.tools import Switched, SwitchList, ToolCosts, ToolList, ToolView, Why

FOLDER: Final = "tools folder"
"""The source of the person's own files."""


@click.group("tools", cls=RequestGroup)
@agent_option("Only what this agent may use.")
@click.option("--cost", "is_cost", is_flag=True, help="About how many tokens each tool takes in every request.")
def command(agent: str | None, is_cost: bool) -> None:
    """List the tools: name, description, origin, version, permissions."""
    if is_cost:
        costs = fetch("/api/tools/cost", ToolCosts, agent=agent or "")
        if not print_as_json(costs):
            print_costs(costs)
        return
    tools = ask_gateway(lambda requests: _list(requests, agent))
    if not print_as_json([tool_row(tool) for tool in tools]):
        print_tools(tools)


@command.command("show")
@click.argument("name", shell_complete=completes("tools"))
def show(name: str) -> None:
    """Show the tool NAME: what it does, its parameters, its origin and limits, and an example call."""
    tool = ask_gateway(lambda requests: _find(requests, name))
    if not print_as_json(tool):
        print_tool(tool)


@command.command("why")
@click.argument("name", shell_complete=completes("tools"))
@agent_option("The agent to ask about; default: the default agent of the settings.")
def why(name: str, agent: str | None) -> None:
    """Say why an agent can or can't use the tool NAME. Exit code 1: it can't."""
    answer = fetch(f"/api/tools/{segment(name)}/why", Why, agent=agent or "")
    if not print_as_json(answer):
        print_why(answer)
    sys.exit(0 if answer.usable else 1)


@command.command("disable")
@click.argument("pattern", shell_complete=completes("tools"))
def disable(pattern: str) -> None:
    """Switch off for all owners what PATTERN names: a tool, a glob, origin:KIND or origin:KIND(NAME)."""
    switched = ask_gateway(lambda requests: _switch_off(requests, pattern))
    print_done(switched, f"{pattern} is off." if switched.changed else f"{pattern} was already off.")


@command.command("enable")
@click.argument("pattern", shell_complete=completes("tools"))
def enable(pattern: str) -> None:
    """Take back `disable` of exactly this PATTERN."""
    switched = ask_gateway(lambda requests: _switch_on(requests, pattern))
    print_done(switched, f"{pattern} is on." if switched.changed else f"{pattern} was not switched off.")


@command.command("reload")
def reload() -> None:
    """Read the files of the tools folder again. Changed files are read without it. Exit code 1: one is broken."""
    sources = change("POST", "/api/sources/reload", SourceList)
    folder = sources.sources.get(FOLDER, SourceState())
    if not print_as_json(folder):
        print_broken(folder)
        click.echo(f"The tools folder has {folder.tools} {'tool' if folder.tools == 1 else 'tools'}.")
    sys.exit(1 if folder.broken else 0)


async def _find(requests: Requests, name: str) -> ToolView:
    """Return the tool of this name. Raises `ConfigError` when there is none."""
    tools = {tool.name: tool for tool in (await requests.get("/api/tools", ToolList)).tools}
    if name not in tools:
        raise ConfigError(f"there is no tool {name!r}.{did_you_mean(name, list(tools))} `handspan tools` lists them")
    return tools[name]


async def _list(requests: Requests, agent: str | None) -> list[ToolView]:
    """Return the tools; with an agent, those that the agent may use outside of any session. Print broken files."""
    await note_changed_settings(requests)
    for state in (await requests.get("/api/sources", SourceList)).sources.values():
        print_broken(state)
    if agent is not None:
        await requests.get(f"/api/agents/{segment(agent)}", AgentView)  # raises when there is no such agent
    tools = (await requests.get("/api/tools", ToolList)).tools
    return [tool for tool in tools if agent is None or (agent in tool.agents and tool.scope.kind != "session")]


async def _switch_off(requests: Requests, pattern: str) -> Switched:
    """Switch off what the pattern names. Warn when it names no tool that is here now."""
    switched = await requests.change("POST", "/api/switches/disable", Switched, {"pattern": pattern})
    tools = (await requests.get("/api/tools", ToolList)).tools
    if not any(_matches(pattern, tool) for tool in tools):
        hint = did_you_mean(pattern, [tool.name for tool in tools])
        click.echo(f"Note: {pattern!r} names no tool that is here now.{hint}", err=True)
    return switched


async def _switch_on(requests: Requests, pattern: str) -> Switched:
    if pattern in (await requests.get("/api/switches", SwitchList)).by_settings:
        raise ConfigError(f"{pattern!r} is switched off in the settings (tools.disabled): remove it there")
    return await requests.change("POST", "/api/switches/enable", Switched, {"pattern": pattern})


def _matches(pattern: str, tool: ToolView) -> bool:
    """Whether the pattern of a switch names this tool."""
    if not pattern.startswith("origin:"):
        return matches(pattern, tool.name)
    origin = str(Origin(tool.origin.kind, tool.origin.name))
    return matches(pattern.removeprefix("origin:"), origin) or pattern == f"origin:{tool.origin.kind}"
