"""A gateway to be killed, for `test_questions.py`: it asks a person, prints the question's id, and waits for ever."""

import asyncio
import os
import sys
from pathlib import Path

from handspan.core.bus import QuestionOpened
from handspan.core.principals import OPERATOR
from handspan.models.scripted import call
from tests.gateway.sessions.session_kit import SessionKit, said


def tell(event: QuestionOpened) -> None:
    """Say it in one write: a killed process must not leave half a line."""
    os.write(1, f"{event.question.id}\n".encode())


SCRIPTS = {
    "note": [call("note", text="a"), call("note", text="b")],
    "ask": [call("ask_user", question="Which colour?", options=["red", "blue"])],
}


async def main(folder: Path, script: str = "note") -> None:
    """Talk, until somebody kills this process."""
    async with SessionKit(folder, [SCRIPTS[script], "never said"]) as kit:
        kit.bus.subscribe(QuestionOpened, tell)
        await (
            kit.sessions.get("s", OPERATOR.owner)
            .say(OPERATOR, said("note it"), lambda *_: None, agent="Careful")
            .wait_for_end()
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
