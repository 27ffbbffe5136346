"""A program: the MCP door of a real gateway, with the fixtures that a gateway can have. It prints its address.

Tools are registered as those of a plugin, and prompts are skills. The suite sends no token, so each request gets the
operator's here, and nothing else: Host, Origin, agent, engine and policy are those of every gateway.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.principals import Origin
from handspan.core.questions import Answer
from handspan.core.results import Failure, Success
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Arguments, JsonObject
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server
from handspan.mcp.offer import ClientRequest
from tests.conformance.offer import FIXTURE_TOOLS

_SKILLS: Final = {
    "test_simple_prompt": ("", "This is a simple prompt for testing."),
    "test_prompt_with_arguments": ("[arg1, arg2]", "Prompt with arguments: arg1='{{arg1}}', arg2='{{arg2}}'"),
}


class FixtureTool:
    """One tool of the suite, as a tool of a gateway."""

    def __init__(self, name: str) -> None:
        self._run, schema = FIXTURE_TOOLS[name]
        self.spec = ToolSpec(name, f"The tool {name}.", schema, annotations=READ_ONLY)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Success:
        """Run it. What it asks goes to the person of the call."""

        async def elicit(text: str, schema: JsonObject) -> Answer:
            return await ctx.ask("input", text, schema=schema)

        result = await self._run(arguments, ClientRequest(None, ctx.progress, elicit))
        if isinstance(result, Failure):
            raise ToolError(result.code, result.message)
        return result


class OpenGateway:
    """A gateway that takes every request for the operator's."""

    leaving_seconds = 0.0

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.open, self.leave, self.drain, self.close = gateway.open, gateway.leave, gateway.drain, gateway.close

    @property
    def asgi(self) -> ASGIApp:
        """The application of the gateway, with the operator's token on each request."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                token = f"Bearer {self.gateway.operator_token}".encode()
                scope = {**scope, "headers": [*scope["headers"], (b"authorization", token)]}
            await self.gateway.asgi(scope, receive, send)

        return app


def write_skills(folder: Path) -> None:
    """Write the prompts of the suite as skills."""
    for name, (variables, text) in _SKILLS.items():
        (folder / name).mkdir(parents=True)
        front = f"name: {name}\ndescription: A prompt of the suite.\n"
        front += f"variables: {variables}\n" if variables else ""
        (folder / name / "SKILL.md").write_text(f"---\n{front}---\n{text}\n")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder) / "workspace", Path(folder) / "state", gateway=GatewaySettings(port=0))
        config = Path(folder) / "config"
        write_skills(config / "skills")
        gateway = Gateway(settings, config, model="offline")
        server = Server(OpenGateway(gateway), settings.gateway)
        await server.open()
        for name in FIXTURE_TOOLS:
            gateway.parts.app.registry.register(FixtureTool(name), Origin("plugin", "suite"))
        sys.stdout.write(f"http://localhost:{server.port}/mcp\n")
        sys.stdout.flush()
        try:
            await asyncio.Event().wait()
        finally:
            await server.close()


if __name__ == "__main__":
    asyncio.run(main())
