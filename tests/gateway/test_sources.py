"""Sources of tools: opened and closed with the gateway, each with a state that is shown (SPEC R8)."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from handspan.core.agents import GENERAL
from handspan.core.errors import StoreError
from handspan.core.function_tool import tool
from handspan.core.principals import OPERATOR, Origin
from handspan.core.records import Pin
from handspan.core.schema import Validator
from handspan.core.sources import Broken, SourceState, describe_state
from handspan.core.tool import Handling
from handspan.gateway.app import App
from handspan.gateway.rest.doctor import source_findings
from handspan.registry.pins import PinnedSpecs
from handspan.registry.registry import Registry
from tests.gateway.rest.served import Rest, serving, settings
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio

GIT = Origin("mcp", "git")


@tool
async def git_log() -> str:
    """Show what was done."""
    return "log"


@tool
async def git_push() -> str:
    """Send it away."""
    return "pushed"


class Server:
    """A source whose tools come from elsewhere: it connects in a task of its own, and tries again when that fails."""

    name = "mcp(git)"

    def __init__(self, registry: Registry, *failures: str) -> None:
        self._registry = registry
        self._failures = list(failures)
        self._task: asyncio.Task[None] | None = None
        self.state = SourceState()
        self.again = asyncio.Event()
        self.tried = asyncio.Condition()

    async def open(self) -> None:
        self.state = SourceState("opening")
        self._task = asyncio.create_task(self._connect())

    async def close(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self._registry.unregister_by_source(GIT)
        self.state = SourceState()

    async def _connect(self) -> None:
        for failure in self._failures:
            await self._tell(SourceState("failed", reason=failure, next_try=time.time() + 3600))
            await self.again.wait()
            self.again.clear()
        broken = self._registry.replace(GIT, [git_log], pins="blocks")
        await self._tell(SourceState("ready", self._registry.count(GIT), broken=tuple(broken)))

    async def _tell(self, state: SourceState) -> None:
        self.state = state
        async with self.tried:
            self.tried.notify_all()

    async def until(self, status: str) -> None:
        async with asyncio.timeout(WAIT), self.tried:
            await self.tried.wait_for(lambda: self.state.status == status)


def reasons(app: App, *, for_operator: bool = True) -> str:
    box = app.registry.toolbox(GENERAL, OPERATOR)
    return " ".join(one.text for one in app.explain(box, "git_log", for_operator=for_operator) if not one.ok)


async def test_a_source_opens_in_the_background_tries_again_and_takes_its_tools_along(tmp_path: Path) -> None:
    app = App(settings(tmp_path))
    server = Server(app.registry, "connection refused")
    app.sources.append(server)
    async with app:
        assert app.caller().box.find("get_current_time") is not None, "nothing waits for it"
        await server.until("failed")
        assert app.caller().box.find("git_log") is None
        assert "The source 'mcp(git)' is failed, 0 tools: connection refused; the next try is in 3600 s." in reasons(
            app
        )
        assert "connection refused" not in reasons(app, for_operator=False)
        assert "The source 'mcp(git)' is failed" in reasons(app, for_operator=False)
        server.again.set()
        await server.until("ready")
        assert app.caller().box.find("git_log") is not None and reasons(app) == ""
    assert [source.state.status for source in app.sources] == ["closed"] * len(app.sources)
    assert {entry.spec.name for entry in app.registry} == {"use_skill"}


async def test_every_built_in_schema_compiles_though_a_start_does_not_wait_for_it(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        for entry in app.registry:
            Validator(entry.spec.parameters)
            assert "must be" in entry.validator.problems([])[0], entry.spec.name
        assert {"exec_shell", "use_skill"} <= {entry.spec.name for entry in app.registry}


async def test_the_built_in_tools_leave_those_of_other_parts_alone_and_can_come_back(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        app.registry.register(git_log)
        [builtin] = [source for source in app.sources if source.name == "builtin"]
        before = {entry.spec.name for entry in app.registry}
        await builtin.close()
        assert {entry.spec.name for entry in app.registry} == {"use_skill", "git_log"}
        await builtin.open()
        assert {entry.spec.name for entry in app.registry} == before


async def test_every_source_tells_how_it_does(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "bad.py").write_text("(", encoding="utf-8")
    async with App(settings(tmp_path), config_folder=folder) as app:
        states = {source.name: source.state for source in app.sources}
        assert list(states) == ["builtin", "plugins", "tools folder"]
        assert {state.status for state in states.values()} == {"ready"}
        assert states["builtin"].tools == len(app.registry) > 10
        assert [broken.where for broken in states["tools folder"].broken] == [str(folder / "tools" / "bad.py")]
        assert "skips" in reasons(app) and "bad.py" in reasons(app)
        assert "bad.py" not in reasons(app, for_operator=False)


async def test_the_status_shows_the_sources_and_what_is_wrong_only_to_the_operator(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    server = Server(rest.app.registry, "no such command 'git-mcp'")
    rest.app.sources.append(server)
    async with serving(rest) as client:
        await server.until("failed")
        told = (await client.get("/api/status")).json()["sources"]
        assert told["builtin"]["status"] == "ready" and told["builtin"]["tools"] > 10
        assert told["mcp(git)"]["status"] == "failed" and "git-mcp" in told["mcp(git)"]["reason"]
        why = await client.get("/api/tools/git_log/why")
        assert "git-mcp" in why.text and why.json()["usable"] is False
        for path in ("/api/status", "/api/tools/git_log/why"):
            shown = await client.ask("GET", path, token=rest.chat_token)
            assert "mcp(git)" in shown.text and "git-mcp" not in shown.text
        server.again.set()
        await server.until("ready")
        assert (await client.get("/api/status")).json()["sources"]["mcp(git)"]["tools"] == 1


async def test_what_a_person_agreed_to_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    changed = tool(name="git_log", description="Another.")(git_log)
    async with App(settings(tmp_path)) as app:
        app.registry.replace(GIT, [git_log], pins="blocks")
    async with App(settings(tmp_path)) as app:
        app.registry.replace(GIT, [git_log, git_push], pins="blocks")
        new = app.caller().box.find("git_push")
        assert new is not None and new.is_new
        app.registry.replace(GIT, [changed, git_push], pins="blocks")
        assert app.caller().box.find("git_log") is None
        assert app.registry.accept("git_log", changed.spec.fingerprint)
    async with App(settings(tmp_path)) as app:
        app.registry.replace(GIT, [changed, git_push], pins="blocks")
        kept = app.caller().box.find("git_log")
        assert kept is not None and kept.change is None
        app.registry.replace(GIT, [git_log], pins="blocks")
        assert app.caller().box.find("git_log") is None, "what was agreed to before is another definition too"


async def test_a_full_disk_keeps_nobody_from_the_tools(caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        async def all(self, *, owner: str, origin: str | None = None) -> Sequence[Pin]:
            return []

        async def get(self, name: str, *, owner: str, origin: str) -> Pin | None:
            return None

        async def set(self, *pins: Pin) -> None:
            raise StoreError("The disk is full.")

    pinned = PinnedSpecs(Full())
    await pinned.open()
    registry = Registry(pinned=pinned)
    assert registry.replace(GIT, [git_log], pins="blocks") == []
    await pinned.close()
    assert registry.count(GIT) == 1 and "definitions of mcp(git)" in caplog.text


async def test_the_list_of_tools_marks_what_is_hidden_new_or_changed(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    async with serving(rest) as client:
        registry = rest.app.registry
        registry.replace(GIT, [git_log], handling=Handling(internal=True), pins="blocks")
        changed = tool(name="git_log", description="Another.")(git_log)
        registry.replace(GIT, [changed, git_push], handling=Handling(internal=True), pins="blocks")
        listed = {one["name"]: one for one in (await client.get("/api/tools")).json()["tools"]}
    marks = {name: (listed[name]["internal"], listed[name]["definition"], listed[name]["agents"]) for name in listed}
    assert marks["git_log"] == (True, "changed_blocked", []) and marks["git_push"] == (True, "new", [])
    assert marks["read_file"] == (False, "agreed", ["General"])


def test_the_doctor_says_which_source_fails_and_what_of_one_can_not_be_used() -> None:
    failed = SourceState("failed", reason="It is off.")
    half = SourceState("ready", 2, broken=(Broken("bad.py", "SyntaxError"),))
    states = {"builtin": SourceState("ready", 9), "mcp(git)": failed, "plugins": half}
    found = [finding for name, state in states.items() for finding in source_findings(name, state)]
    assert [(one.what, one.ok, one.found) for one in found] == [
        ("source builtin", True, "ready, 9 tools"),
        ("source mcp(git)", False, "failed, 0 tools: It is off"),
        ("source plugins", True, "ready, 2 tools"),
        ("tool", False, "bad.py: SyntaxError"),
    ]
    assert all(one.remedy for one in found if not one.ok)


def test_a_state_is_told_in_one_line() -> None:
    assert describe_state(SourceState("ready", 1)) == "ready, 1 tool"
    assert describe_state(SourceState("opening")) == "opening, 0 tools"
    assert describe_state(SourceState("failed", reason="It is off.")) == "failed, 0 tools: It is off"
    broken = SourceState("ready", 2, "x", 1.0, (Broken("a", "b"),))
    assert broken.without_details() == SourceState("ready", 2, next_try=1.0)
