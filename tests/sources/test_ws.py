"""Tools at the other end of a link, through the real engine (SPEC W; ws.md 4 to 6)."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import Deadline
from handspan.core.principals import OPERATOR, Origin, ToolScope
from handspan.core.results import Failure, Success
from handspan.core.tool import UNKNOWN_EFFECTS, Annotations
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.calls import RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools
from handspan.wire.ws import decode_client, encode
from handspan.wire.ws_frames import FailureFrame, PermissionAnswer, ProgressFrame, ResultFrame, WireLimits
from tests.engine.engine_kit import EngineKit
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio

ECHO: dict[str, Json] = {"name": "echo", "description": "Says it again.", "parameters": {"type": "object"}}
DEEP: dict[str, Json] = {"type": "object", "a": {"b": {"c": {"d": {}}}}}
PIXEL = b"\x89PNG\r\n\x1a\n"


class Phone:
    """A peer: hears frames, answers as it is told."""

    def __init__(self, kit: EngineKit, *can: str, rules: OfferRules | None = None, label: str = "phone") -> None:
        self.kit = kit
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.calls = RemoteCalls(frozenset(can))
        self.questions = RemoteQuestions() if "permissions" in can else None
        origin, scope = Origin("device", label, f"{label}-1"), ToolScope("owner", OPERATOR.owner)
        self.tools = RemoteTools(
            kit.registry,
            SchemaCache(),
            rules or OfferRules(),
            self.calls,
            origin,
            scope,
            label,
            questions=self.questions,
        )
        self.up()

    def up(self) -> None:
        self.calls.open_link(self._hear)
        if self.questions:
            self.questions.open_link(self._hear)

    def _hear(self, data: bytes) -> None:
        self.heard.put_nowait(msgspec.json.decode(data))

    async def hears(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.heard.get(), WAIT)

    async def waits_for(self, calls: int) -> None:
        async with asyncio.timeout(WAIT):
            while len(self.calls.open) < calls:
                await asyncio.sleep(0)

    def offer(self, *tools: Json) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.json.decode(encode(self.tools.register(tools)))
        return answer

    def answer(self, call_id: str, output: Json = "done", **more: Any) -> bool:
        frame = decode_client(msgspec.json.encode({"type": "tool_result", "id": call_id, "output": output, **more}))
        assert isinstance(frame, ResultFrame)
        return self.calls.receive_answer(frame)

    def fail(self, call_id: str, **said: Json) -> bool:
        frame = decode_client(msgspec.json.encode({"type": "tool_error", "id": call_id, **said}))
        assert isinstance(frame, FailureFrame)
        return self.calls.receive_answer(frame)

    def call(self, name: str = "phone__echo", seconds: float | None = None, **arguments: Json) -> asyncio.Task[Any]:
        return asyncio.create_task(self._call(name, arguments, seconds))

    async def _call(self, name: str, arguments: dict[str, Json], seconds: float | None) -> Success | Failure:
        deadline = None
        if seconds is not None:
            deadline = Deadline(asyncio.get_running_loop().time() + seconds, "the caller's deadline")
        call = ToolCall(name, arguments, new_call_id(), deadline)
        box = self.kit.registry.toolbox(GENERAL, OPERATOR, "session-1")
        result = await asyncio.wait_for(self.kit.engine.call(call, Caller(OPERATOR, GENERAL, box, "session-1")), WAIT)
        assert isinstance(result, Success | Failure)
        return result


@pytest.fixture
def kit(tmp_path: Path) -> EngineKit:
    return EngineKit(tmp_path)


async def code_of(call: asyncio.Task[Any]) -> str:
    result = await call
    assert isinstance(result, Failure), result
    return result.code


# Registering.


async def test_tools_are_told_back_as_the_client_gave_them(kit: EngineKit) -> None:
    given: list[Json] = [
        ECHO,
        {
            **ECHO,
            "name": "full",
            "permissions": ["p"],
            "timeout": 5.0,
            "annotations": {"read_only": True},
            "version": "2.0.0",
        },
        {**ECHO, "name": "harmless", "annotations": {"destructive": False}},
    ]
    phone = Phone(kit)
    phone.offer(*given)
    assert phone.tools.offers() == given


async def test_the_name_of_a_living_clients_tool_is_refused_and_that_of_one_that_left_is_free(kit: EngineKit) -> None:
    def chat(peer: str) -> RemoteTools:
        origin, scope = Origin("remote", "s1", peer), ToolScope("session", "s1")
        calls = RemoteCalls(frozenset())
        return RemoteTools(kit.registry, SchemaCache(), OfferRules(), calls, origin, scope)

    first, second = chat("one"), chat("two")
    first.register([ECHO])
    (rejected,) = second.register([ECHO]).rejected
    assert "'echo'" in rejected.reason and "Another connected client" in rejected.reason
    second.close()
    assert kit.registry.holder("echo", first.scope) == first.origin
    first.close()
    assert second.register([ECHO]).registered == 1


async def test_an_entry_that_lacks_a_field_is_rejected_with_the_reason_and_the_others_are_taken(kit: EngineKit) -> None:
    phone = Phone(kit)
    answer = phone.offer(ECHO, {"name": "nothing"}, "what", {**ECHO, "name": "other"})
    assert (answer["count"], answer["registered"]) == (4, 2)
    assert [one["name"] for one in answer["rejected"]] == ["nothing", ""]
    assert "description" in answer["rejected"][0]["reason"]


async def test_registering_adds_and_replaces_by_name(kit: EngineKit) -> None:
    phone = Phone(kit)
    assert phone.offer(ECHO)["registered"] == 1
    assert phone.offer({**ECHO, "name": "two"})["registered"] == 2
    assert phone.offer({**ECHO, "description": "New words."})["registered"] == 2
    found = kit.registry.toolbox(GENERAL, OPERATOR).find("phone__echo")
    assert found is not None and found.spec.description == "New words."


async def test_a_builtin_is_not_shadowed(kit: EngineKit) -> None:
    async def read_file() -> str:
        return "mine"

    kit.add(read_file)
    phone = Phone(kit)
    phone.tools.namespace = ""
    answer = phone.offer({**ECHO, "name": "read_file"})
    assert answer["registered"] == 0 and "reserved" in answer["rejected"][0]["reason"]


@pytest.mark.parametrize(
    ("offer", "word"),
    [
        ({**ECHO, "name": ""}, "name"),
        ({**ECHO, "description": "x" * 200}, "description"),
        ({**ECHO, "parameters": {"type": "object", "description": "x" * 500}}, "schema"),
        ({**ECHO, "parameters": DEEP}, "deep"),
        ({**ECHO, "parameters": {"type": "nonsense"}}, "schema"),
        ({**ECHO, "parameters": {"$ref": "http://elsewhere/x"}}, "ref"),
        ({**ECHO, "timeout": -1}, "timeout"),
        ({**ECHO, "name": "secret_thing"}, "name"),
        ({**ECHO, "permissions": ["android.permission.SMS"]}, "SMS"),
    ],
)
async def test_what_is_beyond_a_limit_or_a_rule_is_rejected(kit: EngineKit, offer: Json, word: str) -> None:
    limits = WireLimits(description_bytes=100, schema_bytes=400, schema_depth=4)
    rules = OfferRules(limits, deny=("secret_*",), deny_permissions=("*.SMS",))
    answer = Phone(kit, rules=rules).offer(offer)
    assert answer["registered"] == 0
    assert word in answer["rejected"][0]["reason"]


async def test_only_names_of_the_allow_list_are_taken_where_there_is_one(kit: EngineKit) -> None:
    answer = Phone(kit, rules=OfferRules(allow=("ec*",))).offer(ECHO, {**ECHO, "name": "other"})
    assert (answer["registered"], answer["rejected"][0]["name"]) == (1, "other")


async def test_a_client_has_so_many_tools_and_no_more(kit: EngineKit) -> None:
    phone = Phone(kit, rules=OfferRules(WireLimits(tools=2)))
    answer = phone.offer(*({**ECHO, "name": f"t{number}"} for number in range(3)))
    assert (answer["registered"], answer["rejected"][0]["name"]) == (2, "t2")
    assert "rejected" not in phone.offer({**ECHO, "name": "t1"})


async def test_a_tool_that_says_nothing_of_itself_counts_as_destructive(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO, {**ECHO, "name": "reader", "annotations": {"read_only": True, "group": "g", "odd": 1}})
    box = kit.registry.toolbox(GENERAL, OPERATOR)
    echo, reader = box.find("phone__echo"), box.find("phone__reader")
    assert echo is not None and echo.spec.annotations == UNKNOWN_EFFECTS
    assert reader is not None and reader.spec.annotations == Annotations(read_only=True, group="g")


async def test_a_name_no_model_could_take_is_mapped_and_called_by_its_own(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer({**ECHO, "name": "grüße senden"})
    (entry,) = kit.registry
    call = phone.call(entry.spec.name)
    request = await phone.hears()
    assert request["name"] == "grüße senden"
    phone.answer(request["id"])
    assert isinstance(await call, Success)


async def test_closing_takes_every_tool_from_every_toolbox_at_once(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO, {**ECHO, "name": "two"})
    box = kit.registry.toolbox(GENERAL, OPERATOR)
    assert box.find("phone__two") is not None
    assert phone.tools.close() == 2
    assert box.find("phone__two") is None and box.specs() == ()


# Calling.


async def test_the_answer_is_the_result(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    call = phone.call(text="hi")
    request = await phone.hears()
    assert request == {"type": "tool_call_request", "id": request["id"], "name": "echo", "args": {"text": "hi"}}
    assert phone.answer(request["id"], "hi")
    assert (await call).value == "hi"
    assert not phone.calls.open


async def test_several_calls_are_answered_in_any_order(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    calls = [phone.call(number=number) for number in range(3)]
    requests = [await phone.hears() for _ in calls]
    for request in reversed(requests):
        phone.answer(request["id"], request["args"]["number"])
    assert [(await call).value for call in calls] == [0, 1, 2]


async def test_a_second_answer_and_one_to_nothing_are_dropped_and_counted(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    call = phone.call()
    request = await phone.hears()
    assert phone.answer(request["id"], "first")
    assert not phone.answer(request["id"], "second")
    assert (await call).value == "first"
    assert not phone.answer(request["id"], "third")
    assert not phone.answer("550e8400-e29b-41d4-a716-446655440000")
    assert phone.calls.dropped == 3


async def test_invalid_arguments_never_leave_the_gateway(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer({**ECHO, "parameters": {"type": "object", "required": ["text"]}})
    assert await code_of(phone.call()) == "invalid_arguments"
    assert phone.heard.empty()


@pytest.mark.parametrize(
    ("said", "code", "text"),
    [
        ({"error": "no camera"}, "execution_failed", "no camera"),
        ({"error": "denied", "code": "permission_denied"}, "permission_denied", "denied"),
        ({"error": "never", "code": "permission_denied_forever"}, "permission_denied_forever", "never"),
        ({"error": "x", "code": "policy_denied"}, "execution_failed", "x"),
        ({"error": "x", "code": "made up"}, "execution_failed", "x"),
        ({"error": {"why": 1}}, "execution_failed", '{"why":1}'),
        ({}, "execution_failed", "Unknown error"),
        ({"error": ""}, "execution_failed", "did not say why"),
    ],
)
async def test_an_error_keeps_its_meaning_and_its_words(kit: EngineKit, said: Any, code: str, text: str) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    call = phone.call()
    phone.fail((await phone.hears())["id"], **said)
    result = await call
    assert (result.code, text in result.message) == (code, True)


@pytest.mark.parametrize(
    ("more", "text"),
    [({"error": "why"}, "why"), ({}, "said"), ({"output": ""}, "failed"), ({"output": None}, "failed")],
)
async def test_a_result_without_success_is_a_failure(kit: EngineKit, more: dict[str, Json], text: str) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    call = phone.call()
    phone.answer((await phone.hears())["id"], **{"output": "said", "success": False, **more})
    result = await call
    assert result.code == "execution_failed" and text in result.message


async def test_images_come_along_and_other_peoples_artifacts_do_not(kit: EngineKit) -> None:
    phone = Phone(kit, "parts")
    phone.offer(ECHO)
    mine = await kit.artifacts.keep(b"a sound", owner=OPERATOR.owner, media_type="audio/wav")
    foreign = await kit.artifacts.keep(b"secret", owner="bob")
    picture: dict[str, Json] = {"kind": "image", "media_type": "image/png", "data": b64encode(PIXEL).decode()}
    sound: dict[str, Json] = {"kind": "audio", "media_type": "audio/wav", "artifact": mine.id}

    async def result(*parts: Json) -> Any:
        call = phone.call()
        phone.answer((await phone.hears())["id"], "here", parts=list(parts))
        return await call

    good = await result(picture, sound)
    assert [(item.kind, item.data, item.artifact) for item in good.attachments] == [
        ("image", PIXEL, None),
        ("audio", b"", mine),
    ]
    assert (await result({**sound, "artifact": foreign.id})).code == "file_not_found"
    assert (await result({**picture, "data": "%%%"})).code == "execution_failed"


# Time.


async def test_an_unanswered_call_times_out_and_the_client_is_told(kit: EngineKit) -> None:
    phone = Phone(kit, "cancel", "deadline")
    phone.offer({**ECHO, "timeout": 0.05})
    call = phone.call()
    request = await phone.hears()
    assert 0 < request["timeout_ms"] <= 50
    late = await call
    assert (
        late.code == "timeout" and "The program that runs it was told to stop, and may still be at work" in late.message
    )
    assert await phone.hears() == {"type": "tool_cancel", "id": request["id"], "reason": "timeout"}
    assert not phone.answer(request["id"]) and not phone.calls.open


async def test_progress_reaches_the_listener_and_restarts_the_timeout(kit: EngineKit) -> None:
    phone = Phone(kit, "progress")
    phone.offer({**ECHO, "timeout": 0.2})
    call = phone.call()
    request = await phone.hears()
    for step in range(4):
        await asyncio.sleep(0.1)
        assert phone.calls.receive_progress(ProgressFrame(request["id"], value=step))
    phone.answer(request["id"], "at last")
    assert (await call).value == "at last"
    assert not phone.calls.receive_progress(ProgressFrame(request["id"], value="late"))


async def test_silence_ends_a_call_that_could_report_progress(kit: EngineKit) -> None:
    phone = Phone(kit, "progress", "cancel")
    phone.offer({**ECHO, "timeout": 0.05})
    call = phone.call()
    request = await phone.hears()
    result = await call
    assert result.code == "timeout" and "sign of life" in result.message
    assert (await phone.hears())["id"] == request["id"]


async def test_a_short_timeout_is_kept_beside_a_long_one_that_began_before(kit: EngineKit) -> None:
    phone = Phone(kit, "progress", "cancel")
    phone.offer({**ECHO, "timeout": 500}, {**ECHO, "name": "quick", "timeout": 0.05})
    long = phone.call()
    first = await phone.hears()
    assert await code_of(phone.call("phone__quick")) == "timeout"
    phone.answer(first["id"], "in time")
    assert (await long).value == "in time"


async def test_progress_of_a_client_that_did_not_agree_on_it_changes_nothing(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer({**ECHO, "timeout": 0.1})
    call = phone.call()
    assert not phone.calls.receive_progress(ProgressFrame((await phone.hears())["id"], value=1))
    assert await code_of(call) == "timeout"


async def test_an_aborted_call_is_cancelled_at_the_client(kit: EngineKit) -> None:
    phone = Phone(kit, "cancel")
    phone.offer(ECHO)
    call = phone.call()
    request = await phone.hears()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await phone.hears() == {"type": "tool_cancel", "id": request["id"], "reason": "aborted"}


# The link.


async def test_without_coming_back_a_sent_call_is_of_unknown_outcome_and_an_unsent_one_is_safe(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer(ECHO)
    sent = phone.call()
    await phone.hears()
    phone.calls.drop_link()
    unsent = phone.call()
    await phone.waits_for(2)
    phone.calls.end("The client disconnected")
    assert [await code_of(sent), await code_of(unsent)] == ["unknown_outcome", "disconnected"]


async def test_a_call_waits_for_a_client_that_comes_back_and_is_asked_again_under_the_same_id(kit: EngineKit) -> None:
    phone = Phone(kit, "resume")
    phone.offer(ECHO)
    sent = phone.call(number=1)
    first = await phone.hears()
    phone.calls.drop_link()
    unsent = phone.call(number=2)
    await phone.waits_for(2)
    phone.up()
    again, fresh = await phone.hears(), await phone.hears()
    assert again == {**first, "again": True}
    assert "again" not in fresh and fresh["args"] == {"number": 2}
    phone.answer(again["id"], "one")
    phone.answer(fresh["id"], "two")
    assert [(await sent).value, (await unsent).value] == ["one", "two"]


async def test_the_clock_runs_while_the_link_is_down(kit: EngineKit) -> None:
    phone = Phone(kit, "resume")
    phone.offer({**ECHO, "timeout": 0.05})
    call = phone.call()
    await phone.hears()
    phone.calls.drop_link()
    assert await code_of(call) == "timeout"
    phone.up()
    assert phone.heard.empty()


@pytest.mark.parametrize(("can", "frames"), [((), 3), (("ack_batch",), 1)])
async def test_acknowledgements_go_one_by_one_or_together(kit: EngineKit, can: tuple[str, ...], frames: int) -> None:
    phone = Phone(kit, *can)
    for number in range(3):
        phone.calls.acknowledge(f"call-{number}")
    heard = [await phone.hears() for _ in range(frames)]
    ids = [one for frame in heard for one in frame.get("ids", [frame.get("id")])]
    assert ids == ["call-0", "call-1", "call-2"]
    assert phone.heard.empty()


async def test_many_acknowledgements_do_not_wait(kit: EngineKit) -> None:
    phone = Phone(kit, "ack_batch")
    for number in range(64):
        phone.calls.acknowledge(f"call-{number}")
    assert len(phone.heard.get_nowait()["ids"]) == 64
    phone.calls.acknowledge("one more")
    phone.calls.drop_link()
    assert phone.heard.empty()


# Permissions.


@pytest.fixture
def asking(kit: EngineKit) -> Callable[[], tuple[Phone, asyncio.Task[Any]]]:
    def ask() -> tuple[Phone, asyncio.Task[Any]]:
        phone = Phone(kit, "permissions")
        phone.offer({**ECHO, "permissions": ["CAMERA"]})
        return phone, phone.call()

    return ask


async def test_a_permission_is_asked_for_on_the_device_before_the_request(asking: Callable[[], Any]) -> None:
    phone, call = asking()
    question = await phone.hears()
    assert (question["type"], question["permission"]) == ("permission_request", "CAMERA")
    assert phone.questions.receive_answer(PermissionAnswer(question["id"], "allow"))
    phone.answer((await phone.hears())["id"], "a photo")
    assert (await call).value == "a photo"
    assert not phone.questions.receive_answer(PermissionAnswer(question["id"], "allow"))
    again = phone.call()  # P2: a grant of ours never replaces the device's own check
    asked = await phone.hears()
    assert phone.questions.receive_answer(PermissionAnswer(asked["id"], "allow"))
    request = await phone.hears()
    assert request["type"] == "tool_call_request"
    phone.answer(request["id"])
    await again


@pytest.mark.parametrize(
    ("decision", "code"), [("deny", "permission_denied"), ("deny_forever", "permission_denied_forever")]
)
async def test_a_denied_permission_ends_the_call_with_the_persons_word(
    asking: Callable[[], Any], decision: Any, code: str
) -> None:
    phone, call = asking()
    phone.questions.receive_answer(PermissionAnswer((await phone.hears())["id"], decision, "Settings > Apps"))
    result = await call
    assert result.code == code
    assert ("Settings > Apps" in result.message) == (decision == "deny_forever")
    again = phone.call()  # the person may have changed their mind on the device: it is asked again
    phone.questions.receive_answer(PermissionAnswer((await phone.hears())["id"], "allow"))
    phone.answer((await phone.hears())["id"])
    assert isinstance(await again, Success)


async def test_a_question_is_asked_again_when_the_link_is_back_and_expires_with_the_client(
    asking: Callable[[], Any],
) -> None:
    phone, call = asking()
    first = await phone.hears()
    phone.questions.drop_link()
    phone.up()
    assert await phone.hears() == first
    phone.questions.end()
    assert await code_of(call) == "question_expired"


async def test_a_client_that_can_not_be_asked_asks_by_itself(kit: EngineKit) -> None:
    phone = Phone(kit)
    phone.offer({**ECHO, "permissions": ["CAMERA"]})
    call = phone.call()
    phone.fail((await phone.hears())["id"], error="Permission 'CAMERA' was denied", code="permission_denied")
    assert await code_of(call) == "permission_denied"
