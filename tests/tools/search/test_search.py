"""`find_files` and `search_files`: what they find, what they leave out, and that they end when told."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ToolError
from handspan.core.results import succeed
from handspan.core.values import Json
from handspan.tools.search import matcher
from handspan.tools.search.search import SearchFiles, search_tools
from handspan.tools.search.walk import BackgroundWork, StopSign
from handspan.tools.workspace import Workspace

pytestmark = pytest.mark.anyio


class Tools:
    """Both tools, called as the engine does."""

    def __init__(self, files: Workspace, ctx: ToolContext) -> None:
        self.find_files, self.search_files = search_tools(files)
        self.ctx = ctx

    async def find(self, pattern: str, **arguments: Json) -> str:
        return str(await self.find_files.run({"pattern": pattern, **arguments}, self.ctx))

    async def search(self, query: str, **arguments: Json) -> str:
        return str(await self.search_files.run({"query": query, **arguments}, self.ctx))


@pytest.fixture
def tools(workspace: Path, ctx: ToolContext) -> Iterator[Tools]:
    for path, text in {
        "main.py": "import os\n\ndef main():\n    return 1\n",
        "src/app.py": "from main import main\n\n\n# TODO: tidy\nmain()\n",
        "src/deep/er/util.ts": "export const TODO = 'ü';\r\n",
        "README.md": "# Title\n",
        ".gitignore": "*.log\nnode_modules/\n",
        "debug.log": "TODO: never shown\n",
        "node_modules/x/index.js": "TODO\n",
        "src/.gitignore": "!app.log\n",
        "src/app.log": "TODO in a log\n",
        ".git/config": "TODO\n",
        "image.bin": "TODO\0\n",
    }.items():
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    (workspace / "link.py").symlink_to(workspace / "main.py")
    (workspace / "loop").symlink_to(workspace)
    with Workspace(workspace, hidden=[workspace / "secret"]) as files:
        yield Tools(files, ctx)


async def test_files_are_found_by_name_the_last_changed_first(tools: Tools, workspace: Path) -> None:
    for age, name in enumerate(("main.py", "src/app.py")):
        os.utime(workspace / name, (1_000_000 - age, 1_000_000 - age))
    assert await tools.find("*.py") == "main.py\nsrc/app.py"
    assert await tools.find("**/*.{ts,md}", path="src") == "src/deep/er/util.ts"
    assert await tools.find("er/*", path="src/deep") == "src/deep/er/util.ts"
    assert await tools.find("*.py", limit=1) == (
        "main.py\n[The 1 last changed of 2 files. Narrow the pattern or raise limit.]"
    )


async def test_what_gitignore_names_is_left_out_unless_asked_for(tools: Tools) -> None:
    assert await tools.find("*.log") == "src/app.log"
    assert set((await tools.find("*.log", include_ignored=True)).split()) == {"debug.log", "src/app.log"}
    assert "No file matches" in await tools.find("index.js")
    assert await tools.find("config", include_ignored=True) == ".git/config"
    assert await tools.find("*.js", path="node_modules/x") == "node_modules/x/index.js"  # asked for by its path


async def test_what_is_hidden_is_never_found(tools: Tools, workspace: Path) -> None:
    (workspace / "secret").mkdir()
    (workspace / "secret/token.py").write_text("TODO")
    os.link(workspace / "secret/token.py", workspace / "hard.py")
    (workspace / ".handspan-0123456789abcdef").write_text("TODO")
    for found in (await tools.find("*", include_ignored=True), await tools.search("TODO", include_ignored=True)):
        assert "token" not in found and ".handspan-" not in found
    with pytest.raises(ToolError) as caught:
        await tools.find("*", path="secret")
    assert caught.value.code == "invalid_path"


async def test_lines_are_found_with_path_and_number(tools: Tools) -> None:
    assert await tools.search("TODO") == (
        "src/app.log:1: TODO in a log\nsrc/app.py:4: # TODO: tidy\nsrc/deep/er/util.ts:1: export const TODO = 'ü';"
    )
    assert await tools.search(r"^def \w+\(", glob="*.py") == "main.py:3: def main():"
    assert await tools.search("todo", ignore_case=True, glob="src/**/*.ts") == (
        "src/deep/er/util.ts:1: export const TODO = 'ü';"
    )
    assert await tools.search("Ü", ignore_case=True) == "src/deep/er/util.ts:1: export const TODO = 'ü';"
    assert await tools.search("main()", literal=True) == "main.py:3: def main():\nsrc/app.py:5: main()"
    assert (await tools.search("nowhere")).startswith("No line matches in 8 files.")


async def test_one_file_is_searched_by_its_path(tools: Tools) -> None:
    assert await tools.search("return", path="main.py") == "main.py:4:     return 1"
    with pytest.raises(ToolError) as caught:
        await tools.search("return", path="missing")
    assert caught.value.code == "file_not_found"
    with pytest.raises(ToolError) as caught:
        await tools.search("return", path="../x")
    assert caught.value.code == "invalid_path"


@pytest.mark.parametrize("where", [{"path": "large.txt"}, {"glob": "large.txt"}])
async def test_a_file_of_which_only_the_beginning_was_searched_is_named(
    tools: Tools, workspace: Path, where: dict[str, Json]
) -> None:
    with (workspace / "large.txt").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
        file.seek(0, os.SEEK_END)
        file.write(b"\nneedle\n")
    answer = await tools.search("needle", **where)
    assert "only the beginning was searched: large.txt. Use grep in exec_shell." in answer


async def test_context_shows_the_lines_around_once(tools: Tools, workspace: Path) -> None:
    (workspace / "n.txt").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    assert await tools.search(r"line (3|5|15)$", glob="n.txt", context=1) == "\n".join(
        [
            "n.txt-2- line 2",
            "n.txt:3: line 3",
            "n.txt-4- line 4",
            "n.txt:5: line 5",
            "n.txt-6- line 6",
            "--",
            "n.txt-14- line 14",
            "n.txt:15: line 15",
            "n.txt-16- line 16",
        ]
    )


async def test_matches_are_limited_in_number_and_size_and_it_says_so(tools: Tools, workspace: Path) -> None:
    (workspace / "many.txt").write_text('x "quoted" line\n' * 10_000)
    (workspace / "long.txt").write_text("a" * 100_000 + "needle" + "b" * 100_000)
    found = await tools.search("quoted", limit=3)
    assert found.count("many.txt:") == 3 and "[The first 3 matches, in 1 files; there may be more." in found
    (workspace / "wide.txt").write_text(('w "' * 130 + "\n") * 1000)
    assert len(succeed(await tools.search('w "', limit=1000)).encoded) <= 65_536
    found = await tools.search("needle")
    assert found.startswith("long.txt:1: …aaa") and "needlebbb" in found and len(found) < 500


@pytest.mark.parametrize("query", ["(a", "a{1000}{1000}", r"(?=x)", r"(a)\1", "x" * 10_001, "a\nb", "[[:x:]]"])
async def test_a_query_that_can_not_be_used_is_refused_with_the_reason(tools: Tools, query: str) -> None:
    with pytest.raises(ToolError) as caught:
        await tools.search(query)
    assert caught.value.code == "invalid_arguments"
    assert await tools.search(query[:100].replace("\n", ""), literal=True)


async def test_a_query_that_would_take_for_ever_elsewhere_takes_linear_time(tools: Tools, workspace: Path) -> None:
    (workspace / "evil.txt").write_text("a" * 100_000)
    async with asyncio.timeout(50):
        assert "No line matches" in await tools.search(r"(a+)+(a+)+b$", glob="evil.txt")


async def test_without_google_re2_only_literal_texts_are_found_and_it_says_so(
    tools: Tools, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matcher, "has_expressions", lambda: False)
    monkeypatch.setattr("handspan.tools.search.search.has_expressions", lambda: False)
    with Workspace(workspace) as files:
        tool = SearchFiles(files, BackgroundWork())
        assert "regular expressions need google-re2, which is not installed" in str(tool.spec.parameters)
        with pytest.raises(ToolError, match="google-re2 is not installed"):
            await tool.run({"query": r"def \w+"}, tools.ctx)
        assert await tool.run({"query": "def main"}, tools.ctx) == "main.py:3: def main():"
        assert await tool.run({"query": "DEF MAIN", "ignore_case": True}, tools.ctx) == "main.py:3: def main():"


async def test_a_search_whose_time_is_nearly_over_tells_what_it_found(tools: Tools) -> None:
    tools.ctx.deadline = Deadline(time.monotonic() + 0.1, "the tool's own limit")
    assert "[The time was over after 0 files." in await tools.search("TODO")
    assert "The time was over before all folders were seen" in await tools.find("*")


async def test_a_cancelled_search_ends_between_two_files(tools: Tools, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"{number}.txt").write_text("x")
    stop, seen = StopSign(), asyncio.Event()
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def work() -> None:
        while not stop:
            loop.call_soon_threadsafe(seen.set)
        loop.call_soon_threadsafe(ended.set)

    task = asyncio.create_task(BackgroundWork().run(work, stop))
    await seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(50):
        await ended.wait()


async def test_names_with_line_breaks_or_odd_bytes_stay_on_one_line(tools: Tools, workspace: Path) -> None:
    (workspace / "a\nb.odd").write_text("TODO")
    (workspace / os.fsdecode(b"\xff.odd")).write_text("TODO")
    assert set((await tools.find("*.odd")).split("\n")) == {"a\\nb.odd", "\\xff.odd"}
    assert set((await tools.search("TODO", glob="*.odd")).split("\n")) == {"a\\nb.odd:1: TODO", "\\xff.odd:1: TODO"}


@pytest.mark.parametrize("pattern", ["/etc/*", "/etc/**/*.conf", "../*", "src/../../*"])
async def test_a_pattern_that_leads_out_of_the_workspace_says_so(tools: Tools, pattern: str) -> None:
    for calling in (tools.find(pattern), tools.search("TODO", glob=pattern), tools.find("*", path=pattern)):
        with pytest.raises(ToolError) as caught:
            await calling
        assert caught.value.code in ("invalid_path", "file_not_found")


async def test_an_absolute_pattern_below_the_workspace_and_one_from_its_root_work(
    tools: Tools, workspace: Path
) -> None:
    for pattern in (f"{workspace}/src/*.py", "/src/*.py", "/*/app.py"):
        assert await tools.find(pattern) == "src/app.py"
        assert "src/app.py" in await tools.search("TODO", glob=pattern)
