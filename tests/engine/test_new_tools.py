"""SPEC T5: a tool that its source did not have at first asks before its first call, whatever the agent's mode."""

import pytest

from handspan.core.function_tool import tool
from handspan.core.principals import Origin
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit

pytestmark = pytest.mark.anyio

GIT = Origin("mcp", "git")


class Person:
    """Answers in this order."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        self.asked.append(question)
        return self.answers.pop(0)


@tool
async def git_log() -> str:
    """Show what was done."""
    return "log"


@tool
async def git_push() -> str:
    """Send it away."""
    return "pushed"


def offered(make_kit: MakeKit, person: Person) -> EngineKit:
    kit = make_kit(questions=person)
    kit.registry.replace(GIT, [git_log], pins="blocks")
    kit.registry.replace(GIT, [git_log, git_push], pins="blocks")
    return kit


async def test_it_asks_until_a_person_approves_and_never_again(make_kit: MakeKit) -> None:
    person = Person(Answer("deny"), Answer("allow"))
    kit = offered(make_kit, person)
    assert await kit.value("git_log") == "log"
    assert person.asked == [], "a tool that was there at first needs no approval"
    assert (await kit.failure("git_push")).code == "approval_denied"
    assert await kit.value("git_push") == "pushed"
    assert await kit.value("git_push") == "pushed"
    assert [(one.kind, one.tool) for one in person.asked] == [("approval", "git_push")] * 2
    assert person.asked[0].subject == "'git_push' is new at mcp(git): no person has approved it yet."


async def test_a_changed_one_is_refused_and_nobody_is_asked(make_kit: MakeKit) -> None:
    person = Person()
    kit = offered(make_kit, person)
    kit.registry.replace(GIT, [tool(name="git_log", description="Another.")(git_log)], pins="blocks")
    refused = await kit.failure("git_log")
    assert refused.code == "tool_not_available" and "no person has accepted it yet" in refused.message
    assert refused.message.endswith("To accept it: `handspan mcp trust git`.")
    assert person.asked == []
