"""Settings that can be read, and not used: hooks, models, keys and folders that are not to be had (SPEC U4, M5).

And settings without effect: patterns that match no tool (SPEC R7, R9).
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from handspan.agent.budgets import check_zone
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.names import SEPARATOR, did_you_mean, matches
from handspan.models.choice import check_name, choose
from handspan.models.vendors import Environ
from handspan.net.guard import NetGuard

_WITH_A_TURN = ("use_skill",)
"""Tools that are only there while a turn runs."""


def check_settings(settings: Settings) -> None:
    """Raise `ConfigError`, with every reason, for settings with which no gateway starts."""
    named = [("model", settings.model), *_others_of_models(settings)]
    if problems := [*_hook_problems(settings), *_zone_problems(settings), *_model_problems(named, settings)]:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {problem}" for problem in problems)]))


def agent_problems(settings: Settings, environ: Environ) -> list[str]:
    """Return a sentence for each agent of the settings whose model does not exist or has no key in `environ`.

    The other agents can be used.
    """
    named = [(f"agents.{name}.model", agent.model) for name, agent in settings.agents.items()]
    named += [(f"agents.{name}.then", one) for name, agent in settings.agents.items() for one in agent.then or ()]
    return list(_model_problems([*named, *_others_of_models(settings)], settings, environ))


def find_problems(settings: Settings, environ: Environ) -> list[str]:
    """Return a sentence for each reason why a gateway would not start here, or an agent of the settings not answer.

    Keys are looked for in `environ`. The folders are tried, and left as they are.
    """
    model = ("model", settings.model or next(iter(settings.models), ""))
    problems = [*_hook_problems(settings), *_zone_problems(settings), *_model_problems([model], settings, environ)]
    problems += agent_problems(settings, environ)
    for setting, folder in (("state", settings.state), ("workspace", settings.workspace)):
        if reason := _find_folder_problem(folder):
            problems.append(f"{setting}: {str(folder)!r} can't be used: {reason}. Set another folder.")
    return problems


def _others_of_models(settings: Settings) -> list[tuple[str, str]]:
    """Return the models that answer in place of others, each with the setting that names it."""
    return [(f"models.{name}.then", other) for name, one in settings.models.items() for other in one.then]


def _zone_problems(settings: Settings) -> Iterator[str]:
    try:
        check_zone(settings)
    except ConfigError as error:
        yield str(error)


def _hook_problems(settings: Settings) -> list[str]:
    if not (settings.hooks.enabled and settings.hooks.chain):
        return []
    from handspan.engine.builtin_hooks import check_hooks  # noqa: PLC0415 - most have no hooks, and start-up counts

    return check_hooks(settings.hooks.chain)


def _model_problems(
    named: Iterable[tuple[str, str]], settings: Settings, environ: Environ | None = None
) -> Iterator[str]:
    """Yield why the models of these settings can't be had. Keys are looked for only if `environ` is given."""
    for setting, model in named:
        try:
            if model:
                check_name(model, settings, setting)
                if environ is not None:
                    # For its errors, such as a missing key: the model itself is not needed here.
                    choose(settings, NetGuard(settings.tools.url_policy), environ, model)
        except ConfigError as error:
            yield _begin_with_setting(setting, str(error))


def _begin_with_setting(setting: str, problem: str) -> str:
    """Return the problem with the setting that has it in front: `choose` says `model:` of an agent's model, too."""
    names_its_place = problem.startswith((f"{setting}:", "models."))
    return problem if names_its_place else f"{setting}: {problem.removeprefix('model: ')}"


def _find_folder_problem(folder: Path) -> str:
    """Return why this folder can't be made or written; empty: it can."""
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".handspan-", dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def setting_notes(settings: Settings, tools: Iterable[str]) -> list[str]:
    """Return one sentence for each setting without effect. `tools`: the names of the tools that are there now."""
    known = sorted({*tools, *_WITH_A_TURN})
    text = "{}: {!r} matches no tool that is here now.{} (Tools of clients count while they are connected.)"
    return [
        text.format(setting, pattern, did_you_mean(pattern, known))
        for setting, pattern in _patterns(settings)
        if _has_no_effect(pattern, known)
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
