"""`handspan completion`: what a shell needs to complete commands; and the names that commands complete (SPEC U2)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from handspan.cli.door import ask_gateway
from handspan.cli.render import one_line
from handspan.cli.requests import Requests
from handspan.core.errors import HandspanError
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.artifacts import ArtifactList
from handspan.wire.rest.devices import DeviceList
from handspan.wire.rest.models import Models
from handspan.wire.rest.questions import QuestionList, RuleList
from handspan.wire.rest.sessions import SessionList
from handspan.wire.rest.skills import SkillList
from handspan.wire.rest.tools import ToolList

_VARIABLE: Final = "_HANDSPAN_COMPLETE"
"""The variable with which a shell asks the command for completions."""
_INSTALL: Final = {
    "bash": 'add to ~/.bashrc:  eval "$(handspan completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit:  eval "$(handspan completion zsh)"',
    "fish": "handspan completion fish > ~/.config/fish/completions/handspan.fish",
}
Words: TypeAlias = Iterable[tuple[str, str]]
"""Names, each with a few words about it."""


class WholeFish(FishComplete):
    """click's script for fish, which splits each line at its first comma only: descriptions have commas, too."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


_SHELLS: Final[Mapping[str, type[ShellComplete]]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": WholeFish}


@click.command("completion", epilog=f"\b\n{chr(10).join(f'{shell}: {how}' for shell, how in _INSTALL.items())}")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that lets your SHELL complete commands, options, tools, agents, sessions and more."""
    click.echo(_SHELLS[shell](ctx.find_root().command, {}, "handspan", _VARIABLE).source())


def complete(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the names of this kind that begin with `incomplete`. Prints nothing: a shell would show it."""
    try:
        with ctx.scope(cleanup=False):
            words = ask_gateway(NAMES[kind], says=False)
    except (HandspanError, click.ClickException):
        return []
    return [CompletionItem(name, help=one_line(text)) for name, text in words if name.startswith(incomplete)]


async def _list_tools(requests: Requests) -> Words:
    return [(tool.name, tool.description) for tool in (await requests.get("/api/tools", ToolList)).tools]


async def _list_agents(requests: Requests) -> Words:
    return [(agent.name, agent.description) for agent in (await requests.get("/api/agents", AgentList)).agents]


async def _list_sessions(requests: Requests) -> Words:
    """Return the sessions that were active last, and the word for the last of them."""
    listed = (await requests.get("/api/sessions", SessionList, limit="50")).sessions
    return [("last", "the one that was active last"), *((one.session_id, one.name) for one in listed)]


async def _list_models(requests: Requests) -> Words:
    """Return the models that the gateway knows by name."""
    models = (await requests.get("/api/models", Models)).models
    return [("offline", "a stand-in that needs no key"), *((name, "") for name in models)]


async def _list_skills(requests: Requests) -> Words:
    return [(skill.name, skill.description) for skill in (await requests.get("/api/skills", SkillList)).skills]


async def _list_devices(requests: Requests) -> Words:
    return [(one.label, one.name) for one in (await requests.get("/api/devices", DeviceList)).devices]


async def _list_questions(requests: Requests) -> Words:
    return [(one.id, one.subject) for one in (await requests.get("/api/questions", QuestionList)).questions]


async def _list_rules(requests: Requests) -> Words:
    return [(one.tool, one.answer) for one in (await requests.get("/api/rules", RuleList)).rules]


async def _list_artifacts(requests: Requests) -> Words:
    return [(one.id, one.name) for one in (await requests.get("/api/artifacts", ArtifactList)).artifacts]


NAMES: Final[Mapping[str, Callable[[Requests], Awaitable[Words]]]] = {
    "tools": _list_tools,
    "agents": _list_agents,
    "sessions": _list_sessions,
    "models": _list_models,
    "skills": _list_skills,
    "devices": _list_devices,
    "questions": _list_questions,
    "rules": _list_rules,
    "artifacts": _list_artifacts,
}
"""What can be completed, by kind."""
