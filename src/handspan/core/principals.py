"""The person or program that acts (Principal), the origin of a tool (Origin), its visibility (ToolScope)."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

OriginKind: TypeAlias = Literal["builtin", "plugin", "mcp", "remote", "device", "browser"]
ScopeKind: TypeAlias = Literal["global", "owner", "session", "turn"]
TokenScope: TypeAlias = Literal["chat", "device", "tools", "admin"]
AGENT_SCOPE: Final = "agent:"
"""How a scope begins that names an agent. A token with such scopes may use only these agents."""
ANSWERS_SCOPE: Final = "answers"
"""With it, an MCP client may answer whether a call of its own may run, in place of a person elsewhere (SPEC P7)."""
_RANKS: Final = {"builtin": 0, "plugin": 1, "mcp": 2}
OUTSIDE: Final = 3
"""The rank of tools that clients bring: devices, chats and pages."""
DEVICE_SCOPES: Final = ("device",)
"""What a device needs, such as a phone: it brings tools and can do nothing else."""
CLIENT_SCOPES: Final = ("chat", "device")
"""What a ClawSeed client needs: it talks and brings tools."""


class Principal(Struct, frozen=True):
    """A person or program that acts: the owner to whom its work belongs, and the scopes of its token."""

    owner: str
    scopes: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether an MCP client with this token may allow its own calls, for the person who sits at it."""
        return ANSWERS_SCOPE in self.scopes

    @property
    def agents(self) -> tuple[str, ...]:
        """The only agents that the principal may use; empty: all agents."""
        return tuple(one.removeprefix(AGENT_SCOPE) for one in self.scopes if one.startswith(AGENT_SCOPE))


OPERATOR = Principal(owner="operator", scopes=("admin", "chat", "device"))
"""The person who runs this gateway, at its own terminal."""


class Origin(Struct, frozen=True):
    """Where a tool comes from (SPEC R1). Two connections of one session are two origins: each removes its own tools."""

    kind: OriginKind
    name: str = ""
    """Plugin, MCP server, session, device label or browser client."""
    connection: str = ""
    """The connection (remote, device), or thread and tool set (browser), that brings the tool."""

    def __str__(self) -> str:
        return f"{self.kind}({self.name})" if self.name else self.kind

    @property
    def is_foreign(self) -> bool:
        """Whether the tool's text and behaviour come from outside: a client, a server, a page."""
        return self.kind not in ("builtin", "plugin")

    @property
    def rank(self) -> int:
        """Its right to a name: of two sources that want one name, that of the lower number has it (SPEC R5)."""
        return _RANKS.get(self.kind, OUTSIDE)

    @property
    def is_builtin(self) -> bool:
        """Whether the tool comes with the gateway: its name is reserved (SPEC R2), its permissions are granted (P1)."""
        return self.kind == "builtin"


BUILTIN = Origin("builtin")


class ToolScope(Struct, frozen=True):
    """Visibility: all owners, one owner, one session, or the turns of one session. A name is unique in a scope."""

    kind: ScopeKind
    id: str = ""
    """The owner or the session."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r}" if self.id else self.kind


GLOBAL = ToolScope("global")
