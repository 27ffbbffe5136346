"""SPEC B and S6: memory_read and memory_write, a private memory for each owner."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.principals import Principal
from handspan.tools.memory import MEMORY_LIMIT, MemoryRead, MemoryWrite, memory_tools


class Memory:
    """Both tools, for any owner."""

    def __init__(self, folder: Path, ctx: ToolContext) -> None:
        self.folder = folder
        self._ctx = ctx
        self._read = MemoryRead(folder)
        self._write = MemoryWrite(folder)

    def read(self, owner: str = "ann", **arguments: str) -> Any:
        return self._read.run(arguments, self._context(owner))

    def write(self, content: str, owner: str = "ann", **arguments: str) -> Any:
        return self._write.run({"content": content, **arguments}, self._context(owner))

    def _context(self, owner: str) -> ToolContext:
        return ToolContext(
            "call", Principal(owner), "", None, self._ctx.progress, self._ctx.artifacts, self._ctx.workspace
        )


@pytest.fixture
def memory(tmp_path: Path, ctx: ToolContext) -> Memory:
    return Memory(tmp_path / "state" / "memory", ctx)


def test_a_memory_that_is_too_large_is_refused_and_stays_as_it_was(memory: Memory) -> None:
    memory.write("first")
    with pytest.raises(ToolError, match="'overwrite'") as caught:
        memory.write("x" * MEMORY_LIMIT)
    assert caught.value.code == "file_too_large"
    assert memory.read()["content"] == "first"


def test_a_memory_that_a_person_made_too_large_can_be_replaced(memory: Memory) -> None:
    memory.write("first")
    (memory.folder / "ann" / "MEMORY.md").write_bytes(b"x" * (MEMORY_LIMIT + 1))
    with pytest.raises(ToolError, match="shorten") as caught:
        memory.read()
    assert caught.value.code == "file_too_large"
    with pytest.raises(ToolError, match="shorten") as caught:
        memory.write("more")
    assert caught.value.code == "file_too_large"
    memory.write("short", mode="overwrite")
    assert memory.read()["content"] == "short"


def test_content_with_a_lone_surrogate_is_refused(memory: Memory) -> None:
    with pytest.raises(ToolError, match="lone surrogate") as caught:
        memory.write("\udfff")
    assert caught.value.code == "invalid_arguments"


def test_a_folder_that_can_not_be_made_or_opened_is_told(memory: Memory) -> None:
    memory.folder.parent.write_text("a file where the state directory should be")
    with pytest.raises(ToolError, match="can't be made") as caught:
        memory.write("x")
    assert caught.value.code == "execution_failed"
    assert str(memory.folder.parent) not in caught.value.message


def test_no_memory_is_an_empty_content_with_a_message(memory: Memory) -> None:
    assert memory.read() == {"content": "", "message": "No memory file found"}
    assert memory.read(query="x") == {"query": "x", "matches": [], "count": 0, "message": "No memory file found"}
    assert not memory.folder.exists()
    memory.write("x")
    (memory.folder / "ann" / "MEMORY.md").unlink()
    assert memory.read() == {"content": "", "message": "No memory file found"}


def test_write_answers_bytes_mode_and_a_path_without_the_state_directory(memory: Memory) -> None:
    assert memory.write("Grüße") == {
        "message": "Successfully wrote 7 bytes to memory (mode: append)",
        "path": "memory/MEMORY.md",
    }
    assert memory.write("", mode="overwrite")["message"] == "Successfully wrote 0 bytes to memory (mode: overwrite)"
    assert memory.read() == {"content": ""}


@pytest.mark.parametrize(("before", "after"), [("a", "a\n\nb"), ("a\n", "a\n\nb"), ("a\n\n", "a\n\nb"), ("", "b")])
def test_append_puts_one_blank_line_before(memory: Memory, before: str, after: str) -> None:
    memory.write(before, mode="overwrite")
    memory.write("b")
    assert memory.read() == {"content": after}


def test_a_query_finds_paragraphs_in_any_case(memory: Memory) -> None:
    memory.write("# Tea\r\nAnn likes GREEN tea.\r\n\r\nStraße 5\n \t\n\nGreen is a colour.\n", mode="overwrite")
    assert memory.read(query="green") == {
        "query": "green",
        "matches": ["# Tea\nAnn likes GREEN tea.", "Green is a colour."],
        "count": 2,
    }
    assert memory.read(query="STRASSE")["matches"] == ["Straße 5"]
    assert memory.read(query="coffee") == {"query": "coffee", "matches": [], "count": 0}
    assert "content" in memory.read(query="  ")


def test_a_memory_that_a_person_wrote_is_read_whatever_its_bytes(memory: Memory) -> None:
    memory.write("x")
    (memory.folder / "ann" / "MEMORY.md").write_bytes(b"\xef\xbb\xbfcaf\xe9")
    assert memory.read() == {"content": "caf\ufffd"}


def test_owners_do_not_see_each_other_whatever_their_names(memory: Memory) -> None:
    owners = [
        "ann",
        "Ann",
        "ANN",
        "..",
        ".",
        "",
        "/",
        "../ann",
        "ann/",
        "a\0b",
        "\ud800",
        "x" * 300,
        "é",
        "e\u0301",
        "owner.1",
    ]
    for owner in owners:
        memory.write(f"memory of {owner!r}", owner)
    for owner in owners:
        assert memory.read(owner) == {"content": f"memory of {owner!r}"}
    assert len(os.listdir(memory.folder)) == len(owners)
    assert os.listdir(memory.folder.parent) == ["memory"]


def test_folders_are_700_and_files_600_also_when_they_were_open_before(memory: Memory) -> None:
    memory.folder.mkdir(parents=True, mode=0o755)
    memory.write("x")
    memory.write("y")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [memory.folder, *memory.folder.rglob("*")]}
    assert modes == {"memory": 0o700, "ann": 0o700, "MEMORY.md": 0o600}


def test_two_at_once_lose_nothing(memory: Memory) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: memory.write(f"note {number}"), range(100)))
    content = memory.read()["content"]
    assert sorted(content.split("\n\n")) == sorted(f"note {number}" for number in range(100))


WRITER = """
import sys
from pathlib import Path
from handspan.core.context import ToolContext, no_progress
from handspan.core.principals import Principal
from handspan.store.artifacts import FolderArtifacts
from handspan.tools.memory import MemoryWrite
folder = Path(sys.argv[1])
ctx = ToolContext("call", Principal("ann"), "", None, no_progress, FolderArtifacts(folder), folder)
for number in range(50):
    MemoryWrite(folder).run({"content": f"{sys.argv[2]} {number}"}, ctx)
"""


def test_two_processes_at_once_lose_nothing(memory: Memory) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(memory.folder), name]) for name in ("one", "two")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    notes = memory.read()["content"].split("\n\n")
    assert sorted(notes) == sorted(f"{name} {number}" for name in ("one", "two") for number in range(50))


def test_both_tools_say_what_they_are(tmp_path: Path) -> None:
    read, write = memory_tools(tmp_path)
    assert (read.spec.name, write.spec.name) == ("memory_read", "memory_write")
    assert read.spec.annotations.read_only and read.spec.annotations.group == write.spec.annotations.group == "memory"
    assert write.spec.annotations.destructive
    assert read.spec.timeout == write.spec.timeout == 10.0
