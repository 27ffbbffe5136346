"""One word for one thing: class names that exist once, and words that no name or docstring of the product has.

`python -m tests.test_words` prints what stands against these rules now, in the form of the lists below.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Final

from tests.docs.repository import SOURCE, modules

METAPHORS: Final = frozenset(
    ("shower", "floor", "shelf", "ears", "boss", "leftover", "crowd", "house", "carrier", "interned")
)
"""Private metaphors, in the singular: no identifier, file or docstring has one as a word."""
PHRASES: Final = ("earlier life",)
"""The same of several words; for docstrings."""
OLD_NAMES: Final = frozenset(("Room", "Kept", "Places", "AnsweredCalls", "tell_of"))
"""Names that were replaced by plain ones, and whose words are good words elsewhere."""
OLD_FILES: Final = frozenset(("places", "kept", "shown", "plain"))
"""The same for modules; `plain_NAME` counts as `plain`."""
EMPTY_WORDS: Final = frozenset(
    ("manager", "handler", "service", "helper", "util", "factory", "executor", "common", "misc")
)
"""Words that say nothing: no name that we define has one. Names that libraries give may be used."""
GIVEN_NAMES: Final = frozenset(
    ("ToolHandler", "ToolExecutor", "ToolProvider", "tool_call_handler", "handler", "addHandler", "removeHandler")
)
"""Names that a protocol, a seed or the language gives."""

KNOWN_TWICE: Final[frozenset[str]] = frozenset(
    (
        "Accepted",
        "Alarm",
        "Answer",
        "Answered",
        "Answering",
        "Ask",
        "Asked",
        "Cancel",
        "Chat",
        "ChosenModel",
        "Client",
        "CommandPolicy",
        "Config",
        "Connection",
        "Consent",
        "Ended",
        "Entry",
        "Error",
        "Failed",
        "Failure",
        "Faults",
        "Form",
        "Found",
        "FunctionTool",
        "HttpRequest",
        "Job",
        "Kept",
        "Limits",
        "Link",
        "MadeToken",
        "Media",
        "Memory",
        "OpenCall",
        "Origin",
        "Part",
        "PathPrefix",
        "Peer",
        "Piece",
        "Place",
        "Pong",
        "Question",
        "RemoteCalls",
        "RemoteTool",
        "Request",
        "Root",
        "Rules",
        "Run",
        "Running",
        "Runs",
        "Sandbox",
        "Selection",
        "Server",
        "Shown",
        "ShownAgent",
        "Socket",
        "Stop",
        "Succeeded",
        "Success",
        "Talk",
        "Thinking",
        "Threads",
        "WebSearch",
        "Why",
    )
)
"""Class names that still exist more than once. The list may only shrink; delete it when it is empty."""
KNOWN_OFFENDERS: Final[dict[str, tuple[str, ...]]] = {
    "cli/agents.py": ("house",),
    "cli/embedded_agents.py": ("house",),
    "cli/main.py": ("house",),
    "cli/place.py": ("house",),
    "cli/shown.py": ("shown",),
    "client/carriers.py": ("carrier",),
    "client/client.py": ("Kept",),
    "client/connection.py": ("Kept",),
    "client/kept.py": ("Kept", "earlier life", "kept"),
    "client/memory.py": ("earlier life",),
    "client/running.py": ("boss", "carrier"),
    "client/ws.py": ("ears",),
    "core/errors.py": ("house",),
    "core/schema.py": ("house",),
    "engine/builtin_hooks.py": ("house",),
    "gateway/__init__.py": ("house",),
    "gateway/app.py": ("earlier life", "house"),
    "gateway/clients/leftovers.py": ("earlier life", "leftover"),
    "gateway/clients/peers.py": ("interned", "leftover"),
    "gateway/clients/ws.py": ("house",),
    "gateway/entry/auth.py": ("Places",),
    "gateway/entry/places.py": ("Places", "places"),
    "gateway/gateway.py": ("AnsweredCalls", "earlier life", "house", "leftover"),
    "gateway/graph/doors.py": ("house",),
    "gateway/graph/following.py": ("shower",),
    "gateway/graph/messages.py": ("shower",),
    "gateway/graph/runs.py": ("shower",),
    "gateway/graph/shown.py": ("shower", "shown"),
    "gateway/graph/state.py": ("shower",),
    "gateway/rest/doors.py": ("house",),
    "gateway/rest/route.py": ("house",),
    "gateway/rest/shown.py": ("shown",),
    "gateway/server.py": ("factory",),
    "gateway/sessions/answered_calls.py": ("AnsweredCalls",),
    "models/lowering.py": ("Kept",),
    "models/offline_arguments.py": ("leftover",),
    "models/offline_left.py": ("common", "leftover"),
    "models/offline_picking.py": ("house",),
    "models/plain.py": ("plain",),
    "models/scripted.py": ("house",),
    "registry/registry.py": ("shelf",),
    "registry/selection.py": ("shelf",),
    "registry/shelf.py": ("shelf",),
    "registry/toolbox.py": ("shelf",),
    "sources/browser.py": ("interned",),
    "sources/builtin.py": ("house",),
    "sources/offers.py": ("interned",),
    "sources/ws.py": ("earlier life", "interned"),
    "sources/ws_calls.py": ("earlier life",),
    "tools/__init__.py": ("house",),
    "tools/plain_commands.py": ("plain",),
    "tools/processes.py": ("Kept",),
    "wire/graph_bodies.py": ("crowd",),
    "wire/json_size.py": ("crowd",),
    "wire/plain_frames.py": ("plain",),
    "wire/plain_requests.py": ("plain",),
    "wire/strict_json.py": ("crowd",),
}
"""Files with words that are not plain yet. The list may only shrink; delete it when it is empty."""


def test_a_class_name_exists_once() -> None:
    assert twice() == KNOWN_TWICE, "Give the new one another name; a name that exists once now leaves KNOWN_TWICE."


def test_names_files_and_docstrings_have_plain_words() -> None:
    assert offenders() == KNOWN_OFFENDERS, "Use the field's word; a file that has plain words now leaves the list."


def twice() -> frozenset[str]:
    """Names of classes that are defined more than once; private ones do not count."""
    defined = Counter(
        node.name
        for _, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return frozenset(name for name, times in defined.items() if times > 1)


def offenders() -> dict[str, tuple[str, ...]]:
    """The words of each file that are not plain; files without one are left out."""
    found = {file.relative_to(SOURCE).as_posix(): tuple(sorted(set(_found(file, tree)))) for _, file, tree in modules()}
    return {file: words for file, words in found.items() if words}


def _found(file: Path, tree: ast.Module) -> Iterator[str]:
    stem = file.parent.name if file.stem == "__init__" else file.stem
    yield from words_of(stem) & (METAPHORS | EMPTY_WORDS)
    yield from {stem, stem.partition("_")[0] if stem.startswith("plain_") else stem} & OLD_FILES
    for node in ast.walk(tree):
        for name in _used_names(node):
            yield from words_of(name) & METAPHORS
            yield from {name} & OLD_NAMES
        for name in _defined_names(node):
            yield from words_of(name) & EMPTY_WORDS if name not in GIVEN_NAMES else ()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = " ".join(node.value.value.lower().split())
            yield from {_singular(word) for word in re.findall(r"[a-z]+", text)} & METAPHORS
            yield from (phrase for phrase in PHRASES if phrase in text)


def _used_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case _:
            yield from _defined_names(node)


def _defined_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def words_of(name: str) -> set[str]:
    """The words of a name in snake_case or CamelCase, in lower case and the singular."""
    return {_singular(word.lower()) for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _singular(word: str) -> str:
    return word if word == "ears" or word.endswith("ss") else word.removesuffix("s")


if __name__ == "__main__":
    sys.stdout.write(pformat({"KNOWN_TWICE": sorted(twice()), "KNOWN_OFFENDERS": offenders()}, width=120, compact=True))
