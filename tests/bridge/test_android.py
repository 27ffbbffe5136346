"""Apps on phones at a real gateway, through the real program `adb`; the phones behind it are not there (SPEC D6)."""

import asyncio
import json
import random
import shutil
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handspan.bridge import AndroidTransport
from handspan.bridge.adb import INSTALL
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.testing import RunningGateway
from handspan.wire.cetp import CetpError, CetpSuccess
from tests.bridge.adb_server import AdbServer, adb_server
from tests.bridge.desk import Desk, answer, failure, offered, question, value
from tests.bridge.phone import FakePhone, forever
from tests.waiting import soon, until

HAS_ADB = shutil.which("adb") is not None
pytestmark = [pytest.mark.anyio]
needs_adb = pytest.mark.skipif(not HAS_ADB, reason="adb is not installed: apt-get install adb")

FINANCE = "com.example.finance"
SERIAL = "emulator-5554"
DENIED = f"java.lang.SecurityException: Permission Denial: opening provider {FINANCE}.P requires ACCESS_TOOLS"


def success(value: Any) -> dict[str, str]:
    return {"status": "success", "data": json.dumps(value, ensure_ascii=False)}


def echo(method: str, extras: dict[str, str]) -> Mapping[str, str]:
    """A provider whose tool gives its arguments back."""
    if method == "list_tools":
        return success({"tools": [{"name": "echo", "description": "Say it again."}]})
    if method == "get_provider_info":
        return {"status": "error", "error_code": "TOOL_NOT_FOUND", "error_message": "unknown method"}
    return success(json.loads(extras["args"]))


def refuse(code: str, method: str, extras: dict[str, str]) -> Mapping[str, str]:
    """A provider that refuses its caller."""
    return {"status": "error", "error_code": code, "error_message": "No"}


@pytest.fixture
async def adb(tmp_path: Path) -> AsyncIterator[AdbServer]:
    folder = tmp_path / "adb"
    folder.mkdir()
    async with adb_server(folder) as server:
        yield server


def transport(adb: AdbServer, **more: Any) -> AndroidTransport:
    return AndroidTransport(adb.environment, scan_seconds=0.05, **more)


async def only_app(adb: AdbServer) -> Any:
    """A transport, and the one app that it finds."""
    found = transport(adb)
    (app,) = await soon(found.apps())
    assert app.problem == ""
    return found, app


# What goes wrong with adb and the devices.


async def test_where_adb_is_missing_the_remedy_is_shown(tmp_path: Path) -> None:
    (app,) = await AndroidTransport({"PATH": str(tmp_path)}, program=str(tmp_path / "adb")).apps()
    assert app.id == "android"
    assert app.problem == f"adb does not work: the program {str(tmp_path / 'adb')!r} is not there: {INSTALL}"


@needs_adb
async def test_devices_that_can_t_be_used_say_why_and_hold_up_no_other(adb: AdbServer) -> None:
    adb.plug_in(FakePhone("aaa", state="unauthorized"))
    adb.plug_in(FakePhone("bbb", state="offline"))
    adb.plug_in(FakePhone("ccc", state="recovery"))
    phone = FakePhone("ddd")
    phone.install(FINANCE, echo)
    adb.plug_in(phone)
    found = {app.id: app.problem for app in await soon(transport(adb).apps())}
    assert list(found) == [f"{FINANCE}@ddd", "android@aaa", "android@bbb", "android@ccc"]
    assert found[f"{FINANCE}@ddd"] == ""
    assert "accept 'Allow USB debugging'" in found["android@aaa"]
    assert "adb reconnect" in found["android@bbb"]
    assert "'recovery'" in found["android@ccc"]


@needs_adb
async def test_a_device_that_is_gone_in_mid_use_is_an_unanswered_call(adb: AdbServer) -> None:
    phone = FakePhone()
    phone.install(FINANCE, echo)
    adb.plug_in(phone)
    found, app = await only_app(adb)
    adb.unplug(SERIAL)
    gone = await soon(found.call(app, "list_tools", None))
    assert isinstance(gone, CetpError) and gone.is_unanswered
    assert await soon(found.apps()) == []
    gone = await soon(found.call(app, "list_tools", None))
    assert isinstance(gone, CetpError) and "not connected any more" in gone.error_message


@needs_adb
async def test_an_android_that_is_too_old_says_so(adb: AdbServer) -> None:
    class OldPhone(FakePhone):
        async def run(self, argv: Any) -> tuple[bytes, bytes, int]:
            return b"", b"/system/bin/sh: cmd: not found\n", 127

    adb.plug_in(OldPhone())
    (app,) = await soon(transport(adb).apps())
    assert "Android 7 or later is needed" in app.problem and "cmd: not found" in app.problem


# What apps declare.


@needs_adb
async def test_the_meta_data_decide_and_what_is_wrong_with_them_is_shown(adb: AdbServer) -> None:
    phone = FakePhone()
    phone.install("com.example.good", echo)
    phone.install("com.example.future", echo, metadata={"com.clawseed.tools.version": 2})
    phone.install("com.example.odd", echo, metadata={"com.clawseed.tools.version": "one"})
    phone.install("com.example.spaces", echo, metadata={"com.clawseed.tools.authority": "a b"})
    adb.plug_in(phone)
    found = {app.id.partition("@")[0]: app for app in await soon(transport(adb).apps())}
    assert found["com.example.good"].problem == ""
    assert found["com.example.good"].name == "good on Pixel 8"
    assert "speaks version 2 of CETP" in found["com.example.future"].problem
    assert "version is 'one': write 1" in found["com.example.odd"].problem
    assert "authority can't be read" in found["com.example.spaces"].problem


@needs_adb
@pytest.mark.parametrize("has_unzip", [True, False])
async def test_an_authority_that_the_manifest_does_not_show_is_found_in_the_package(
    adb: AdbServer, has_unzip: bool
) -> None:
    phone = FakePhone()
    phone.has_unzip = has_unzip
    phone.install(FINANCE, echo, metadata={"com.clawseed.tools.authority": None})
    adb.plug_in(phone)
    found, app = await only_app(adb)
    assert isinstance(await soon(found.call(app, "list_tools", None)), CetpSuccess)


# Calls.


def payloads(seed: int, count: int) -> list[Any]:
    """Random arguments, full of what shells, `content` and bundles treat specially."""
    rng = random.Random(seed)
    pieces = ["'", '"', "\\", ":", "$HOME", "`id`", "\n", "\t", " ", "--", "{", "}]", ", status=error", "é", "🙂", "a"]

    def text() -> str:
        return "".join(rng.choice(pieces) for _ in range(rng.randrange(9)))

    def value(depth: int) -> Any:
        kinds: list[Any] = [text, lambda: rng.randrange(-99, 99), lambda: None, lambda: rng.random() < 0.5]
        if depth:
            kinds += [lambda: [value(depth - 1) for _ in range(rng.randrange(3))], lambda: container(depth - 1)]
        return rng.choice(kinds)()

    def container(depth: int) -> dict[str, Any]:
        return {text(): value(depth) for _ in range(rng.randrange(4))}

    return [container(2) for _ in range(count)]


@needs_adb
@pytest.mark.parametrize("escapes", [True, False])
async def test_random_payloads_arrive_and_come_back_as_they_were(adb: AdbServer, escapes: bool) -> None:
    phone = FakePhone(escapes=escapes)
    phone.install(FINANCE, echo)
    adb.plug_in(phone)
    found, app = await only_app(adb)

    async def check(given: Any, number: int) -> None:
        extras = {"tool_name": "it's: \\", "args": json.dumps(given, ensure_ascii=False), "request_id": str(number)}
        response = await soon(found.call(app, "execute_tool", extras))
        assert isinstance(response, CetpSuccess), response
        assert json.loads(response.data) == given

    given = payloads(1 + escapes, 150)
    await asyncio.gather(*(check(one, number) for number, one in enumerate(given)))
    probes = [argv for argv in adb.commands if "content://handspan.probe" in argv]
    assert len(probes) >= 1  # calls side by side may ask at once; later ones know it


@needs_adb
async def test_a_refused_shell_user_is_told_what_to_do(adb: AdbServer) -> None:
    phone = FakePhone()
    app = phone.install(FINANCE, echo, exception=DENIED)
    adb.plug_in(phone)
    found, listed = await only_app(adb)
    refused = await soon(found.call(listed, "list_tools", None))
    assert isinstance(refused, CetpError) and refused.error_code == "PERMISSION_DENIED"
    for word in ("Permission Denial", "com.android.shell", "adb root", "debug build", "Kotlin kit"):
        assert word in refused.error_message
    app.exception = ""
    for code in ("PERMISSION_DENIED", "AUTH_REQUIRED"):
        app.answer = partial(refuse, code)
        refused = await soon(found.call(listed, "execute_tool", {"tool_name": "echo"}))
        assert isinstance(refused, CetpError) and refused.error_code == code
        assert "the caller is the shell user (com.android.shell" in refused.text


@needs_adb
async def test_arguments_that_adb_can_t_carry_are_refused_with_their_size(adb: AdbServer) -> None:
    phone = FakePhone()
    phone.install(FINANCE, echo)
    adb.plug_in(phone)
    found, app = await only_app(adb)
    refused = await soon(found.call(app, "execute_tool", {"tool_name": "echo", "args": json.dumps("x" * 70_000)}))
    assert isinstance(refused, CetpError)
    assert "70,1" in refused.error_message and "adb carries 60,000" in refused.error_message


# At the gateway.


@needs_adb
async def test_an_agent_calls_apps_on_two_phones_and_changes_are_followed(
    gateway: RunningGateway, desk: Desk, adb: AdbServer
) -> None:
    first, second = FakePhone(), FakePhone("R58M", escapes=False)
    first.install(FINANCE, echo)
    second.install(FINANCE, lambda method, extras: success("second") if extras else echo(method, extras))
    adb.plug_in(first)
    async with desk.bridged(gateway, transport=transport(adb)):
        await offered(gateway, "finance__echo")
        assert await value(gateway, "finance__echo", a=["é:", 1]) == {"a": ["é:", 1]}
        adb.plug_in(second)
        await offered(gateway, "finance__echo", "finance_2__echo")
        assert await value(gateway, "finance_2__echo") == "second"
        first.install("com.example.notes", echo)  # PACKAGE_ADDED
        await offered(gateway, "finance__echo", "finance_2__echo", "notes__echo")
        del first.apps["com.example.notes"]  # PACKAGE_REMOVED
        await offered(gateway, "finance__echo", "finance_2__echo")
        first.install(FINANCE, lambda method, extras: success({"tools": [{"name": "new"}]}))  # PACKAGE_REPLACED
        await offered(gateway, "finance__new", "finance_2__echo")
        adb.unplug("R58M")
        await offered(gateway, "finance__new")


@needs_adb
async def test_a_call_wakes_an_app_silently_first_and_then_its_screen(
    gateway: RunningGateway, desk: Desk, adb: AdbServer
) -> None:
    phone = FakePhone()
    app = phone.install(FINANCE, echo)
    adb.plug_in(phone)
    async with desk.bridged(gateway, transport=transport(adb)):
        await offered(gateway, "finance__echo")
        assert phone.started == [], "a scan shows no screen"
        app.sleeps = 1
        assert await value(gateway, "finance__echo", n=1) == {"n": 1}
        assert phone.started == []
        app.sleeps = 2
        assert await value(gateway, "finance__echo", n=2) == {"n": 2}
        assert phone.started == [["-W", "-n", f"{FINANCE}/.Main"]]
        app.sleeps, app.has_screen = 9, False
        failed = await failure(gateway, "finance__echo", n=3)
        assert failed.message.startswith(f"[INTERNAL_ERROR] Provider call failed for {FINANCE}: ")
        woken = [argv for argv in adb.commands if argv[:2] == ["content", "gettype"]]
        assert len(woken) == 3


@needs_adb
async def test_a_login_starts_the_app_s_own_screen_and_the_call_runs_then(
    gateway: RunningGateway, desk: Desk, adb: AdbServer
) -> None:
    phone, allowed = FakePhone(), asyncio.Event()

    def guarded(method: str, extras: dict[str, str]) -> Mapping[str, str]:
        if not extras or allowed.is_set():
            return echo(method, extras)
        login = {"resolution_hint": "Open the app", "authorize_intent": "com.example.ALLOW"}
        return {"status": "error", "error_code": "AUTH_REQUIRED", "error_message": "Not yet", **login}

    phone.install(FINANCE, guarded)
    adb.plug_in(phone)
    async with desk.bridged(gateway, transport=transport(adb)):
        await offered(gateway, "finance__echo")
        calling = asyncio.create_task(value(gateway, "finance__echo", n=1))
        asked = await question(gateway, "login")
        assert asked.action is not None and asked.action.intent == "com.example.ALLOW"
        assert asked.action.hint.startswith("Open the app (Through adb the caller is the shell user")
        assert await gateway.gateway.parts.questions.start_login(asked.id, person(OPERATOR))
        await until(lambda: phone.started)
        assert phone.started == [["-a", "com.example.ALLOW", "-p", FINANCE]]
        allowed.set()
        await answer(gateway, "login", "allow")
        assert await soon(calling) == {"n": 1}


@needs_adb
async def test_an_app_that_hangs_holds_up_no_other(gateway: RunningGateway, desk: Desk, adb: AdbServer) -> None:
    phone = FakePhone()

    async def hanging(method: str, extras: dict[str, str]) -> Mapping[str, str]:
        return await forever(method, extras) if extras else success({"tools": [{"name": "hang"}]})

    phone.install("com.example.bad", hanging)
    phone.install("com.example.good", echo)
    adb.plug_in(phone)
    async with desk.bridged(gateway, transport=transport(adb)):
        await offered(gateway, "bad__hang", "good__echo")
        calls = [asyncio.create_task(failure(gateway, "bad__hang")) for _ in range(20)]
        assert await value(gateway, "good__echo", n=1) == {"n": 1}
        assert {(await soon(call)).code for call in calls} == {"timeout"}
