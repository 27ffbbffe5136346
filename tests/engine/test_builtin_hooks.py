"""The hooks that come with Handspan (SPEC E7)."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from handspan.config.settings import HookSettings
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.values import JsonObject
from handspan.engine.builtin_hooks import (
    PathPrefixConfig,
    PathPrefixHook,
    RateLimit,
    RateLimitConfig,
    check_hooks,
    make_hooks,
)
from handspan.engine.hooks import CancelCall, HookedCall, Hooks, ModifyCall
from tests.engine.conftest import MakeKit

pytestmark = pytest.mark.anyio


def call(name: str = "read_file", arguments: JsonObject | None = None, owner: str = "ann") -> HookedCall:
    return HookedCall("id-1", name, arguments or {}, owner, "s1", "General")


async def test_the_rate_limit_cancels_the_call_too_many_and_forgets_after_a_minute() -> None:
    now = [0.0]
    hook = RateLimit(RateLimitConfig(per_minute=2, tools=("read_*",)), clock=lambda: now[0])
    assert await hook.before(call()) is None
    assert await hook.before(call()) is None
    verdict = await hook.before(call())
    assert isinstance(verdict, CancelCall) and "2 calls a minute" in verdict.reason and "60 s" in verdict.reason
    assert await hook.before(call(owner="bob")) is None
    assert await hook.before(call("write_file")) is None
    now[0] = 60.0
    assert await hook.before(call()) is None


async def test_a_rate_limit_of_nought_lets_nothing_through() -> None:
    hook = RateLimit(RateLimitConfig(per_minute=0))
    assert isinstance(await hook.before(call()), CancelCall)


@pytest.mark.parametrize("chain", [["rate_limit", "path_prefix"], ["path_prefix", "rate_limit"]], ids="-".join)
async def test_a_call_that_a_hook_changed_counts_once(make_kit: MakeKit, tmp_path: Path, chain: list[str]) -> None:
    config: dict[str, JsonObject] = {"rate_limit": {"per_minute": 2}, "path_prefix": {"prefix": "sub"}}
    kit = make_kit(hooks=Hooks(make_hooks([HookSettings(name, config[name]) for name in chain], tmp_path)))

    async def read_file(path: str) -> str:
        return path

    kit.add(read_file)
    assert [await kit.value("read_file", {"path": "a"}) for _ in range(2)] == ["sub/a", "sub/a"]
    assert "2 calls a minute" in (await kit.failure("read_file", {"path": "a"})).message


async def test_the_path_prefix_lets_no_edit_out(make_kit: MakeKit, tmp_path: Path) -> None:
    edits = [Answer("allow", arguments={"path": path}) for path in ("sub/b", "other/b", "/etc")]
    questions = EditedBy(edits)
    kit = make_kit(
        hooks=Hooks(make_hooks([HookSettings("path_prefix", {"prefix": "sub"})], tmp_path)), questions=questions
    )

    async def read_file(path: str) -> str:
        return path

    kit.add(read_file)
    caller = kit.caller(Agent("Careful", mode="ask_always"))
    assert await kit.value("read_file", {"path": "a"}, caller=caller) == "sub/b"
    for _ in range(2):
        assert (await kit.failure("read_file", {"path": "a"}, caller=caller)).code == "hook_cancelled"


class EditedBy:
    """A person who approves each call with other arguments."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = answers

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        return self._answers.pop(0)


async def test_the_path_prefix_changes_paths_of_its_tools_only() -> None:
    hook = PathPrefixHook(PathPrefixConfig(prefix="/home/"))
    assert await hook.before(call(arguments={"path": "a"})) == ModifyCall("read_file", {"path": "home/a"})
    assert await hook.before(call("exec_shell", {"path": "a"})) is None
    assert await hook.before(call(arguments={"path": 3})) is None
    assert await hook.before(call()) is None


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
async def test_the_path_prefix_lets_no_path_out(path: str) -> None:
    assert isinstance(
        await PathPrefixHook(PathPrefixConfig(prefix="p")).before(call(arguments={"path": path})), CancelCall
    )


def test_hooks_are_made_in_order_with_their_time_limits(tmp_path: Path) -> None:
    made = make_hooks([HookSettings("audit_log", timeout=1.0), HookSettings("rate_limit", {"per_minute": 3})], tmp_path)
    assert [(named.name, named.timeout) for named in made] == [("audit_log", 1.0), ("rate_limit", 5.0)]


def test_a_hook_of_an_entry_point_is_made_with_its_config(tmp_path: Path) -> None:
    point = EntryPoint("mine", f"{__name__}:made_by_entry_point", "handspan.hooks")
    (named,) = make_hooks([HookSettings("mine", {"per_minute": 1})], tmp_path, [point])
    assert isinstance(named.hook, RateLimit)


def made_by_entry_point(config: JsonObject) -> RateLimit:
    return RateLimit(RateLimitConfig(**config))  # type: ignore[arg-type] # the test's own config


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        (HookSettings("audit_lgo"), "no such hook. Did you mean 'audit_log'"),
        (HookSettings("rate_limit"), "config.per_minute: is missing. It has to be a whole number."),
        (HookSettings("rate_limit", {"per_minute": "x"}), "config.per_minute: must be a whole number, not 'x'."),
        (HookSettings("audit_log", {"argument": True}), "config.argument: unknown key. Did you mean 'arguments'?"),
        (HookSettings("audit_log", {"backups": 0}), "config.backups: must be a whole number from 1 to 100, not 0."),
    ],
)
def test_a_hook_that_can_not_be_made_stops_the_start(link: HookSettings, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        make_hooks([link], tmp_path)
    assert problem in str(refused.value)
    assert check_hooks([link, link]) == [str(refused.value)] * 2


def test_a_check_of_hooks_runs_no_code_of_plugins() -> None:
    point = EntryPoint("mine", f"{__name__}:not_there", "handspan.hooks")
    assert check_hooks([HookSettings("mine"), HookSettings("audit_log", {"backups": 2})], [point]) == []
