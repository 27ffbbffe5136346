"""Settings without effect: patterns that match no tool (SPEC R7, R9)."""

from collections.abc import Iterable, Iterator

from handspan.config.settings import Settings
from handspan.core.names import SEPARATOR, did_you_mean, matches

_WITH_A_TURN = ("use_skill",)
"""Tools that are only there while a turn runs."""


def setting_notes(settings: Settings, tools: Iterable[str]) -> list[str]:
    """Return one sentence for each setting without effect. `tools`: the names of the tools that are there now."""
    known = sorted({*tools, *_WITH_A_TURN})
    return [
        _describe(setting, pattern, known) for setting, pattern in _patterns(settings) if _has_no_effect(pattern, known)
    ]


def _patterns(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield every pattern of tool names in the settings, with the setting that has it."""
    tools = settings.tools
    yield from (("tools.disabled", pattern) for pattern in tools.disabled)
    yield from (("tools.timeouts", pattern) for pattern in tools.timeouts)
    yield from (("tools.allow_shadowing", name) for name in tools.allow_shadowing)
    for name, agent in settings.agents.items():
        yield from ((f"agents.{name}.tools", pattern) for pattern in agent.tools or ())
        yield from ((f"agents.{name}.deny", pattern) for pattern in agent.deny)


def _has_no_effect(pattern: str, known: list[str]) -> bool:
    """Whether the pattern matches nothing. Names with `__` are those of devices and servers, which come and go."""
    if pattern.startswith("origin:") or SEPARATOR in pattern:
        return False
    return not any(matches(pattern, name) for name in known)


def _describe(setting: str, pattern: str, known: list[str]) -> str:
    return (
        f"{setting}: {pattern!r} matches no tool that is here now.{did_you_mean(pattern, known)} "
        "(Tools of clients count while they are connected.)"
    )
