"""The switches of tools (SPEC R9)."""

import stat
from pathlib import Path

import pytest

from handspan.core.errors import ConfigError
from handspan.store.switches import Switches


def test_what_is_switched_off_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    switches = Switches(tmp_path / "state" / "disabled.json")
    assert switches.off() == []
    assert switches.switch_off("web_*") and switches.switch_off("spawn")
    assert not switches.switch_off("spawn")
    assert Switches(tmp_path / "state" / "disabled.json").off() == ["web_*", "spawn"]
    assert switches.switch_on("web_*")
    assert not switches.switch_on("web_*")
    assert switches.off() == ["spawn"]


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "disabled.json"
    Switches(file).switch_off("x")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1]"])
def test_a_broken_file_does_not_bring_tools_back(tmp_path: Path, content: str) -> None:
    file = tmp_path / "disabled.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="repair it, or remove it"):
        Switches(file).off()
