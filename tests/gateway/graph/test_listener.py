"""Events of a run that have no message of their own, as updates (graph.md 7.4)."""

from typing import Any

from handspan.core.events import Compacted
from handspan.gateway.graph.listener import GraphListener
from handspan.gateway.runs.runs import RunPlace


class Updates:
    """Keeps the updates of a run."""

    streams = True

    def __init__(self) -> None:
        self.told: list[Any] = []

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """The run begins."""

    def message(self, message: Any, data: Any = None, metadata: Any = None) -> None:
        """No message comes here."""
        raise AssertionError(message)

    def update(self, data: Any) -> None:
        self.told.append(data)

    def question(self, data: Any) -> None:
        """Nobody is asked."""

    def end(self) -> None:
        """The run goes on."""


def test_a_context_that_has_become_shorter_is_an_update() -> None:
    updates, nobody = Updates(), object()
    listener = GraphListener(RunPlace("t", 0), nobody, updates, nobody)  # type: ignore[arg-type] # neither is asked for anything
    listener.on_event(Compacted(900, 400, 7, 3, "# Goal"), "turn")
    (told,) = updates.told
    assert (told["status"], told["node"]) == ("compacted", "MAIN")
    assert {key: told[key] for key in ("before", "after", "summarized", "summary")} == {
        "before": 900,
        "after": 400,
        "summarized": 3,
        "summary": "# Goal",
    }
