"""What is typed at a prompt that can be edited: several lines, Ctrl-C, history, completion (SPEC U2)."""

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from handspan.cli.chat.editor import FileOfLines, LineEditor
from handspan.cli.chat.word_completion import CommandCompleter
from handspan.core.errors import HandspanError
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


async def names(kind: str) -> Sequence[tuple[str, str]]:
    return {"tools": [("read_file", "Read a file.")], "agents": [("General", ""), ("reader", "Reads.")]}[kind]


@asynccontextmanager
async def typing(history: Path) -> AsyncIterator[tuple[LineEditor, PipeInput]]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield LineEditor(history, CommandCompleter(names), read_from=keys, write_to=DummyOutput()), keys


async def line(editor: LineEditor) -> str | None:
    return await asyncio.wait_for(editor.line(), WAIT)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("hello\r", "hello"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("\x1b[200~one\r\ntwo\nthree\x1b[201~\r", "one\ntwo\nthree"),
        ("wrong\x03right\r", "right"),
        ("  kept\r", "  kept"),
    ],
)
async def test_enter_sends_and_a_paste_is_one_message(tmp_path: Path, keys: str, said: str) -> None:
    async with typing(tmp_path / "history") as (editor, typed):
        typed.send_text(keys)
        assert await line(editor) == said


@pytest.mark.parametrize("keys", ["\x04", "\x03\x03", "text\x03\x03"])
async def test_ctrl_d_or_ctrl_c_twice_is_the_end(tmp_path: Path, keys: str) -> None:
    async with typing(tmp_path / "history") as (editor, typed):
        typed.send_text(keys)
        assert await line(editor) is None


async def test_ctrl_c_twice_with_words_between_ends_nothing(tmp_path: Path) -> None:
    async with typing(tmp_path / "history") as (editor, typed):
        typed.send_text("\x03a\x03b\r")
        assert await line(editor) == "b"
        typed.send_text("\x03c\r")
        assert await line(editor) == "c", "a press at the prompt before does not count"


async def test_what_was_typed_is_there_again_also_several_lines_and_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "history"
    async with typing(file) as (editor, typed):
        typed.send_text("one\x1b\rtwo\r")
        await line(editor)
        typed.send_text('"quoted"\r')
        await line(editor)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(FileOfLines(file).load_history_strings()) == ['"quoted"', "one\ntwo"]
    async with typing(file) as (editor, typed):
        typed.send_text("\x1b[A\r")
        assert await line(editor) == '"quoted"'


def test_a_history_that_can_not_be_used_is_no_history(tmp_path: Path) -> None:
    history = FileOfLines(tmp_path)
    history.store_string("x")
    assert list(history.load_history_strings()) == []
    broken = tmp_path / "history"
    broken.write_bytes(b'"not json\n\xff\n')
    assert list(FileOfLines(broken).load_history_strings()) == ["\ufffd", '"not json']


async def completions(text: str, completer: CommandCompleter | None = None) -> list[str]:
    found = (completer or CommandCompleter(names)).get_completions_async(Document(text), CompleteEvent())
    return [one.text async for one in found]


async def test_commands_tools_and_the_names_after_them_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await completions("/re") == ["/retry", "/read_file"]
    assert await completions("/agent ge") == ["General"]
    assert await completions("/agent ") == ["General", "reader"]
    assert await completions("re") == [] and await completions("/help x") == []
    (tmp_path / "photo.jpg").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert await completions("/attach ") == ["folder/", "photo.jpg"]
    assert await completions(f"/attach {tmp_path}/ph") == [f"{tmp_path}/photo.jpg"]
    assert await completions("/attach nowhere/x") == []


async def test_without_a_gateway_only_commands_are_completed() -> None:
    async def away(kind: str) -> Sequence[tuple[str, str]]:
        raise HandspanError("away")

    assert await completions("/re", CommandCompleter(away)) == ["/retry"]
    assert await completions("/agent ", CommandCompleter(away)) == []


async def test_a_chosen_completion_is_taken_by_enter_and_sent_by_the_next(tmp_path: Path) -> None:
    async with typing(tmp_path / "history") as (editor, typed):
        asking = asyncio.create_task(editor.line())
        typed.send_text("/agent rea")
        buffer = editor._session.default_buffer
        await until(lambda: buffer.complete_state is not None)
        typed.send_text("\t")
        await until(lambda: buffer.text == "/agent reader")
        typed.send_text("\r")
        await until(lambda: buffer.complete_state is None)
        assert not asking.done()
        typed.send_text("\r")
        assert await asyncio.wait_for(asking, WAIT) == "/agent reader"
