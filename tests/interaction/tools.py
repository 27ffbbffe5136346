"""The tools that the table of behaviours calls, and what they need."""

import asyncio
from typing import Any, Literal

from handspan.core.errors import ERROR_TYPES, ErrorCode, ToolError
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.results import Attachment, Success
from handspan.core.tool import READ_ONLY
from handspan.core.values import Json
from handspan.testing import DeviceLogic, DeviceRequest, RunningGateway, offer

TOGETHER = 3
"""How many calls meet in `meet`."""
PIXEL = b"\x89PNG\r\n\x1a\n"


@tool(annotations=READ_ONLY)
async def give(value: Any = None) -> Any:
    """Gives the value back."""
    return value


@tool(annotations=READ_ONLY)
async def give_text(length: int) -> str:
    """Gives a text of this length, in lines."""
    return "0123456789abcde\n" * (length // 16)


@tool(annotations=READ_ONLY)
async def choose(level: Literal["low", "high"] = "low") -> str:
    """Gives the level back."""
    return level


@tool(annotations=READ_ONLY)
async def give_image() -> Success:
    """Gives an image."""
    return Success("a pixel", (Attachment("image", "image/png", PIXEL),))


@tool
async def fail_with(code: str) -> None:
    """Fails with this code."""
    (known,) = [one for one in ERROR_TYPES if one == code]
    failing: ErrorCode = known
    raise ToolError(failing, f"It failed with {code}.")


@tool
async def fall_over() -> None:
    """Raises what nobody expects."""
    raise ZeroDivisionError("one by zero")


@tool(timeout=0.05)
async def take_long() -> None:
    """Takes longer than it may."""
    await asyncio.Event().wait()


@tool
async def give_path(path: str) -> str:
    """Gives the path back; a hook changes it."""
    return path


@tool
async def change() -> str:
    """Changes something."""
    return "changed"


@tool(permissions=("camera",))
async def photograph() -> str:
    """Needs a permission."""
    return "a photo"


@tool(permissions=("microphone",))
async def listen() -> str:
    """Needs a permission that is granted."""
    return "a sound"


def meeting() -> FunctionTool[..., Any]:
    """A tool whose calls end only when they are made at once."""
    barrier = asyncio.Barrier(TOGETHER)

    @tool(name="meet", annotations=READ_ONLY)
    async def meet(number: int) -> int:
        """Waits for the others."""
        await barrier.wait()
        return number

    return meet


async def answer_as_phone(asked: DeviceRequest) -> Json:
    """What the phone does when it is asked."""
    if asked.name == "refuse":
        raise ToolError("rate_limited", "Not so often.")
    return asked.args


def phone(gateway: RunningGateway) -> DeviceLogic:
    """A device with tools of its own."""
    tools = [offer("give_back"), offer("refuse")]
    return DeviceLogic(gateway.url, gateway.token, answer_as_phone, tools=tools, label="phone")


def holding(runs: asyncio.Event) -> FunctionTool[..., Any]:
    """A tool that says when it runs, and ends only when it is stopped."""

    @tool(name="hold", annotations=READ_ONLY)
    async def hold() -> None:
        """Waits to be stopped."""
        runs.set()
        await asyncio.Event().wait()

    return hold


switched_off = tool(name="switched_off")(change.function)
cancelled_by_hook = tool(name="cancelled_by_hook")(change.function)


def table_tools() -> list[FunctionTool[..., Any]]:
    """Every tool of the table."""
    calm: list[FunctionTool[..., Any]] = [
        give,
        give_text,
        choose,
        give_image,
        fail_with,
        fall_over,
        take_long,
        give_path,
    ]
    return [*calm, change, photograph, listen, switched_off, cancelled_by_hook, meeting()]
