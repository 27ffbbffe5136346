"""What `from handspan import …` gives, and that a file with tools does not pay for the agent."""

import subprocess
import sys

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
