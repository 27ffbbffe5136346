"""What one call may touch. Made for each call; tools keep no state of a session."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.deadlines import Deadline
from handspan.core.errors import ToolError
from handspan.core.principals import Principal
from handspan.core.questions import Answer, QuestionAction, QuestionKind, ToolQuestion
from handspan.core.values import Json, JsonObject

Progress: TypeAlias = Callable[[Json], None]
"""Shows partial output or a state to whoever watches the call. Never blocks, may be called from any thread."""


class Person(Protocol):
    """The person for whom a call runs, and who can be asked while it runs."""

    async def ask(self, asked: ToolQuestion) -> tuple[Answer, float]:
        """Return the answer, `expired` when none came in time, and by how many seconds the deadline is later now.

        Raises `ToolError` when nobody can be asked.
        """
        ...


class NoPerson:
    """For calls that run where no person can be asked, such as in a worker process."""

    async def ask(self, asked: ToolQuestion) -> tuple[Answer, float]:
        """Raise `ToolError`."""
        raise ToolError("execution_failed", f"The person can't be asked from here: {asked.subject}")


NO_PERSON: Final = NoPerson()


class ToolContext(Struct, gc=False):
    """What one call may touch."""

    call_id: str
    who: Principal
    session: str
    deadline: Deadline | None
    """When the call will be stopped."""
    progress: Progress
    artifacts: Artifacts
    workspace: Path
    """The folder that file tools work in."""
    person: Person = NO_PERSON

    async def ask(
        self,
        kind: QuestionKind,
        subject: str,
        *,
        schema: JsonObject | None = None,
        action: QuestionAction | None = None,
        expires_in: float | None = None,
    ) -> Answer:
        """Ask the person for whom this call runs; the answer may be a no, or `expired` after `expires_in` seconds.

        `input` needs a schema, and the answer's `value` is valid by it; `login` and `trust` need an action. The time
        that the person takes does not count against the deadline. Raises `ToolError` when nobody can be asked.
        """
        answer, waited = await self.person.ask(ToolQuestion(kind, subject, schema, action, expires_in))
        if self.deadline is not None:
            self.deadline = self.deadline.later(waited)
        return answer


def no_progress(_: Json) -> None:
    """For calls that nobody watches."""
