"""Asking a person: permissions and approval (SPEC P1-P5)."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from handspan.core.agents import Agent
from handspan.core.context import Deadline
from handspan.core.function_tool import tool
from handspan.core.principals import BUILTIN, Origin, Principal
from handspan.core.questions import Answer, Question
from handspan.core.results import Failure, Pending, Success, ToolResult
from handspan.core.tool import Annotations, Handling, ToolSpec
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from handspan.engine.questions import OpenQuestions, RuleAnswers
from tests.engine.conftest import MakeHouse
from tests.engine.house import House, outcome_of
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

    async def ask(self, question: Question) -> Answer | None:
        self.asked.append(question)
        return self._answers.pop(0)

    def will_say(self, *answers: Answer | None) -> None:
        self._answers.extend(answers)


def photo_house(make_house: MakeHouse, questions: Any, permissions: Sequence[str] = ("camera",), **more: Any) -> House:
    """A house with a plugin's tool `photo` that needs permissions, and how often it ran."""
    house = make_house(questions=questions, **more)

    async def photo(flash: bool = False) -> str:
        return f"click {flash}"

    house.add(photo, PLUGIN, permissions=tuple(permissions))
    return house


# Permissions.


async def test_a_denied_permission_is_said_in_the_words_of_the_seed_and_asked_again_next_time(
    make_house: MakeHouse,
) -> None:
    person = Person(DENY, ALLOW)
    house = photo_house(make_house, person)
    assert await house.failure("photo") == Failure("permission_denied", "Permission 'camera' was denied by the user.")
    assert await house.value("photo") == "click False"


async def test_denied_for_ever_says_how_to_enable_it_and_is_remembered(make_house: MakeHouse) -> None:
    person = Person(Answer("deny_forever", how_to_enable="Settings > Apps > Camera"))
    house = photo_house(make_house, person)
    for _ in range(2):
        failure = await house.failure("photo")
        assert failure.code == "permission_denied_forever"
        assert failure.message == (
            "Permission 'camera' was denied by the user, who does not want to be asked again: "
            "it can be enabled in Settings > Apps > Camera."
        )
    assert len(person.asked) == 1


async def test_denied_for_ever_without_a_place_names_the_settings(make_house: MakeHouse) -> None:
    house = photo_house(make_house, Person(Answer("deny_forever")))
    assert "enabled in the settings of the device or the gateway." in (await house.failure("photo")).message


async def test_nobody_there_to_ask_is_said_so_and_asked_again_next_time(make_house: MakeHouse) -> None:
    person = Person(EXPIRED, Answer("expired", always=True), ALLOW)
    house = photo_house(make_house, person)
    for _ in range(2):
        assert await house.failure("photo") == Failure(
            "question_expired",
            "No person answered whether the permission 'camera' is granted, so this call is refused.",
        )
    assert await house.value("photo") == "click False"


async def test_a_denial_for_always_is_remembered(make_house: MakeHouse) -> None:
    person = Person(Answer("deny", always=True))
    house = photo_house(make_house, person)
    assert (await house.failure("photo")).code == (await house.failure("photo")).code == "permission_denied"
    assert len(person.asked) == 1


async def test_a_grant_is_remembered_for_this_tool_and_owner_and_no_other(make_house: MakeHouse) -> None:
    person = Person(ALLOW, DENY, DENY)
    house = photo_house(make_house, person)

    async def film() -> str:
        return "film"

    house.add(film, PLUGIN, permissions=("camera",))
    assert await house.value("photo") == await house.value("photo") == "click False"
    assert len(person.asked) == 1
    await house.failure("film")
    await house.failure("photo", caller=house.caller(who=Principal("guest")))
    assert [(question.tool, question.owner) for question in person.asked[1:]] == [
        ("film", "operator"),
        ("photo", "guest"),
    ]


async def test_several_permissions_are_asked_one_by_one_until_one_is_denied(make_house: MakeHouse) -> None:
    person = Person(ALLOW, DENY)
    house = photo_house(make_house, person, ("camera", "location", "microphone"))
    assert "'location'" in (await house.failure("photo")).message
    assert [question.subject for question in person.asked] == ["camera", "location"]


async def test_permissions_of_built_ins_and_of_tools_that_ask_themselves_are_not_asked_here(
    make_house: MakeHouse,
) -> None:
    house = make_house(questions=Person())

    async def fetch() -> str:
        return "page"

    class Phone:
        handling = Handling(asks_itself=True)
        spec = ToolSpec("phone__camera", "A phone's.", {"type": "object"}, ("camera",))

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "picture"

    house.add(fetch, BUILTIN, permissions=("network",))
    house.add(Phone(), Origin("device", "phone"))
    assert await house.value("fetch") == "page"
    assert await house.value("phone__camera") == "picture"


async def test_the_question_is_bound_to_the_call_with_exactly_these_arguments(make_house: MakeHouse) -> None:
    person = Person(ALLOW)
    house = photo_house(make_house, person, question_timeout=12.5)
    entry = next(iter(house.registry))
    await house.value("photo", b'{"flash": true}', call_id="call-1")
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


async def test_denied_approval_and_silence_do_not_run_the_tool(make_house: MakeHouse) -> None:
    person = Person(DENY, EXPIRED, ALLOW)
    house = photo_house(make_house, person, ())
    careful = house.caller(CAREFUL)
    assert await house.failure("photo", caller=careful) == Failure(
        "approval_denied", "The user did not approve the call of 'photo', so it did not run."
    )
    assert await house.failure("photo", caller=careful) == Failure(
        "question_expired", "No person approved the call of 'photo' in time, so it did not run."
    )
    assert await house.value("photo", caller=careful) == "click False"


async def test_approval_is_asked_for_every_call_unless_it_was_given_for_always(make_house: MakeHouse) -> None:
    person = Person(ALLOW, Answer("allow", always=True))
    house = photo_house(make_house, person, ())
    for _ in range(4):
        assert await house.value("photo", caller=house.caller(CAREFUL)) == "click False"
    assert [question.kind for question in person.asked] == ["approval", "approval"]


async def test_always_ends_when_the_definition_changes(make_house: MakeHouse) -> None:
    person = Person(Answer("allow", always=True), DENY)
    house = photo_house(make_house, person, ())
    assert await house.value("photo", caller=house.caller(CAREFUL)) == "click False"

    async def photo(flash: bool = False, raw: bool = False) -> str:
        return "another"

    house.registry.register_or_replace(tool(description="Takes another photo.")(photo), PLUGIN)
    assert (await house.failure("photo", caller=house.caller(CAREFUL))).code == "approval_denied"
    assert len({question.fingerprint for question in person.asked}) == 2


async def test_a_person_may_edit_the_arguments_and_approve(make_house: MakeHouse) -> None:
    person = Person(Answer("allow", always=True, arguments={"flash": True}))
    house = photo_house(make_house, person, ())
    assert await house.value("photo", {"flash": False}, caller=house.caller(CAREFUL)) == "click True"
    assert house.last().arguments == {"flash": True}
    # The edit was for that one call; the "always" is for the tool.
    assert await house.value("photo", {"flash": False}, caller=house.caller(CAREFUL)) == "click False"


async def test_an_edit_that_does_not_fit_the_schema_is_refused(make_house: MakeHouse) -> None:
    house = photo_house(make_house, Person(Answer("allow", arguments={"flash": "bright"})), ())
    failure = await house.failure("photo", caller=house.caller(CAREFUL))
    assert failure.code == "invalid_arguments" and "'flash'" in failure.message


async def test_permission_comes_before_approval_and_both_are_needed(make_house: MakeHouse) -> None:
    person = Person(ALLOW, DENY)
    house = photo_house(make_house, person)
    assert (await house.failure("photo", caller=house.caller(CAREFUL))).code == "approval_denied"
    assert [question.kind for question in person.asked] == ["permission", "approval"]


async def test_only_destructive_tools_are_asked_about_in_that_mode(make_house: MakeHouse) -> None:
    person = Person(DENY)
    house = photo_house(make_house, person, ())

    async def wipe() -> str:
        return "wiped"

    house.add(wipe, PLUGIN, annotations=Annotations(destructive=True))
    caller = house.caller(DESTRUCTIVE)
    assert await house.value("photo", caller=caller) == "click False"
    assert (await house.failure("wipe", caller=caller)).code == "approval_denied"
    assert person.asked[0].subject == "The agent 'Destructive' asks before it uses 'wipe' (mode 'ask_destructive')."


# While a person thinks.


async def test_a_persons_time_does_not_count_against_the_callers_deadline(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions, ())
    passed = asyncio.Event()
    deadline = Deadline(time.monotonic() + 0.05, "the caller's deadline")
    asyncio.get_running_loop().call_later(0.06, passed.set)
    task = house.start("photo", deadline=deadline, caller=house.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    await passed.wait()
    assert time.monotonic() > deadline.at
    [question] = questions.open_for("operator")
    assert questions.answer(question.id, ALLOW, owner="operator")
    [result] = await outcome_of([task])
    assert isinstance(result, Success), result


async def test_a_tool_that_goes_while_a_person_thinks_is_not_run(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions, ())
    task = house.start("photo", caller=house.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    house.registry.unregister_by_source(PLUGIN)
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "tool_not_found"


async def test_a_tool_that_is_switched_off_while_a_person_thinks_is_not_run(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions, ())
    task = house.start("photo", caller=house.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    house.registry.disable("photo")
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "tool_disabled"


@pytest.mark.parametrize("same", [True, False])
async def test_a_tool_that_comes_back_while_a_person_thinks_runs_if_it_is_the_same(
    make_house: MakeHouse, same: bool
) -> None:
    questions = OpenQuestions()
    house = make_house(questions=questions)

    async def camera() -> str:
        return "old"

    async def reconnected() -> str:
        return "new"

    first, second = Origin("device", "phone", "1"), Origin("device", "phone", "2")
    house.add(camera, first, name="camera")
    task = house.start("camera", caller=house.caller(CAREFUL))
    await until(lambda: questions.open_for("operator"))
    house.registry.unregister_by_source(first)
    house.add(reconnected, second, name="camera", version="1.0.0" if same else "2.0.0")
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    [result] = await outcome_of([task])
    if same:
        assert result.value == "new"
        assert house.last().tool.origin == second
    else:
        assert result.code == "tool_not_available" and "changed while a person was asked" in result.message


async def test_cancelled_while_a_person_thinks_the_call_has_its_result_and_the_question_is_gone(
    make_house: MakeHouse,
) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions)
    task = house.start("photo")
    await until(lambda: questions.open_for("operator"))
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert questions.open_for("operator") == []
    assert house.last().result == Failure("cancelled", "The call of 'photo' was cancelled.")
    assert list(house.ledger.open_calls()) == []


# Open questions.


async def test_the_first_answer_wins_and_nobody_elses_counts(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions)
    task = house.start("photo")
    await until(lambda: questions.open_for("operator"))
    assert questions.open_for("guest") == []
    [question] = questions.open_for("operator")
    assert not questions.answer(question.id, ALLOW, owner="guest")
    assert not questions.answer("another", ALLOW, owner="operator")
    assert questions.answer(question.id, DENY, owner="operator")
    assert not questions.answer(question.id, ALLOW, owner="operator")
    assert (await outcome_of([task]))[0].code == "permission_denied"
    assert not questions.answer(question.id, ALLOW, owner="operator")


async def test_a_question_that_nobody_answers_expires(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions, question_timeout=0.01)
    assert (await house.failure("photo")).code == "question_expired"
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


async def test_a_rule_answers_every_question_in_the_same_way(make_house: MakeHouse) -> None:
    assert (await photo_house(make_house, RuleAnswers(DENY)).failure("photo")).code == "permission_denied"


# Where the person is.


async def test_a_tool_that_brings_the_place_where_its_person_is_asks_for_permissions_there(
    make_house: MakeHouse,
) -> None:
    device, page = Person(DENY, ALLOW), Person(ALLOW, DENY)
    house = make_house(questions=page)

    class Camera:
        spec = ToolSpec("camera", "A phone's.", {"type": "object"}, ("camera",))
        handling = Handling(questions=device)

        async def run(self, arguments: Any, ctx: Any) -> str:
            return "picture"

    house.add(Camera(), Origin("device", "phone"))
    careful = house.caller(CAREFUL)
    assert (await house.failure("camera", caller=careful)).code == "permission_denied"
    assert await house.value("camera", caller=careful) == "picture"
    assert (await house.failure("camera", caller=careful)).code == "approval_denied"
    assert [question.kind for question in device.asked] == ["permission"] * 2
    assert [question.kind for question in page.asked] == ["approval"] * 2


async def test_a_call_is_known_to_the_ledger_before_anybody_is_asked_and_only_then(make_house: MakeHouse) -> None:
    states: list[str | None] = []

    class Looking:
        async def ask(self, question: Question) -> Answer:
            states.extend(record.state for record in house.ledger.open_calls())
            return Answer("allow", always=True)

    house = photo_house(make_house, Looking())
    accepted: list[str] = []
    accept = house.ledger.accept

    async def noted(record: Any) -> None:
        accepted.append(record.id)
        await accept(record)

    house.ledger.accept = noted  # type: ignore[method-assign]  # the real one, with a note
    careful = house.caller(CAREFUL)
    assert await house.value("photo", call_id="first", caller=careful) == "click False"
    assert states == ["accepted", "accepted"] and accepted == ["first"]
    assert await house.value("photo", call_id="second", caller=careful) == "click False"
    assert accepted == ["first"], "no person had to be asked any more"
    read_only = Agent("Reader", mode="read_only")
    assert (await house.failure("photo", call_id="third", caller=house.caller(read_only))).code == "policy_denied"
    assert accepted == ["first"]


# Questions that are kept for another day.


async def test_a_call_waits_for_its_answer_and_goes_on_when_it_is_there(make_house: MakeHouse) -> None:
    person = Person(None)
    house = photo_house(make_house, person, ())
    careful = house.caller(CAREFUL)
    assert await house.call("photo", {"flash": True}, call_id="call-1", caller=careful) == Pending()
    [record] = house.ledger.open_calls()
    assert record.state == "accepted"
    assert await house.engine.result("call-1") is None

    person.will_say(None)
    assert await house.engine.resume("call-1", careful) == Pending()  # no person has answered yet
    person.will_say(ALLOW)
    result = await house.engine.resume("call-1", careful)
    assert isinstance(result, Success) and result.value == "click True"
    assert len({question.id for question in person.asked}) == 1
    assert await house.engine.resume("call-1", careful) is None
    assert await house.engine.result("call-1") == result


async def test_a_call_that_is_denied_after_days_has_its_result_and_no_after_hook_sees_it(
    make_house: MakeHouse,
) -> None:
    class Watching:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: ToolResult) -> None:
            seen.append(result)

    seen: list[ToolResult] = []
    house = photo_house(make_house, Person(None, DENY), hooks=Hooks([NamedHook("watching", Watching())]))
    assert await house.call("photo", call_id="call-1") == Pending()
    result = await house.engine.resume("call-1", house.caller())
    assert result == Failure("permission_denied", "Permission 'camera' was denied by the user.")
    assert house.last().result == result
    assert (list(house.ledger.open_calls()), seen) == ([], [])


async def test_a_call_whose_tool_has_gone_meanwhile_ends_so(make_house: MakeHouse) -> None:
    house = photo_house(make_house, Person(None))
    await house.call("photo", call_id="call-1")
    house.registry.unregister("photo")
    result = await house.engine.resume("call-1", house.caller())
    assert isinstance(result, Failure) and result.code == "tool_not_found"
    assert house.last().result == result


async def test_an_answer_for_another_definition_is_not_an_answer_for_this_one(make_house: MakeHouse) -> None:
    person = Person(None, None)
    house = photo_house(make_house, person)
    await house.call("photo", call_id="call-1")

    async def photo(flash: bool = False, raw: bool = False) -> str:
        return "another"

    house.registry.register_or_replace(tool(description="Another.", permissions=("camera",))(photo), PLUGIN)
    await house.engine.resume("call-1", house.caller())
    assert len({question.id for question in person.asked}) == 2


async def test_nobody_else_can_resume_a_call_and_none_that_does_not_wait(make_house: MakeHouse) -> None:
    house = photo_house(make_house, Person(None))
    await house.call("photo", call_id="call-1")
    assert await house.engine.resume("call-1", house.caller(who=Principal("guest"))) is None
    assert await house.engine.resume("call-2", house.caller()) is None


async def test_two_doors_that_resume_the_same_call_run_it_once(make_house: MakeHouse) -> None:
    ran: list[str] = []
    questions = OpenQuestions()
    person = Person(None)
    house = make_house(questions=person)

    async def photo() -> str:
        ran.append("photo")
        await asyncio.sleep(0.001)
        return "click"

    house.add(photo, PLUGIN, permissions=("camera",))
    await house.call("photo", call_id="call-1")
    person.ask = questions.ask  # type: ignore[method-assign]  # the person thinks while both doors wait
    tasks = [asyncio.create_task(house.engine.resume("call-1", house.caller())) for _ in range(2)]
    await until(lambda: questions.open_for("operator"))
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    results = await outcome_of(tasks)
    assert ran == ["photo"]
    assert [result.value for result in results if result is not None] == ["click"]


async def test_a_resume_that_is_cancelled_leaves_the_call_waiting(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    person = Person(None)
    house = photo_house(make_house, person)
    await house.call("photo", call_id="call-1")
    person.ask = questions.ask  # type: ignore[method-assign]  # the person thinks
    task = asyncio.create_task(house.engine.resume("call-1", house.caller()))
    await until(lambda: questions.open_for("operator"))
    task.cancel()
    await outcome_of([task])
    assert [record.state for record in house.ledger.open_calls()] == ["accepted"]
    person.ask = RuleAnswers(ALLOW).ask  # type: ignore[method-assign]  # the next time they answer
    result = await house.engine.resume("call-1", house.caller())
    assert isinstance(result, Success)


async def test_two_calls_with_one_id_that_both_wait_for_a_person_are_one_call(make_house: MakeHouse) -> None:
    questions = OpenQuestions()
    house = photo_house(make_house, questions)
    tasks = [house.start("photo", call_id="call-1") for _ in range(2)]
    await until(lambda: questions.open_for("operator"))
    await asyncio.sleep(0)
    questions.answer(questions.open_for("operator")[0].id, ALLOW, owner="operator")
    results = await outcome_of(tasks)
    assert sorted(type(result).__name__ for result in results) == ["Failure", "Success"]
    assert [record.id for record in house.journal()] == ["call-1"]
    assert isinstance(house.last().result, Success)


async def test_a_call_that_waits_does_not_let_another_take_its_id(make_house: MakeHouse) -> None:
    person = Person(None, None)
    house = photo_house(make_house, person)
    await house.call("photo", call_id="call-1")
    failure = await house.failure("photo", call_id="call-1")
    assert failure.code == "invalid_arguments" and "'call-1' was used before" in failure.message
    assert [record.state for record in house.ledger.open_calls()] == ["accepted"]


async def test_questions_that_fail_refuse_the_call(make_house: MakeHouse) -> None:
    class Broken:
        async def ask(self, question: Question) -> Answer:
            raise OSError("the disk is full")

    house = photo_house(make_house, Broken())
    failure = await house.failure("photo")
    assert failure == Failure("internal_error", "Tool 'photo' was not run: OSError: the disk is full")
    assert house.last().result == failure
