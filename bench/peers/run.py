"""Makes a virtual environment for each peer, runs the peer's script in it, and puts the ratios beside ours."""

import json
import subprocess
import sys
import venv
from pathlib import Path

from msgspec import structs

from bench.figures import Figure

ENVIRONMENTS = Path(__file__).parents[2] / ".venv-peers"
PACKAGES = {
    "mcp": ["mcp>=2.3,<3"],
    "fastmcp": ["fastmcp>=4,<5"],
    "pydantic_ai": ["pydantic-ai-slim>=2.66"],
    "langchain": ["langchain-core>=1.7"],
    "openai_agents": ["openai-agents>=0.24"],
}


def beside(figures: list[Figure]) -> list[Figure]:
    """The figures, with what the peers take for the same work."""
    peers = {name: ratio for name in PACKAGES if (ratio := _ratio(name)) is not None}
    return [structs.replace(figure, peers=peers) if figure.name == "dispatch" else figure for figure in figures]


def _ratio(peer: str) -> float | None:
    try:
        python = _environment(peer)
        script = Path(__file__).parent / "dispatch.py"
        done = subprocess.run([str(python), str(script), peer], check=True, capture_output=True, text=True, timeout=300)
        return float(json.loads(done.stdout.splitlines()[-1])["ratio"])
    except (subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
        said = getattr(error, "stderr", None) or str(error)
        print(f"{peer}: not measured: {str(said).strip().splitlines()[-1:]}", file=sys.stderr)
        return None


def _environment(peer: str) -> Path:
    folder = ENVIRONMENTS / peer
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"{peer}: making its environment", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES[peer]]
        subprocess.run(command, check=True, capture_output=True, text=True)
        (folder / ".ready").touch()
    return python
