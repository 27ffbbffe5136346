"""Draws what `make bench-peers` measured beside the peers: bars on a logarithmic scale, as SVG, light and dark."""

import math
import os
import platform
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.figures import Figure

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"
MEASURED: Final = FOLDER / "peers.json"
"""What was measured, so that the pictures can be drawn again."""
CHARTS: Final = {
    "dispatch_us": ("One tool call inside a program", "µs of CPU time"),
    "loop_round_us": ("One round of an agent's loop", "µs of CPU time"),
    "remote_call_sdk_us": ("One call to a tool in another process", "µs, median"),
}
"""The figures that are drawn, with their headlines and units."""
NAMES: Final = {
    "mcp": "MCP SDK",
    "mcp_stdio": "MCP SDK, stdio",
    "mcp_http": "MCP SDK, HTTP",
    "fastmcp": "FastMCP",
    "fastmcp_http": "FastMCP, HTTP",
    "pydantic_ai": "Pydantic AI",
    "langchain": "LangChain",
    "langchain_create_agent": "LangChain agent",
    "langgraph_react": "LangGraph ReAct",
    "openai_agents": "OpenAI Agents",
    "google_adk": "Google ADK",
    "socketio": "Socket.IO",
}
COLOURS: Final = {
    "light": {"text": "#1f2328", "dim": "#59636e", "ours": "#0a6c74", "peer": "#c3cad1"},
    "dark": {"text": "#e6edf3", "dim": "#9198a1", "ours": "#3fb8c1", "peer": "#4b535d"},
}
WIDTH: Final = 760
LEFT: Final = 150
BAR: Final = 480
ROW: Final = 22


class Bars(Struct, frozen=True):
    """One figure: ours, and the same of the peers that were measured."""

    figure: str
    ours: float
    peers: dict[str, float]


class Measured(Struct, frozen=True):
    """What was measured, when and on what."""

    when: str
    machine: str
    charts: list[Bars]


def collect(figures: Sequence[Figure]) -> Measured:
    """What of this run can be drawn: figures that peers were measured for."""
    found = {one.name: one for one in figures if one.peers}
    charts = [Bars(name, found[name].value, found[name].peers) for name in CHARTS if name in found]
    return Measured(time.strftime("%Y-%m-%d", time.gmtime()), describe_machine(), charts)


def describe_machine() -> str:
    """The machine in a few words: processor, cores, system, Python, and how busy it was."""
    load = os.getloadavg()[1]
    cores = os.cpu_count() or 1
    busy = f", load {load:.0f} of other work" if load > cores else ""
    return f"{_processor()}, {cores} cores, {platform.system()}, Python {platform.python_version()}{busy}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def keep(measured: Measured) -> list[Path]:
    """Write the measured values and the pictures; the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    MEASURED.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
    files = [MEASURED]
    for theme in COLOURS:
        files.append(FOLDER / f"peers-{theme}.svg")
        files[-1].write_text(draw(measured, theme), encoding="utf-8")
    return files


def draw(measured: Measured, theme: str) -> str:
    """The picture in the colours of this theme."""
    colours = COLOURS[theme]
    body: list[str] = []
    top = 8
    for chart in measured.charts:
        body += _chart(chart, top, colours)
        top += 34 + ROW * (1 + len(chart.peers)) + 14
    caption = f"Shorter is faster; logarithmic scale. Measured {measured.when} on {measured.machine}."
    more = "Each does the same work in an environment of its own: `make bench-peers` measures and draws it on yours."
    body.append(_text(8, top + 6, caption, colours["dim"], 11))
    body.append(_text(8, top + 22, more, colours["dim"], 11))
    height = top + 32
    title = "Handspan beside comparable projects: time of a call, of a round, of a call to another process"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img"'
    style = "font-family=\"system-ui, -apple-system, 'Segoe UI', sans-serif\""
    return "\n".join([f"{head} {style}>", f"<title>{title}</title>", *body, "</svg>", ""])


def _chart(chart: Bars, top: int, colours: dict[str, str]) -> Iterator[str]:
    headline, unit = CHARTS[chart.figure]
    yield _text(8, top + 14, headline, colours["text"], 14, "600")
    yield _text(WIDTH - 8, top + 14, unit, colours["dim"], 11, anchor="end")
    rows = sorted(
        [("Handspan", chart.ours), *((NAMES.get(k, k), v) for k, v in chart.peers.items())], key=lambda r: r[1]
    )
    low, high = min(value for _, value in rows), max(value for _, value in rows)
    for number, (name, value) in enumerate(rows):
        is_ours = name == "Handspan"
        at = top + 26 + number * ROW
        length = 24 + (BAR - 24) * math.log(value / low) / max(math.log(high / low), 1e-9)
        yield _text(LEFT - 10, at + 13, name, colours["text"], 12, "600" if is_ours else "400", "end")
        fill = colours["ours" if is_ours else "peer"]
        yield f'<rect x="{LEFT}" y="{at + 2}" width="{length:.0f}" height="{ROW - 7}" rx="2" fill="{fill}"/>'
        yield _text(round(LEFT + length + 8), at + 13, _number(value), colours["text"], 12, "600" if is_ours else "400")


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _text(x: int, y: int, text: str, fill: str, size: int, weight: str = "400", anchor: str = "start") -> str:
    place = f'x="{x}" y="{y}" fill="{fill}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"
