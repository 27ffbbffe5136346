"""The tools folder while a gateway runs: files come, change, break and go (SPEC T6)."""

import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.core.agents import GENERAL
from handspan.core.principals import OPERATOR
from handspan.registry.registry import Registry
from handspan.sources import folder
from handspan.sources.folder import FolderTools
from tests.sources.test_plugins import GOOD, names
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Opened:
    """A source on a folder, its registry, and how often it told of a change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.registry = Registry()
        self.changes = 0
        self.source = FolderTools(self.registry, path, self._count)

    def _count(self) -> None:
        self.changes += 1

    def write(self, file: str, *tools: str) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / f"{file}.py").write_text("".join(GOOD.format(name=name) for name in tools), encoding="utf-8")

    @property
    def tools(self) -> list[str]:
        return names(self.registry)

    @property
    def problems(self) -> list[str]:
        return [broken.problem for broken in self.source.state.broken]


@pytest.fixture
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    monkeypatch.setattr(folder, "_SCAN_SECONDS", 0.02)
    made = Opened(tmp_path / "tools")
    await made.source.open()
    yield made
    await made.source.close()
    assert made.tools == []


async def test_a_file_that_comes_changes_and_goes_is_followed_without_a_request(opened: Opened) -> None:
    opened.write("one", "first")  # the folder itself comes later, too
    await until(lambda: opened.tools == ["first"])
    opened.write("one", "other", "second")
    await until(lambda: opened.tools == ["other", "second"])
    (opened.path / "one.py").unlink()
    await until(lambda: opened.tools == [])
    assert opened.changes >= 3


async def test_a_file_that_breaks_is_reported_and_its_tools_go_until_it_is_mended(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    opened.write("one", "first")
    opened.write("two", "second")
    await opened.source.refresh()
    (opened.path / "one.py").write_text("def broken(:", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        await opened.source.refresh()
    assert opened.tools == ["second"] and "SyntaxError" in opened.problems[0]
    assert "one.py can't be used: SyntaxError" in caplog.text
    opened.write("one", "first")
    await opened.source.refresh()
    assert opened.tools == ["first", "second"] and opened.problems == []


async def test_a_version_of_the_same_size_and_second_is_another_version(opened: Opened) -> None:
    code = GOOD.format(name="echo").replace("return text", "return '{}'")
    for version in "123":
        file = opened.path / "one.py"
        opened.path.mkdir(exist_ok=True)
        file.write_text(code.format(version), encoding="utf-8")
        os.utime(file, ns=(10**18, 10**18 + int(version)))
        await opened.source.refresh()
        entry = opened.registry.toolbox(GENERAL, OPERATOR).find("echo")
        assert entry is not None and entry.tool.run({"text": ""}, None) == version  # type: ignore[arg-type]


async def test_a_name_that_becomes_free_is_taken_by_the_file_that_waits_for_it(opened: Opened) -> None:
    opened.write("a", "echo")
    opened.write("b", "echo")
    await opened.source.refresh()
    assert len(opened.problems) == 1
    (opened.path / "a.py").unlink()
    await opened.source.refresh()
    assert opened.tools == ["echo"] and opened.problems == []


async def test_an_unchanged_file_is_read_again_only_by_force(opened: Opened) -> None:
    counter = opened.path.parent / "count"
    opened.path.mkdir()
    text = f"with open({str(counter)!r}, 'a') as file:\n    file.write('x')\n" + GOOD.format(name="echo")
    (opened.path / "one.py").write_text(text, encoding="utf-8")
    for is_forced, reads in ((False, "x"), (False, "x"), (True, "xx")):
        await opened.source.refresh(is_forced=is_forced)
        assert counter.read_text() == reads


async def test_a_file_that_hangs_while_it_loads_holds_nothing_up(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(folder, "_LOAD_SECONDS", 0.05)
    release = threading.Event()
    monkeypatch.setattr(threading, "release_the_file", release, raising=False)
    opened.path.mkdir()
    (opened.path / "hangs.py").write_text("import threading; threading.release_the_file.wait()", encoding="utf-8")
    try:
        await opened.source.refresh()  # a request does not wait for it
        opened.write("works", "echo")
        await opened.source.refresh(is_forced=True)
        assert "still loading after 0.05 s" in opened.problems[0] and opened.tools == ["echo"]
    finally:
        release.set()


async def test_a_file_whose_tool_is_refused_in_an_unforeseen_way_does_not_end_the_watch(opened: Opened) -> None:
    opened.path.mkdir()
    text = GOOD.format(name="strange").replace("@tool", "@tool(annotations={})")
    (opened.path / "a.py").write_text(text, encoding="utf-8")
    await until(lambda: opened.problems != [])
    opened.write("b", "echo")
    await until(lambda: opened.tools == ["echo"])


async def test_after_a_fault_of_ours_the_folder_is_looked_at_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(folder, "_scan", None)
        await until(lambda: "could not be updated" in caplog.text)
    opened.write("b", "echo")
    await until(lambda: opened.tools == ["echo"])


async def test_a_link_that_can_not_be_followed_is_reported_and_takes_no_other_tool_away(opened: Opened) -> None:
    tools = [f"tool_{letter}" for letter in "abcdef"]
    for name in tools:
        opened.write(name, name)
    await opened.source.refresh()
    (opened.path / "loop.py").symlink_to("loop.py")
    await opened.source.refresh()
    (problem,) = opened.problems
    assert "symbolic links" in problem
    assert opened.tools == tools


async def test_while_the_folder_can_not_be_read_its_tools_stay(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    opened.write("one", "first")
    await opened.source.refresh()
    aside = opened.path.rename(opened.path.with_name("aside"))
    opened.path.symlink_to(opened.path.name)  # a link to itself
    await opened.source.refresh()
    assert opened.tools == ["first"]
    (problem,) = opened.problems
    assert "its tools stay as they were" in problem
    await opened.source.refresh()
    assert caplog.text.count("its tools stay") == 1 and "is gone" not in caplog.text
    opened.path.unlink()
    aside.rename(opened.path)
    await opened.source.refresh()
    assert (opened.tools, opened.problems) == (["first"], [])


async def test_a_file_that_other_users_can_write_is_not_run_until_that_is_repaired(opened: Opened) -> None:
    opened.write("one", "first")
    await until(lambda: opened.tools == ["first"])
    file = opened.path / "one.py"
    for path, bad, good in ((file, 0o666, 0o644), (opened.path, 0o777, 0o755), (opened.path, 0o1777, 0o755)):
        path.chmod(bad)
        await until(lambda: opened.tools == [])
        (problem,) = opened.problems
        assert problem.startswith("is not run: ") and problem.endswith(f"Type: chmod o-w {path}")
        opened.write("one", "first")  # a save runs it no more than before
        await opened.source.refresh()
        assert opened.tools == []
        path.chmod(good)
        await until(lambda: opened.tools == ["first"])


async def test_a_link_that_leads_out_of_the_folder_is_not_run(opened: Opened, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(GOOD.format(name="first"), encoding="utf-8")
    opened.path.mkdir()
    (opened.path / "linked.py").symlink_to(elsewhere)
    await until(lambda: opened.problems != [])
    expected = f"cp --remove-destination {elsewhere} {opened.path / 'linked.py'}"
    assert opened.tools == [] and opened.problems == [f"is a link that leads out of this folder. Type: {expected}"]
    (opened.path / "linked.py").unlink()
    opened.write("one", "second")
    (opened.path / "inside.py").symlink_to("one.py")
    await until(lambda: opened.tools == ["second"])


async def test_a_file_that_could_not_be_checked_is_not_run_though_it_is_replaced_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, scan = Opened(tmp_path / "tools"), folder._scan

    def scan_and_replace(path: Path) -> object:
        found = scan(path)
        (path / "swapped.py").unlink()  # as another user does who can write the folder
        made.write("swapped", "swapped")
        return found

    made.path.mkdir()
    made.path.chmod(0o777)
    (made.path / "swapped.py").symlink_to("swapped.py")
    monkeypatch.setattr(folder, "_scan", scan_and_replace)
    monkeypatch.setattr(folder, "_SCAN_SECONDS", 3600.0)
    await made.source.open()
    try:
        (problem,) = made.problems
        assert made.tools == [] and problem == "can't be read: Too many levels of symbolic links. Repair or remove it."
    finally:
        await made.source.close()
