"""A program: an MCP server of two providers over standard input and output, as the documentation shows it."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from handspan.core.results import Attachment, Success
from handspan.core.tool import READ_ONLY
from handspan.core.values import Arguments
from handspan.mcp import McpServerShell, ProvidedTool

PIXEL = bytes.fromhex("89504e470d0a1a0a")


class Weather:
    """An async provider."""

    def namespace(self) -> str:
        return "weather"

    async def list_tools(self) -> Sequence[ProvidedTool]:
        schema: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        return [
            ProvidedTool("today", "Tell the weather of a city.", schema, READ_ONLY),
            ProvidedTool("radar", "Show a picture."),
        ]

    async def call_tool(self, name: str, args: Arguments) -> Any:
        if name == "today":
            return {"city": args["city"], "sky": "blue"}
        return Success("a picture", (Attachment("image", "image/png", PIXEL),))


class Plain:
    """A provider without async."""

    def __init__(self, namespace: str = "plain") -> None:
        self._namespace = namespace

    def namespace(self) -> str:
        return self._namespace

    def list_tools(self) -> Sequence[ProvidedTool]:
        return [ProvidedTool("shout"), ProvidedTool("break"), ProvidedTool("exit")]

    def call_tool(self, name: str, args: Arguments) -> Any:
        if name == "shout":
            return str(args["text"]).upper()
        if name == "exit":
            sys.exit("it left")
        raise ValueError("it broke")


def make_shell() -> McpServerShell:
    shell = McpServerShell("weather-server", "1.2.3")
    shell.register_provider(Weather())
    shell.register_provider(Plain())
    return shell


if __name__ == "__main__":
    asyncio.run(make_shell().serve_stdio())
