"""Agents as a terminal shows them: a table, or one with a checkbox for every tool (SPEC A1)."""

import shutil
from collections.abc import Sequence

import click
import msgspec
from msgspec import Struct

from handspan.cli.as_json import print_json
from handspan.core.agents import Agent
from handspan.core.values import JsonObject


class ListedAgent(Struct, frozen=True):
    """One line of the list."""

    agent: Agent
    kept: str
    """Where it is kept: `settings`, `built in` or `kept`."""
    tool_count: int


class Box(Struct, frozen=True):
    """One tool, ticked or not."""

    name: str
    description: str
    permissions: tuple[str, ...]
    is_on: bool
    is_off: bool
    """For everybody."""
    is_refused: bool
    asks: bool


class ShownAgent(Struct, frozen=True):
    """An agent with all tools that are here now."""

    agent: Agent
    kept: str
    boxes: Sequence[Box]


def print_list(listed: Sequence[ListedAgent], as_json: bool) -> None:
    """The table of agents."""
    rows: list[JsonObject] = [
        {
            "name": one.agent.name,
            "from": one.kept,
            "model": one.agent.model,
            "mode": one.agent.mode,
            "tools": one.tool_count,
            "description": one.agent.description,
        }
        for one in listed
    ]
    if as_json:
        print_json(rows)
        return
    columns = list(rows[0])
    lines = [columns, *([_line_of(str(row[column])) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        _print_line("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def print_agent(shown: ShownAgent, as_json: bool) -> None:
    """One agent."""
    agent = shown.agent
    if as_json:
        print_json(msgspec.to_builtins(agent) | {"from": shown.kept, "selection": _selection(shown.boxes)})
        return
    click.echo(f"{agent.name} ({shown.kept})" + (f": {agent.description}" if agent.description else ""))
    if shown.kept == "settings":
        click.echo("It is from the settings: change it there.")
    click.echo(f"model:        {agent.model or 'whichever the gateway uses'}")
    click.echo(f"mode:         {agent.mode}")
    click.echo(f"rounds:       {agent.max_tool_iterations or 'no limit'}")
    click.echo(f"instructions: {agent.instructions or 'none'}")
    click.echo(f"skills:       {', '.join(agent.skills) or 'none'}")
    click.echo(f"tools:        {_globs(agent)}")
    for box in shown.boxes:
        _print_line(_checkbox(box))


def _checkbox(box: Box) -> str:
    """One tool: ticked or not, its name, what it needs, what keeps it from being used, its description."""
    remarks = [f"needs {', '.join(box.permissions)}"] if box.permissions else []
    if box.is_off:
        remarks.append("off for everybody")
    if box.is_on and box.is_refused:
        remarks.append("refused: read-only agent")
    if box.is_on and box.asks:
        remarks.append("asks first")
    said = f" ({'; '.join(remarks)})" if remarks else ""
    return f"[{'x' if box.is_on else ' '}] {box.name}{said} - {_line_of(box.description)}"


def _selection(boxes: Sequence[Box]) -> list[JsonObject]:
    """What the agent's globs make of the tools that are here now."""
    return [
        {
            "name": box.name,
            "description": box.description,
            "permissions": list(box.permissions),
            "selected": box.is_on,
        }
        for box in boxes
    ]


def _globs(agent: Agent) -> str:
    chosen = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    return chosen + (f"; never {', '.join(agent.deny)}" if agent.deny else "")


def _line_of(text: str) -> str:
    return " ".join(text.split())


def _print_line(text: str) -> None:
    click.echo(text[: shutil.get_terminal_size((120, 24)).columns])
