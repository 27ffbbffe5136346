"""Settings that can be read, and not used: hooks that can't be made, models that do not exist (SPEC U4, M5)."""

from collections.abc import Iterable, Iterator

from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.models.choice import check_name


def check_settings(settings: Settings) -> None:
    """Raise `ConfigError`, with every reason, for settings with which no gateway starts."""
    if problems := [*_hook_problems(settings), *_model_problems((("model", settings.model),), settings)]:
        raise ConfigError("\n".join(["The settings can't be used:", *(f"- {problem}" for problem in problems)]))


def agent_problems(settings: Settings) -> list[str]:
    """Return a sentence for each agent of the settings whose model does not exist: the others can be used."""
    named = ((f"agents.{name}.model", agent.model) for name, agent in settings.agents.items())
    return list(_model_problems(named, settings))


def _hook_problems(settings: Settings) -> list[str]:
    if not (settings.hooks.enabled and settings.hooks.chain):
        return []
    from handspan.engine.builtin_hooks import check_hooks  # noqa: PLC0415 - most have no hooks, and start-up counts

    return check_hooks(settings.hooks.chain)


def _model_problems(named: Iterable[tuple[str, str]], settings: Settings) -> Iterator[str]:
    for setting, model in named:
        try:
            if model:
                check_name(model, settings, setting)
        except ConfigError as error:
            yield str(error)
