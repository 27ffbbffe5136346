"""One word for one thing: class names that exist once, and words that no name or docstring of the product has."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.docs.repository import ROOT, SOURCE, modules

METAPHORS: Final = frozenset(
    (
        *("shower", "floor", "shelf", "ears", "boss", "leftover", "crowd", "house", "carrier", "interned"),
        *("bury", "buried", "heir", "guest", "stranger", "rival", "lane", "outlet", "patience", "strike", "debt"),
        *("adopt", "obey", "forgive", "vanish", "shed", "choked", "farewell", "goodbye", "greet", "fate", "clue"),
    )
)
"""Private metaphors, in the singular: no identifier, file or docstring has one as a word."""
PHRASES: Final = ("earlier life",)
"""The same of several words; for docstrings."""
OLD_NAMES: Final = frozenset(("Room", "Kept", "Places", "Placing", "AnsweredCalls", "tell_of", "ClientPlace"))
"""Names that were replaced by plain ones, and whose words are good words elsewhere."""
OLD_FILES: Final = frozenset(("places", "placing", "kept", "shown", "plain", "cut", "drive", "gates"))
"""The same for modules; `plain_NAME` counts as `plain`."""
EMPTY_WORDS: Final = frozenset(
    ("manager", "handler", "service", "helper", "util", "factory", "executor", "common", "misc")
)
"""Words that say nothing: no name that we define has one. Names that libraries give may be used."""
GIVEN_NAMES: Final = frozenset(
    ("ToolHandler", "ToolExecutor", "ToolProvider", "tool_call_handler", "handler", "addHandler", "removeHandler")
)
"""Names that a protocol, a seed or the language gives."""
PAGES: Final = (*(ROOT / "protocol").rglob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "ARCHITECTURE.md")


def test_a_class_name_exists_once() -> None:
    assert twice() == frozenset(), "Give the new class another name: a search for it must find one class."


def test_a_type_alias_has_not_the_name_of_a_class() -> None:
    assert aliases() & classes().keys() == frozenset(), "Give the alias another name: a search must find one thing."


def test_names_files_and_docstrings_have_plain_words() -> None:
    assert offenders() == {}, "Use the field's word: CONTRIBUTING.md and the glossary of ARCHITECTURE.md have them."


def test_docstrings_of_functions_begin_with_an_imperative() -> None:
    found = [
        f"{file.relative_to(SOURCE)}: {node.name}"
        for _, file, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (ast.get_docstring(node) or "").startswith(("Returns ", "Yields ", "Raises "))
    ]
    assert found == [], 'Write "Return …", "Yield …" or "Raise …".'


@pytest.mark.parametrize("page", [*PAGES], ids=lambda page: page.name)
def test_pages_name_the_client_the_caller_or_the_person(page: Path) -> None:
    words = set(re.findall(r"[a-z]+", page.read_text(encoding="utf-8").lower()))
    assert not words & {"whoever", "nobody", "somebody"}


@pytest.mark.parametrize("page", [*PAGES], ids=lambda page: page.name)
def test_pages_have_plain_words(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", page.read_text(encoding="utf-8").lower())
    assert not {_singular(word) for word in re.findall(r"[a-z]+", prose)} & METAPHORS


def twice() -> frozenset[str]:
    """Names of classes that are defined more than once."""
    return frozenset(name for name, times in classes().items() if times > 1)


def classes() -> Counter[str]:
    """How often each name of a class is defined; private ones do not count."""
    return Counter(
        node.name
        for _, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def aliases() -> frozenset[str]:
    """The names of type aliases of modules."""
    return frozenset(
        node.target.id
        for _, _, tree in modules()
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if ast.unparse(node.annotation) == "TypeAlias"
    )


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


@cache
def words_of(name: str) -> frozenset[str]:
    """The words of a name in snake_case or CamelCase, in lower case and the singular."""
    return frozenset(_singular(word.lower()) for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def _singular(word: str) -> str:
    if word == "ears" or word.endswith("ss"):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
