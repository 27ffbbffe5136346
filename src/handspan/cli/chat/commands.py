"""What begins with `/` in a conversation: each command is a method, and its line in the table (SPEC U2)."""

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from handspan.cli.chat.lines import END_WORDS, Show
from handspan.cli.files import write_new_file
from handspan.cli.render import one_line, render_columns, render_time, render_usage, width_of
from handspan.cli.requests import AUTO, Requests, segment
from handspan.cli.session_text import export_text, find_session, load_document
from handspan.cli.wrapping import wrap_for
from handspan.core.errors import HandspanError
from handspan.core.events import Ended
from handspan.core.names import did_you_mean
from handspan.core.values import strip_invisible
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.calls import UsageList
from handspan.wire.rest.models import ChosenModel, Models
from handspan.wire.rest.sessions import SessionList, UndoneTurn
from handspan.wire.rest.skills import SessionSkills, SkillList
from handspan.wire.rest.tools import Why

_IS_COMMAND: Final = re.compile(r"/[A-Za-z_][A-Za-z0-9_-]*")
"""A path has another `/`, so it is part of a message."""
_MOST_SESSIONS: Final = 10
_MARGIN: Final = 2
"""Columns before the answer to a command."""


class SlashCommand(Struct, frozen=True):
    """A command in help and completion."""

    arguments: str
    help: str
    completes: str = ""
    """The kind of names that complete the argument."""


COMMANDS: Final = {
    "/new": SlashCommand("[AGENT]", "begin another session", "agents"),
    "/sessions": SlashCommand("[ID]", "list sessions; with an id or a number of the list, go on with it", "sessions"),
    "/agent": SlashCommand("[NAME]", "which agent answers; with a name, let that one go on", "agents"),
    "/model": SlashCommand(
        "[NAME]", "which model answers; with a name, let agents without their own use it; auto: as by default", "models"
    ),
    "/skills": SlashCommand("[NAME]", "list skills; with a name, switch that one on, with -NAME off", "skills"),
    "/tools": SlashCommand("", "what tools this agent may use"),
    "/why": SlashCommand("TOOL", "why this agent can or can't use a tool", "tools"),
    "/attach": SlashCommand("[FILE]", "send a file with your next message; without one, list those that wait", "files"),
    "/retry": SlashCommand("", "let the agent answer your last message again"),
    "/undo": SlashCommand("", "remove your last message and its answer; what tools did stays done"),
    "/details": SlashCommand("", "show arguments, results and thinking, or calls as one line again"),
    "/export": SlashCommand("[FILE]", "write the session to a file: Markdown, or JSON for *.json", "files"),
    "/usage": SlashCommand("", "what this conversation used"),
    "/help": SlashCommand("", "this"),
    "/quit": SlashCommand("", "the end (so is Ctrl-D)"),
}
_ENDS: Final = ("/quit", "/exit")
_OTHER_NAMES: Final = {"/skill": "/skills", "/session": "/sessions", "/exit": "/quit"}
_KEYS: Final = (
    "Ctrl-C aborts the answer, not the program.",
    "A message that begins with a space is sent as it is.",
)


class Partner(Protocol):
    """The conversation that commands look at and change."""

    requests: Requests
    show: Show
    session_id: str
    named_agent: str
    """The agent that the person named; empty: the session's own."""

    @property
    def agent_name(self) -> str:
        """The agent that answers."""
        ...

    async def say(self, text: str) -> Ended:
        """Run one turn and return its end. Ctrl-C aborts the turn alone."""
        ...

    async def retry(self) -> Ended:
        """Let the model answer the last message again."""
        ...

    async def enter(self, session_id: str, agent: str) -> None:
        """Go on with this session, or begin a new one, with this agent or the session's own."""
        ...

    async def choose_model(self, name: str) -> ChosenModel:
        """Choose this model, if one is named, and return the model that answers."""
        ...

    async def skills(self) -> SessionSkills:
        """Return the skills that are on, and the tools that the agent may use."""
        ...

    async def attach(self, path: Path) -> str:
        """Take a file for the next message, and return a line about it."""
        ...

    def attached(self) -> Sequence[str]:
        """Return the names of the files for the next message."""
        ...


class SlashCommands:
    """Answers commands. Everything else is a message."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner
        self._listed: list[str] = []
        """The ids of the sessions that were listed last, for their numbers."""
        self._methods: dict[str, Callable[[str], Awaitable[Sequence[str]]]] = {
            "/new": self._new,
            "/sessions": self._sessions,
            "/agent": self._agent,
            "/model": self._model,
            "/skills": self._skills,
            "/tools": self._tools,
            "/why": self._why,
            "/attach": self._attach,
            "/retry": self._retry,
            "/undo": self._undo,
            "/details": self._details,
            "/export": self._export,
            "/usage": self._usage,
            "/help": self._help,
        }

    async def answer(self, line: str) -> bool:
        """Answer what the person typed. Return False when the person ends the conversation."""
        name, _, argument = line.strip().partition(" ")
        name = _OTHER_NAMES.get(name, name)
        if name in _ENDS:
            return False
        try:
            if name in self._methods:
                for text in await self._methods[name](argument.strip()):
                    self._partner.show.note(f"{' ' * _MARGIN}{text}")
            elif line.startswith("/") and _IS_COMMAND.fullmatch(name) and not await self._is_tool(name[1:]):
                hint = did_you_mean(name, COMMANDS) or " /help lists them."
                self._partner.show.note(
                    f"(There is no command {name!r}.{hint} To send it as it is, begin with a space.)"
                )
            elif line.strip():
                await self._partner.say(line.strip())
        except HandspanError as error:
            self._partner.show.note(f"({error})")
        return True

    def note_aborted(self) -> None:
        """Say that a command was aborted."""
        self._partner.show.note(END_WORDS["aborted"])

    async def names(self, kind: str) -> Sequence[tuple[str, str]]:
        """Return the names of this kind, each with a few words, for completion."""
        requests = self._partner.requests
        match kind:
            case "tools":
                return [(tool.name, tool.description) for tool in (await self._partner.skills()).tools]
            case "agents":
                return [(one.name, one.description) for one in (await requests.get("/api/agents", AgentList)).agents]
            case "sessions":
                listed = (await requests.get("/api/sessions", SessionList, limit="50")).sessions
                return [(one.session_id, one.name) for one in listed]
            case "models":
                return [
                    (AUTO, "forget the choice"),
                    ("offline", ""),
                    *((name, "") for name in (await requests.get("/api/models", Models)).models),
                ]
            case "skills":
                return [(one.name, one.description) for one in (await requests.get("/api/skills", SkillList)).skills]
            case _:
                return []

    async def _is_tool(self, name: str) -> bool:
        return any(tool.name == name for tool in (await self._partner.skills()).tools)

    # The commands.

    async def _new(self, argument: str) -> Sequence[str]:
        await self._partner.enter("", argument or self._partner.named_agent)
        return [f"session {self._partner.session_id}, agent {self._partner.agent_name!r}"]

    async def _sessions(self, argument: str) -> Sequence[str]:
        requests = self._partner.requests
        if argument:
            is_number = argument.isdecimal() and 0 < int(argument) <= len(self._listed)
            found = await find_session(requests, self._listed[int(argument) - 1] if is_number else argument)
            await self._partner.enter(found.session_id, "")
            return [f"session {found.session_id}, agent {self._partner.agent_name!r}, {found.message_count} messages"]
        listed = (await requests.get("/api/sessions", SessionList, limit=str(_MOST_SESSIONS))).sessions
        self._listed = [one.session_id for one in listed]
        rows = [
            (str(number), one.session_id, render_time(one.last_activity), one_line(strip_invisible(one.name)))
            for number, one in enumerate(listed, 1)
        ]
        return _render_table(rows) if rows else ["(none)"]

    async def _agent(self, argument: str) -> Sequence[str]:
        if argument:
            await self._partner.enter(self._partner.session_id, argument)
            return [self._partner.agent_name]
        own, known = self._partner.agent_name, await self.names("agents")
        return _render_table(
            [("*" if name == own else "", name, one_line(strip_invisible(text))) for name, text in known]
        )

    async def _model(self, argument: str) -> Sequence[str]:
        return [(await self._partner.choose_model(argument)).why]

    async def _skills(self, argument: str) -> Sequence[str]:
        requests, path = self._partner.requests, f"/api/sessions/{segment(self._partner.session_id)}/skills"
        if argument:
            name, is_on = argument.removeprefix("-").strip(), not argument.startswith("-")
            body = {"name": name, "on": is_on, "agent": self._partner.named_agent}
            on = (await requests.change("POST", path, SessionSkills, body)).skills
            return [f"on: {', '.join(on) or '(none)'}"]
        on = (await self._partner.skills()).skills
        known = (await requests.get("/api/skills", SkillList)).skills
        rows = [
            ("on " if one.name in on else "off", one.name, one_line(strip_invisible(one.description)))
            for one in known
            if one.enabled
        ]
        return _render_table(rows) if rows else ["(none)"]

    async def _tools(self, _: str) -> Sequence[str]:
        tools = (await self._partner.skills()).tools
        return _render_table([(tool.name, one_line(tool.description)) for tool in tools]) if tools else ["(none)"]

    async def _why(self, argument: str) -> Sequence[str]:
        if not argument:
            raise HandspanError("/why TOOL: name a tool; /tools lists those that can be used.")
        path = f"/api/tools/{segment(argument)}/why"
        answer = await self._partner.requests.get(path, Why, agent=self._partner.agent_name)
        head = f"The agent {answer.agent!r} {'can' if answer.usable else 'can not'} use {answer.tool!r}:"
        return [head, *_render_table([("yes" if reason.ok else "NO", reason.text) for reason in answer.reasons])]

    async def _attach(self, argument: str) -> Sequence[str]:
        if not argument:
            return list(self._partner.attached()) or ["(none)"]
        return [await self._partner.attach(_path(argument))]

    async def _retry(self, _: str) -> Sequence[str]:
        await self._partner.retry()
        return ()

    async def _undo(self, _: str) -> Sequence[str]:
        path = f"/api/sessions/{segment(self._partner.session_id)}/undo"
        done = await self._partner.requests.change("POST", path, UndoneTurn)
        return [f"{done.removed} message{'' if done.removed == 1 else 's'} removed. What tools did stays done."]

    async def _details(self, _: str) -> Sequence[str]:
        show = self._partner.show
        show.is_detailed = not show.is_detailed
        return ["calls with arguments and results" if show.is_detailed else "calls as one line"]

    async def _export(self, argument: str) -> Sequence[str]:
        document = await load_document(self._partner.requests, self._partner.session_id)
        file = _path(argument or f"session-{self._partner.session_id[:8]}.md")
        write_new_file(file, export_text(document, as_json=file.suffix == ".json").encode())
        return [f"written to {str(file.absolute())!r}"]

    async def _usage(self, _: str) -> Sequence[str]:
        session = self._partner.session_id
        return render_usage(
            (await self._partner.requests.get("/api/usage", UsageList, by="model", session=session)).usage
        )

    async def _help(self, _: str) -> Sequence[str]:
        rows = [(f"{name} {one.arguments}".rstrip(), one.help) for name, one in COMMANDS.items()]
        return [*_render_table(rows), *_KEYS]


def _render_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table. At a terminal, long words of the last column go on below it."""
    lines = render_columns(rows)
    last = max(map(width_of, render_columns([row[:-1] for row in rows]))) + 2
    return [piece for line in lines for piece in wrap_for(sys.stdout, line, last, margin=_MARGIN).split("\n")]


def _path(typed: str) -> Path:
    """Return the path that a person typed, or dropped on the terminal, which may add quotes."""
    return Path(typed.strip("'\"").replace("\\ ", " ")).expanduser()
