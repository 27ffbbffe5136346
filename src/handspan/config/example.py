"""A settings file with every setting as a comment: its meaning and its default."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from handspan.config.setting_types import form_of, section_of
from handspan.config.settings import Settings

_HEAD: Final = """\
# The settings of Handspan. Each line that begins with `#` and a name shows a default: take the `#` away, and change it.
# `handspan config check` says whether the file can be used; `handspan reload` lets a running gateway take it.
"""
_WIDTH: Final = 118


def example_file() -> str:
    """Return the text of the file. Without edits it changes no setting."""
    return "\n".join([_HEAD, *_section(Settings, "")])


def meanings_of(section: type[Struct]) -> dict[str, str]:
    """Return the docstring that stands below each field of a section, by the name of the field."""
    body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(doc.value.value.split())
        for field, doc in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
    }


def _section(section: type[Struct], key: str) -> Iterator[str]:
    """Yield the settings of a section, then the sections inside it. TOML wants them in this order."""
    if key:
        yield from _prose(inspect.getdoc(section) or "")
        yield f"#[{key}]\n"
    fields, meanings = msgspec.structs.fields(section), meanings_of(section)
    for field in fields:
        if not _inner(field.type, "")[0]:
            yield from _prose(meanings[field.name])
            yield _assignment(field)
    for field in fields:
        inner, name = _inner(field.type, f"{key}.{field.name}" if key else field.name)
        if inner:
            yield from _section(inner, name)


def _inner(kind: Any, key: str) -> tuple[type[Struct] | None, str]:
    """Return the section that a setting is, or holds by name, and the section's key. Lists of sections have none."""
    form = form_of(kind)
    if form.base is dict and len(form.parts) == 2:
        return section_of(form.parts[1]), f"{key}.NAME"
    return section_of(kind), key


def _prose(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), _WIDTH, break_on_hyphens=False)]


def _assignment(field: FieldInfo) -> str:
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if default is NODEFAULT or default is None:
        return f"# {field.name}: not set\n"
    # TOML writes a default as JSON does, but for tables.
    return f"#{field.name} = {'{}' if default == {} else msgspec.json.encode(default).decode()}\n"
