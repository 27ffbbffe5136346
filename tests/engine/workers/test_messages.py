"""What the engine and its worker processes say to each other."""

import sys
from pathlib import Path

import msgspec
import pytest

from handspan.engine.workers.messages import Location, ProgressReported, decode_reply
from tests.engine import isolated_tools

SCRIPT = """
from handspan.core.function_tool import tool

@tool(isolated=True)
def greet() -> str:
    "Greet."
    return "hello"

class Group:
    def method(self) -> str:
        return "method"

if __name__ == "__main__":
    raise SystemExit("not meant to run")
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "a_script.py"
    file.write_text(SCRIPT)
    return file


def test_a_function_of_a_module_is_found_by_name() -> None:
    location = Location.of(isolated_tools.add.function)
    assert location.find() is isolated_tools.add


@pytest.mark.parametrize("module", ["__main__", "tools_of_a_folder", "no_such_package.module"])
def test_a_function_of_a_file_is_found_without_running_its_main_part(script: Path, module: str) -> None:
    location = Location(module, str(script), "greet")
    assert location.find().function() == "hello"
    assert location.find() is location.find()  # loaded once
    assert Location(module, str(script), "Group.method").find().__name__ == "method"


def test_a_module_that_was_not_imported_yet_is_imported(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(script.parent))
    assert Location("a_script", "", "greet").find().function() == "hello"
    del sys.modules["a_script"]


def test_a_file_that_can_not_be_loaded_is_named() -> None:
    with pytest.raises(ImportError, match=r"'/nowhere/tool\.txt' can't be loaded"):
        Location("__main__", "/nowhere/tool.txt", "greet").find()


def test_a_reply_that_makes_no_sense_is_an_error() -> None:
    assert decode_reply(msgspec.msgpack.encode(ProgressReported("c", 1))) == ProgressReported("c", 1)
    for nonsense in (b"", b"\xc1", msgspec.msgpack.encode({"type": "other"})):
        with pytest.raises(msgspec.DecodeError):
            decode_reply(nonsense)
