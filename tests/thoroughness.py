"""How thorough the suite is, by TESTS_PROFILE: `quick`, `fast` in `make test`, `deep` in `make chaos`."""

import os
from typing import Final

from hypothesis import HealthCheck, settings

_PROFILE: Final = os.environ.get("TESTS_PROFILE", "fast")
IS_DEEP: Final = _PROFILE == "deep"
IS_QUICK: Final = _PROFILE == "quick"


def examples(usual: int) -> int:
    """How many examples a property is tried with: a quarter of the usual number, ten times as many, or a twentieth."""
    return usual * 10 if IS_DEEP else max(usual // (20 if IS_QUICK else 4), 1)


def share(whole: int) -> int:
    """How much of a flood or of an attack by size there is: a tenth, or the whole."""
    return whole if IS_DEEP else max(whole // 10, 1)


def repeats(whole: int) -> int:
    """How often something is tried that chance decides, as where a kill strikes: a third, or the whole."""
    return whole if IS_DEEP else max(whole // 3, 1)


def choose_profile() -> None:
    """Let Hypothesis work so. It fails nothing for being slow: a busy machine is no fault of the code.

    `quick` and `fast` try the same examples each time, so that a failure is the fault of a change. `deep` always tries
    new ones.
    """
    settings.register_profile(
        _PROFILE,
        max_examples=examples(100),
        derandomize=not IS_DEEP,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(_PROFILE)
