"""Every tool of an agent, for any MCP client: a phone's camera, too (SPEC C5)."""

import asyncio
import base64
import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client

from handspan.client import Client, Image
from handspan.client.errors import GatewayRefused
from handspan.core.calls import CallRecord
from handspan.core.context import ToolContext
from handspan.core.function_tool import tool
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.results import Attachment, Failure, Success
from handspan.core.tool import READ_ONLY
from handspan.testing.gateway import RunningGateway, running_gateway
from mcp import Client as McpClient
from mcp import MCPError
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "auto")
ANSWERS = {"answers": True}
"""Settings by which clients may answer for their persons."""
PIXEL = b"\x89PNG\r\n\x1a\n"


@asynccontextmanager
async def mcp_client(
    gateway: RunningGateway, mode: str = "auto", path: str = "/mcp", token: str = "", **options: Any
) -> AsyncIterator[McpClient]:
    headers = {"authorization": f"Bearer {token or gateway.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{gateway.url}{path}", http_client=http)
        async with McpClient(transport, mode=mode, cache=None, **options) as client:
            yield client


@asynccontextmanager
async def phone(gateway: RunningGateway) -> AsyncIterator[None]:
    device = Client(gateway.url, token=gateway.token, label="phone")

    @device.tool
    async def camera() -> Image:
        """Take a photo."""
        return Image(PIXEL, "image/png")

    async with device:
        await device.connected()
        yield


def texts(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def names(client: McpClient) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def journal(gateway: RunningGateway) -> Sequence[CallRecord]:
    calls, _ = await gateway.gateway.parts.store.ledger.page(owner=OPERATOR.owner)
    return calls


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_lists_and_calls_built_in_tools_and_the_camera_of_a_phone(tmp_path: Path, mode: str) -> None:
    async with running_gateway(tmp_path) as gateway, phone(gateway), mcp_client(gateway, mode) as client:
        assert {"read_file", "get_current_time", "phone__camera"} <= await names(client)
        written = await client.call_tool("write_file", {"path": "a.txt", "content": "hello"})
        assert not written.is_error
        assert "hello" in texts(await client.call_tool("read_file", {"path": "a.txt"}))
        photo = await client.call_tool("phone__camera", {})
        images = [block for block in photo.content if isinstance(block, types.ImageContent)]
        assert [base64.b64decode(image.data) for image in images] == [PIXEL]
        missing = await client.call_tool("read_file", {"path": "b.txt"})
        assert missing.is_error and "File not found" in texts(missing)
        calls = await journal(gateway)
        assert {"write_file", "read_file", "phone__camera"} <= {call.name for call in calls}


async def test_a_client_that_can_not_wait_for_another_agent_is_not_offered_to_ask_one(tmp_path: Path) -> None:
    agents = {"General": {"may_ask": ["reader"]}, "reader": {}}
    async with running_gateway(tmp_path, agents=agents) as gateway, mcp_client(gateway) as client:
        assert "ask_agent" not in await names(client)
        refused = await client.call_tool("ask_agent", {"agent": "reader", "task": "hello"})
        assert refused.is_error and "not available" in texts(refused)


async def test_a_client_that_may_only_call_tools_gives_itself_no_turns(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, mcp_client(gateway) as client:
        assert "schedule" not in await names(client)
        asked = {"action": "create", "when": "every 1m", "text": "Do as I say."}
        refused = await client.call_tool("schedule", asked)
        assert refused.is_error and "only in the turn of a conversation" in texts(refused)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_is_told_when_a_phone_connects(tmp_path: Path, mode: str) -> None:
    heard = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode, message_handler=hear) as client:
        assert "phone__camera" not in await names(client)
        if mode == "legacy":
            async with phone(gateway):
                await until(heard.is_set)
                assert "phone__camera" in await names(client)
        else:
            async with client.listen(tools_list_changed=True) as changes, phone(gateway):
                await anext(aiter(changes))
                assert "phone__camera" in await names(client)


@asynccontextmanager
async def client_that_does_not_read(gateway: RunningGateway) -> AsyncIterator[None]:
    """A session of the older era with a call whose reports fill the connection."""
    reports = 0

    @tool
    async def report(ctx: ToolContext) -> None:
        """Report for ever."""
        nonlocal reports
        while True:
            ctx.progress("x" * 1_000_000)
            reports += 1
            await asyncio.sleep(0.001)

    gateway.gateway.parts.app.registry.register(report)
    headers = {"authorization": f"Bearer {gateway.token}", "accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as http:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        begun = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 1}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        async with http.stream("POST", "/mcp", json=call):
            await until(lambda: reports > 200)
            yield


async def test_a_client_that_does_not_read_keeps_no_other_one_from_being_told(tmp_path: Path) -> None:
    changes = 0

    async def hear(message: object) -> None:
        nonlocal changes
        changes += isinstance(message, types.ToolListChangedNotification)

    patient = {"connections": {"stall_seconds": 3600}}
    async with (
        running_gateway(tmp_path, gateway=patient) as gateway,
        client_that_does_not_read(gateway),
        mcp_client(gateway, "legacy", message_handler=hear) as client,
    ):
        await names(client)
        async with phone(gateway):
            await until(lambda: changes)
        changes = 0
        async with phone(gateway):
            await until(lambda: changes)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_result_that_is_too_large_is_read_on_as_a_resource(tmp_path: Path, mode: str) -> None:
    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        kept = await gateway.gateway.parts.app.artifacts.keep(b"x" * 100_000, owner=OPERATOR.owner)

        @tool(annotations=READ_ONLY)
        async def give_file() -> Success:
            """Give a file."""
            return Success("a file", (Attachment("file", "text/plain", artifact=kept, name="x.txt"),))

        gateway.gateway.parts.app.registry.register(give_file)
        given = await client.call_tool("give_file", {})
        [link] = [block for block in given.content if isinstance(block, types.ResourceLink)]
        [template] = (await client.list_resource_templates()).resource_templates
        prefix = template.uri_template.removesuffix("{id}")
        assert str(link.uri).startswith(prefix) and link.size == 100_000
        [content] = (await client.read_resource(str(link.uri))).contents
        assert isinstance(content, types.TextResourceContents) and content.text == "x" * 100_000
        with pytest.raises(MCPError):
            await client.read_resource(f"{prefix}unknown")


async def test_a_request_without_a_token_or_with_a_foreign_host_is_refused(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, httpx2.AsyncClient(timeout=60) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await http.post(f"{gateway.url}/mcp", json=body)).status_code == 401
        foreign = {"host": "evil.example", "authorization": f"Bearer {gateway.token}"}
        assert (await http.post(f"{gateway.url}/mcp", json=body, headers=foreign)).status_code in (400, 403, 421)


async def test_a_token_of_the_scope_tools_lists_and_calls_and_may_be_bound_to_agents(tmp_path: Path) -> None:
    agents = {"Reader": {"tools": ["read_file"]}, "Clock": {"tools": ["get_current_time"]}}
    async with running_gateway(tmp_path, agents=agents) as gateway:
        token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools", "agent:Reader"), "desktop")
        async with mcp_client(gateway, token=token) as client:
            assert await names(client) == {"read_file"}
        async with mcp_client(gateway, token=token, path="/mcp/Reader") as client:
            assert await names(client) == {"read_file"}
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await http.post(f"{gateway.url}/mcp/Clock", json=body)).status_code == 403
            assert (await http.post(f"{gateway.url}/mcp?agent=Clock", json=body)).status_code == 403
            assert (await http.get(f"{gateway.url}/api/sessions")).status_code == 403
            assert (await http.get(f"{gateway.url}/api/tools")).status_code == 200


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("decision", "is_error"), [("allow", False), ("deny", True)])
async def test_a_person_at_the_client_is_asked_where_the_client_can_and_may(
    tmp_path: Path, decision: str, is_error: bool, mode: str
) -> None:
    asked: list[str] = []

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": decision})

    agents = {"Careful": {"mode": "ask_always"}}
    async with (
        running_gateway(tmp_path, agents=agents, mcp=ANSWERS) as gateway,
        mcp_client(gateway, mode, "/mcp/Careful", elicitation_callback=elicit) as client,
    ):
        written = await client.call_tool("write_file", {"path": "a.txt", "content": "x"})
        assert written.is_error is is_error and len(asked) == 1 and "a.txt" in asked[0]


async def test_a_client_reads_that_a_person_changed_the_arguments_of_its_call(tmp_path: Path) -> None:
    agents = {"Careful": {"mode": "ask_always"}}
    async with (
        running_gateway(tmp_path, agents=agents) as gateway,
        mcp_client(gateway, path="/mcp/Careful") as client,
    ):
        calling = asyncio.create_task(client.call_tool("write_file", {"path": "a.txt", "content": "x"}))
        questions = gateway.gateway.parts.questions

        async def is_asked() -> bool:
            return bool(await questions.open_for(owner=OPERATOR.owner))

        await until(is_asked)
        [question] = await questions.open_for(owner=OPERATOR.owner)
        edited = Answer("allow", arguments={"path": "b.txt", "content": "x"})
        await questions.answer(question.id, edited, person(OPERATOR))
        assert "changed" in (said := texts(await calling)) and "b.txt" in said


async def ask_for_a_file(client: McpClient, **more: Any) -> Any:
    """Call a tool as a client that repeats the call itself."""
    arguments = {"path": "a.txt", "content": "x"}
    return await client.session.call_tool("write_file", arguments, allow_input_required=True, **more)


async def never(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    raise AssertionError("the test repeats the call itself")


async def test_a_question_as_an_answer_can_be_answered_elsewhere_and_its_state_holds_once(tmp_path: Path) -> None:
    agents = {"Careful": {"mode": "ask_always"}}
    async with (
        running_gateway(tmp_path, agents=agents, mcp=ANSWERS) as gateway,
        mcp_client(gateway, path="/mcp/Careful", elicitation_callback=never) as client,
    ):
        asked = await ask_for_a_file(client)
        assert isinstance(asked, types.InputRequiredResult) and asked.input_requests and asked.request_state
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(headers=headers, base_url=gateway.url, timeout=60) as http:
            [question] = (await http.get("/api/questions")).json()["questions"]
            answer = await http.post(
                f"/api/questions/{quote(question['id'], safe='')}/answer", json={"decision": "allow"}
            )
            assert answer.status_code == 200, answer.text
        late = {key: types.ElicitResult(action="decline") for key in asked.input_requests}
        written = await ask_for_a_file(client, input_responses=late, request_state=asked.request_state)
        assert isinstance(written, types.CallToolResult) and not written.is_error, texts(written)
        with pytest.raises(MCPError, match="request state is unknown"):
            await ask_for_a_file(client, input_responses=late, request_state=asked.request_state)


async def test_the_state_of_another_client_is_as_good_as_none(tmp_path: Path) -> None:
    agents = {"Careful": {"mode": "ask_always"}}
    async with running_gateway(tmp_path, agents=agents, mcp=ANSWERS) as gateway:
        other = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools",), "other")
        async with (
            mcp_client(gateway, path="/mcp/Careful", elicitation_callback=never) as client,
            mcp_client(gateway, path="/mcp/Careful", token=other, elicitation_callback=never) as thief,
        ):
            asked = await ask_for_a_file(client)
            answers = {
                key: types.ElicitResult(action="accept", content={"decision": "allow"}) for key in asked.input_requests
            }
            repeated = {"input_responses": answers, "request_state": asked.request_state}
            with pytest.raises(MCPError, match="another client's"):
                await ask_for_a_file(thief, **repeated)
            with pytest.raises(MCPError, match="request state is unknown"):
                await client.session.call_tool("read_file", {"path": "a.txt"}, allow_input_required=True, **repeated)
            written = await ask_for_a_file(client, **repeated)
            assert isinstance(written, types.CallToolResult) and not written.is_error, texts(written)


async def test_a_token_for_tools_alone_can_not_connect_as_a_device(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools",), "desktop")
        with pytest.raises(GatewayRefused, match="this token may not connect"):
            async with Client(gateway.url, token=token, label="phone"):
                pass


def add_blocking_tool(gateway: RunningGateway) -> asyncio.Event:
    """Add the tool `block`. The event is set when it runs."""
    began = asyncio.Event()

    @tool
    async def block() -> None:
        """Wait for ever."""
        began.set()
        await asyncio.Event().wait()

    gateway.gateway.parts.app.registry.register(block)
    return began


async def codes(gateway: RunningGateway) -> list[str]:
    return [call.result.code for call in await journal(gateway) if isinstance(call.result, Failure)]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cancelled_call_is_cancelled_in_the_engine(tmp_path: Path, mode: str) -> None:
    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        began = add_blocking_tool(gateway)
        calling = asyncio.create_task(client.call_tool("block", {}))
        await until(began.is_set)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

        async def is_over() -> bool:
            return await codes(gateway) == ["cancelled"]

        await until(is_over)


async def test_a_gateway_that_stops_ends_the_calls_of_its_clients(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, mcp_client(gateway) as client:
        began = add_blocking_tool(gateway)
        calling = asyncio.create_task(client.call_tool("block", {}))
        await until(began.is_set)
        await gateway.close()
        ended = (await asyncio.gather(calling, return_exceptions=True))[0]
        assert isinstance(ended, MCPError) or "being stopped" in texts(ended)  # type: ignore[arg-type]  # a result
        await gateway.open()
        assert await codes(gateway) == ["cancelled"]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_path_and_the_query_name_the_agent(tmp_path: Path, mode: str) -> None:
    agents = {"Reader": {"tools": ["read_file"]}, "Clock": {"tools": ["get_current_time"]}}
    async with running_gateway(tmp_path, agents=agents) as gateway:
        for path, only in (("/mcp/Clock", {"get_current_time"}), ("/mcp?agent=Reader", {"read_file"})):
            async with mcp_client(gateway, mode, path) as client:
                assert await names(client) == only


@pytest.mark.parametrize("mode", ERAS)
async def test_skills_are_prompts(tmp_path: Path, mode: str) -> None:
    async with running_gateway(tmp_path) as gateway:
        skills, folder = (
            gateway.gateway.parts.app.skills,
            gateway.gateway.settings.workspace / ".handspan" / "skills" / "tidy",
        )
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            "---\nname: tidy\ndescription: Tidy up.\nvariables: [room]\n---\nTidy the {{room}}."
        )
        await skills.enable("tidy", skills.find_any("tidy").fingerprint)
        async with mcp_client(gateway, mode) as client:
            [prompt] = [one for one in (await client.list_prompts()).prompts if one.name == "tidy"]
            assert prompt.description == "Tidy up." and [one.name for one in prompt.arguments or ()] == ["room"]
            content = (await client.get_prompt("tidy", {"room": "kitchen"})).messages[0].content
            assert isinstance(content, types.TextContent) and "Tidy the kitchen." in content.text


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_after_the_end_of_a_call_leaves_nothing_behind(tmp_path: Path, mode: str) -> None:
    is_over, has_reported = threading.Event(), threading.Event()

    @tool(timeout=0.1)
    def too_late(ctx: ToolContext) -> None:
        """Report progress when the time is over."""
        is_over.wait(WAIT)
        ctx.progress({"progress": 1})
        has_reported.set()

    async def show(progress: float, total: float | None, message: str | None) -> None:
        """Nothing."""

    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        gateway.gateway.parts.app.registry.register(too_late)
        result = await soon(client.call_tool("too_late", {}, progress_callback=show))
        assert result.is_error
        is_over.set()
        await asyncio.to_thread(has_reported.wait, WAIT)
        await asyncio.sleep(0)
        assert not progress_tasks()


def progress_tasks() -> list[str]:
    """The tasks of this process that send progress."""
    return [found for task in asyncio.all_tasks() if "ProgressSender" in (found := repr(task.get_coro()))]


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_of_a_call_that_its_client_cancels_leaves_nothing_behind(tmp_path: Path, mode: str) -> None:
    has_seen, has_ended = asyncio.Event(), asyncio.Event()

    @tool
    async def steps(ctx: ToolContext) -> None:
        """Tell one step after the other, so that a report is always on its way."""
        try:
            for step in itertools.count(1):
                ctx.progress({"progress": step})
                await asyncio.sleep(0)
        finally:
            has_ended.set()

    async def show(progress: float, total: float | None, message: str | None) -> None:
        has_seen.set()

    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        gateway.gateway.parts.app.registry.register(steps)
        calling = asyncio.create_task(client.call_tool("steps", {}, progress_callback=show))
        await soon(has_seen.wait())
        await until(progress_tasks)
        calling.cancel()
        await soon(has_ended.wait())
        await until(lambda: not progress_tasks())


@pytest.mark.parametrize("mode", ERAS)
async def test_the_progress_of_a_long_call_reaches_the_client(tmp_path: Path, mode: str) -> None:
    seen: list[tuple[float, str | None]] = []
    has_seen = asyncio.Event()

    @tool
    async def steps(ctx: ToolContext) -> str:
        """Tell each step."""
        ctx.progress({"progress": 1, "total": 2, "message": "half"})
        await has_seen.wait()
        return "done"

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))
        has_seen.set()

    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        gateway.gateway.parts.app.registry.register(steps)
        result = await soon(client.call_tool("steps", {}, progress_callback=show))
        assert texts(result) == "done" and seen[0] == (1, "half")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("number", [10**400, float("inf"), float("nan"), "half"], ids=["large", "inf", "nan", "text"])
async def test_progress_that_is_no_number_is_counted(tmp_path: Path, mode: str, number: Any) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    has_seen = asyncio.Event()

    @tool
    async def steps(ctx: ToolContext) -> str:
        """Tell each step."""
        ctx.progress({"progress": number, "total": number, "message": "first"})
        await has_seen.wait()
        return "done"

    async def show(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        has_seen.set()

    async with running_gateway(tmp_path) as gateway, mcp_client(gateway, mode) as client:
        gateway.gateway.parts.app.registry.register(steps)
        result = await soon(client.call_tool("steps", {}, progress_callback=show))
        assert texts(result) == "done" and seen[0] == (1, None, "first")


async def test_the_tools_of_a_page_are_its_own(tmp_path: Path) -> None:
    entry = {"type": "function", "function": {"name": "page_tool", "description": "A page.", "parameters": {}}}
    async with running_gateway(tmp_path) as gateway, mcp_client(gateway) as client:
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as http:
            answer = await http.post("/v1/graph/setup", json={"tools": [entry]})
            assert answer.status_code == 200, answer.text
        assert "page_tool" not in await names(client)
        assert (await client.call_tool("page_tool", {})).is_error
