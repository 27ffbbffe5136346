"""Tools, agents and tokens as a terminal shows them, and what `--json` prints."""

import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeVar

import click
import msgspec
from msgspec import structs

from handspan.cli.options import is_json
from handspan.cli.requests import SHORT_ID
from handspan.cli.wrapping import wrap_for
from handspan.core.agents import GENERAL, Agent
from handspan.core.budgets import dollars_text
from handspan.core.principals import AGENT_SCOPE, ANSWERS_SCOPE, Origin
from handspan.core.records import Total, UsageSum
from handspan.core.sources import SourceState
from handspan.core.values import JsonObject, escape_invisible, strip_invisible
from handspan.wire.rest.agents import AgentView, Checkbox, KeptWhere, NewAgent
from handspan.wire.rest.budgets import BudgetList
from handspan.wire.rest.tokens import MadeToken, TokenView
from handspan.wire.rest.tools import ToolCosts, ToolView, Why

T = TypeVar("T")

_KEPT: Final[dict[KeptWhere, str]] = {"settings": "settings", "built_in": "built-in", "store": "kept"}
"""Where an agent is kept, as tables say it."""
_WHOLE: Final = frozenset(("id", "status", "state", "at", "took", "source", "last active", "last seen", "made", ""))
"""Headings of columns whose texts a narrow terminal gets whole: half of an id or a time says nothing."""
_NARROWEST: Final = 4


def print_json(value: object) -> None:
    """Print JSON for programs, indented for people."""
    click.echo(escape_invisible(msgspec.json.format(msgspec.json.encode(value)).decode()))


def print_as_json(answer: object) -> bool:
    """Print the answer if --json is given, and return whether it is."""
    if is_json():
        print_json(answer)
    return is_json()


def print_done(answer: object, text: str) -> None:
    """Print the gateway's answer as JSON, or this text in its place."""
    if not print_as_json(answer):
        click.echo(text)


def print_list(
    columns: Sequence[str],
    values: Sequence[T],
    row: Callable[[T], Sequence[object]],
    empty: str = "(none)",
    *,
    short_ids: bool = False,
) -> None:
    """Print the values as JSON, or as a table with what `row` returns of each (see `print_rows`)."""
    if not print_as_json(values):
        print_rows(columns, [row(value) for value in values], empty, short_ids=short_ids)


def render_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines with each column as wide as its widest text."""
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    padded = (
        [text + " " * (width - width_of(text)) for text, width in zip(line, widths, strict=True)] for line in lines
    )
    return ["  ".join(line).rstrip() for line in padded]


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[object]], empty: str = "(none)", *, short_ids: bool = False
) -> None:
    """Print a table: one line a row, no wider than the terminal.

    `empty`: what a person at a terminal reads in place of a table without rows. `short_ids`: commands take the
    beginning of an `id`, so a narrow terminal gets no more than that.
    """
    if not rows and sys.stdout.isatty():
        click.echo(empty, err=True)
        return
    cells = [[one_line(strip_invisible(str(cell))) for cell in row] for row in rows]
    print_table([columns, *cells], short_ids=short_ids)


def print_table(lines: Sequence[Sequence[str]], *, short_ids: bool = False) -> None:
    """Print these lines, the first of which has the headings. A file or a program gets every text whole."""
    shown = fit_columns(lines, _columns(), short_ids=short_ids) if sys.stdout.isatty() else lines
    for line in render_columns(shown):
        print_line(line)


def fit_columns(lines: Sequence[Sequence[str]], width: int, *, short_ids: bool = False) -> list[list[str]]:
    """Return the table with texts shortened until it fits: columns without a text go first, then the widest shrink."""
    filled = [column for column in zip(*lines, strict=True) if any(column[1:])]
    if not filled or max(map(width_of, render_columns(lines))) <= width:
        return [list(line) for line in lines]
    widths = [max(map(width_of, column)) for column in filled]
    may_shrink = [number for number, column in enumerate(filled) if column[0] not in _WHOLE]
    if short_ids and filled[0][0] == "id":
        widths[0] = min(widths[0], SHORT_ID + 1)
    while sum(widths) + 2 * (len(widths) - 1) > width and may_shrink:
        widest = max(may_shrink, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
    cut = [[shorten_line(text, wide) for text in column] for column, wide in zip(filled, widths, strict=True)]
    return [list(line) for line in zip(*cut, strict=True)]


def _columns() -> int:
    return shutil.get_terminal_size((120, 24)).columns


def print_line(text: str) -> None:
    """Print one line. A terminal gets no more than fits; a file or a program gets all of it."""
    click.echo(shorten_line(text, _columns()) if sys.stdout.isatty() else text)


def shorten_line(text: str, width: int) -> str:
    """Return the line if it fits; else as many of its words as fit, and an ellipsis."""
    if width_of(text) <= width:
        return text
    cut = text[: max(0, width - 1)]
    while width_of(cut) > width - 1:
        cut = cut[:-1]
    words = cut if text[len(cut)].isspace() else cut.rpartition(" ")[0]
    return f"{words.rstrip() if width_of(words) > width // 2 else cut}…"  # one long word: what fits of it


def width_of(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(text.split())


# Tools.


def print_broken(state: SourceState) -> None:
    """Print to standard error which files of a source can't be used, a line each."""
    for broken in state.broken:
        click.echo(strip_invisible(f"skipped {broken.where}: {broken.problem}"), err=True)


def tool_row(tool: ToolView) -> JsonObject:
    """Return a tool as `handspan tools --json` prints it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "origin": str(Origin(tool.origin.kind, tool.origin.name)),
        "version": tool.version,
        "permissions": list(tool.permissions),
        "enabled": tool.enabled,
        "timeout": tool.timeout,
        "parameters": tool.parameters,
        "shown_to": list(tool.shown_to),
        "missing": tool.missing,
    }


def print_tools(tools: Sequence[ToolView]) -> None:
    """Print one line a tool."""
    rows = []
    for tool in tools:
        missing = f"(not offered: {one_line(strip_invisible(tool.missing))}) " if tool.missing else ""
        words = f"{missing if tool.enabled else '(off) '}{one_line(tool.description)}"
        origin = str(Origin(tool.origin.kind, tool.origin.name))
        rows.append((tool.name, origin, tool.version, ", ".join(tool.permissions), words))
    print_table([("name", "origin", "version", "permissions", "description"), *rows])


def print_costs(costs: ToolCosts) -> None:
    """Print one line a tool, the most expensive first, and the sum."""
    ranked = sorted(costs.tools, key=lambda tool: (-tool.tokens, tool.name))
    cells = [(tool.name, f"{tool.tokens:,}", "always" if tool.shown else "when found") for tool in ranked]
    print_table([("name", "tokens", "sent"), *cells])
    shown, count = sum(tool.shown for tool in costs.tools), len(costs.tools)
    click.echo(
        f"Each request of the agent {costs.agent!r} has {shown} of its {count} tool{'' if count == 1 else 's'}: about "
        f"{costs.tokens_shown:,} tokens; all of them would take {costs.tokens_all:,}. "
        "These are estimates: 4 bytes of a tool's definition count as a token."
    )


def print_why(why: Why) -> None:
    """Print whether an agent can use a tool, and every reason."""
    click.echo(f"The agent {why.agent!r} {'can' if why.usable else 'can not'} use {why.tool!r}:")
    for reason in why.reasons:
        click.echo(wrap_for(sys.stdout, f"  {'yes' if reason.ok else 'NO '}  {reason.text}", indent=7))


# Agents.


def plain_agent(shown: AgentView) -> Agent:
    """Return the agent without what the gateway adds to it."""
    return Agent(**{name: value for name, value in structs.asdict(shown).items() if name in Agent.__struct_fields__})


def agent_body(agent: Agent) -> JsonObject:
    """Return what a request says of an agent that it makes or changes."""
    given: JsonObject = structs.asdict(agent)
    return {name: given[name] for name in NewAgent.__struct_fields__}


def print_agents(agents: Sequence[AgentView]) -> None:
    """Print the table of agents."""
    rows: list[JsonObject] = [
        {
            "name": agent.name,
            "from": _KEPT[agent.kept],
            "model": agent.model,
            "mode": agent.mode,
            "tools": agent.tool_count,
            "description": agent.description,
        }
        for agent in agents
    ]
    if not print_as_json(rows):
        print_table([[*rows[0]], *([one_line(str(value)) for value in row.values()] for row in rows)])


def print_agent(agent: AgentView, boxes: Sequence[Checkbox]) -> None:
    """Print one agent with a checkbox for every tool (SPEC A1)."""
    kept = _KEPT[agent.kept]
    if print_as_json(msgspec.to_builtins(plain_agent(agent)) | {"from": kept, "selection": _selection(boxes)}):
        return
    click.echo(f"{agent.name} ({kept})" + (f": {agent.description}" if agent.description else ""))
    if agent.kept == "settings":
        click.echo("It is from the settings: change it there.")
    click.echo(f"model:        {agent.model or 'whichever the gateway uses'}")
    click.echo(f"mode:         {agent.mode}")
    click.echo(f"rounds:       {agent.max_tool_iterations or 'no limit'}")
    for name, limit in msgspec.structs.asdict(agent.limits).items():
        if limit is not None:
            click.echo(f"limits:       {name} {limit}")
    none = "made from the live state" if agent.name == GENERAL.name else "none"
    click.echo(f"instructions: {agent.instructions or none}")
    click.echo(f"skills:       {', '.join(agent.skills) or 'none'}")
    click.echo(f"tools:        {_globs(agent)}")
    for box in boxes:
        print_line(_checkbox(box))


def _checkbox(box: Checkbox) -> str:
    """Return one tool: ticked or not, its name, what it needs, what keeps it from being used, its description."""
    remarks = [f"needs {', '.join(box.permissions)}"] if box.permissions else []
    if box.disabled_by is not None:
        remarks.append("off for all owners")
    if box.unusable:
        remarks.append(f"not usable: {box.unusable}")
    if box.selected and box.refused:
        remarks.append("refused: read-only agent")
    if box.selected and box.only_reads:
        remarks.append("only calls that read: read-only agent")
    if box.selected and box.asks:
        remarks.append("asks first")
    remark = f" ({'; '.join(remarks)})" if remarks else ""
    return f"[{'x' if box.selected else ' '}] {box.name}{remark} - {one_line(box.description)}"


def _selection(boxes: Sequence[Checkbox]) -> list[JsonObject]:
    fields = ("name", "description", "permissions", "selected")
    return [{field: getattr(box, field) for field in fields} for box in boxes]


def _globs(agent: AgentView) -> str:
    chosen = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    return chosen + (f"; never {', '.join(agent.deny)}" if agent.deny else "")


# Tokens.


def token_cells(token: TokenView) -> tuple[str, ...]:
    """Return the row of a token. Its last column says which one not to revoke."""
    made, seen, revoked = (at and render_time(at) for at in (token.created, token.last_seen, token.revoked))
    day, _, _ = str(made).partition(" ")
    remark = f"revoked {revoked.partition(' ')[0]}" if revoked else "in use here" if token.current else ""
    return token.id, token.label, ", ".join(token.scopes), day, seen or "never", remark


def token_uses(made: MadeToken, url: str) -> Iterator[str]:
    """Yield what a person can do with a new token, a line each."""
    is_bound = any(scope.startswith(AGENT_SCOPE) for scope in made.scopes)
    if not {"chat", "admin"}.isdisjoint(made.scopes):
        yield f"OpenAI's    base URL  {url}/v1"
        yield "  API       API key   TOKEN      (Open WebUI, LibreChat, Home Assistant, any OpenAI SDK)"
    if is_bound and "chat" in made.scopes:
        return
    if not {"chat", "admin"}.isdisjoint(made.scopes):
        yield f'A page      new HandspanClient({{ baseUrl: "{url}", token: "TOKEN" }})'
        yield "            (one that the gateway does not serve itself: with its origin in `gateway.origins`)"
        yield f"A command   HANDSPAN_URL={url} HANDSPAN_TOKEN=TOKEN handspan chat"
    if not {"tools", "chat", "admin"}.isdisjoint(made.scopes):
        yield f"MCP         {url}/mcp with the header  Authorization: Bearer TOKEN"
    if not {"device", "chat", "admin"}.isdisjoint(made.scopes):
        yield f'A device    Client("{url}", token="TOKEN", label="my-device")'
        yield f"            HANDSPAN_URL={url} HANDSPAN_TOKEN=TOKEN handspan device"
    yield "A program   any request with the header  Authorization: Bearer TOKEN"
    if ANSWERS_SCOPE in made.scopes:
        yield "            With 'answers' an MCP client may allow its own calls: only for one that asks its person."
    if "admin" in made.scopes:
        yield "            With the scope 'admin' it may do all that you may, and make other tokens: guard it well."


def token_words(token: TokenView) -> str:
    """Return the token as sentences name it."""
    return f"{strip_invisible(token.id)} ({quote_label(token.label)})"


def render_size(size: int) -> str:
    """Return a number of bytes as people read it."""
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.1f} {unit}"
    return f"{size} byte{'' if size == 1 else 's'}"


def render_time(at: str, *, seconds: bool = False) -> str:
    """Return the time in the time zone of this computer; with `seconds`, to find it in a log."""
    return datetime.fromisoformat(at).astimezone().strftime(f"%Y-%m-%d %H:%M{':%S' if seconds else ''}")


def quote_label(label: str) -> str:
    """Return a label in quotes, on one line."""
    return repr(one_line(strip_invisible(label))) if label else "no label"


def render_usage(sums: Sequence[UsageSum]) -> list[str]:
    """Return one line of text for each sum."""
    return [
        f"{one.of}: {one.replies} {'reply' if one.replies == 1 else 'replies'}, {_render_total(one.input)} tokens in, "
        f"{_render_total(one.output)} out, cost {_render_total(one.cost, '.4f', ' USD')}"
        for one in sums
    ] or ["nothing yet"]


def render_budgets(found: BudgetList) -> list[str]:
    """Return one line of text for each budget."""
    return [
        f"{one.of or 'all'}, a {one.period}: {dollars_text(one.spent)} of {dollars_text(one.limit + one.added)} spent"
        f"{f' ({dollars_text(one.limit)} + {dollars_text(one.added)} added today)' if one.added else ''}, "
        f"{dollars_text(one.left)} left"
        f"{f', {dollars_text(one.reserved)} reserved' if one.reserved else ''}; whole again on {one.free_on}"
        for one in found.budgets
    ]


def _render_total(total: Total, form: str = ".0f", unit: str = "") -> str:
    """Return the sum as text. Unknown amounts are never counted as 0 (SPEC M6)."""
    if total.known is None:
        return "unknown"
    return f"{'at least ' if total.unknown else ''}{total.known:{form}}{unit}"
