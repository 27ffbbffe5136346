"""A gateway that kills itself while one agent works for another, for `test_children_killed.py`."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from handspan.core.bus import CallCompleted
from handspan.core.calls import CallRecord
from tests.gateway.sessions.child_kit import Talk, ask, talking, then

SCRIPT: Final = then(ask(then('call change {"what": "once"}', "call slow", "{results}")), "Then {results}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def arrange(talk: Talk, moment: str) -> None:
    """Let the process die at this moment."""
    app = talk.parts.app
    match moment:
        case "suspended":  # the call is stored, and the other agent has not begun
            suspend = app.store.ledger.suspend

            async def suspend_and_die(record: CallRecord) -> None:
                await suspend(record)
                die()

            app.store.ledger.suspend = suspend_and_die
        case "working":
            asyncio.get_running_loop().create_task(after(talk))
        case "finished":  # the other agent has answered, and the call has no result

            async def die_first(*_: Any) -> None:
                (child,) = await talk.children()
                while (await talk.find(child.id)).state != "idle":
                    await asyncio.sleep(0)
                die()

            app.engine.settle = die_first
        case "settled":  # the call has its result, and the asker has not gone on
            talk.parts.bus.subscribe(CallCompleted, lambda call: die() if call.name == "ask_agent" else None)
    if moment != "working":
        talk.may_end.set()


async def after(talk: Talk) -> None:
    await talk.reached.wait()
    die()


async def main(folder: Path, moment: str, settings: str) -> None:
    async with talking(folder, **msgspec.json.decode(settings)) as talk:
        talk.changed = Lines(folder / "changed")  # what was changed outlives the process
        await arrange(talk, moment)
        await talk.say(SCRIPT)


class Lines(list[str]):
    """A list that is kept in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
