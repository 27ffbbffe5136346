"""A run of a client over HTTP: suspended at its tools, found again by its calls (SPEC H1, H2, H5; graph.md 3 to 5)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handspan.config.tool_settings import McpServer
from handspan.core.bus import QuestionOpened
from handspan.core.images import ImageReader
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Decision, Question
from handspan.core.results import Failure
from handspan.core.tool import ToolSpec
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection
from handspan.testing.spoken import Spoken
from tests.gateway.graph.pages import ECHO, Graph, Page, graph_gateway, result, said, tool
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def has_ended(there: Graph, thread: str) -> None:
    """The run is over: its calls have their results, and no model was asked for nobody."""
    store = there.gateway.gateway.parts.store
    async with asyncio.timeout(60):
        while (known := await store.conversations.get(thread, owner=OPERATOR.owner)).state != "idle":
            await asyncio.sleep(0.01)
    assert known.length == 3


async def has_length(there: Graph, thread: str, length: int) -> bool:
    """Whether the store has so many messages."""
    return (await there.gateway.gateway.parts.store.conversations.get(thread, owner=OPERATOR.owner)).length == length


class Thoughtful:
    """A model that does what it is told, and thinks first where the test lets it think."""

    name = "thoughtful"

    def __init__(self) -> None:
        self._spoken = Spoken()
        self.is_thinking = asyncio.Event()
        self.may_speak: asyncio.Event | None = None

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._spoken.projection(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        self.is_thinking.set()
        if self.may_speak is not None:
            await self.may_speak.wait()
        async for event in self._spoken.reply(projection, specs, artifacts):
            yield event


class TestTheLoop:
    async def test_the_unmodified_clients_loop_ends_with_what_its_tool_answered(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say('call echo {"x": 1}\nthen\nIt said {results}')
        (call,) = first.calls
        assert (call["name"], call["args"], call["tool_type"]) == ("echo", {"x": 1}, "remote")
        assert [message["role"] for message in first.messages] == ["user", "assistant", "tool"]
        assert first.messages[2]["metadata"] == {"is_remote": True}
        assert first.meta["status"] == "interrupted"
        last = await page.answer(result(call["id"], {"got": 1}))  # no thread id, as that client does
        assert '"got":1' in last.words
        assert last.calls == []
        assert last.meta == {
            **first.meta,
            "is_new_thread": False,
            "status": "completed",
            "open_calls": [],
            "thread_name": last.meta["thread_name"],
        }
        assert [message["role"] for message in last.messages] == ["user", "assistant"]

    async def test_every_message_gets_an_id_of_ours_and_none_is_taken_for_another(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\ncall echo\nthen\nend", "t1")
        second = await page.answer(result(first.calls[0]["id"]), thread="t1")
        third = await page.answer(result(second.calls[0]["id"]), thread="t1")
        shown = [*first.messages, *second.messages, *third.messages]
        produced = [message["message_id"] for message in shown if message["role"] != "user"]
        assert len(set(produced)) == len(produced)
        assert "0" not in produced
        assert third.words == "end"

    async def test_a_call_is_asked_once_in_the_whole_run(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\ncall echo\nthen\nend")
        second = await page.answer(result(first.calls[0]["id"]))
        third = await page.answer(result(second.calls[0]["id"]))
        assert first.calls[0]["id"] != second.calls[0]["id"]
        assert third.calls == []

    async def test_results_without_output_and_with_any_output_are_taken(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\ncall echo\ncall echo\nthen\n{results}")
        bare, listed, falsy = (call["id"] for call in first.calls)
        nothing = {"role": "tool", "message_id": "0", "content": [{"type": "tool_result", "call_id": bare}]}
        last = await page.answer(nothing, result(listed, [1, {"a": None}]), result(falsy, False))
        shown = [envelope["result"] for envelope in json.loads(last.words)]
        assert shown == [None, [1, {"a": None}], False]

    async def test_a_failed_handler_is_a_failure_with_its_words(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\n{results}")
        failed = result(first.calls[0]["id"], {"error": "bang"}, is_error=True, status="failed")
        (envelope,) = json.loads((await page.answer(failed)).words)
        assert (envelope["status"], envelope["code"], envelope["message"]) == ("error", "execution_failed", "bang")

    async def test_a_failure_keeps_a_code_that_clients_may_use(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\n{results}")
        refused = {"error": "the person said no", "code": "permission_denied"}
        (envelope,) = json.loads((await page.answer(result(first.calls[0]["id"], refused, is_error=True))).words)
        assert envelope["code"] == "permission_denied"

    async def test_the_gateways_own_tools_run_meanwhile_and_come_first(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\ncall get_current_time\nthen\n{results}")
        kinds = [message["content"][0]["type"] for message in first.messages]
        assert kinds == ["text", "tool_call", "tool_result", "remote_tool_call"]
        last = await page.answer(result(first.calls[0]["id"], "hello"))
        assert json.loads(last.words)[0]["result"] == "hello"
        assert "tool_result" not in [block["type"] for message in last.messages for block in message["content"]]

    async def test_without_tools_it_is_an_ordinary_answer(self, page: Page) -> None:
        answer = await page.say("Hello")
        assert answer.words == "Hello"
        assert answer.meta["is_new_thread"] is True
        again = await page.say("And you?", answer.meta["thread_id"])
        assert again.meta["is_new_thread"] is False
        assert again.meta["thread_id"] == answer.meta["thread_id"]

    async def test_full_shows_the_state_partial_the_context_low_neither(self, page: Page) -> None:
        low = (await page.say("a", "t")).data
        partial = (await page.say("b", "t", response_granularity="partial")).data
        full = (await page.say("c", "t", response_granularity="full")).data
        assert (low["state"], low["context"], partial["state"]) == (None, None, None)
        assert len(partial["context"]) == 4
        assert len(full["state"]["context"]) == len(full["context"]) == 6
        assert full["state"]["execution_meta"]["status"] == "completed"

    async def test_an_answer_and_the_thread_say_the_same_of_the_state(self, page: Page) -> None:
        await page.set_up(ECHO)
        script = 'call echo {"x": 1}\ncall get_current_time\nthen\nend'
        full = (await page.say(script, "t", response_granularity="full")).data
        assert full["state"] == (await page.ask("GET", "/v1/threads/t/state")).data["state"]
        assert full["context"] == full["state"]["context"]
        assert all(message["timestamp"] > 1e9 for message in full["context"])
        (call,) = full["state"]["execution_meta"]["interrupt_data"]["open_calls"]
        assert (call["id"], call["args"]) == (full["meta"]["open_calls"][0], {"x": 1})
        last = (await page.answer(result(call["id"]), response_granularity="partial")).data
        assert last["state"] is None
        assert last["context"] == (await page.ask("GET", "/v1/threads/t/messages")).messages

    async def test_the_limit_of_rounds_ends_the_run_over_all_its_requests(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\ncall echo\nthen\ncall echo\nthen\nnever", recursion_limit=2)
        second = await page.answer(result(first.calls[0]["id"]), recursion_limit=2)
        third = await page.answer(result(second.calls[0]["id"]), recursion_limit=2)
        assert third.status == 200
        assert third.calls == []
        assert third.meta["status"] == "limit"

    async def test_the_agents_own_limit_counts_where_it_is_smaller(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {"max_tool_iterations": 1}}) as there:
            await there.page.set_up(ECHO)
            first = await there.page.say("call echo\nthen\ncall echo\nthen\nnever")
            assert (await there.page.answer(result(first.calls[0]["id"]))).meta["status"] == "limit"


class TestResults:
    async def test_open_calls_are_those_that_are_left_and_any_client_of_the_owner_may_close_them(
        self, there: Graph, page: Page
    ) -> None:
        other = await there.another()
        await other.set_up(ECHO)
        waiting = (await other.say("call echo\ncall echo", "t")).meta["open_calls"]
        assert len(waiting) == 2
        left = (await other.answer(result(waiting[0]))).meta["open_calls"]
        assert left == waiting[1:]
        fixed = (await page.ask("POST", "/v1/graph/fix", {"thread_id": "t"})).data  # whoever's they are
        assert fixed["removed_count"] == 1
        assert fixed["state"] == (await page.ask("GET", "/v1/threads/t/state")).data["state"]
        nothing = (await page.ask("POST", "/v1/graph/fix", {"thread_id": "never"})).data
        assert (nothing["removed_count"], nothing["state"]) == (0, None)

    async def test_partial_answers_leave_the_others_open(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\ncall echo\nthen\n{results}")
        one, two = (call["id"] for call in first.calls)
        part = await page.answer(result(two, "second"))
        assert (part.messages, part.meta["status"], part.meta["open_calls"]) == ([], "interrupted", [one])
        last = await page.answer(result(one, "first"))
        assert [envelope["result"] for envelope in json.loads(last.words)] == ["first", "second"]

    async def test_one_result_that_cant_be_taken_refuses_all(self, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\n{results}")
        good = first.calls[0]["id"]
        refused = await page.answer(result(good, 1), result("nobody-asked-this", 2))
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
        assert refused.error["details"][0]["loc"] == ["body", "messages", "1", "content", "0", "call_id"]
        assert (await page.answer(result(good, 1))).status == 200

    async def test_a_call_is_answered_once(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
        twice = await page.answer(result(call, 1), result(call, 2))
        assert (twice.status, twice.error["code"]) == (422, "GRAPH_ANSWERED_CALL")
        assert (await page.answer(result(call, 1))).status == 200
        again = await page.answer(result(call, 1))
        assert (again.status, again.error["code"]) == (422, "GRAPH_ANSWERED_CALL")

    async def test_two_requests_with_one_result_at_once_have_one_winner(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
        answers = await asyncio.gather(*(page.answer(result(call, number)) for number in range(5)))
        assert sorted(answer.status for answer in answers) == [200, 422, 422, 422, 422]

    async def test_another_owner_can_not_answer(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
        for other in (await there.another(), await there.another("somebody else")):
            refused = await other.answer(result(call, "mine"))
            assert (refused.status, refused.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")
        assert (await page.answer(result(call, "mine"))).status == 200

    async def test_a_call_of_another_kind_cant_be_answered(self, there: Graph, page: Page) -> None:
        await page.say("call get_current_time")
        (record,) = await there.gateway.journal()
        refused = await page.answer(result(record.id, "noon"))
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_UNKNOWN_CALL")

    async def test_a_thread_id_has_to_be_the_runs(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend", "mine")).calls[0]["id"]
        refused = await page.answer(result(call, 1), thread="other")
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_WRONG_THREAD")
        assert (await page.answer(result(call, 1), thread="mine")).status == 200

    async def test_results_of_two_runs_in_one_request_are_refused(self, page: Page) -> None:
        await page.set_up(ECHO)
        one = (await page.say("call echo")).calls[0]["id"]
        two = (await page.say("call echo")).calls[0]["id"]
        refused = await page.answer(result(one, 1), result(two, 2))
        assert (refused.status, refused.error["code"]) == (422, "GRAPH_WRONG_THREAD")

    async def test_what_came_too_late_is_told_so(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, gateway={"browser_call": 0.05}) as there:
            page = there.page
            await page.set_up(ECHO, tool("slow", timeout=60))
            first = await page.say("call echo\ncall slow\nthen\n{results}")
            late, open_ = (call["id"] for call in first.calls)
            async with asyncio.timeout(60):
                while not isinstance((await there.gateway.gateway.parts.store.ledger.find(late)).result, Failure):  # type: ignore[union-attr]
                    await asyncio.sleep(0.01)
            refused = await page.answer(result(late, 1))
            assert (refused.status, refused.error["code"]) == (422, "GRAPH_EXPIRED_CALL")
            last = await page.answer(result(open_, "in time"))
            expired, in_time = json.loads(last.words)
            assert (expired["code"], in_time["result"]) == ("timeout", "in time")

    async def test_a_run_that_nobody_answers_ends_by_itself(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, gateway={"browser_call": 0.05}) as there:
            await there.page.set_up(ECHO)
            await there.page.say("call echo\ncall echo\nthen\nend", "t")
            await has_ended(there, "t")
            assert (await there.page.say("Hello again", "t")).words == "Hello again"

    async def test_a_request_with_a_key_is_answered_again_with_the_same_answer(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend")).calls[0]["id"]
        key = {"idempotency-key": "k1"}
        first = await page.answer(result(call, 1), headers=key)
        again = await page.answer(result(call, 1), headers=key)
        assert first.data == again.data
        other = await page.answer(result(call, 2), headers=key)
        assert (other.status, other.error["code"]) == (409, "GRAPH_BUSY")

    @pytest.mark.parametrize("way", ["invoke", "stream"])
    async def test_a_body_that_cant_be_read_does_not_use_up_its_key(self, page: Page, way: str) -> None:
        key = {"idempotency-key": "k1"}
        wrong = await page.ask("POST", f"/v1/graph/{way}", {"messages": "hello"}, headers=key)
        assert (wrong.status, wrong.error["code"]) == (422, "VALIDATION_ERROR")
        message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
        right = await page.ask("POST", f"/v1/graph/{way}", {"messages": [message]}, headers=key)
        assert right.status == 200

    async def test_parts_come_along(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend", "t")).calls[0]["id"]
        part = {"kind": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
        await page.answer(result(call, "a picture", parts=[part]))
        context = (await page.say("x", "t", response_granularity="partial")).data["context"]
        shown = [block for message in context for block in message["content"] if block["type"] == "image"]
        assert shown[0]["media"]["data_base64"] == "iVBORw0KGgo="

    async def test_a_part_that_is_no_base64_is_a_failure_of_the_call(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\n{results}")).calls[0]["id"]
        part = {"kind": "image", "media_type": "image/png", "data": "%%%"}
        (envelope,) = json.loads((await page.answer(result(call, 1, parts=[part]))).words)
        assert envelope["code"] == "execution_failed"


class TestWhoseToolsTheyAre:
    async def test_another_client_of_the_same_person_does_not_have_them(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        other = await there.another()
        assert "echo" not in json.loads((await other.say("{tools}")).words)
        assert "echo" in json.loads((await page.say("{tools}")).words)

    async def test_another_client_in_the_same_thread_does_not_have_them(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        await page.say("hello", "shared")
        other = await there.another()
        answer = await other.say("call echo\nthen\n{results}", "shared")
        assert answer.calls == []
        assert json.loads(answer.words)[0]["code"] == "tool_not_found"

    async def test_they_are_gone_from_the_registry_while_the_run_waits(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        await page.say("call echo")
        assert not [entry for entry in there.gateway.gateway.parts.app.registry if entry.origin.kind == "browser"]

    async def test_two_tabs_with_tools_in_their_requests_stay_apart(self, page: Page) -> None:
        one, two = await asyncio.gather(
            page.say("call read\nthen\n{tools}", tools=[tool("read", description="one")]),
            page.say("call read\nthen\n{tools}", tools=[tool("read"), tool("write")]),
        )
        first = await page.answer(result(one.calls[0]["id"], 1))
        second = await page.answer(result(two.calls[0]["id"], 2))
        assert "write" not in json.loads(first.words)
        assert "write" in json.loads(second.words)

    async def test_tools_of_a_request_are_in_place_of_those_that_were_set_up(self, page: Page) -> None:
        await page.set_up(ECHO)
        names = json.loads((await page.say("{tools}", tools=[tool("other")])).words)
        assert "other" in names
        assert "echo" not in names

    async def test_a_name_of_a_built_in_tool_is_shown_with_its_node_and_keeps_its_own_on_the_wire(
        self, page: Page
    ) -> None:
        await page.set_up(tool("read_file", node="page"))
        first = await page.say("call page__read_file\nthen\n{tools}")
        assert [call["name"] for call in first.calls] == ["read_file"]
        names = json.loads((await page.answer(result(first.calls[0]["id"]))).words)
        assert {"read_file", "page__read_file"} <= set(names)

    async def test_a_name_of_a_plugin_or_an_mcp_server_is_shown_with_its_node_and_keeps_its_own_on_the_wire(
        self, there: Graph, page: Page
    ) -> None:
        there.let_it_hold()  # a plugin's
        await there.gateway.gateway.parts.app.mcp.add("rug", McpServer(command="no-such-program-for-tests"))
        offered = [tool("hold", node="page"), tool("rug__stay", node="page")]
        answer = await page.say("call page__hold\ncall page__rug__stay", tools=offered)
        assert [call["name"] for call in answer.calls] == ["hold", "rug__stay"]

    async def test_an_agent_has_the_tools_of_its_nodes(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {}, "Searcher": {"nodes": ["search"]}}) as there:
            page = there.page
            await page.set_up(tool("web", node="search"), tool("run", node="code"))
            every = json.loads((await page.say("{tools}")).words)
            answer = await page.ask(
                "POST", "/v1/graph/invoke", {"messages": [said("{tools}")], "config": {"agent": "Searcher"}}
            )
            assert {"web", "run"} <= set(every)
            assert "web" in json.loads(answer.words)
            assert "run" not in json.loads(answer.words)

    async def test_one_name_on_two_nodes_is_the_last_one_unless_the_agent_names_the_node(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {}, "First": {"nodes": ["one"]}}) as there:
            page = there.page
            schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
            await page.set_up(tool("do", node="one", parameters=schema), tool("do", node="two"))
            assert (await page.say("call do")).calls != []
            body = {"messages": [said("call do\nthen\n{results}")], "config": {"agent": "First"}}
            refused = await page.ask("POST", "/v1/graph/invoke", body)
            assert json.loads(refused.words)[0]["code"] == "invalid_arguments"

    async def test_an_unknown_agent_is_told(self, page: Page) -> None:
        body = {"messages": [said("x")], "config": {"agent": "Nobody"}}
        refused = await page.ask("POST", "/v1/graph/invoke", body)
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
        assert "Nobody" in refused.error["message"]


class TestTheSameEngine:
    async def test_arguments_are_checked_before_the_client_is_asked(self, page: Page) -> None:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        await page.set_up(tool("weather", parameters=schema))
        answer = await page.say('call weather {"city": 7}\nthen\n{results}')
        assert answer.calls == []
        assert json.loads(answer.words)[0]["code"] == "invalid_arguments"

    async def test_the_client_is_asked_with_what_a_hook_made_of_the_call(self, tmp_path: Path) -> None:
        hook = {"type": "path_prefix", "config": {"prefix": "sub", "tools": ["save"]}}
        async with graph_gateway(tmp_path, hooks={"chain": [hook]}) as there:
            page = there.page
            await page.set_up(tool("save"), ECHO)
            script = 'call save {"path": "a.txt", "n": 1}\ncall echo {"path": "b.txt"}\ncall save {"path": "/"}'
            first = await page.say(script, "t", response_granularity="full")
            assert [call["args"] for call in first.calls] == [{"path": "sub/a.txt", "n": 1}, {"path": "b.txt"}]
            state = first.data["state"]["execution_meta"]["interrupt_data"]["open_calls"]
            assert [call["args"] for call in state] == [call["args"] for call in first.calls]
            streamed = await page.stream([said('call save {"path": "a.txt"}')], response_granularity="full")
            assert streamed.calls[0]["args"] == {"path": "sub/a.txt"}
            asking = [chunk for chunk in streamed.chunks if "tool_call_id" in (chunk["data"] or {})][-1]
            assert asking["data"]["args"] == {"path": "sub/a.txt"}

    async def test_the_client_is_asked_when_a_person_agreed_and_with_what_she_changed(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {"mode": "ask_always"}}) as there, asyncio.timeout(60):
            questions = there.gateway.gateway.parts.questions
            asked: asyncio.Queue[Question] = asyncio.Queue()
            there.gateway.gateway.parts.bus.subscribe(QuestionOpened, lambda event: asked.put_nowait(event.question))
            await there.page.set_up(ECHO)
            running = asyncio.create_task(
                there.page.say('call echo {"x": 1}\ncall echo {"x": 2}\nthen\n{results}', "t")
            )
            for _ in range(2):
                question = await asked.get()
                decision: Decision = "deny" if question.arguments == {"x": 2} else "allow"
                answer = Answer(decision, arguments={"x": 7} if decision == "allow" else None)
                assert await questions.answer(question.id, answer, person(OPERATOR))
            first = await running
            assert [call["args"] for call in first.calls] == [{"x": 7}]
            last = await there.page.answer(result(first.calls[0]["id"], "done"))
            assert [one["status"] for one in json.loads(last.words)] == ["success", "error"]

    async def test_the_journal_has_the_call_with_its_client(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\nend")
        await page.answer(result(first.calls[0]["id"], 1))
        (record,) = await there.gateway.journal()
        origin = record.tool.origin
        assert origin is not None
        assert (origin.kind, origin.connection) == ("browser", f"{first.meta['thread_id']}:")
        assert page.token not in repr(record)

    async def test_a_large_result_is_cut_and_kept(self, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\n{results}")).calls[0]["id"]
        answer = await page.answer(result(call, "x" * 300_000))
        assert len(answer.words) < 100_000
        assert "artifact" in answer.words

    async def test_a_read_only_agent_does_not_get_tools_that_may_change_things(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, agents={"General": {"mode": "read_only"}}) as there:
            reads = tool("look", annotations={"read_only": True})
            names = json.loads((await there.page.say("{tools}", tools=[ECHO, reads])).words)
            assert "look" in names
            assert "echo" not in names

    async def test_forbidden_names_are_refused_when_they_are_set_up(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, gateway={"remote": {"deny": ["evil*"]}}) as there:
            refused = await there.page.set_up(ECHO, tool("evil_one"))
            assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
            assert refused.error["details"][0]["loc"] == ["body", "tools", "1"]

    async def test_names_that_are_forbidden_now_are_left_out_of_a_stored_set_and_refused_in_a_new_one(
        self, tmp_path: Path
    ) -> None:
        tools = (ECHO, tool("evil_one"))
        async with graph_gateway(tmp_path) as there:
            await there.page.set_up(*tools)
        async with graph_gateway(tmp_path, gateway={"remote": {"deny": ["evil*"]}}) as there:
            names = json.loads((await there.page.say("{tools}")).words)
            assert "echo" in names
            assert "evil_one" not in names
            assert (await there.page.set_up(*tools)).status == 422


class TestGivingUp:
    async def test_a_new_message_gives_the_suspended_run_up(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        call = (await page.say("call echo\nthen\nend", "t")).calls[0]["id"]
        assert (await page.say("Something else", "t")).words == "Something else"
        (record,) = await there.gateway.journal()
        assert isinstance(record.result, Failure)
        assert record.result.code == "cancelled"
        late = await page.answer(result(call, 1))
        assert (late.status, late.error["code"]) == (422, "GRAPH_ANSWERED_CALL")
        assert "given up" in late.error["message"]

    async def test_a_suspended_run_can_be_stopped(self, page: Page) -> None:
        await page.set_up(ECHO)
        await page.say("call echo\nthen\nend", "t")
        stopped = (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).data
        assert (stopped["success"], stopped["ok"], stopped["running"], stopped["thread_id"]) == (True, True, True, "t")
        again = (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).data
        assert (again["success"], again["running"], again["reason"]) == (True, False, "not-running")
        assert (await page.say("On we go", "t")).words == "On we go"

    async def test_fix_closes_what_nobody_answers(self, page: Page) -> None:
        await page.set_up(ECHO)
        await page.say("call echo\ncall echo", "t")
        fixed = (await page.ask("POST", "/v1/graph/fix", {"thread_id": "t"})).data
        assert (fixed["success"], fixed["removed_count"]) == (True, 2)

    async def test_in_a_thread_that_is_not_ones_own_there_is_nothing_to_stop(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        first = await page.say("call echo\nthen\nend", "t")
        stranger = await there.another("somebody else")
        for who, thread in ((page, "nothing"), (stranger, "t")):
            assert (await who.ask("POST", "/v1/graph/stop", {"thread_id": thread})).data["running"] is False
            assert (await who.ask("POST", "/v1/graph/fix", {"thread_id": thread})).data["removed_count"] == 0
        assert (await page.answer(result(first.calls[0]["id"]))).words == "end"

    async def test_a_running_run_can_be_stopped_and_its_request_is_answered(self, there: Graph, page: Page) -> None:
        waiting = there.let_it_wait()
        running = asyncio.create_task(page.say("call wait", "t"))
        async with asyncio.timeout(60):
            await waiting.is_at_work.wait()
            assert (await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})).data["running"] is True
            assert (await running).meta["status"] == "stopped"

    async def test_somebody_elses_thread_cant_be_used(self, there: Graph, page: Page) -> None:
        await page.say("mine", "t")
        stranger = await there.another("somebody else")
        refused = await stranger.say("yours?", "t")
        assert (refused.status, refused.error["code"]) == (403, "PERMISSION_ERROR")


class TestAHistory:
    HISTORY = (
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi, I am Ann."}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Ann."}]},
    )

    async def test_a_thread_begins_with_the_history_that_its_client_sends(self, there: Graph, page: Page) -> None:
        answer = await page.invoke([*self.HISTORY, said("Who am I?")], "t")
        assert [message["role"] for message in answer.messages] == ["user", "assistant"]
        assert answer.meta["thread_name"] == "Who am I?"
        shown = (await page.ask("GET", "/v1/threads/t/messages")).data["messages"]
        texts = [[block["text"] for block in message["content"]] for message in shown]
        assert texts[:4] == [["System:", "Be brief."], ["Hi, I am Ann."], ["Hello", "Ann."], ["Who am I?"]]

    async def test_a_thread_that_has_messages_takes_no_other_history(self, page: Page) -> None:
        await page.say("mine", "t")
        refused = await page.invoke([*self.HISTORY, said("Who am I?")], "t")
        assert (refused.status, refused.error["details"][0]["loc"]) == (422, ["body", "messages", "0", "role"])
        assert len((await page.ask("GET", "/v1/threads/t/messages")).data["messages"]) == 2


class TestARestart:
    async def test_a_suspended_run_survives_it_with_the_tools_of_its_request(self, there: Graph, page: Page) -> None:
        first = await page.say("call look\nthen\n{results}{tools}", tools=[tool("look"), tool("later")])
        await there.gateway.restart()
        last = await page.answer(result(first.calls[0]["id"], "still here"))
        assert "still here" in last.words
        assert '"later"' in last.words

    async def test_a_run_that_was_cut_off_while_the_model_thought_goes_on_when_its_results_come_again(
        self, tmp_path: Path
    ) -> None:
        model = Thoughtful()
        async with graph_gateway(tmp_path, model=model) as there:
            page = there.page
            bring: dict[str, Any] = {"headers": {"idempotency-key": "k1"}, "tools": [tool("look")]}
            first = await page.say("call look\nthen\n{results}", "t", tools=[tool("look")])
            answered = result(first.calls[0]["id"], "a bird")
            model.is_thinking, model.may_speak = asyncio.Event(), asyncio.Event()
            lost = asyncio.create_task(page.answer(answered, **bring))
            await asyncio.wait_for(model.is_thinking.wait(), 60)
            await until(partial(has_length, there, "t", 3))
            await there.gateway.gateway.parts.store.close()  # as if it were killed: nothing more is written
            lost.cancel()
            model.may_speak.set()
            await there.gateway.restart()
            last = await page.answer(answered, **bring)
            assert "a bird" in last.words and last.meta["status"] == "completed"
            assert (await page.answer(answered, tools=[tool("look")])).error["code"] == "GRAPH_ANSWERED_CALL"
            roles = [one["role"] for one in (await page.ask("GET", "/v1/threads/t/messages")).data["messages"]]
            assert roles == ["user", "assistant", "tool", "assistant"]

    async def test_a_run_that_was_stopped_does_not_go_on_when_its_results_come_again(self, tmp_path: Path) -> None:
        model = Thoughtful()
        async with graph_gateway(tmp_path, model=model) as there:
            page = there.page
            first = await page.say("call look\nthen\n{results}", "t", tools=[tool("look")])
            answered = result(first.calls[0]["id"], "a bird")
            model.is_thinking, model.may_speak = asyncio.Event(), asyncio.Event()
            running = asyncio.create_task(page.answer(answered, tools=[tool("look")]))
            await asyncio.wait_for(model.is_thinking.wait(), 60)
            await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
            assert (await running).meta["status"] == "stopped"
            await there.gateway.restart()
            assert (await page.answer(answered, tools=[tool("look")])).error["code"] == "GRAPH_ANSWERED_CALL"

    async def test_what_was_set_up_survives_it(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        await there.gateway.restart()
        assert (await page.say("call echo")).calls != []

    async def test_a_run_that_expired_meanwhile_is_told_so_and_asks_no_model(self, tmp_path: Path) -> None:
        async with graph_gateway(tmp_path, gateway={"browser_call": 0.3}) as there:
            page = there.page
            await page.set_up(ECHO)
            first = await page.say("call echo\nthen\nend", "t")
            await there.gateway.close()
            await asyncio.sleep(0.35)  # the call's own time, which nothing here can hurry
            await there.gateway.open()
            refused = await page.answer(result(first.calls[0]["id"]))
            assert (refused.status, refused.error["code"]) == (422, "GRAPH_EXPIRED_CALL")
            await has_ended(there, "t")

    async def test_a_revoked_token_takes_its_tools_along(self, there: Graph) -> None:
        page = await there.another()
        await page.set_up(ECHO)
        store = there.gateway.gateway.parts.store
        (token,) = [one for one in await store.tokens.all(owner=OPERATOR.owner) if one.label == "a page"]
        assert await store.browser_tools.find(token.hash[:16]) is not None
        await there.gateway.gateway.parts.auth.revoke(token.hash, OPERATOR.owner)
        assert await store.browser_tools.find(token.hash[:16]) is None
        assert (await page.say("hello")).error["code"] == "AUTHENTICATION_ERROR"
