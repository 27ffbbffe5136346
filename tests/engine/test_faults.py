"""What the log says when a tool's own code, or a hook, fails: where, and in which call."""

import logging
from typing import Any

import pytest

from handspan.core.function_tool import FunctionTool, tool
from handspan.engine.hooks import Hooks, NamedHook
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit
from tests.engine.isolated_tools import divide_by_nothing

pytestmark = pytest.mark.anyio


@tool
def on_thread() -> int:
    """Fail on a thread."""
    return 1 // 0


@tool
async def on_loop() -> int:
    """Fail on the event loop."""
    return 1 // 0


FAILING = [on_thread, on_loop, pytest.param(divide_by_nothing, marks=pytest.mark.outside)]


@pytest.mark.parametrize("failing", FAILING, ids=lambda one: one.spec.name)
async def test_a_traceback_with_the_id_of_the_call_is_logged(
    kit: EngineKit, caplog: pytest.LogCaptureFixture, failing: FunctionTool[..., Any]
) -> None:
    kit.add(failing)
    with caplog.at_level(logging.WARNING, "handspan"):
        await kit.failure(failing.spec.name)
    (record,) = caplog.records
    text = record.getMessage()
    assert f"Tool {failing.spec.name!r} failed in the call {kit.last().id}" in text
    assert "return 1 // 0" in text and "ZeroDivisionError" in text
    assert "handspan/engine" not in text  # only the tool's own frames
    assert vars(record)["call"] == kit.last().id


async def test_an_error_that_a_tool_means_leaves_no_traceback(kit: EngineKit, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "handspan"):
        await kit.failure("nothing_of_this_name")
    assert not caplog.records


async def test_a_hook_that_fails_leaves_its_traceback(make_kit: MakeKit, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def before(self, call: object) -> None:
            raise ValueError("this hook is broken")

        async def after(self, call: object, result: object) -> None:
            return None

    kit = make_kit(hooks=Hooks([NamedHook("broken", Broken())]))
    kit.add(on_loop)
    with caplog.at_level(logging.WARNING, "handspan"):
        assert (await kit.failure("on_loop")).code == "hook_cancelled"
    (record,) = caplog.records
    assert "The hook 'broken' failed" in record.getMessage() and "this hook is broken" in record.getMessage()
