"""A process to be killed, for `test_outliving.py`: its tools are asked and never answer. Each prints `asked ID`."""

import asyncio
import os
import sys
from pathlib import Path

from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import ToolContext
from handspan.core.principals import BUILTIN, Origin, Principal
from handspan.core.tool import NO_CLAIMS, READ_ONLY, Annotations, Handling, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.registry.registry import Registry
from tests.store.things import asks, user
from tests.stores import open_artifacts, open_store

PHONE = Origin("device", "phone", "peer-1")
TABLET = Origin("remote", "session-1", "peer-2")
ANN = Principal("ann")
SECONDS = 30.0
AT_A_CLIENT = Handling(answered_by="connection", outlives=True)


class Asked:
    """A tool whose answer is somewhere else."""

    def __init__(self, name: str, handling: Handling, annotations: Annotations = NO_CLAIMS) -> None:
        self.spec = ToolSpec(name, "Made for a test.", {"type": "object"}, timeout=SECONDS, annotations=annotations)
        self.handling = handling

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        """Say that it was asked, and wait."""
        os.write(1, f"asked {self.spec.name} {ctx.call_id}\n".encode())
        await asyncio.Event().wait()
        return None


TOOLS = (
    (Asked("phone__camera", AT_A_CLIENT), PHONE),
    (Asked("phone__battery", AT_A_CLIENT, annotations=READ_ONLY), PHONE),
    (Asked("torch", AT_A_CLIENT), TABLET),
    (Asked("write", Handling()), BUILTIN),
)


async def main(state: Path) -> None:
    """One turn that asks for one call of each."""
    registry = Registry()
    for tool, origin in TOOLS:
        registry.register(tool, origin)
    async with open_store(state) as store:
        await store.recover()
        engine = Engine(open_artifacts(state / "artifacts"), state, ledger=store.ledger)
        session = await store.conversations.create(owner=ANN.owner)
        await store.conversations.begin_turn(session.id, owner=ANN.owner)
        calls = [ToolCall(tool.spec.name, {"n": 1}, new_call_id()) for tool, _ in TOOLS]
        ids = (call.id for call in calls)
        await store.conversations.append(session.id, user(), asks(*ids), owner=ANN.owner)
        caller = Caller(ANN, GENERAL, registry.toolbox(GENERAL, ANN, session.id), session.id)
        await asyncio.gather(*(engine.call(call, caller) for call in calls))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
