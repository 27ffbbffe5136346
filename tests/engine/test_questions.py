"""Asking a person: permissions and approval (SPEC P1-P5)."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from handspan.core.agents import GENERAL, Agent
from handspan.core.calls import ToolCall
from handspan.core.context import Deadline
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, Origin, Principal
from handspan.core.questions import Answer, Opened, Question, find_waiting_note, ignore_opened, waiting_text
from handspan.core.results import Failure, Pending, Success, ToolResult, encode_envelope, envelope
from handspan.core.tool import Annotations, Handling, ToolSpec
from handspan.core.values import Json, encode
from handspan.engine.caller import Caller
from handspan.engine.hooks import BeforeVerdict, CancelCall, HookedCall, Hooks, ModifyCall, NamedHook
from handspan.engine.policy import Ask, Deny, Verdict
from handspan.engine.questions import RuleAnswers
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of
from tests.open_questions import OpenQuestions
from tests.waiting import until

pytestmark = pytest.mark.anyio

PLUGIN = Origin("plugin", "photos")
CAREFUL = Agent("Careful", mode="ask_always")
DESTRUCTIVE = Agent("Destructive", mode="ask_destructive")
ALLOW, DENY, EXPIRED = Answer("allow"), Answer("deny"), Answer("expired")


class Person:
    """Answers one question after the other; None: keeps it for later. An answer given under an id stays."""

    def __init__(self, *answers: Answer | None) -> None:
        self._answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
        opened()
        self.asked.append(question)
        return self._answers.pop(0)

    def will_say(self, *answers: Answer | None) -> None:
        self._answers.extend(answers)


def photo_kit(make_kit: MakeKit, questions: Any, permissions: Sequence[str] = ("camera",), **more: Any) -> EngineKit:
    """A kit with a plugin's tool `photo` that needs permissions, and how often it ran."""
    kit = make_kit(questions=questions, **more)

    async def photo(flash: bool = False) -> str:
        return f"click {flash}"

    kit.add(photo, PLUGIN, permissions=tuple(permissions))
    return kit


# Permissions.


async def test_a_denied_permission_is_said_in_the_words_of_the_seed_and_asked_again_next_time(
    make_kit: MakeKit,
) -> None:
    person = Person(DENY, ALLOW)
    kit = photo_kit(make_kit, person)
    assert await kit.failure("photo") == Failure(
        "permission_denied", "Permission 'camera' was denied by the user for this call."
    )
    assert await kit.value("photo") == "click False"


async def test_denied_for_ever_says_how_to_enable_it_and_is_remembered(make_kit: MakeKit) -> None:
    person = Person(Answer("deny_forever", how_to_enable="Settings > Apps > Camera"))
    kit = photo_kit(make_kit, person)
    first, second = await kit.failure("photo"), await kit.failure("photo")
    assert first.code == second.code == "permission_denied_forever"
    assert first.message == (
        "Permission 'camera' was denied by the user, who does not want to be asked again: "
        "it can be enabled in Settings > Apps > Camera."
    )
    assert second.message == (
        "The permission 'camera' is refused by a rule of the user (\"never\"); the user was not asked again. "
        "It can be enabled in Settings > Apps > Camera. `handspan rules forget photo` takes the rule back."
    )
    assert len(person.asked) == 1


async def test_denied_for_ever_without_a_place_names_the_settings(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(Answer("deny_forever")))
    assert "enabled in the settings of the device or the gateway." in (await kit.failure("photo")).message


async def test_nobody_there_to_ask_is_said_so_and_asked_again_next_time(make_kit: MakeKit) -> None:
    person = Person(EXPIRED, Answer("expired", always=True), ALLOW)
    kit = photo_kit(make_kit, person)
    for _ in range(2):
        assert await kit.failure("photo") == Failure(
            "question_expired",
            "No person answered whether the permission 'camera' is granted, so this call is refused.",
        )
    assert await kit.value("photo") == "click False"


async def test_a_denial_for_always_is_remembered(make_kit: MakeKit) -> None:
    person = Person(Answer("deny", always=True))
    kit = photo_kit(make_kit, person)
    assert (await kit.failure("photo")).code == (await kit.failure("photo")).code == "permission_denied"
    assert len(person.asked) == 1


async def test_a_grant_is_remembered_for_this_tool_and_owner_and_no_other(make_kit: MakeKit) -> None:
    person = Person(ALLOW, DENY, DENY)
    kit = photo_kit(make_kit, person)

    async def film() -> str:
        return "film"

    kit.add(film, PLUGIN, permissions=("camera",))
    assert await kit.value("photo") == await kit.value("photo") == "click False"
    assert len(person.asked) == 1
    await kit.failure("film")
    await kit.failure("photo", caller=kit.caller(who=Principal("guest")))
    assert [(question.tool, question.owner) for question in person.asked[1:]] == [
        ("film", "operator"),
        ("photo", "guest"),
    ]


async def test_several_permissions_are_asked_one_by_one_until_one_is_denied(make_kit: MakeKit) -> None:
    person = Person(ALLOW, DENY)
    kit = photo_kit(make_kit, person, ("camera", "location", "microphone"))
    assert "'location'" in (await kit.failure("photo")).message
    assert [question.subject for question in person.asked] == ["camera", "location"]


async def test_permissions_of_built_ins_and_of_tools_that_ask_themselves_are_not_asked_here(
    make_kit: MakeKit,
) -> None:
    kit = make_kit(questions=Person())

    async def fetch() -> str:
        return "page"

    class Phone:
        handling = Handling(asks_itself=True)
        spec = ToolSpec("phone__camera", "A phone's.", {"type": "object"}, ("camera",))

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "picture"

    kit.add(fetch, BUILTIN, permissions=("network",))
    kit.add(Phone(), Origin("device", "phone"))
    assert await kit.value("fetch") == "page"
    assert await kit.value("phone__camera") == "picture"


async def test_the_question_is_bound_to_the_call_with_exactly_these_arguments(make_kit: MakeKit) -> None:
    person = Person(ALLOW)
    kit = photo_kit(make_kit, person, question_timeout=12.5)
    entry = next(iter(kit.registry))
    await kit.value("photo", b'{"flash": true}', call_id="call-1")
    [question] = person.asked
    assert (question.kind, question.call_id, question.tool, question.arguments) == (
        "permission",
        "call-1",
        "photo",
        {"flash": True},
    )
    assert (question.subject, question.owner, question.session) == ("camera", "operator", "session-1")
    assert (question.fingerprint, question.expires_in) == (entry.spec.fingerprint, 12.5)


# Approval.


async def test_denied_approval_and_silence_do_not_run_the_tool(make_kit: MakeKit) -> None:
    person = Person(DENY, EXPIRED, ALLOW)
    kit = photo_kit(make_kit, person, ())
    careful = kit.caller(CAREFUL)
    assert await kit.failure("photo", caller=careful) == Failure(
        "approval_denied", "The user did not approve the call of 'photo', so it did not run."
    )
    assert await kit.failure("photo", caller=careful) == Failure(
        "question_expired", "No person approved the call of 'photo' in time, so it did not run."
    )
    assert await kit.value("photo", caller=careful) == "click False"


async def test_approval_is_asked_for_every_call_unless_it_was_given_for_always(make_kit: MakeKit) -> None:
    person = Person(ALLOW, Answer("allow", always=True))
    kit = photo_kit(make_kit, person, ())
    for _ in range(4):
        assert await kit.value("photo", caller=kit.caller(CAREFUL)) == "click False"
    assert [question.kind for question in person.asked] == ["approval", "approval"]


async def test_always_ends_when_the_definition_changes(make_kit: MakeKit) -> None:
    person = Person(Answer("allow", always=True), DENY)
    kit = photo_kit(make_kit, person, ())
    assert await kit.value("photo", caller=kit.caller(CAREFUL)) == "click False"

    async def photo(flash: bool = False, raw: bool = False) -> str:
        return "another"

    kit.registry.register_or_replace(tool(description="Takes another photo.")(photo), PLUGIN)
    assert (await kit.failure("photo", caller=kit.caller(CAREFUL))).code == "approval_denied"
    assert len({question.fingerprint for question in person.asked}) == 2


async def test_a_person_may_edit_the_arguments_and_approve(make_kit: MakeKit) -> None:
    person = Person(Answer("allow", always=True, arguments={"flash": True}))
    kit = photo_kit(make_kit, person, ())
    assert await kit.value("photo", {"flash": False}, caller=kit.caller(CAREFUL)) == "click True"
    assert kit.last().arguments == {"flash": True}
    # The edit was for that one call; the "always" is for the tool.
    assert await kit.value("photo", {"flash": False}, caller=kit.caller(CAREFUL)) == "click False"


async def test_the_model_is_told_what_the_person_changed_and_the_journal_knows_it(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(Answer("allow", arguments={"flash": True}), Answer("allow", arguments={})), ())
    edited = await kit.call("photo", {"flash": False}, caller=kit.caller(CAREFUL))
    notice = 'The user changed the arguments before approving this call. It ran with: {"flash":true}'
    assert envelope(edited) == {"status": "success", "result": "click True", "notice": notice}  # type: ignore[arg-type]
    assert encode_envelope(edited) == encode(envelope(edited))  # type: ignore[arg-type]
    assert (kit.last().is_edited, kit.last().arguments) == (True, {"flash": True})
    unchanged = await kit.call("photo", {}, caller=kit.caller(CAREFUL))
    assert envelope(unchanged) == {"status": "success", "result": "click False"}  # type: ignore[arg-type]


async def test_a_rule_refuses_approval_in_its_own_name_and_a_person_may_say_why(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(Answer("deny", reason="Too dark\u202e."), Answer("deny", always=True)), ())
    careful = kit.caller(CAREFUL)
    told = [(await kit.failure("photo", caller=careful)).message for _ in range(3)]
    assert told == [
        "The call of 'photo' was not approved, so it did not run: Too dark.",
        "The user did not approve the call of 'photo', so it did not run.",
        "The call of 'photo' is refused by a rule of the user (\"never\"); the user was not asked again. "
        "`handspan rules forget photo` takes the rule back.",
    ]


@pytest.mark.parametrize(("permissions", "asked"), [(("camera",), "whether the permission"), ((), "to approve")])
async def test_where_no_person_can_be_asked_the_refusal_says_so(
    make_kit: MakeKit, permissions: tuple[str, ...], asked: str
) -> None:
    kit = photo_kit(make_kit, RuleAnswers(Answer("expired", reason="there is no terminal.")), permissions)
    failure = await kit.failure("photo", caller=kit.caller(CAREFUL))
    assert failure.code == "question_expired"
    assert failure.message.startswith(f"No person could be asked {asked}")
    assert failure.message.endswith("there is no terminal.")


async def test_the_journal_has_the_persons_time_apart_from_the_tools_own(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions, ())
    for decision in (ALLOW, DENY):
        asked_at = time.monotonic()
        task = kit.start("photo", caller=kit.caller(CAREFUL))
        await until(lambda: questions.open_for("operator"))
        await asyncio.sleep(0.05)  # the person thinks
        questions.answer(questions.open_for("operator")[0].id, decision, owner="operator")
        await outcome_of([task])
        whole, record = time.monotonic() - asked_at, kit.last()
        assert record.waited >= 0.05
        assert record.duration + record.waited <= whole


async def test_a_question_of_no_conversation_is_answered_on_the_page() -> None:
    question = Question("q", "trust", "", "device(bridge)", {}, "May it start?", "operator", "", "", 60.0)
    assert " Answer on the page, or with `handspan questions answer q allow`" in waiting_text(question)


async def test_the_caller_is_told_which_person_is_asked_and_where(make_kit: MakeKit) -> None:
    questions, device, progress = OpenQuestions(), OpenQuestions(), list[Json]()
    kit = photo_kit(make_kit, questions, ())

    class Camera:
        spec = ToolSpec("camera", "A phone's.", {"type": "object"}, ("camera",))
        handling = Handling(questions=device)

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "picture"

    kit.add(Camera(), Origin("device", "phone"))
    ids: list[str] = []
    for name, agent, asked in (("photo", CAREFUL, questions), ("camera", GENERAL, device)):
        known = len(progress)
        task = kit.start(name, caller=kit.caller(agent, progress=progress.append))
        await until(lambda known=known: len(progress) > known)  # type: ignore[misc] # bound now
        [question] = asked.open_for("operator")
        assert question.agent == agent.name
        ids.append(question.id)
        assert asked.answer(question.id, ALLOW, owner="operator")
        await outcome_of([task])
    notes = [find_waiting_note(value) for value in progress]
    assert notes == [
        (
            "Waiting for your answer: may 'photo' run? The agent 'Careful' asks before it uses 'photo' (mode "
            f"'ask_always'). Answer in the chat, or with `handspan questions answer {ids[0]} allow` (or deny).\n",
            "",
        ),
        ("Waiting for your answer on the device 'phone': may 'camera' use the permission 'camera'?\n", "phone"),
    ]


async def test_a_question_that_is_answered_at_once_is_not_announced(make_kit: MakeKit) -> None:
    progress: list[Json] = []
    kit = photo_kit(make_kit, RuleAnswers(ALLOW))
    assert await kit.value("photo", caller=kit.caller(progress=progress.append)) == "click False"
    assert progress == []


async def test_an_edit_that_does_not_fit_the_schema_is_refused(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(Answer("allow", arguments={"flash": "bright"})), ())
    failure = await kit.failure("photo", caller=kit.caller(CAREFUL))
    assert failure.code == "invalid_arguments" and "'flash'" in failure.message


class Guard:
    """A hook that answers each call with what a function gives, and keeps what it has seen."""

    def __init__(self, verdict: Callable[[HookedCall], BeforeVerdict]) -> None:
        self._verdict = verdict
        self.seen: list[HookedCall] = []

    async def before(self, call: HookedCall) -> BeforeVerdict:
        self.seen.append(call)
        return self._verdict(call)

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        return None


def _no_flash(call: HookedCall) -> BeforeVerdict:
    return CancelCall("no flash here") if call.arguments.get("flash") else None


async def test_hooks_may_cancel_a_call_that_the_person_edited(make_kit: MakeKit) -> None:
    guard = Guard(_no_flash)
    person = Person(Answer("allow", arguments={"flash": True}))
    kit = photo_kit(make_kit, person, (), hooks=Hooks([NamedHook("guard", guard)]))
    failure = await kit.failure("photo", {"flash": False}, caller=kit.caller(CAREFUL))
    assert failure == Failure("hook_cancelled", "Cancelled by hook 'guard': no flash here")
    assert [(call.arguments, call.is_changed) for call in guard.seen] == [
        ({"flash": False}, False),
        ({"flash": True}, True),
    ]


async def test_hooks_may_cancel_an_edited_call_whose_answer_came_later(make_kit: MakeKit) -> None:
    person = Person(None, Answer("allow", arguments={"flash": True}))
    kit = photo_kit(make_kit, person, (), hooks=Hooks([NamedHook("guard", Guard(_no_flash))]))
    caller = kit.caller(CAREFUL)
    assert isinstance(await kit.call("photo", caller=caller, call_id="call-1"), Pending)
    assert await kit.engine.resume("call-1", caller) == Failure(
        "hook_cancelled", "Cancelled by hook 'guard': no flash here"
    )


async def test_a_hook_that_would_change_what_the_person_approved_refuses_the_call(make_kit: MakeKit) -> None:
    guard = Guard(lambda call: ModifyCall(call.name, {"flash": False}))
    person = Person(Answer("allow", arguments={"flash": True}), Answer("allow", arguments={}))
    kit = photo_kit(make_kit, person, (), hooks=Hooks([NamedHook("guard", guard)]))
    failure = await kit.failure("photo", caller=kit.caller(CAREFUL))
    assert failure.code == "hook_cancelled" and "the arguments that the user gave" in failure.message


async def test_the_policy_may_deny_a_call_that_the_person_edited(make_kit: MakeKit) -> None:
    class NoFlash:
        def decide(self, spec: ToolSpec, call: ToolCall, caller: Caller) -> Verdict:
            return Deny("no flash here") if call.arguments == {"flash": True} else Ask("a photo")

    kit = photo_kit(make_kit, Person(Answer("allow", arguments={"flash": True})), (), policy=NoFlash())
    assert await kit.failure("photo", {"flash": False}) == Failure("policy_denied", "no flash here")


async def test_permission_comes_before_approval_and_both_are_needed(make_kit: MakeKit) -> None:
    person = Person(ALLOW, DENY)
    kit = photo_kit(make_kit, person)
    assert (await kit.failure("photo", caller=kit.caller(CAREFUL))).code == "approval_denied"
    assert [question.kind for question in person.asked] == ["permission", "approval"]


async def test_only_destructive_tools_are_asked_about_in_that_mode(make_kit: MakeKit) -> None:
    person = Person(DENY, DENY)
    kit = photo_kit(make_kit, person, ())

    async def wipe() -> str:
        return "wiped"

    kit.add(wipe, PLUGIN, annotations=Annotations(destructive=True))

    async def water() -> str:
        return "watered"

    kit.add(water, PLUGIN, annotations=Annotations())
    caller = kit.caller(DESTRUCTIVE)
    assert await kit.value("water", caller=caller) == "watered"
    assert (await kit.failure("wipe", caller=caller)).code == "approval_denied"
    assert person.asked[0].subject == "The agent 'Destructive' asks before it uses 'wipe' (mode 'ask_destructive')."
    assert (await kit.failure("photo", caller=caller)).code == "approval_denied"  # it says nothing of its effects


# While a person thinks.


async def test_a_persons_time_does_not_count_against_the_callers_deadline(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions, ())
    passed = asyncio.Event()
    deadline = Deadline(time.monotonic() + 0.05, "the caller's deadline")
    asyncio.get_running_loop().call_later(0.06, passed.set)
    task = kit.start("photo", deadline=deadline, caller=kit.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    await passed.wait()
    assert time.monotonic() > deadline.at
    [question] = questions.open_for("operator")
    assert questions.answer(question.id, ALLOW, owner="operator")
    [result] = await outcome_of([task])
    assert isinstance(result, Success), result


async def test_a_tool_that_goes_while_a_person_thinks_is_not_run(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions, ())
    task = kit.start("photo", caller=kit.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    kit.registry.unregister_by_source(PLUGIN)
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "tool_not_found"


async def test_a_tool_that_is_switched_off_while_a_person_thinks_is_not_run(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions, ())
    task = kit.start("photo", caller=kit.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    kit.registry.disable("photo")
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "tool_disabled"


@pytest.mark.parametrize("same", [True, False])
async def test_a_tool_that_comes_back_while_a_person_thinks_runs_if_it_is_the_same(
    make_kit: MakeKit, same: bool
) -> None:
    questions = OpenQuestions()
    kit = make_kit(questions=questions)

    async def camera() -> str:
        return "old"

    async def reconnected() -> str:
        return "new"

    first, second = Origin("device", "phone", "1"), Origin("device", "phone", "2")
    kit.add(camera, first, name="camera")
    task = kit.start("camera", caller=kit.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    kit.registry.unregister_by_source(first)
    kit.add(reconnected, second, name="camera", version="1.0.0" if same else "2.0.0")
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    [result] = await outcome_of([task])
    if same:
        assert result.value == "new"
        assert kit.last().tool.origin == second
    else:
        assert result.code == "tool_not_available" and "changed while a person was asked" in result.message


async def test_cancelled_while_a_person_thinks_the_call_has_its_result_and_the_question_is_gone(
    make_kit: MakeKit,
) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions)
    task = kit.start("photo")
    await until(lambda: questions.open_for("operator"))
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert questions.open_for("operator") == []
    assert kit.last().result == Failure("cancelled", "The call of 'photo' was cancelled.")
    assert list(kit.ledger.open_calls()) == []


# Open questions.


async def test_the_first_answer_wins_and_nobody_elses_counts(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions)
    task = kit.start("photo")
    await until(lambda: questions.open_for("operator"))
    assert questions.open_for("guest") == []
    [question] = questions.open_for("operator")
    assert not questions.answer(question.id, ALLOW, owner="guest")
    assert not questions.answer("another", ALLOW, owner="operator")
    assert questions.answer(question.id, DENY, owner="operator")
    assert not questions.answer(question.id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "permission_denied"
    assert not questions.answer(question.id, ALLOW, owner="operator")


async def test_a_question_that_nobody_answers_expires(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions, question_timeout=0.01)
    assert (await kit.failure("photo")).code == "question_expired"
    assert questions.open_for("operator") == []


async def test_an_answer_that_was_taken_counts_even_if_time_runs_out_in_that_moment() -> None:
    questions, loop = OpenQuestions(), asyncio.get_running_loop()
    question = Question("q", "approval", "c", "tool", {}, "why", "operator", "", "f", 0.01)
    task = asyncio.create_task(questions.ask(question))
    await until(lambda: questions.open_for("operator"))
    taken: list[bool] = []
    loop.call_later(0.015, lambda: taken.append(questions.answer("q", ALLOW, owner="operator")))
    began = loop.time()
    while loop.time() < began + 0.03:  # block the loop until both are due
        pass
    answer = await task
    assert (answer.decision == "allow") is taken[0]


async def test_whoever_asks_the_same_question_meanwhile_gets_the_same_answer() -> None:
    questions = OpenQuestions()
    question = Question("q", "approval", "c", "tool", {}, "why", "operator", "", "f", 60.0)
    tasks = [asyncio.create_task(questions.ask(question)) for _ in range(3)]
    await until(lambda: questions.open_for("operator"))
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.sleep(0)
    assert questions.answer("q", ALLOW, owner="operator")
    assert (await outcome_of(tasks))[:2] == [ALLOW, ALLOW]


async def test_when_the_one_who_asked_first_goes_the_others_are_not_left_waiting() -> None:
    questions = OpenQuestions()
    question = Question("q", "approval", "c", "tool", {}, "why", "operator", "", "f", 60.0)
    first, second = (asyncio.create_task(questions.ask(question)) for _ in range(2))
    await until(lambda: questions.open_for("operator"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await outcome_of([second])) == [EXPIRED]
    await outcome_of([first])


async def test_a_rule_answers_every_question_in_the_same_way(make_kit: MakeKit) -> None:
    assert (await photo_kit(make_kit, RuleAnswers(DENY)).failure("photo")).code == "permission_denied"


# Where the person is.


async def test_a_tool_that_brings_the_place_where_its_person_is_asks_for_permissions_there(
    make_kit: MakeKit,
) -> None:
    device, page = Person(DENY, ALLOW, ALLOW), Person(ALLOW, DENY)
    kit = make_kit(questions=page)

    class Camera:
        spec = ToolSpec("camera", "A phone's.", {"type": "object"}, ("camera",))
        handling = Handling(questions=device)

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "picture"

    kit.add(Camera(), Origin("device", "phone"))
    careful = kit.caller(CAREFUL)
    assert (await kit.failure("camera", caller=careful)).code == "permission_denied"
    assert await kit.value("camera", caller=careful) == "picture"
    assert (await kit.failure("camera", caller=careful)).code == "approval_denied"
    assert [question.kind for question in device.asked] == ["permission"] * 3  # P2: it remembers its own answers
    assert {question.device for question in device.asked} == {"phone"}
    assert [question.kind for question in page.asked] == ["approval"] * 2


async def test_a_call_is_known_to_the_ledger_before_anybody_is_asked_and_only_then(make_kit: MakeKit) -> None:
    states: list[str | None] = []

    class Looking:
        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
            opened()
            states.extend(record.state for record in kit.ledger.open_calls())
            return Answer("allow", always=True)

    kit = photo_kit(make_kit, Looking())
    accepted: list[str] = []
    accept = kit.ledger.accept

    async def noted(record: Any) -> None:
        accepted.append(record.id)
        await accept(record)

    kit.ledger.accept = noted  # type: ignore[method-assign]  # the real one, with a note
    careful = kit.caller(CAREFUL)
    assert await kit.value("photo", call_id="first", caller=careful) == "click False"
    assert states == ["accepted", "accepted"] and accepted == ["first"]
    assert await kit.value("photo", call_id="second", caller=careful) == "click False"
    assert accepted == ["first"], "no person had to be asked any more"
    read_only = Agent("Reader", mode="read_only")
    assert (await kit.failure("photo", call_id="third", caller=kit.caller(read_only))).code == "policy_denied"
    assert accepted == ["first"]


# Questions that are kept for another day.


async def test_a_call_waits_for_its_answer_and_goes_on_when_it_is_there(make_kit: MakeKit) -> None:
    person = Person(None)
    kit = photo_kit(make_kit, person, ())
    careful = kit.caller(CAREFUL)
    assert await kit.call("photo", {"flash": True}, call_id="call-1", caller=careful) == Pending()
    [record] = kit.ledger.open_calls()
    assert record.state == "accepted"
    assert await kit.engine.result("call-1") is None

    person.will_say(None)
    assert await kit.engine.resume("call-1", careful) == Pending()  # no person has answered yet
    person.will_say(ALLOW)
    result = await kit.engine.resume("call-1", careful)
    assert isinstance(result, Success) and result.value == "click True"
    assert len({question.id for question in person.asked}) == 1
    assert await kit.engine.resume("call-1", careful) is None
    assert await kit.engine.result("call-1") == result


async def test_a_call_that_is_denied_after_days_has_its_result_and_no_after_hook_sees_it(
    make_kit: MakeKit,
) -> None:
    class Watching:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: ToolResult) -> None:
            seen.append(result)

    seen: list[ToolResult] = []
    kit = photo_kit(make_kit, Person(None, DENY), hooks=Hooks([NamedHook("watching", Watching())]))
    assert await kit.call("photo", call_id="call-1") == Pending()
    result = await kit.engine.resume("call-1", kit.caller())
    assert result == Failure("permission_denied", "Permission 'camera' was denied by the user for this call.")
    assert kit.last().result == result
    assert (list(kit.ledger.open_calls()), seen) == ([], [])


async def test_a_call_whose_tool_has_gone_meanwhile_ends_so(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(None))
    await kit.call("photo", call_id="call-1")
    kit.registry.unregister("photo")
    result = await kit.engine.resume("call-1", kit.caller())
    assert isinstance(result, Failure) and result.code == "tool_not_found"
    assert kit.last().result == result


async def test_an_answer_for_another_definition_is_not_an_answer_for_this_one(make_kit: MakeKit) -> None:
    person = Person(None, None)
    kit = photo_kit(make_kit, person)
    await kit.call("photo", call_id="call-1")

    async def photo(flash: bool = False, raw: bool = False) -> str:
        return "another"

    kit.registry.register_or_replace(tool(description="Another.", permissions=("camera",))(photo), PLUGIN)
    await kit.engine.resume("call-1", kit.caller())
    assert len({question.id for question in person.asked}) == 2


async def test_nobody_else_can_resume_a_call_and_none_that_does_not_wait(make_kit: MakeKit) -> None:
    kit = photo_kit(make_kit, Person(None))
    await kit.call("photo", call_id="call-1")
    assert await kit.engine.resume("call-1", kit.caller(who=Principal("guest"))) is None
    assert await kit.engine.resume("call-2", kit.caller()) is None


async def test_two_doors_that_resume_the_same_call_run_it_once(make_kit: MakeKit) -> None:
    ran: list[str] = []
    questions = OpenQuestions()
    person = Person(None)
    kit = make_kit(questions=person)

    async def photo() -> str:
        ran.append("photo")
        await asyncio.sleep(0.001)
        return "click"

    kit.add(photo, PLUGIN, permissions=("camera",))
    await kit.call("photo", call_id="call-1")
    person.ask = questions.ask  # type: ignore[method-assign]  # the person thinks while both doors wait
    tasks = [asyncio.create_task(kit.engine.resume("call-1", kit.caller())) for _ in range(2)]
    await until(lambda: questions.open_for("operator"))
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    results = await outcome_of(tasks)
    assert ran == ["photo"]
    assert [result.value for result in results if result is not None] == ["click"]


async def test_a_resume_that_is_cancelled_leaves_the_call_waiting(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    person = Person(None)
    kit = photo_kit(make_kit, person)
    await kit.call("photo", call_id="call-1")
    person.ask = questions.ask  # type: ignore[method-assign]  # the person thinks
    task = asyncio.create_task(kit.engine.resume("call-1", kit.caller()))
    await until(lambda: questions.open_for("operator"))
    task.cancel()
    await outcome_of([task])
    assert [record.state for record in kit.ledger.open_calls()] == ["accepted"]
    person.ask = RuleAnswers(ALLOW).ask  # type: ignore[method-assign]  # the next time they answer
    result = await kit.engine.resume("call-1", kit.caller())
    assert isinstance(result, Success)


async def test_two_calls_with_one_id_that_both_wait_for_a_person_are_one_call(make_kit: MakeKit) -> None:
    questions = OpenQuestions()
    kit = photo_kit(make_kit, questions)
    tasks = [kit.start("photo", call_id="call-1") for _ in range(2)]
    await until(lambda: questions.open_for("operator"))
    await asyncio.sleep(0)
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    results = await outcome_of(tasks)
    assert sorted(type(result).__name__ for result in results) == ["Failure", "Success"]
    assert [record.id for record in kit.journal()] == ["call-1"]
    assert isinstance(kit.last().result, Success)


async def test_a_call_that_waits_does_not_let_another_take_its_id(make_kit: MakeKit) -> None:
    person = Person(None, None)
    kit = photo_kit(make_kit, person)
    await kit.call("photo", call_id="call-1")
    failure = await kit.failure("photo", call_id="call-1")
    assert failure.code == "invalid_arguments" and "'call-1' was used before" in failure.message
    assert [record.state for record in kit.ledger.open_calls()] == ["accepted"]


async def test_questions_that_fail_refuse_the_call(make_kit: MakeKit) -> None:
    class Broken:
        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
            opened()
            raise OSError("the disk is full")

    kit = photo_kit(make_kit, Broken())
    failure = await kit.failure("photo")
    assert failure == Failure("internal_error", "Tool 'photo' was not run: OSError: the disk is full")
    assert kit.last().result == failure
