"""What `from handspan import …` gives, and that a file with tools does not pay for the agent."""

import subprocess
import sys
from pathlib import Path

import pytest

import handspan


def test_every_public_name_is_there() -> None:
    assert all(getattr(handspan, name) is not None for name in handspan.__all__)
    assert "Handspan" in handspan.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Handspam'"):
        handspan.Handspam  # type: ignore[attr-defined]  # noqa: B018 - a name that is not there


def test_a_tool_does_not_load_the_agent() -> None:
    program = (
        "import sys; from handspan import tool; print([name for name in sys.modules if name.startswith('handspan.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "handspan.core" in done.stdout
    assert "handspan.front" not in done.stdout and "handspan.gateway" not in done.stdout


@pytest.mark.parametrize("begin", ["", "if __name__ == '__main__':\n    "])
def test_a_program_with_an_isolated_tool_is_not_run_again_by_its_worker(tmp_path: Path, begin: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from handspan import Handspan, tool\n\n"
        "@tool(isolated=True)\ndef twice(number: int) -> int:\n    'Twice as much.'\n    return 2 * number\n\n"
        "def main() -> None:\n    with Handspan(tools=[twice], model='offline') as hands:\n"
        f"        print(hands.call_sync('twice', {{'number': 4}}))\n\n{begin}main()\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert ("value=8" if begin else "below `if __name__ ==") in done.stdout
