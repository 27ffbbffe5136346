"""A program: our MCP client in one scenario of the suite. The suite gives it the address of a server."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from handspan.config.settings import Settings
from handspan.config.tool_settings import McpServer, ToolSettings
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Success
from handspan.core.values import Json, JsonObject
from handspan.gateway.app import App
from tests.conformance.auth import log_in_and_call

Scenario: TypeAlias = Callable[[App], Awaitable[None]]
_SERVER: Final = "suite"
_SECONDS: Final = 25.0


class AgreeingPerson:
    """Says yes to every question, and changes nothing."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        """Return the answer."""
        opened()
        return Answer("allow", value={})


@asynccontextmanager
async def open_app(url: str) -> AsyncIterator[App]:
    """Open an app whose only MCP server is that of the suite, and wait until it has its tools."""
    server = McpServer(url=url, internal_only=False, trusted=True, start_timeout=_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        tools = ToolSettings(mcp_servers={_SERVER: server})
        settings = Settings(Path(folder) / "workspace", Path(folder) / "state", tools=tools)
        async with App(settings, AgreeingPerson()) as app:
            await app.mcp.settle(_SECONDS)
            state = next(iter(app.mcp)).state
            if state.status != "ready":
                raise SystemExit(f"The server of the suite is not ready: {state}")
            yield app


async def call(app: App, own_name: str, **arguments: Json) -> Any:
    """Call a tool of the suite's server through the engine. Ends the program when it fails."""
    name = next(iter(app.mcp)).full_name(own_name)
    result = await app.engine.call(ToolCall(name, arguments, new_call_id()), app.caller())
    if not isinstance(result, Success):
        raise SystemExit(f"{name}: {result}")
    return result.value


def listed(app: App) -> dict[str, JsonObject]:
    """Return the schemas of the server's tools."""
    return {
        entry.spec.name.removeprefix(f"{_SERVER}__"): entry.spec.parameters
        for entry in app.registry
        if entry.origin.kind == "mcp"
    }


def given() -> dict[str, Any]:
    """Return what the suite gives this scenario."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    return context


async def only_connect(_: App) -> None:
    """Connect and list the tools: that is done already."""


async def add_numbers(app: App) -> None:
    """Call a tool."""
    await call(app, "add_numbers", a=5, b=3)


async def accept_defaults(app: App) -> None:
    """Answer a question of the server without a value."""
    await call(app, "test_client_elicitation_defaults")


async def reconnect(app: App) -> None:
    """Call a tool whose stream breaks before its result."""
    await call(app, "test_reconnection")


async def answer_in_rounds(app: App) -> None:
    """Call tools that ask by their answers, two of them side by side."""
    await asyncio.gather(call(app, "test_mrtr_echo_state"), call(app, "test_mrtr_unrelated"))
    await call(app, "test_mrtr_no_state")
    await call(app, "test_mrtr_no_result_type")


async def use_everything(app: App) -> None:
    """Call each tool, read a resource and fill in a prompt."""
    await call(app, "test_headers")
    await call(app, "my-hyphenated-tool")
    resources = await call(app, "list_resources")
    for found in resources["resources"]:
        await call(app, "read_resource", uri=found["uri"])
    await call(app, "get_prompt", name="test_prompt")
    await call(app, "list_prompts")


async def call_given(app: App) -> None:
    """Call the tools that the suite names. The engine takes no null where the schema has none: it is left out."""
    for one in given()["toolCalls"]:
        arguments = {key: value for key, value in one["arguments"].items() if value is not None}
        await call(app, one["name"], **arguments)


async def call_valid(app: App) -> None:
    """Call the one tool whose headers are right."""
    await call(app, "valid_tool", region="us-west1")


async def send_schema_back(app: App) -> None:
    """Send the schema of a tool back, as we have it."""
    await call(app, "json_schema_echo", schema=listed(app)["json_schema_2020_12_tool"])


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "sse-retry": reconnect,
    "sep-2322-client-request-state": answer_in_rounds,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_given,
    "http-invalid-tool-headers": call_valid,
    "json-schema-2020-12-preservation": send_schema_back,
}
"""What our client does in a scenario. In all others it only connects."""


async def main() -> None:
    """Do the scenario that the suite named."""
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    if scenario.startswith("auth/"):
        await log_in_and_call(scenario, url)
        return
    async with open_app(url) as app:
        await SCENARIOS.get(scenario, only_connect)(app)


if __name__ == "__main__":
    asyncio.run(main())
