"""The loops that coding and research agents do, by a scripted model that goes by the tools' answers (SPEC B, X3)."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.messages import Message, ResultsMessage
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.values import JsonObject
from handspan.models.scripted import PlainTurn, ScriptTurn, call
from tests.gateway.sessions.session_kit import SessionKit
from tests.net.site import Site, response
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio


def result_of(messages: Sequence[Message], place: int = 0) -> Any:
    """What the last round's call answered; the test fails here when it is an error."""
    last = messages[-1]
    assert isinstance(last, ResultsMessage)
    envelope = msgspec.json.decode(last.results[place].envelope)
    assert envelope["status"] == "success", envelope
    return envelope["result"]


async def test_a_coding_agent_searches_reads_edits_runs_and_asks(tmp_path: Path) -> None:
    source = "".join(f"def step_{number}():\n    return {number}\n\n" for number in range(3000))

    def read_there(messages: Sequence[Message]) -> PlainTurn:
        path, line, _ = result_of(messages).split(":", 2)
        return call("read_file", path=path, offset=int(line), limit=2)

    def edit_it(messages: Sequence[Message]) -> PlainTurn:
        text = result_of(messages)
        assert text.startswith("def step_2000():\n    return 2000\n[Lines 6001 to 6002 of 9000.")
        old = text[: text.index("[Lines")]
        return call("edit_file", path="src/steps.py", old_text=old, new_text=old.replace("2000\n", "-1\n"))

    def run_it(messages: Sequence[Message]) -> PlainTurn:
        assert result_of(messages)["message"] == "Successfully edited src/steps.py"
        return call("exec_shell", command="cat src/steps.py")

    def search_the_output(messages: Sequence[Message]) -> PlainTurn:
        output = result_of(messages)["stdout"]
        assert output.startswith("def step_0():\n") and output.endswith("    return 2999\n\n")
        handle = output.partition("read_artifact with id '")[2].partition("'")[0]
        return call("read_artifact", id=handle, query="return -1")

    def ask(messages: Sequence[Message]) -> PlainTurn:
        assert [match["line"] for match in result_of(messages)["matches"]] == [6002]
        return call("ask_user", question="Keep the change?", options=["keep", "undo"])

    def end(messages: Sequence[Message]) -> PlainTurn:
        return f"The person says: {result_of(messages)}"

    find = call("find_files", pattern="src/**/*.py")

    def search(messages: Sequence[Message]) -> PlainTurn:
        return call("search_files", query=r"^def step_2000\b", path=str(Path(result_of(messages)).parent))

    turns: list[ScriptTurn] = [find, search, read_there, edit_it, run_it, search_the_output, ask, end]
    async with SessionKit(tmp_path, turns) as kit:
        (kit.app.settings.workspace / "src").mkdir()
        (kit.app.settings.workspace / "src/steps.py").write_text(source)
        turn = kit.start("Change step 2000")
        async with asyncio.timeout(WAIT):
            while not (asked := await kit.questions.open_for(owner=OPERATOR.owner)):
                await asyncio.sleep(0.001)
        assert await kit.questions.answer(asked[0].id, Answer("allow", value="keep"), person(OPERATOR))
        assert (await turn).text == "The person says: keep"


async def test_a_research_agent_fetches_saves_searches_and_writes(tmp_path: Path) -> None:
    page = "<h1>Data</h1>" + "<p>Nothing of interest stands here.</p>" * 4000 + "<a href='/table.csv'>the table</a>"
    table = b"name,value\n" + b"".join(b"row%d,%d\n" % (number, number * 7) for number in range(20_000))

    async with Site(
        {
            "/": response(page.encode(), headers={"Content-Type": "text/html"}),
            "/table.csv": response(table, headers={"Content-Type": "text/csv"}),
        }
    ) as site:

        def save(messages: Sequence[Message]) -> PlainTurn:
            shown = result_of(messages)["markdown"]
            assert shown.startswith("# Data\n") and len(shown) > 50_000  # 64 KB of it, not 4
            address = re.findall(r"\[the table\]\((\S+)\)", shown)[0]
            return call("web_fetch", url=address, save_to="data/table.csv")

        def search(messages: Sequence[Message]) -> PlainTurn:
            assert result_of(messages)["bytes"] == len(table)
            return call("search_files", query="row12345,", path=result_of(messages)["saved_to"])

        def write(messages: Sequence[Message]) -> PlainTurn:
            assert result_of(messages) == "data/table.csv:12347: row12345,86415"
            return call("write_file", path="answer.md", content=result_of(messages).rpartition(",")[2])

        turns: list[ScriptTurn] = [call("web_fetch", url=site.url()), save, search, write, "done"]
        policy: JsonObject = {"url_policy": {"allowed_domains": ["127.0.0.1"]}}
        async with SessionKit(tmp_path, turns, tools=policy) as kit:
            assert (await kit.say("What is the value of row 12345?")).text == "done"
            assert (kit.app.settings.workspace / "answer.md").read_text() == "86415"
