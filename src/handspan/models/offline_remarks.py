"""What the offline model says when it does not call a tool: small talk, questions, and what it can do."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from handspan.models.offline_arguments import Filled
from handspan.models.offline_picking import Picked
from handspan.models.offline_steps import Task
from handspan.models.offline_tools import KnownTool, Slot

ASKING: Final = "I still need to know"
"""In every question of ours: the next message is read as an answer to it."""

_MOST_EXAMPLES: Final = 8
_EXAMPLES: Final = {
    "get_current_time": "What time is it in Tokyo?",
    "list_directory": "list the files here",
    "write_file": "write 'hello' to notes.txt then read notes.txt",
    "read_file": "read notes.txt",
    "exec_shell": "run `ls -la`",
    "web_fetch": "fetch https://example.com",
    "memory_write": "remember that my cat is called Tom",
    "memory_read": "what do you remember about my cat?",
    "device_info": "take the device info",
    "camera": "take a photo",
}
_GREETING: Final = (
    r"(?i)^\W*(?:hi|hello|hey|hallo|moin|servus|greetings|good (?:morning|day|evening|afternoon)"
    r"|guten (?:tag|morgen|abend))(?:\s+(?:there|you|everyone|friend|handspan|all|zusammen))?\W*$"
)
_HELP: Final = (
    r"(?i)^\W*(?:/?help|hilfe|\?+|help me|who are you|what are you|how do(?:es)? (?:this|it) work"
    r"|what can (?:you|i) do(?: here)?|what can you do for me|was kannst du|wer bist du"
    r"|(?:what|which) tools (?:do you have|are there|can you use)"
    r"|(?:list|show)(?: me)?(?: all)?(?: your| the)? tools)\W*$"
)
_THANKS: Final = (
    r"(?i)^\W*(?:thanks|thank you|many thanks|thx|danke|vielen dank|cheers)"
    r"(?:[\s,]+(?:a lot|so much|very much|you|schön|sehr|bye|then|for (?:that|your help)))?\W*$"
)
_FINE: Final = r"(?i)^\W*(?:great|nice|cool|ok|okay|perfect|good|yes|no|bye|goodbye|never mind)\W*$"
_ABOUT_A_TOOL: Final = r"(?i)^\W*(?:what (?:is|does)|how (?:do|can|does|to)|explain|describe|help|was (?:ist|macht))\b"
_NAME: Final = r"\w[\w-]*"
_HOW_ARE_YOU: Final = r"(?i)^\W*(?:how are you|how do you do|wie geht(?:'s| es dir))\b[\w ]{0,20}\W*$"


def small_talk(text: str, tools: Sequence[KnownTool], *, has_media: bool) -> str:
    """An answer to what is no request for a tool; empty when it is one."""
    if not text.strip():
        return "I can't look at pictures or files; tell me in words what to do." if has_media else _what_i_can_do(tools)
    if re.match(_HELP, text):
        return _what_i_can_do(tools)
    if re.match(_GREETING, text):
        return f"Hello! {_what_i_can_do(tools)}"
    if re.match(_HOW_ARE_YOU, text):
        return f"All my rules are in place, thank you. {_what_i_can_do(tools)}"
    if re.match(_THANKS, text):
        return "You are welcome."
    return "All right." if re.match(_FINE, text) else ""


def about_a_tool(text: str, tools: Sequence[KnownTool]) -> str:
    """What a tool is for, when that is the question; empty when it is not."""
    if not re.match(_ABOUT_A_TOOL, text):
        return ""
    said = set(re.findall(_NAME, text.casefold()))
    for tool in tools:
        if said & {tool.name.casefold(), tool.own_name.casefold()}:
            slots = [f"- {slot.name}{'' if slot.is_required else ' (optional)'}: {_told(slot)}" for slot in tool.slots]
            return "\n".join([f"{tool.name}: {_short(tool.spec.description)}", *slots, _form(tool)])
    return ""


def nothing_fits(text: str, tools: Sequence[KnownTool]) -> str:
    """That no tool is for this, and what the tools at hand are for."""
    return f"I found no tool that does {_short(text)!r}. {_what_i_can_do(tools)}"


def remark_on(task: Task, filled: Filled | None) -> str:
    """Why this task can't be done as it is; empty when it can."""
    if task.picked is None or filled is None:
        return task.unknown or f"I found no tool that does {_short(task.clause.source)!r}."
    if task.picked.others:
        return _which(task.picked)
    if filled.missing:
        return _ask(task.picked.tool, filled.missing)
    if filled.problems:
        name = task.picked.tool.name
        return f"I can't call {name} like that: {'; '.join(filled.problems).rstrip('.')}\n{_form(task.picked.tool)}"
    return ""


def _which(picked: Picked) -> str:
    names = [picked.tool.name, *(tool.name for tool in picked.others[:_MOST_EXAMPLES])]
    return f"{ASKING} which one you mean: {' or '.join(names)}?"


def _ask(tool: KnownTool, missing: Sequence[Slot]) -> str:
    wanted = "; ".join(f"{slot.name}{f' ({_told(slot)})' if _told(slot) else ''}" for slot in missing)
    hint = " I run only what is clearly a command: put it in `backticks`." if missing[0].kind == "command" else ""
    return f"For {tool.name} {ASKING}: {wanted}.{hint} {_form(tool)}"


def _told(slot: Slot) -> str:
    choices = f"one of {', '.join(slot.choices)}" if slot.kind == "choice" else ""
    return choices or slot.description[:120].rstrip(". ")


def _form(tool: KnownTool) -> str:
    """How to call it by hand."""
    values = {slot.name: slot.choices[0] if slot.choices else "…" for slot in tool.required}
    return f"By hand: /{tool.name} {msgspec.json.encode(values).decode()}"


def _what_i_can_do(tools: Sequence[KnownTool]) -> str:
    if not tools:
        return "There is no tool at hand, so I can do nothing."
    known = [example for name, example in _EXAMPLES.items() if any(tool.own_name == name for tool in tools)]
    others = [f"/{tool.name} – {_short(tool.spec.description)}" for tool in tools if tool.own_name not in _EXAMPLES]
    half = max(_MOST_EXAMPLES - len(others), _MOST_EXAMPLES // 2)
    shown = [*known[:half], *others[: _MOST_EXAMPLES - len(known[:half])]]
    count = f"{len(tools)} tool{'s' if len(tools) != 1 else ''}"
    lines = "\n".join(f"- {line}" for line in shown)
    return (
        f"I have {count}; try for example:\n{lines}\nAny tool can be called by hand: /name {{json}} or /name key=value."
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"
