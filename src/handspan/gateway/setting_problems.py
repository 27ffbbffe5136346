"""Settings that can be read, and not used: hooks, models, keys and folders that are not to be had (SPEC U4, M5)."""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.models.choice import check_name, choose
from handspan.models.vendors import Environ
from handspan.net.guard import NetGuard


def check_settings(settings: Settings) -> None:
    """Raise `ConfigError`, with every reason, for settings with which no gateway starts."""
    if problems := [*_hook_problems(settings), *_model_problems((("model", settings.model),), settings)]:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {problem}" for problem in problems)]))


def agent_problems(settings: Settings, environ: Environ) -> list[str]:
    """Return a sentence for each agent of the settings whose model does not exist or has no key in `environ`.

    The other agents can be used.
    """
    return list(_model_problems(_models_of_agents(settings), settings, environ))


def find_problems(settings: Settings, environ: Environ) -> list[str]:
    """Return a sentence for each reason why a gateway would not start here, or an agent of the settings not answer.

    Keys are looked for in `environ`. The folders are tried, and left as they are.
    """
    model = ("model", settings.model or next(iter(settings.models), ""))
    problems = [*_hook_problems(settings), *_model_problems([model], settings, environ)]
    problems += agent_problems(settings, environ)
    for setting, folder in (("state", settings.state), ("workspace", settings.workspace)):
        if reason := _find_folder_problem(folder):
            problems.append(f"{setting}: {str(folder)!r} can't be used: {reason}. Set another folder.")
    return problems


def _models_of_agents(settings: Settings) -> Iterator[tuple[str, str]]:
    return ((f"agents.{name}.model", agent.model) for name, agent in settings.agents.items())


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
                    choose(settings, NetGuard(settings.tools.url_policy), environ, model)
        except ConfigError as error:
            text = str(error)
            yield text if text.startswith((f"{setting}:", "models.")) else f"{setting}: {text.removeprefix('model: ')}"


def _find_folder_problem(folder: Path) -> str:
    """Return why this folder can't be made or written; empty: it can."""
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".handspan-", dir=there):
            return ""
    except OSError as error:
        return error.strerror or str(error)
