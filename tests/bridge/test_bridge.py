"""Other apps' tools at a real gateway (SPEC D; cetp.md 8): found, called, refreshed, and what goes wrong with them."""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handspan.bridge import DesktopTransport, InProcessTransport, desktop
from handspan.bridge.memory import AppSwitches
from handspan.bridge.transport import ProviderApp
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ErrorCode
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.values import JsonObject
from handspan.provider.connection import ProviderSocket
from handspan.provider.launch import wait_until_listening
from handspan.testing import RunningGateway
from handspan.wire.cetp import CetpResponse, CetpSuccess, execute_request, no_response_error, success
from tests.bridge.desk import Desk, answer, devices, failure, offered, question, value
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

FINANCE = "org.example.finance"
CODES: dict[str, ErrorCode] = {
    "permission_denied": "permission_denied",
    "tool_not_found": "tool_not_found",
    "invalid_args": "invalid_arguments",
    "rate_limited": "rate_limited",
    "internal_error": "internal_error",
    "odd_status": "internal_error",
    "odd_code": "internal_error",
    "not_json": "internal_error",
}
UNANSWERED = ("cut_off", "cut_in_half", "not_http", "http_500", "says_more", "endless_head")
TOO_LARGE = ("flood", "drip")


def names(label: str, *tools: str) -> list[str]:
    return [f"{label}__{tool}" for tool in tools]


async def test_errors_of_an_app_keep_their_code_and_say_it(gateway: RunningGateway, desk: Desk) -> None:
    tools = ("echo", "words", *CODES)
    async with desk.provider(FINANCE, tools), desk.bridged(gateway):
        await offered(gateway, *names("finance", *tools))
        assert await value(gateway, "finance__echo", a=[1, "é"]) == {"a": [1, "é"]}
        assert await value(gateway, "finance__words") == "Three words only."
        for tool, code in CODES.items():
            failed = await failure(gateway, f"finance__{tool}")
            assert failed.code == code
            if tool.upper() in ("PERMISSION_DENIED", "TOOL_NOT_FOUND", "INVALID_ARGS", "RATE_LIMITED"):
                assert failed.message == f"[{tool.upper()}] As the test wants: {tool}"


async def test_a_call_without_an_answer_is_tried_three_times_under_one_id(gateway: RunningGateway, desk: Desk) -> None:
    async with desk.provider(FINANCE, ("cut_off", "rate_limited")) as provider, desk.bridged(gateway):
        await offered(gateway, *names("finance", "cut_off", "rate_limited"))
        failed = await failure(gateway, "finance__cut_off")
        assert failed.code == "internal_error"
        assert failed.message.startswith(f"[INTERNAL_ERROR] Provider call failed for {FINANCE}: ")
        (record,) = await gateway.journal()
        ids = [call["request_id"] for call in provider.calls("cut_off")]
        # One more than three: the scan's connection is used first, and a closed one does not count (cetp.md 6.7).
        assert ids == [record.id] * 4
        await failure(gateway, "finance__rate_limited")
        assert len(provider.calls("rate_limited")) == 1  # it was answered


async def test_an_app_that_lies_floods_or_hangs_hurts_its_own_calls_alone(gateway: RunningGateway, desk: Desk) -> None:
    async with (
        desk.provider("org.example.bad", ("echo", "hang", *UNANSWERED, *TOO_LARGE)),
        desk.provider("org.example.good", ("echo",)),
        desk.bridged(gateway),
    ):
        await offered(gateway, *names("bad", "echo", "hang", *UNANSWERED, *TOO_LARGE), "good__echo")
        hanging = asyncio.create_task(failure(gateway, "bad__hang"))
        for tool in (*UNANSWERED, *TOO_LARGE):
            assert (await failure(gateway, f"bad__{tool}")).code == "internal_error"
            assert await value(gateway, "good__echo", tool=tool) == {"tool": tool}
        assert await value(gateway, "bad__echo") == {}
        assert (await soon(hanging)).code == "timeout"


async def test_an_app_that_is_killed_or_frozen_in_mid_call_hurts_its_own_calls_alone(
    gateway: RunningGateway, desk: Desk
) -> None:
    desk.process("org.example.bad", "echo", "die")
    async with desk.provider("org.example.good", ("echo",)), desk.bridged(gateway):
        await offered(gateway, "bad__echo", "bad__die", "good__echo")
        assert (await failure(gateway, "bad__die")).code == "internal_error"
        assert await value(gateway, "bad__echo", n=1) == {"n": 1}, "it is started again"
        (process,) = desk.processes("org.example.bad")
        os.kill(process, signal.SIGSTOP)
        frozen = asyncio.create_task(value(gateway, "bad__echo", n=2))
        assert await value(gateway, "good__echo", n=3) == {"n": 3}
        os.kill(process, signal.SIGCONT)
        assert await soon(frozen) == {"n": 2}


async def test_apps_come_change_and_go_while_calls_run(gateway: RunningGateway, desk: Desk) -> None:
    async with (
        desk.provider("org.example.slow", ("hang", "echo"), label="Slow") as slow,
        desk.bridged(gateway) as bridge,
    ):
        await offered(gateway, "slow__hang", "slow__echo")
        calling = asyncio.create_task(gateway.call("slow__hang"))
        await soon(slow.has_request.wait())
        async with desk.provider(FINANCE, ("echo",)) as finance:
            await offered(gateway, "slow__hang", "slow__echo", "finance__echo")
            finance.tools = ["words"]
            desk.install(FINANCE, authorize=["/bin/true"])  # replaced
            await offered(gateway, "slow__hang", "slow__echo", "finance__words")
            assert await value(gateway, "finance__words") == "Three words only."
            desk.remove(FINANCE)
            await offered(gateway, "slow__hang", "slow__echo")
        slow.tools.remove("echo")
        desk.install("org.example.slow", label="Slow", authorize=["/bin/true"])
        await offered(gateway, "slow__hang")
        assert list(bridge.apps) == ["org.example.slow"]
        slow.release()
        await soon(calling)


async def test_only_tools_that_read_are_bridged_and_people_see_what_is_left_out(
    gateway: RunningGateway, desk: Desk
) -> None:
    desk.install("org.example.future", version=2)
    async with desk.provider(FINANCE, ("echo", "writes")) as provider, desk.bridged(gateway):
        provider.info = {
            "provider_name": "MyFinance",
            "description": "Shares and accounts.",
            "scopes": [{"name": "holdings", "description": "What you own"}],
        }
        await offered(gateway, "finance__echo")
        shown: dict[str, Any] = {}

        async def described() -> bool:
            shown.update(await devices(gateway))
            return bool(shown.get("finance", {}).get("notes") and shown.get("bridge", {}).get("notes"))

        await until(described)
        finance = shown["finance"]
        assert (finance["name"], finance["description"]) == ("MyFinance", "Shares and accounts.")
        assert finance["scopes"] == [{"name": "holdings", "description": "What you own"}]
        assert finance["notes"] == ["The tool 'writes' is not offered: it says that it writes."]
        assert finance["tools"] == ["finance__echo"]
        (note,) = shown["bridge"]["notes"]
        assert note.startswith("org.example.future: it speaks version 2")
        (spec,) = [one for one in gateway.gateway.parts.app.registry if one.spec.name == "finance__echo"]
        assert spec.spec.annotations.read_only


@pytest.mark.parametrize("tool", TOO_LARGE)
async def test_an_answer_that_is_too_large_is_fetched_once(gateway: RunningGateway, desk: Desk, tool: str) -> None:
    async with desk.provider(FINANCE, (tool,)) as provider, desk.bridged(gateway):
        await offered(gateway, f"finance__{tool}")
        failed = await failure(gateway, f"finance__{tool}")
        assert failed.code == "internal_error" and "its answer has more than 8,388,608 bytes" in failed.message
        assert len(provider.calls(tool)) == 1


async def test_an_app_whose_tools_can_not_be_listed_again_keeps_them_and_people_see_why(
    gateway: RunningGateway, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    why = "Its tools could not be listed again, and stay as they were: [RATE_LIMITED] As the test wants: no list"

    async def notes() -> list[str]:
        found: list[str] = (await devices(gateway))["finance"]["notes"]
        return found

    async with desk.provider(FINANCE, ("echo",)) as provider, desk.bridged(gateway):
        await offered(gateway, "finance__echo")
        provider.list_error = "RATE_LIMITED"
        await gateway.restart()
        await until(lambda: f"{FINANCE}: {why}" in caplog.messages)
        await offered(gateway, "finance__echo")

        async def is_told() -> bool:
            return await notes() == [why]

        await until(is_told)
        assert await value(gateway, "finance__echo", n=1) == {"n": 1}
        provider.list_error = ""
        await gateway.restart()

        async def is_right() -> bool:
            return "finance" in await devices(gateway) and await notes() == []

        await until(is_right)


async def test_an_app_can_be_disabled_alone(gateway: RunningGateway, desk: Desk) -> None:
    async with (
        desk.provider(FINANCE, ("echo",)),
        desk.provider("org.example.notes", ("echo",)),
        desk.bridged(gateway) as bridge,
    ):
        await offered(gateway, "finance__echo", "notes__echo")
        desk.switches.set(FINANCE, is_enabled=False)
        await offered(gateway, "notes__echo")
        assert bridge.skipped_apps == {FINANCE: "it is disabled here"}
        desk.switches.set(FINANCE, is_enabled=True)
        await offered(gateway, "finance__echo", "notes__echo")


async def test_an_app_comes_back_that_was_disabled_only_until_the_next_scan(
    gateway: RunningGateway, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.bridge.bridge._SWITCH_SECONDS", 3.0)
    async with desk.provider(FINANCE, ("echo",)), desk.bridged(gateway):
        await offered(gateway, "finance__echo")
        desk.switches.set(FINANCE, is_enabled=False)
        async with desk.provider("org.example.notes", ("echo",)):  # its manifest is why the bridge looks at all apps
            await offered(gateway, "notes__echo")
            desk.switches.set(FINANCE, is_enabled=True)
            await offered(gateway, "finance__echo", "notes__echo")


async def test_labels_that_clash_get_a_suffix_that_stays(gateway: RunningGateway, desk: Desk) -> None:
    async with (
        desk.provider("org.a.notes", ("echo",)),
        desk.provider("org.b.notes", ("words",)),
        desk.provider("org.c.9-Lives", ("echo",), label="9 Lives!"),
    ):
        async with desk.bridged(gateway):
            await offered(gateway, "notes__echo", "notes_2__words", "app_9_lives__echo")
            desk.remove("org.a.notes")
            await offered(gateway, "notes_2__words", "app_9_lives__echo")
        async with desk.bridged(gateway):  # another process: it has the same memory
            await offered(gateway, "notes_2__words", "app_9_lives__echo")
            desk.install("org.a.notes")
            await offered(gateway, "notes__echo", "notes_2__words", "app_9_lives__echo")


async def test_an_app_with_the_name_of_an_mcp_server_is_bridged_under_another_label_that_stays(
    gateway: RunningGateway, desk: Desk
) -> None:
    servers = gateway.gateway.parts.app.mcp
    async with desk.provider("org.a.notes", ("echo",)), desk.provider("org.b.mail", ("echo",)):
        async with desk.bridged(gateway):
            await offered(gateway, "notes__echo", "mail__echo")
            await servers.add("notes", McpServer(command="no-such-program-for-tests"))
            await offered(gateway, "notes_2__echo", "mail__echo")
        await servers.add("mail", McpServer(command="no-such-program-for-tests"))
        for _ in range(2):
            async with desk.bridged(gateway):
                await offered(gateway, "notes_2__echo", "mail_2__echo")
        await servers.forget("mail")


async def test_fifty_apps_are_bridged_at_once(gateway: RunningGateway, desk: Desk) -> None:
    ids = [f"org.example.app{number}" for number in range(50)]
    async with AsyncExitStack() as stack:
        for app_id in ids:
            await stack.enter_async_context(desk.provider(app_id, ("echo",)))
        await stack.enter_async_context(desk.bridged(gateway))
        tools = [f"app{number}__echo" for number in range(50)]
        await offered(gateway, *tools)
        results = await asyncio.gather(*(value(gateway, tool, n=tool) for tool in tools))
        assert results == [{"n": tool} for tool in tools]


# Starting and waking.


async def test_an_app_is_started_when_the_person_trusts_it_and_that_is_remembered(
    gateway: RunningGateway, desk: Desk
) -> None:
    argv = desk.process(FINANCE, "echo", "die")
    async with desk.bridged(gateway, trusts_all=False) as bridge:
        asked = await question(gateway, "trust")
        assert asked.action is not None and asked.action.new == {"app": FINANCE, "starts": argv}
        assert bridge.apps[FINANCE].state == "it is being started, or waits for your answer whether it may"
        await answer(gateway, "trust", "allow")
        await offered(gateway, "finance__echo", "finance__die")
        assert (await failure(gateway, "finance__die")).code == "internal_error"  # started anew, and died, three times
        assert await value(gateway, "finance__echo", n=1) == {"n": 1}
    desk.end_programs()
    async with desk.bridged(gateway, trusts_all=False):
        await offered(gateway, "finance__echo", "finance__die")
        assert await gateway.gateway.parts.questions.open_for(owner="operator") == []
        changed = desk.process(FINANCE, "words")
        asked = await question(gateway, "trust")
        assert asked.action is not None and (asked.action.old, asked.action.new) == (
            {"app": FINANCE, "starts": argv},
            {"app": FINANCE, "starts": changed},
        )


async def test_apps_that_the_bridge_has_started_run_on_when_it_ends(
    gateway: RunningGateway, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "handspan.bridge")
    socket = desk.install(FINANCE)
    desk.process(FINANCE, "echo", "hang")
    other = ProviderSocket(FINANCE, socket)
    async with desk.bridged(gateway):
        await offered(gateway, "finance__echo", "finance__hang")
        hanging = asyncio.create_task(other.call(execute_request("hang", {})))  # another consumer uses it, too
    (pid,) = desk.processes(FINANCE)
    assert f"{FINANCE} runs on: it ends by itself, or with `kill {pid}`" in caplog.messages
    assert isinstance(await soon(other.call(execute_request("echo", {"n": 1}))), CetpSuccess)
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    other.close()


async def test_nobody_is_asked_about_a_program_that_does_not_exist(gateway: RunningGateway, desk: Desk) -> None:
    desk.install(FINANCE, exec=["/usr/bin/no-such-finance", "serve"])
    async with desk.bridged(gateway, trusts_all=False) as bridge:
        await until(lambda: FINANCE in bridge.apps and "does not exist" in bridge.apps[FINANCE].state)
        assert "'/usr/bin/no-such-finance', which does not exist: install the app again" in bridge.apps[FINANCE].state
        assert await gateway.gateway.parts.questions.open_for(owner="operator") == []


async def test_an_app_that_starts_slowly_is_started_once_and_one_that_never_listens_ends_with_the_bridge(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desktop, "wait_until_listening", partial(wait_until_listening, seconds=1.0))
    starts = desk.home / "starts"
    script = f"echo $$ >> {starts}; exec sleep 600"
    desk.install(FINANCE, exec=["/bin/sh", "-c", script])

    async def always(app: ProviderApp, argv: Sequence[str]) -> bool:
        return True

    transport = DesktopTransport(desk.environment, always)
    [app] = await transport.apps()
    try:
        for count in (1, 1, 2, 2):  # the third time it is started anew: it was in vain twice
            await transport.wake(app, shows_screen=False)
            assert len(starts.read_text().split()) == count
    finally:
        await transport.close()
    for pid in starts.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_a_yes_to_one_command_does_not_start_another_that_took_its_place(
    gateway: RunningGateway, desk: Desk
) -> None:
    first = desk.process(FINANCE, "echo")
    async with desk.bridged(gateway, trusts_all=False):
        assert (asked := (await question(gateway, "trust")).action) is not None and asked.new is not None
        assert asked.new["starts"] == first
        second = desk.process(FINANCE, "words")
        opened = gateway.gateway.parts.questions.open_for

        async def both() -> bool:
            return len(await opened(owner="operator")) == 2

        await until(both)
        for one in await opened(owner="operator"):
            if one.action is not None and one.action.new is not None and one.action.new["starts"] == first:
                assert await gateway.gateway.parts.questions.answer(one.id, Answer("allow"), person(OPERATOR))
        (left,) = await opened(owner="operator")
        assert left.action is not None and left.action.new == {"app": FINANCE, "starts": second}
        assert "finance__words" not in {entry.spec.name for entry in gateway.gateway.parts.app.registry}


async def test_an_app_that_may_not_be_started_is_not_and_the_person_is_not_asked_again(
    gateway: RunningGateway, desk: Desk
) -> None:
    desk.process(FINANCE, "echo")
    for _ in range(2):
        async with desk.bridged(gateway, trusts_all=False) as bridge:
            if _ == 0:
                await answer(gateway, "trust", "deny")
            await until(lambda: FINANCE in bridge.apps and "call failed" in bridge.apps[FINANCE].state)
            assert await gateway.gateway.parts.questions.open_for(owner="operator") == []


class Sleeper:
    """An app of this process that answers from the n-th request for a tool on."""

    def __init__(self, sleeps: int) -> None:
        self.sleeps = sleeps
        self.ids: list[Any] = []

    async def answer(self, method: str, extras: JsonObject | None) -> CetpResponse:
        if method == "list_tools":
            return success({"tools": [{"name": "doze"}]})
        if method == "execute_tool" and extras is not None:
            self.ids.append(extras["request_id"])
            return no_response_error("sleeper", "it sleeps") if len(self.ids) <= self.sleeps else success("awake")
        return no_response_error("sleeper", "it sleeps")


@pytest.mark.parametrize("sleeps", [0, 1, 2])
async def test_a_call_wakes_an_app_silently_first_and_then_its_screen(
    gateway: RunningGateway, desk: Desk, sleeps: int
) -> None:
    transport, sleeper = InProcessTransport(), Sleeper(sleeps)
    transport.add("org.example.sleeper", sleeper.answer)
    async with desk.bridged(gateway, transport=transport):
        await offered(gateway, "sleeper__doze")
        assert transport.woken == []
        assert await value(gateway, "sleeper__doze") == "awake"
        assert transport.woken == [("org.example.sleeper", screen) for screen in (False, True)][:sleeps]
        assert len(set(sleeper.ids)) == 1


async def test_a_scan_wakes_silently_alone_and_the_next_connection_tries_again(
    gateway: RunningGateway, desk: Desk
) -> None:
    transport, asked = InProcessTransport(), Counter[str]()

    async def sleeps(method: str, extras: JsonObject | None) -> CetpResponse:
        asked[method] += 1
        return no_response_error("app", "it sleeps") if asked[method] <= 2 else success({"tools": [{"name": "doze"}]})

    transport.add("org.example.app", sleeps)
    async with desk.bridged(gateway, transport=transport) as bridge:
        await until(lambda: bridge.apps and "it sleeps" in bridge.apps["org.example.app"].state)
        await gateway.restart()
        await offered(gateway, "app__doze")
        assert {screen for _, screen in transport.woken} == {False}


async def test_tools_are_back_after_the_gateway_was_restarted(gateway: RunningGateway, desk: Desk) -> None:
    async with desk.provider(FINANCE, ("echo",)), desk.bridged(gateway):
        await offered(gateway, "finance__echo")
        await gateway.restart()
        await offered(gateway, "finance__echo")
        assert await value(gateway, "finance__echo", n=1) == {"n": 1}
        assert sorted(await devices(gateway)) == ["bridge", "finance"]


# Logins.


async def test_a_login_is_started_for_the_person_and_the_call_runs_then(gateway: RunningGateway, desk: Desk) -> None:
    marker = desk.home / "authorized"
    async with (
        desk.provider(FINANCE, ("login",), authorize=["/usr/bin/touch", str(marker)]) as provider,
        desk.bridged(gateway),
    ):
        await offered(gateway, "finance__login")
        calling = asyncio.create_task(value(gateway, "finance__login"))
        asked = await question(gateway, "login")
        assert asked.action is not None
        assert (asked.action.intent, asked.action.hint) == ("org.example.fake.ALLOW", "Open the app")
        assert await gateway.gateway.parts.questions.start_login(asked.id, person(OPERATOR))
        await until(marker.exists)
        provider.is_authorized = True
        await answer(gateway, "login", "allow")
        assert await soon(calling) == "secret"
        assert len({call["request_id"] for call in provider.calls("login")}) == 1


async def test_a_login_that_fails_leaves_its_last_words_in_the_log(
    gateway: RunningGateway, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "handspan.bridge")
    fails = [
        "/bin/sh",
        "-c",
        "echo Looking. >&2; echo 'There is no window: run this with --yes.' >&2; echo >&2; exit 3",
    ]
    async with desk.provider(FINANCE, ("login",), authorize=fails), desk.bridged(gateway):
        await offered(gateway, "finance__login")
        calling = asyncio.create_task(failure(gateway, "finance__login"))
        asked = await question(gateway, "login")
        assert await gateway.gateway.parts.questions.start_login(asked.id, person(OPERATOR))
        said = f"The login of {FINANCE} ended with exit code 3: There is no window: run this with --yes."
        await until(lambda: said in caplog.messages)
        await answer(gateway, "login", "deny")
        await soon(calling)


async def test_a_login_that_is_refused_tells_the_model_the_hint(gateway: RunningGateway, desk: Desk) -> None:
    async with desk.provider(FINANCE, ("login",)), desk.bridged(gateway):
        await offered(gateway, "finance__login")
        calling = asyncio.create_task(failure(gateway, "finance__login"))
        asked = await answer(gateway, "login", "deny")
        assert asked.action is not None and asked.action.intent == ""  # its manifest has no `authorize`
        failed = await soon(calling)
        assert (failed.code, failed.message) == ("auth_required", "[AUTH_REQUIRED] Not allowed yet — Open the app")


def test_apps_stay_disabled_while_the_file_that_says_so_can_not_be_read(tmp_path: Path) -> None:
    switches = AppSwitches(tmp_path / "bridge.disabled")
    switches.set("org.example.notes", is_enabled=False)
    assert switches.disabled_apps() == {"org.example.notes"}
    (tmp_path / "bridge.disabled").unlink()
    (tmp_path / "bridge.disabled").mkdir()
    assert switches.disabled_apps() == {"org.example.notes"}
    with pytest.raises(OSError, match="directory"):
        switches.set("org.example.other", is_enabled=False)


async def test_a_call_of_an_app_says_what_is_wrong_with_its_manifest(desk: Desk) -> None:
    async def always(_: ProviderApp, __: Sequence[str]) -> bool:
        return True

    transport = DesktopTransport(desk.environment, always)
    desk.install(FINANCE)
    (app,) = await transport.apps()
    (file,) = desk.home.rglob(f"{FINANCE}.json")
    file.write_text("{")
    await transport.apps()
    assert "its manifest can't be used: " in str(await transport.call(app, "list_tools", None))
    desk.remove(FINANCE)
    await transport.apps()
    assert "its manifest was removed: install the app again" in str(await transport.call(app, "list_tools", None))
