"""What begins with `/` in a conversation: each command is a method, and its line in the table (SPEC U2)."""

import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from handspan.cli.chat.lines import END_WORDS, ChatNote
from handspan.cli.chat.terminal_chat import TerminalChat
from handspan.cli.files import write_new_file
from handspan.cli.names import Words, list_names
from handspan.cli.render import one_line, render_budgets, render_columns, render_time, render_usage, width_of
from handspan.cli.requests import AUTO, segment
from handspan.cli.session_text import export_text, find_session
from handspan.cli.wrapping import wrap_for
from handspan.core.errors import HandspanError
from handspan.core.names import did_you_mean
from handspan.core.values import strip_invisible
from handspan.wire.rest.budgets import BudgetList
from handspan.wire.rest.calls import UsageList
from handspan.wire.rest.models import Models
from handspan.wire.rest.sessions import (
    OF_PEOPLE,
    ChosenVersion,
    CompactedSession,
    ContextView,
    SessionList,
    UndoneTurn,
    VersionList,
)
from handspan.wire.rest.skills import SessionSkills, SkillList
from handspan.wire.rest.tools import Why

_IS_COMMAND: Final = re.compile(r"/[A-Za-z_][A-Za-z0-9_-]*")
"""A path has another `/`, so it is part of a message."""
_MOST_SESSIONS: Final = 10
_MARGIN: Final = 2
"""Columns before the answer to a command."""


_OTHER_NAMES: Final = {"/skill": "/skills", "/session": "/sessions", "/exit": "/quit"}
_KEYS: Final = (
    "Ctrl-C aborts the answer, not the program.",
    "A message that begins with a space is sent as it is.",
)


class SlashCommands:
    """Answers commands. Everything else is a message."""

    def __init__(self, talk: TerminalChat) -> None:
        self._talk = talk
        self._listed: list[str] = []
        """The ids of the sessions that were listed last, for their numbers."""
        self._branches: list[int] = []
        """The same of versions."""

    async def answer(self, line: str) -> bool:
        """Answer what the person typed. Return False when the person ends the conversation."""
        name, _, argument = line.strip().partition(" ")
        name = _OTHER_NAMES.get(name, name)
        command = COMMANDS.get(name)
        try:
            if command is not None:
                if command.run is None:
                    return False
                for text in await command.run(self, argument.strip()):
                    self._note(f"{' ' * _MARGIN}{text}")
            elif line.startswith("/") and _IS_COMMAND.fullmatch(name) and not await self._is_tool(name[1:]):
                hint = did_you_mean(name, COMMANDS) or " /help lists them."
                self._note(f"(There is no command {name!r}.{hint} To send it as it is, begin with a space.)")
            elif line.strip():
                await self._talk.say(line.strip())
        except HandspanError as error:
            self._note(f"({error})")
        return True

    def note_aborted(self) -> None:
        """Say that a command was aborted."""
        self._note(END_WORDS["aborted"])

    def _note(self, text: str) -> None:
        self._talk.show(ChatNote(text))

    async def names(self, kind: str) -> Words:
        """Return the names of this kind, each with a few words, for completion."""
        if kind == "tools":
            return [(tool.name, tool.description) for tool in (await self._talk.skills()).tools]
        found = await list_names(self._talk.requests, kind)
        return [(AUTO, "forget the choice"), ("offline", ""), *found] if kind == "models" else found

    async def _is_tool(self, name: str) -> bool:
        return any(tool.name == name for tool in (await self._talk.skills()).tools)

    # The commands.

    async def new(self, argument: str) -> Sequence[str]:
        await self._talk.enter("", argument or self._talk.named_agent)
        return [f"session {self._talk.session_id}, agent {self._talk.agent_name!r}"]

    async def sessions(self, argument: str) -> Sequence[str]:
        """List the last sessions, or go to the one with this number or id."""
        requests = self._talk.requests
        if argument:
            is_number = argument.isdecimal() and 0 < int(argument) <= len(self._listed)
            found = await find_session(requests, self._listed[int(argument) - 1] if is_number else argument)
            await self._talk.enter(found.session_id, "")
            return [f"session {found.session_id}, agent {self._talk.agent_name!r}, {found.message_count} messages"]
        page = await requests.get("/api/sessions", SessionList, limit=str(_MOST_SESSIONS), kind=OF_PEOPLE)
        listed = page.sessions
        self._listed = [one.session_id for one in listed]
        rows = [
            (str(number), one.session_id, render_time(one.last_activity), one_line(strip_invisible(one.name)))
            for number, one in enumerate(listed, 1)
        ]
        return _render_table(rows) if rows else ["(none)"]

    async def agent(self, argument: str) -> Sequence[str]:
        if argument:
            await self._talk.enter(self._talk.session_id, argument)
            return [self._talk.agent_name]
        own, known = self._talk.agent_name, await self.names("agents")
        return _render_table(
            [("*" if name == own else "", name, one_line(strip_invisible(text))) for name, text in known]
        )

    async def model(self, argument: str) -> Sequence[str]:
        why = (await self._talk.choose_model(argument)).why
        if argument:
            return [why]
        known = (await self._talk.requests.get("/api/models", Models)).models
        return [why, f"/model NAME chooses another one for this chat: {', '.join([*known, 'VENDOR:MODEL'])}"]

    async def skills(self, argument: str) -> Sequence[str]:
        """List the skills, or switch one on; with `-` before its name, off."""
        requests, path = self._talk.requests, f"/api/sessions/{segment(self._talk.session_id)}/skills"
        if argument:
            name, is_on = argument.removeprefix("-").strip(), not argument.startswith("-")
            body = {"name": name, "on": is_on, "agent": self._talk.named_agent}
            on = (await requests.change("POST", path, SessionSkills, body)).skills
            return [f"on: {', '.join(on) or '(none)'}"]
        on = (await self._talk.skills()).skills
        known = (await requests.get("/api/skills", SkillList)).skills
        rows = [
            ("on " if one.name in on else "off", one.name, one_line(strip_invisible(one.description)))
            for one in known
            if one.enabled
        ]
        return _render_table(rows) if rows else ["(none)"]

    async def tools(self, _: str) -> Sequence[str]:
        tools = (await self._talk.skills()).tools
        return _render_table([(tool.name, one_line(tool.description)) for tool in tools]) if tools else ["(none)"]

    async def why(self, argument: str) -> Sequence[str]:
        if not argument:
            raise HandspanError("/why TOOL: name a tool; /tools lists those that can be used.")
        path = f"/api/tools/{segment(argument)}/why"
        answer = await self._talk.requests.get(path, Why, agent=self._talk.agent_name)
        head = f"The agent {answer.agent!r} {'can' if answer.usable else 'can not'} use {answer.tool!r}:"
        return [head, *_render_table([("yes" if reason.ok else "NO", reason.text) for reason in answer.reasons])]

    async def attach(self, argument: str) -> Sequence[str]:
        if not argument:
            return list(self._talk.attached_files()) or ["(none)"]
        return [await self._talk.attach(_path(argument))]

    async def retry(self, _: str) -> Sequence[str]:
        await self._talk.retry()
        return ()

    async def undo(self, _: str) -> Sequence[str]:
        path = f"/api/sessions/{segment(self._talk.session_id)}/undo"
        done = await self._talk.requests.change("POST", path, UndoneTurn)
        taken = "1 message" if done.removed == 1 else f"{done.removed} messages"
        return [f"{taken} taken back; /versions shows what was said. What tools did stays done."]

    async def versions(self, argument: str) -> Sequence[str]:
        """List the versions of this conversation, or go on with the one of this number."""
        requests, path = self._talk.requests, f"/api/sessions/{segment(self._talk.session_id)}/versions"
        if argument:
            if not argument.isdecimal() or not 0 < int(argument) <= len(self._branches):
                raise HandspanError("/versions NUMBER: say one of the list that /versions shows.")
            chosen = await requests.change("POST", f"{path}/{self._branches[int(argument) - 1]}", ChosenVersion)
            return [f"The conversation goes on with this version: {chosen.message_count} messages."]
        listed = (await requests.get(path, VersionList)).versions
        self._branches = [one.branch for one in listed]
        rows = [
            (
                str(number),
                "now" if one.left_at is None else f"left {render_time(one.left_at)}",
                f"after message {one.fork}" if one.fork else "from the beginning",
                f"messages: {one.length}",
                one_line(strip_invisible(one.text)),
            )
            for number, one in enumerate(listed, 1)
        ]
        return _render_table(rows) if rows else ["(none: you never went back)"]

    async def compact(self, argument: str) -> Sequence[str]:
        path = f"/api/sessions/{segment(self._talk.session_id)}/compact"
        done = await self._talk.requests.change("POST", path, CompactedSession, {"keep": argument})
        head = f"about {done.before:,} → {done.after:,} tokens; {done.summarized} messages are in the summary"
        if done.note and (done.after >= done.before or not done.summarized):
            return [done.note]
        return [head, *([done.note] if done.note else strip_invisible(done.summary).splitlines())]

    async def context(self, _: str) -> Sequence[str]:
        path = f"/api/sessions/{segment(self._talk.session_id)}/context"
        found = await self._talk.requests.get(path, ContextView)
        limit = f" of {found.limit:,} ({100 * found.used // found.limit} %)" if found.limit else ""
        parts = ("instructions", "tools", "summary", "history", "results")
        sizes = structs.asdict(found)
        rows = [(name, f"{sizes[name]:,}") for name in parts]
        return [f"about {found.used:,} tokens{limit}", *_render_table(rows)]

    async def details(self, _: str) -> Sequence[str]:
        show = self._talk.show
        show.is_detailed = not show.is_detailed
        return ["calls with arguments and results" if show.is_detailed else "calls as one line"]

    async def export(self, argument: str) -> Sequence[str]:
        file = _path(argument or f"session-{self._talk.session_id[:8]}.md")
        text = await export_text(self._talk.requests, self._talk.session_id, as_json=file.suffix == ".json")
        write_new_file(file, text.encode())
        return [f"written to {str(file.absolute())!r}"]

    async def usage(self, _: str) -> Sequence[str]:
        session = self._talk.session_id
        used = await self._talk.requests.get("/api/usage", UsageList, by="model", session=session)
        return render_usage(used.usage)

    async def budget(self, argument: str) -> Sequence[str]:
        """Return what is spent and left of each budget, after adding the amount to that for all, if there is one."""
        requests = self._talk.requests
        if not argument:
            return render_budgets(await requests.get("/api/budgets", BudgetList)) or ["(there is no budget)"]
        try:
            dollars = float(argument.removeprefix("$"))
        except ValueError:
            raise HandspanError("/budget DOLLARS: say how much to add today, as /budget 2.") from None
        return render_budgets(await requests.change("POST", "/api/budgets/add", BudgetList, {"dollars": dollars}))

    async def help(self, _: str) -> Sequence[str]:
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


class SlashCommand(Struct, frozen=True):
    """A command, with its words in help and completion."""

    run: Callable[[SlashCommands, str], Awaitable[Sequence[str]]] | None
    """None: it ends the conversation."""
    arguments: str
    help: str
    completes: str = ""
    """The kind of names that complete the argument."""


COMMANDS: Final = {
    "/new": SlashCommand(SlashCommands.new, "[AGENT]", "begin another session", "agents"),
    "/sessions": SlashCommand(
        SlashCommands.sessions, "[ID]", "list sessions; with an id or a number of the list, go on with it", "sessions"
    ),
    "/agent": SlashCommand(
        SlashCommands.agent, "[NAME]", "which agent answers; with a name, let that one go on", "agents"
    ),
    "/model": SlashCommand(
        SlashCommands.model,
        "[NAME]",
        "which model answers; with a name, let that one answer in this chat; auto: the agent's own",
        "models",
    ),
    "/skills": SlashCommand(
        SlashCommands.skills, "[NAME]", "list skills; with a name, switch that one on, with -NAME off", "skills"
    ),
    "/tools": SlashCommand(SlashCommands.tools, "", "what tools this agent may use"),
    "/why": SlashCommand(SlashCommands.why, "TOOL", "why this agent can or can't use a tool", "tools"),
    "/attach": SlashCommand(
        SlashCommands.attach, "[FILE]", "send a file with your next message; without one, list those that wait", "files"
    ),
    "/retry": SlashCommand(SlashCommands.retry, "", "let the agent answer your last message again"),
    "/undo": SlashCommand(SlashCommands.undo, "", "take back your last message and its answer; /versions leads back"),
    "/versions": SlashCommand(
        SlashCommands.versions, "[NUMBER]", "list what you went back from; with a number of the list, go on with that"
    ),
    "/compact": SlashCommand(
        SlashCommands.compact, "[WORDS]", "let the model see a summary of older messages; say what has to be in it"
    ),
    "/context": SlashCommand(SlashCommands.context, "", "how much of what the model can read is used, and for what"),
    "/details": SlashCommand(
        SlashCommands.details, "", "show arguments, results and thinking, or calls as one line again"
    ),
    "/export": SlashCommand(
        SlashCommands.export, "[FILE]", "write the session to a file: Markdown, or JSON for *.json", "files"
    ),
    "/usage": SlashCommand(SlashCommands.usage, "", "what this conversation used"),
    "/budget": SlashCommand(
        SlashCommands.budget, "[DOLLARS]", "what is spent and left; with an amount, add that to the budget for today"
    ),
    "/help": SlashCommand(SlashCommands.help, "", "this"),
    "/quit": SlashCommand(None, "", "the end (so is Ctrl-D)"),
}
