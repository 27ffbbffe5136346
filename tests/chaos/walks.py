"""Random walks of the state machine: in this process with restarts in order, and in another one that is killed."""

from collections import Counter
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test
from msgspec import Struct

from tests.chaos.figures import Figure, none_of
from tests.chaos.machine import KilledWire, Wire


class Scale(Struct, frozen=True):
    """How much of it."""

    walks: int = 100
    killed_walks: int = 25
    steps: int = 40


SHORT: Final = Scale(5, 1, 12)
_MOST_SHOWN: Final = 2
"""Problems. Hypothesis breaks a promise many times while it looks for the shortest walk."""


def walks(_: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of all walks. What broke a promise is shown as it came, and as the shortest walk that breaks it."""
    return [
        *walk(Wire, scale.walks, scale.steps, seed),
        *walk(KilledWire, scale.killed_walks, scale.steps, seed),
    ]


def walk(machine: type[Wire], count: int, steps: int, seed: int) -> list[Figure]:
    """The figures of so many walks of one machine."""
    happened: Counter[str] = Counter()
    problems: list[str] = []
    walker = seeded(seed)(type(f"Seeded{machine.__name__}", (machine,), {"happened": happened, "broken": problems}))
    try:
        run_state_machine_as_test(walker, settings=_settings(count, steps))
    except Exception as error:  # whatever it is, it is what we look for
        notes = "\n".join(getattr(error, "__notes__", ()))
        problems[_MOST_SHOWN:] = [f"{type(error).__name__}: {error}\n{notes}"]
    name = machine.__name__
    return [
        *(Figure(f"{name}: {what}", number) for what, number in sorted(happened.items())),
        Figure(f"{name}: walks", count),
        none_of(f"{name}: broken promises", problems),
    ]


def _settings(count: int, steps: int) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
