"""SPEC B: read_file, write_file, edit_file and list_directory."""

import codecs
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ToolError
from handspan.core.results import succeed
from handspan.core.tool import READS_WORKSPACE
from handspan.core.values import Json, strip_invisible
from handspan.tools.files import EDIT_LIMIT, LIST_LIMIT, file_tools
from handspan.tools.workspace import Workspace
from tests.recorded import odd_texts
from tests.thoroughness import share


class Tools:
    """The file tools by name, called as the engine does."""

    def __init__(self, folder: Path, opened: Workspace, ctx: ToolContext) -> None:
        self.folder = folder
        self.tools = {tool.spec.name: tool for tool in file_tools(opened)}
        self.ctx = ctx

    def __call__(self, name: str, **arguments: Json) -> Any:
        tool = self.tools[name]
        jsonschema_rs.validate(tool.spec.parameters, arguments)
        result = tool.run(arguments, self.ctx)
        assert succeed(result).value == result
        return result

    def refusal(self, name: str, **arguments: Json) -> tuple[str, str]:
        """Code and message of a call that fails."""
        with pytest.raises(ToolError) as caught:
            self(name, **arguments)
        return caught.value.code, caught.value.message


@pytest.fixture
def tools(workspace: Path, ctx: ToolContext) -> Iterator[Tools]:
    with Workspace(workspace) as opened:
        yield Tools(workspace, opened, ctx)


@pytest.fixture
def quick(ctx: ToolContext) -> Iterator[Tools]:
    """The same on a folder in memory, where there is one: for thousands of files."""
    shared_memory = "/dev/shm"
    folder = tempfile.mkdtemp(dir=shared_memory if os.access(shared_memory, os.W_OK) else None)
    try:
        with Workspace(Path(folder)) as opened:
            yield Tools(Path(folder), opened, ctx)
    finally:
        shutil.rmtree(folder)


# read_file


def test_a_missing_file_is_told_with_the_text_of_the_seed(tools: Tools) -> None:
    assert tools.refusal("read_file", path="notes/none.txt") == ("file_not_found", "File not found: notes/none.txt")


def test_a_path_out_of_the_workspace_is_refused_by_every_tool(tools: Tools) -> None:
    assert tools.refusal("read_file", path="../x")[0] == "invalid_path"
    assert tools.refusal("write_file", path="../x", content="")[0] == "invalid_path"
    assert tools.refusal("edit_file", path="../x", old_text="a", new_text="b")[0] == "invalid_path"
    assert tools.refusal("list_directory", path="../x")[0] == "invalid_path"


@pytest.mark.parametrize(
    "encoding",
    [
        "klingon",
        "",
        "zlib",
        "base64",
        "rot13",
        "idna",
        "punycode",
        "undefined",
        "unicode_escape",
        "raw_unicode_escape",
        "a\0b",
        "\ud800",
        "x" * 9999,
    ],
)
def test_an_unknown_encoding_is_a_validation_error_with_an_example(
    tools: Tools, workspace: Path, encoding: str
) -> None:
    (workspace / "a.txt").write_text("mine")
    with pytest.raises(ToolError, match=r"Unknown encoding .*'utf-8'") as caught:
        tools.tools["read_file"].run({"path": "a.txt", "encoding": encoding}, tools.ctx)
    assert caught.value.code == "invalid_arguments"
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"text\0text", b"\xff\xfb\x90\x44", bytes(range(256)), b"caf\xe9"]
)
def test_a_binary_file_is_refused_with_another_way(tools: Tools, workspace: Path, content: bytes) -> None:
    (workspace / "a.bin").write_bytes(content)
    for arguments in ({}, {"offset": 0, "limit": 8}):
        code, message = tools.refusal("read_file", path="a.bin", **arguments)
        assert code == "execution_failed"
        assert "exec_shell" in message
        assert "encoding" in message


def test_a_long_file_comes_in_pages_of_whole_lines(tools: Tools, workspace: Path) -> None:
    text = "".join(f"line {number}: " + '"' * (number % 50) + "\n" for number in range(1, 10_001))
    (workspace / "a.txt").write_text(text)
    pages, offset = [], 1
    while True:
        page = tools("read_file", path="a.txt", offset=offset)
        assert len(succeed(page).encoded) <= 65_536
        lines, note, rest = page.partition("[Lines ")
        pages.append(lines)
        assert lines.endswith("\n")
        if not note:
            break
        last = offset + lines.count("\n") - 1
        assert rest == f"{offset} to {last} of 10000. Read on with offset={last + 1}.]"
        offset = last + 1
    assert "".join(pages) == text
    assert 5 < len(pages) < 12


def test_offset_and_limit_are_lines(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\r\nthree\nfour")
    assert tools("read_file", path="a.txt", offset=2, limit=2) == (
        "two\r\nthree\n[Lines 2 to 3 of 4. Read on with offset=4.]"
    )
    assert tools("read_file", path="a.txt", offset=3.0, limit=2.0) == "three\nfour"
    assert tools("read_file", path="a.txt", offset=4) == "four"
    assert tools("read_file", path="a.txt", offset=0, limit=10**12) == "one\ntwo\r\nthree\nfour"


@pytest.mark.parametrize(("text", "lines"), [("", 0), ("one", 1), ("one\n", 1), ("one\ntwo\n", 2)])
def test_an_offset_behind_the_last_line_is_told_how_many_there_are(
    tools: Tools, workspace: Path, text: str, lines: int
) -> None:
    (workspace / "a.txt").write_text(text)
    for beyond in (max(2, lines + 1), 10**30):
        code, message = tools.refusal("read_file", path="a.txt", offset=beyond)
        assert (code, message) == (
            "invalid_arguments",
            f"offset {beyond} is behind the end of 'a.txt', which has {lines} lines.",
        )


def test_a_line_that_is_longer_than_a_page_comes_whole_for_the_engine_to_keep(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_text("short\n" + "x" * 1_000_000 + "\nlast\n")
    assert tools("read_file", path="a.txt") == "short\n[Lines 1 to 1 of 3. Read on with offset=2.]"
    long = tools("read_file", path="a.txt", offset=2)
    assert long == "x" * 1_000_000 + "\n[Lines 2 to 2 of 3. Read on with offset=3.]"
    assert tools("read_file", path="a.txt", offset=3) == "last\n"


def test_a_line_without_end_is_refused_with_another_way(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"x" * (17 * 1024 * 1024))
    code, message = tools.refusal("read_file", path="a.txt")
    assert code == "file_too_large" and "search_files" in message


def test_a_huge_file_is_read_at_its_beginning_without_reading_the_rest(tools: Tools, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.write(b"begin\n" * 50_000)
        file.truncate(10 * 1024**3)
    page = tools("read_file", path="huge", limit=2)
    assert page == f"begin\nbegin\n[Lines 1 to 2 of a file of {10 * 1024**3} bytes. Read on with offset=3.]"
    assert "binary" in tools.refusal("read_file", path="huge", offset=50_001)[1]


def test_the_whole_file_is_the_content_as_it_is(tools: Tools, workspace: Path) -> None:
    for content in ("", "line\n", "a\r\nb\rc\n", "日本語 🎉\n", "\ufeffinner \ufeff"[1:]):
        (workspace / "a.txt").write_bytes(content.encode())
        assert tools("read_file", path="a.txt") == content


@pytest.mark.parametrize(
    ("mark", "written", "asked"),
    [
        (codecs.BOM_UTF8, "utf-8", "UTF-8"),
        (codecs.BOM_UTF8, "utf-8", "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-8"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-8"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16-le"),
        (codecs.BOM_UTF32_LE, "utf-32-le", "utf8"),
        (codecs.BOM_UTF32_BE, "utf-32-be", "utf-32"),
        (b"", "utf-16-le", "utf-16"),
        (b"", "latin-1", "latin-1"),
        (b"", "cp1252", "windows-1252"),
        (b"", "shift_jis", "Shift_JIS"),
        (b"", "iso2022_jp", "iso2022_jp"),
    ],
)
def test_a_byte_order_mark_decides_and_is_not_content(
    tools: Tools, workspace: Path, mark: bytes, written: str, asked: str
) -> None:
    text = "日本" if "jis" in written or "jp" in written else "Grüße"
    (workspace / "a.txt").write_bytes(mark + text.encode(written))
    assert tools("read_file", path="a.txt", encoding=asked) == text


@given(
    lines=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30), max_size=40
    ),
    encoding=st.sampled_from(
        ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "gb18030", "utf-8-sig", "utf-16", "utf-32", "utf-7"]
    ),
    limit=st.integers(1, 12),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_one_after_another_give_the_whole_text(quick: Tools, lines: list[str], encoding: str, limit: int) -> None:
    text = "\n".join(lines).removeprefix("\ufeff")
    (quick.folder / "a.txt").write_bytes(text.encode(encoding))
    count = text.count("\n") + (not text.endswith("\n"))
    found = ""
    for offset in range(1, max(count, 1) + 1, limit):
        page = quick("read_file", path="a.txt", encoding=encoding, offset=offset, limit=limit)
        found += page if offset + limit > count else page[: page.rindex("[Lines ")]
    assert found == text


# write_file


def test_write_answers_path_and_bytes_and_makes_folders(tools: Tools, workspace: Path) -> None:
    assert tools("write_file", path="a/b/c.txt", content="Grüße") == {
        "message": "Successfully wrote 7 bytes to a/b/c.txt",
        "path": "a/b/c.txt",
        "bytes_written": 7,
        "mode": "overwrite",
    }
    assert (workspace / "a" / "b" / "c.txt").read_text() == "Grüße"


def test_write_overwrites_or_appends(tools: Tools, workspace: Path) -> None:
    tools("write_file", path="a.txt", content="one", mode="append")
    answer = tools("write_file", path="a.txt", content="two", mode="append")
    assert (answer["bytes_written"], answer["mode"]) == (3, "append")
    assert (workspace / "a.txt").read_text() == "onetwo"
    tools("write_file", path="a.txt", content="three")
    assert (workspace / "a.txt").read_text() == "three"
    tools("write_file", path="a.txt", content="", mode="overwrite")
    assert (workspace / "a.txt").read_text() == ""


def test_content_with_a_lone_surrogate_is_refused(tools: Tools, workspace: Path) -> None:
    with pytest.raises(ToolError, match="content holds a lone surrogate at character 1") as caught:
        tools.tools["write_file"].run({"path": "a.txt", "content": "x\ud800"}, tools.ctx)
    assert caught.value.code == "invalid_arguments"
    assert os.listdir(workspace) == []


def test_line_endings_are_written_as_given(tools: Tools, workspace: Path) -> None:
    tools("write_file", path="a.txt", content="a\r\nb\nc\r")
    assert (workspace / "a.txt").read_bytes() == b"a\r\nb\nc\r"


def test_10_mb_of_content_are_written(tools: Tools, workspace: Path) -> None:
    assert tools("write_file", path="a.txt", content="x" * 10_000_000)["bytes_written"] == 10_000_000
    assert (workspace / "a.txt").stat().st_size == 10_000_000


def test_the_deadline_of_the_call_is_kept(tools: Tools, workspace: Path) -> None:
    tools("write_file", path="a.txt", content="mine")
    tools.ctx.deadline = Deadline(time.monotonic() - 1, "the tool's own limit")
    assert tools.refusal("write_file", path="a.txt", content="new")[0] == "timeout"
    assert tools.refusal("edit_file", path="a.txt", old_text="mine", new_text="new")[0] == "timeout"
    assert tools.refusal("list_directory", path=".")[0] == "timeout"
    assert (workspace / "a.txt").read_text() == "mine"


# edit_file


@pytest.mark.parametrize(
    ("content", "old", "words"),
    [
        ("one two", "three", "(0 matches)"),
        ("", "x", "(0 matches)"),
        ("one two one", "one", "2 times"),
        ("aaa", "aa", "2 times"),
    ],
)
def test_an_edit_needs_exactly_one_match_and_tells_the_count(
    tools: Tools, workspace: Path, content: str, old: str, words: str
) -> None:
    (workspace / "a.txt").write_text(content)
    code, message = tools.refusal("edit_file", path="a.txt", old_text=old, new_text="new")
    assert code == "invalid_arguments"
    assert words in message
    assert (workspace / "a.txt").read_text() == content


def test_all_occurrences_are_replaced_when_asked(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one two one\none\n")
    answer = tools("edit_file", path="a.txt", old_text="one", new_text="1", replace_all=True)
    assert answer["replaced"] == 3
    assert (workspace / "a.txt").read_text() == "1 two 1\n1\n"
    code, message = tools.refusal("edit_file", path="a.txt", old_text="one", new_text="1", replace_all=True)
    assert code == "invalid_arguments" and "(0 matches)" in message


def test_a_refused_edit_tells_the_lines(tools: Tools, workspace: Path) -> None:
    (workspace / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")
    assert "(lines 2, 5)" in tools.refusal("edit_file", path="a.py", old_text="return 1", new_text="x")[1]
    assert "replace_all" in tools.refusal("edit_file", path="a.py", old_text="return 1", new_text="x")[1]
    wrong = "  return 1\n\n\ndef g"
    assert "first line is in line 2" in tools.refusal("edit_file", path="a.py", old_text=wrong, new_text="x")[1]


def test_a_refused_edit_names_the_invisible_characters_that_the_model_could_not_see(
    tools: Tools, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("first\n  price\u200b list\u2066\nlast\n")
    seen = strip_invisible(tools("read_file", path="a.txt"))
    code, message = tools.refusal("edit_file", path="a.txt", old_text="price list\nlast", new_text="prices")
    assert "price list\nlast" in seen and code == "invalid_arguments"
    assert "Line 2 holds invisible characters (U+200B, U+2066)" in message
    copied = json.loads(message.partition("as JSON: ")[2])
    tools("edit_file", path="a.txt", old_text=copied, new_text="prices")
    assert (workspace / "a.txt").read_text() == "first\nprices\n"
    assert "leave them out" in tools.refusal("edit_file", path="a.txt", old_text="pri\u200bces", new_text="x")[1]


def test_an_edit_that_changes_nothing_is_refused(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_text("same")
    assert tools.refusal("edit_file", path="a.txt", old_text="same", new_text="same")[0] == "invalid_arguments"


def test_an_edit_of_line_endings_that_the_file_does_not_have_is_refused(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"one\r\n")
    assert tools.refusal("edit_file", path="a.txt", old_text="one\n", new_text="one\r\n")[0] == "invalid_arguments"
    assert tools("edit_file", path="a.txt", old_text="\r\n", new_text="\n", replace_all=True)["replaced"] == 1
    assert (workspace / "a.txt").read_bytes() == b"one\n"


def test_an_empty_old_text_does_not_fit_the_schema(tools: Tools) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        tools("edit_file", path="a.txt", old_text="", new_text="new")


def test_what_is_no_utf_8_text_or_too_large_is_not_edited(tools: Tools, workspace: Path) -> None:
    (workspace / "wide.txt").write_text("text", encoding="utf-16")
    assert "UTF-16" in tools.refusal("edit_file", path="wide.txt", old_text="t", new_text="x")[1]
    with (workspace / "huge").open("wb") as file:
        file.truncate(EDIT_LIMIT + 1)
    assert tools.refusal("edit_file", path="huge", old_text="t", new_text="x")[0] == "file_too_large"
    assert tools.refusal("edit_file", path="none", old_text="t", new_text="x")[0] == "file_not_found"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\ntwo\n", "one\ntwo", "1\n2\n3", b"1\n2\n3\n"),
        (b"one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", b"1\r\n2\r\n3\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", b"1\r\n2\r\n"),
        (b"one\ntwo\n", "one\r\ntwo", "1\r\n2", b"1\n2\n"),
        (b"one\r\ntwo\nthree\n", "two\nthree", "2\n3", b"one\r\n2\n3\n"),
        (b"one\r\ntwo\nthree\n", "one\ntwo", "1\n2", b"1\r\n2\nthree\n"),
        (b"one\rtwo\r", "two", "2", b"one\r2\r"),
        (codecs.BOM_UTF8 + b"one", "one", "1", codecs.BOM_UTF8 + b"1"),
        (b"caf\xe9 one", "one", "1", b"caf\xe9 1"),
        (b"one\ntwo\n", "one\n", "one\r\n", b"one\r\ntwo\n"),
        (b"one\r\ntwo\r\n", "one\r\n", "one\n", b"one\ntwo\r\n"),
        (b"one", "one", "", b""),
        (b"no end", "end", "end\n", b"no end\n"),
    ],
)
def test_an_edit_keeps_line_endings_and_all_other_bytes(
    tools: Tools, workspace: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (workspace / "a.txt").write_bytes(before)
    answer = tools("edit_file", path="a.txt", old_text=old, new_text=new)
    assert answer == {"message": "Successfully edited a.txt", "path": "a.txt"}
    assert (workspace / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("Grüße, name=x".encode("latin-1"), "name=x", "name=Jürgen"),
        ("Grüße, name=x".encode("latin-1"), "Grüße", "Gruss"),
        ("表 C:\\x".encode("shift_jis"), "\\", "/"),
    ],
)
def test_an_edit_that_would_mix_encodings_or_break_a_character_is_refused(
    tools: Tools, workspace: Path, before: bytes, old: str, new: str
) -> None:
    (workspace / "a.txt").write_bytes(before)
    code, message = tools.refusal("edit_file", path="a.txt", old_text=old, new_text=new, replace_all=True)
    assert code == "execution_failed" and "is not UTF-8 text" in message
    assert (workspace / "a.txt").read_bytes() == before


@pytest.mark.parametrize(
    ("before", "content"),
    [
        ("abc\n".encode("utf-16"), "more"),
        ("abc\n".encode("utf-32"), "more"),
        (codecs.BOM_UTF16_BE, "more"),
        ("Grüße\n".encode("latin-1"), "ü"),
    ],
)
def test_nothing_is_appended_to_text_of_another_encoding(
    tools: Tools, workspace: Path, before: bytes, content: str
) -> None:
    (workspace / "a.txt").write_bytes(before)
    code, message = tools.refusal("write_file", path="a.txt", content=content, mode="append")
    assert code == "execution_failed" and "nothing was changed" in message
    assert (workspace / "a.txt").read_bytes() == before


@pytest.mark.parametrize("before", ["Grüße\n".encode(), "Grüße\n".encode("latin-1"), codecs.BOM_UTF8, b"\0\1"])
def test_what_fits_the_encoding_of_a_file_is_appended(tools: Tools, workspace: Path, before: bytes) -> None:
    (workspace / "a.txt").write_bytes(before)
    tools("write_file", path="a.txt", content="more", mode="append")
    assert (workspace / "a.txt").read_bytes() == before + b"more"


# list_directory


def test_children_are_sorted_with_kind_and_size(tools: Tools, workspace: Path) -> None:
    (workspace / "b.txt").write_text("12345")
    (workspace / "A").mkdir()
    (workspace / "A" / "inner").touch()
    (workspace / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "pipe")
    assert tools("list_directory", path=".") == {
        "entries": [
            {"name": "A", "kind": "directory", "is_dir": True, "size": 0},
            {"name": "b.txt", "kind": "file", "is_dir": False, "size": 5},
            {"name": "link", "kind": "link", "is_dir": False, "size": 0},
            {"name": "pipe", "kind": "other", "is_dir": False, "size": 0},
        ]
    }
    assert [entry["name"] for entry in tools("list_directory", path="A")["entries"]] == ["inner"]


def test_a_missing_directory_and_a_file_are_told_apart(tools: Tools, workspace: Path) -> None:
    (workspace / "a.txt").touch()
    assert tools.refusal("list_directory", path="none") == ("file_not_found", "File not found: none")
    code, message = tools.refusal("list_directory", path="a.txt")
    assert code == "execution_failed"
    assert "read_file" in message


def test_a_name_that_is_not_utf_8_is_shown_with_its_bytes(tools: Tools, workspace: Path) -> None:
    (Path(os.fsdecode(os.fsencode(workspace) + b"/caf\xe9"))).touch()
    assert tools("list_directory", path=".")["entries"][0]["name"] == "caf\\xe9"


@pytest.mark.flood
def test_a_flood_of_entries_is_cut_and_the_answer_says_how_many_are_shown(quick: Tools) -> None:
    count = LIST_LIMIT + share(90_000)
    for number in range(count):
        os.close(os.open(quick.folder / f"{number:06}", os.O_CREAT | os.O_WRONLY))
    answer = quick("list_directory", path=".")
    assert len(answer["entries"]) == answer["shown"] == LIST_LIMIT
    assert answer["entries"][-1]["name"] == f"{LIST_LIMIT - 1:06}"
    assert answer["total"] == count
    assert f"first {LIST_LIMIT} of {count}" in answer["message"]


# All of them


def test_every_tool_says_what_it_is_and_what_it_does(tools: Tools) -> None:
    assert list(tools.tools) == ["read_file", "write_file", "edit_file", "list_directory"]
    for name, tool in tools.tools.items():
        parameters: Any = tool.spec.parameters
        assert parameters["additionalProperties"] is False
        assert all(value["description"].endswith(".") for value in parameters["properties"].values())
        assert tool.spec.timeout == 10.0
        assert not tool.spec.annotations.open_world
        if name in ("read_file", "list_directory"):
            assert tool.spec.annotations == READS_WORKSPACE
        else:
            assert tool.spec.annotations.destructive and tool.spec.annotations.group == "workspace"
            assert not tool.spec.annotations.read_only


def test_odd_texts_are_contents_like_others(quick: Tools) -> None:
    for text in (text for text in odd_texts() if "\x00" not in text):  # that makes a file binary
        quick("write_file", path="a.txt", content=text)
        # A byte order mark at the very beginning is no content.
        assert quick("read_file", path="a.txt") == text.removeprefix("\ufeff")
        quick("write_file", path="a.txt", content=f"<<{text}>>")
        if text:
            quick("edit_file", path="a.txt", old_text=f"<<{text}>>", new_text=f"{text}.")
            assert quick("read_file", path="a.txt") == f"{text}.".removeprefix("\ufeff")


def test_odd_texts_are_names_of_files_or_refused(quick: Tools) -> None:
    beside = set(os.listdir(quick.folder.parent))
    written = 0
    strings = odd_texts()
    for text in strings:
        try:
            quick("write_file", path=text, content=text)
        except ToolError as error:
            assert error.code in ("invalid_path", "execution_failed")
            assert not text or "/" in text or "\x00" in text or len(text.encode()) > 255 or text in (".", "..")
        else:
            written += 1
            assert (quick.folder / text).resolve().is_relative_to(quick.folder.resolve())
            assert (quick.folder / text).read_bytes() == text.encode()
    assert written > len(strings) * 0.7
    assert not any(name in strings for name in set(os.listdir(quick.folder.parent)) - beside)
