"""Tools and people for the registry's tests."""

from handspan.core.context import ToolContext
from handspan.core.principals import Origin, Principal, ToolScope
from handspan.core.tool import NO_CLAIMS, Annotations, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject

ADA, BOB = Principal("ada"), Principal("bob")
PLUGIN = Origin("plugin", "weather")
GIT = Origin("mcp", "git")
PHONE = Origin("device", "phone", "connection-1")
CHAT = Origin("remote", "session-1", "connection-2")
OTHER_CHAT = Origin("remote", "session-1", "connection-3")
FOR_ADA, FOR_BOB = ToolScope("owner", "ada"), ToolScope("owner", "bob")
IN_ONE, IN_TWO = ToolScope("session", "one"), ToolScope("session", "two")


class ClassTool:
    """A tool as a class: it has a spec, and it runs."""

    def __init__(
        self,
        name: str,
        *,
        parameters: JsonObject | None = None,
        annotations: Annotations = NO_CLAIMS,
        permissions: tuple[str, ...] = (),
        timeout: float | None = 30.0,
        version: str = "1.0.0",
    ) -> None:
        self.spec = ToolSpec(
            name, "Does a thing.", parameters or {"type": "object"}, permissions, timeout, version, annotations
        )

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        return dict(arguments)


class ThreadTool(ClassTool):
    """One that runs on a thread."""

    def run(self, arguments: Arguments, ctx: ToolContext) -> Json:  # type: ignore[override] # a tool may be either
        return dict(arguments)
