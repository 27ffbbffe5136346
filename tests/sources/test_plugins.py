"""Tools that people and packages bring (SPEC T6)."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from handspan.core.agents import GENERAL
from handspan.core.principals import OPERATOR
from handspan.core.sources import Broken, SourceState, ToolSource
from handspan.registry.registry import Registry
from handspan.sources.folder import FolderTools
from handspan.sources.plugins import PluginTools

pytestmark = pytest.mark.anyio

GOOD = '''
from handspan import tool

@tool
def {name}(text: str) -> str:
    """Say it back."""
    return text
'''


def names(registry: Registry) -> list[str]:
    return [spec.name for spec in registry.toolbox(GENERAL, OPERATOR).specs()]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which modules can be imported, as an installed package's could."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


async def opened(source: ToolSource) -> list[Broken]:
    """What of the source can't be used, once it is open."""
    await source.open()
    assert source.state.status == "ready"
    return list(source.state.broken)


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group="handspan.tools")


async def test_every_decorated_function_of_the_folder_is_a_tool(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(GOOD.format(name="echo_one"), encoding="utf-8")
    (tmp_path / "two.py").write_text(GOOD.format(name="echo_two"), encoding="utf-8")
    registry = Registry()
    source = FolderTools(registry, tmp_path)
    assert await opened(source) == []
    assert source.state == SourceState("ready", 2)
    assert names(registry) == ["echo_one", "echo_two"]
    assert {str(entry.origin) for entry in registry} == {"plugin(one)", "plugin(two)"}
    await source.close()
    assert names(registry) == [] and source.state == SourceState("closed")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("def broken(:", "SyntaxError"),
        ("raise RuntimeError('no key')", "RuntimeError: no key"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("from handspan import tool\n@tool\ndef f(x) -> int:\n    'Do.'\n    return 1", "has no type"),
        ("x = 1", "has no tools: mark a function with @tool"),
        (GOOD.format(name="fine").replace("fine", "notSnake"), "snake_case"),
        (GOOD.format(name="fine").replace("@tool", '@tool(timeout="30")'), "must be a number of seconds, not '30'"),
        (GOOD.format(name="fine").replace("@tool", '@tool(permissions="camera")'), "permissions=('camera',)"),
        (GOOD.format(name="fine").replace("@tool", "@tool(annotations={})"), "AttributeError: 'dict' object"),
    ],
)
async def test_a_broken_file_is_reported_and_the_others_work(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "bad.py").write_text(content, encoding="utf-8")
    (tmp_path / "good.py").write_text(GOOD.format(name="echo"), encoding="utf-8")
    registry = Registry()
    broken = await opened(FolderTools(registry, tmp_path))
    assert [str(tmp_path / "bad.py")] == [item.where for item in broken]
    assert problem in broken[0].problem
    assert names(registry) == ["echo"]


async def test_files_that_begin_with_an_underscore_are_only_there_to_be_imported(tmp_path: Path) -> None:
    (tmp_path / "_shared.py").write_text("raise RuntimeError", encoding="utf-8")
    assert await opened(FolderTools(Registry(), tmp_path)) == []


async def test_a_folder_that_is_not_there_has_no_tools(tmp_path: Path) -> None:
    assert await opened(FolderTools(Registry(), tmp_path / "missing")) == []


async def test_a_name_that_is_taken_is_reported_and_the_first_keeps_it(tmp_path: Path) -> None:
    for file in ("a", "b"):
        (tmp_path / f"{file}.py").write_text(GOOD.format(name="echo"), encoding="utf-8")
    registry = Registry()
    (broken,) = await opened(FolderTools(registry, tmp_path))
    assert "already registered by plugin(a)" in broken.problem
    assert len(registry) == 1


async def test_a_module_that_failed_to_load_is_not_left_behind_half_made(tmp_path: Path) -> None:
    (tmp_path / "half_made.py").write_text("raise RuntimeError", encoding="utf-8")
    await opened(FolderTools(Registry(), tmp_path))
    assert not [name for name in sys.modules if name.endswith("_half_made")]


async def test_an_entry_point_names_a_tool_a_module_a_class_or_a_function_that_gives_tools(package: Path) -> None:
    (package / "brought.py").write_text(
        GOOD.format(name="first")
        + GOOD.format(name="second").replace("from handspan import tool", "")
        + "from handspan import ToolSpec\n"
        + "class Third:\n    spec = ToolSpec('third', 'Do.', {})\n"
        + "    def run(self, arguments, ctx):\n        return 3\n"
        + "def many():\n    return [first, Third()]\n"
        + "def single():\n    return second\n",
        encoding="utf-8",
    )
    for value, expected in (
        ("brought:first", ["first"]),
        ("brought", ["first", "second", "third"]),
        ("brought:Third", ["third"]),
        ("brought:many", ["first", "third"]),
        ("brought:single", ["second"]),
    ):
        registry = Registry()
        source = PluginTools(registry, [point("brought", value)])
        broken = await opened(source)
        assert (names(registry), broken) == (expected, [])
        await source.close()
        assert len(registry) == 0


@pytest.mark.parametrize(
    "value",
    [
        "nowhere:tool",
        "brought_bad:number",
        "brought_bad:raises",
        "brought_bad:nothing",
        "brought_bad:no_tools",
        "brought_bad:Late",
    ],
)
async def test_a_broken_plugin_is_reported_and_skipped(package: Path, value: str) -> None:
    (package / "brought_bad.py").write_text(
        "from handspan import ToolSpec\nnumber = 3\ndef raises():\n    raise ValueError('x')\n"
        "def nothing():\n    pass\ndef no_tools():\n    return [print]\n"
        "class Late:\n    spec = ToolSpec('late', 'Do.', {}, timeout='30')\n    run = print\n",
        encoding="utf-8",
    )
    registry = Registry()
    (broken,) = await opened(PluginTools(registry, [point("brought", value)]))
    assert "plugin 'brought'" in broken.where
    assert len(registry) == 0


async def test_without_plugins_installed_there_is_nothing_to_report() -> None:
    assert await opened(PluginTools(Registry())) == []


async def test_a_class_says_by_its_handling_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "placed.py").write_text(
        "from handspan import Handling, ToolSpec\n"
        "class Aside:\n    spec = ToolSpec('aside', 'Do.', {})\n    handling = Handling(placement='loop')\n"
        "    def run(self, arguments, ctx):\n        return 3\n",
        encoding="utf-8",
    )
    registry = Registry()
    assert await opened(FolderTools(registry, tmp_path)) == []
    assert [entry.placement for entry in registry] == ["loop"]
