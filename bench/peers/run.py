"""Makes virtual environments for the peers, runs a peer's script in each, and puts what it says beside our figures."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from msgspec import Struct, structs
from scripts.progress import Steps

from bench.figures import Figure

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".venv-peers"
PACKAGES: Final = {
    "mcp": ["mcp>=2.3,<3"],
    "fastmcp": ["fastmcp>=4,<5"],
    "pydantic_ai": ["pydantic-ai-slim>=2.66"],
    "langchain": ["langchain-core>=1.7"],
    "langchain_agents": ["langchain>=1.3", "langgraph>=1.2"],
    "openai_agents": ["openai-agents>=0.24"],
    "google_adk": ["google-adk>=2.13,<3"],
    "socketio": ["python-socketio[asyncio-client]>=5.18,<6", "uvicorn[standard]>=0.54"],
}
INSTALL_S: Final = 900
RUN_S: Final = 300
"""Longest waits: for the packages of one peer, for one script."""
TIMES_FASTER: Final = {"socketio": 2.5, "mcp_stdio": 6.0, "mcp_http": 10.0, "fastmcp_http": 10.0}
"""How many times faster than these a call of ours to another process has to be: `remote_sdk_vs_…` with our SDK at the
other end, as theirs have their own client or server there; `remote_vs_…` with the lean device of `fast_device.py`."""
DEVICES: Final = {"remote_call_us": ("remote_vs_", "lean device"), "remote_call_sdk_us": ("remote_sdk_vs_", "our SDK")}
"""Our figures that stand beside the peers' remote calls: how the comparison is called, and what our other end is."""


class Comparison(Struct, frozen=True):
    """A script, the peers it knows with the environment of each, and which of our figures are the same measures."""

    script: str
    peers: dict[str, str]
    figures: dict[str, str]
    """Our figure, and the name that the script has for it."""


COMPARISONS: Final = (
    Comparison(
        "bench.peers.dispatch",
        {name: name for name in ("mcp", "fastmcp", "pydantic_ai", "langchain", "openai_agents")},
        {"dispatch": "ratio", "dispatch_us": "us", "dispatch_bare": "ratio"},
    ),
    Comparison(
        "bench.peers.looping",
        {
            "pydantic_ai": "pydantic_ai",
            "openai_agents": "openai_agents",
            "langchain_create_agent": "langchain_agents",
            "langgraph_react": "langchain_agents",
            "google_adk": "google_adk",
        },
        {"loop_round": "ratio", "loop_round_us": "us", "loop_growth_50": "growth"},
    ),
    Comparison("bench.peers.starting", {"pydantic_ai": "pydantic_ai"}, {"hands_start": "ratio"}),
    Comparison(
        "bench.peers.remote",
        {"socketio": "socketio", "mcp_stdio": "mcp", "mcp_http": "mcp", "fastmcp_http": "fastmcp"},
        {"remote_call_us": "us", "remote_call_sdk_us": "us"},
    ),
    Comparison("bench.peers.mcp_server", {"fastmcp": "fastmcp"}, {"mcp_server_call": "ratio"}),
)


def beside(figures: list[Figure]) -> list[Figure]:
    """The figures, with what the peers take for the same work."""
    with Steps(sum(len(one.peers) for one in COMPARISONS)) as steps:
        return _beside(figures, steps)


def _beside(figures: list[Figure], steps: Steps) -> list[Figure]:
    for comparison in COMPARISONS:
        said: dict[str, dict[str, float]] = {}
        for peer, place in comparison.peers.items():
            with steps.step(f"{comparison.script.rpartition('.')[2]} of {peer}"):
                said[peer] = _said(comparison.script, peer, place)
        for ours, theirs in comparison.figures.items():
            peers = {peer: values[theirs] for peer, values in said.items() if theirs in values}
            figures = [structs.replace(one, peers=peers) if one.name == ours else one for one in figures]
    return [one for figure in figures for one in (figure, *_times_faster(figure), *_part_of_peer(figure))]


def _times_faster(figure: Figure) -> list[Figure]:
    """How many times faster than each peer a remote call is; nothing for other figures."""
    if figure.name not in DEVICES:
        return []
    name, device = DEVICES[figure.name]
    return [
        Figure(
            f"{name}{peer}",
            figure.peers[peer] / figure.value,
            f"x faster, p50, {device}",
            target,
            more_is_better=True,
        )
        for peer, target in TIMES_FASTER.items()
        if peer in figure.peers
    ]


def _part_of_peer(figure: Figure) -> list[Figure]:
    """How long our first answer takes as a part of the peer's; nothing for other figures."""
    if figure.name != "hands_start" or "pydantic_ai" not in figure.peers:
        return []
    part = figure.value / figure.peers["pydantic_ai"]
    return [Figure("hands_start_vs_pydantic_ai", part, "x its time to an answer", target=0.5)]


def _said(script: str, peer: str, environment: str) -> dict[str, float]:
    """The figures that the script prints for this peer; none, and the reason on stderr, when that fails."""
    try:
        command = [str(_python(environment)), "-m", script, peer]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=RUN_S, cwd=ROOT)
        said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return said
    except (subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        print(f"{script} {peer}: not measured: {str(reason).strip().splitlines()[-1:]}", file=sys.stderr)
        return {}


def _python(environment: str) -> Path:
    """The interpreter of that environment, which is made first when it is not there."""
    folder = ENVIRONMENTS / environment
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"{environment}: making its environment", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES[environment]]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S)
        (folder / ".ready").touch()
    return python
