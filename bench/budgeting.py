"""What a budget adds to a round of the loop: the reservation, and the settlement in the write of the reply."""

import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure, best_cpu
from handspan.agent.budgets import Budgets
from handspan.agent.conversation import StoredLog
from handspan.bus.memory import MemoryBus
from handspan.config.budget_settings import BudgetSettings
from handspan.config.settings import ModelPrice, Settings
from handspan.core.budgets import Payer, paying
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Text, Usage, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.tool import ToolSpec
from handspan.models.budgeted import BudgetedModel
from handspan.models.choice import codec_for
from handspan.models.model import Model, ModelEvent, Projection, Replied
from handspan.models.projection import EncodedProjection
from handspan.store.sqlite.store import SqliteStore, sqlite_store

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else ""
ROUNDS = 400
SLICES = 7
PRICE = ModelPrice(3.0, 15.0)
REPLY = AssistantMessage((Text("done"),), model="instant", usage=Usage(100, 20))


class _Instant:
    """A model that answers at once, and says what it used."""

    name = "instant"

    def projection(self, instructions: str = "") -> Projection:
        return EncodedProjection(codec_for("openai-chat"), instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        yield Replied(REPLY)


class _Nowhere:
    """Stores no message."""

    def keep(self, session: str, message: object, **more: object) -> None:
        """Do nothing."""


async def measure(folder: Path) -> Iterable[Figure]:
    """`no_budget_round_us`, `budget_round_us`: CPU time beyond a round that knows no budgets; `budget_commits`.

    The database is in memory where there is room: what a commit takes is the disk's.
    """
    with tempfile.TemporaryDirectory(dir=IN_MEMORY or folder) as place:
        given = Settings(folder, folder, budget=BudgetSettings(day=1e6, month=1e7))
        async with sqlite_store(Path(place) / "budgeting") as store:
            budgets = Budgets(store.budgets, MemoryBus(), given, None)
            unlimited = await _without_limits(budgets)
            cost, commits = await _with_limits(store, budgets)
            await budgets.close()
    return [
        Figure("no_budget_round_us", unlimited, "µs of CPU", target=2),
        Figure("budget_round_us", cost, "µs of CPU", target=200),
        Figure("budget_commits", commits, "commits more a round", target=1),
    ]


async def _without_limits(budgets: Budgets) -> float:
    """Microseconds that a round is slower where budgets could be, and none is set."""
    nowhere: Any = _Nowhere()
    bare, log = StoredLog(nowhere, OPERATOR.owner), StoredLog(nowhere, OPERATOR.owner, budgets=budgets)

    async def round_of(log: StoredLog) -> None:
        log.append("s", REPLY, 1)

    async def turn() -> None:
        before = paying.set(Payer(OPERATOR.owner, "General", "s"))
        log.append("s", REPLY, 1)
        paying.reset(before)

    best = await best_cpu({"bare": lambda: round_of(bare), "ours": turn})
    return max(0.0, best["ours"] - best["bare"])


async def _with_limits(store: SqliteStore, budgets: Budgets) -> tuple[float, float]:
    """Microseconds that a round is slower with two limits, and how many more commits it has."""
    paid = BudgetedModel(_Instant(), budgets, PRICE, model_id="instant", options={})
    plain = StoredLog(store.conversations, OPERATOR.owner)
    logs = StoredLog(store.conversations, OPERATOR.owner, budgets=budgets)
    best, commits = {"bare": float("inf"), "paid": float("inf")}, {"bare": 0, "paid": 0}
    cases: tuple[tuple[str, Model, StoredLog], ...] = (("bare", _Instant(), plain), ("paid", paid, logs))
    for _ in range(SLICES):
        for name, model, log in cases:
            session = (await store.conversations.create(owner=OPERATOR.owner)).id
            paying.set(Payer(OPERATOR.owner, "General", session))
            before = store.database.commits
            best[name] = min(best[name], await _rounds(model, log, session))
            commits[name] = store.database.commits - before
    return (best["paid"] - best["bare"]) * 1e6, (commits["paid"] - commits["bare"]) / ROUNDS


async def _rounds(model: Model, log: StoredLog, session: str) -> float:
    """CPU seconds of one round: the model is asked, its reply is stored."""
    projection = model.projection()
    length, spent = 0, 0.0
    for _ in range(ROUNDS):
        asked = UserMessage((Text("go"),))
        projection.append(asked)
        storing = log.append(session, asked, length)
        assert storing is not None
        await storing
        began = time.process_time()
        async for event in model.reply(projection, ()):
            assert isinstance(event, Replied)
        storing = log.append(session, REPLY, length + 1)
        assert storing is not None
        await storing
        spent += time.process_time() - began
        projection.append(REPLY)
        length += 2
    return spent / ROUNDS
