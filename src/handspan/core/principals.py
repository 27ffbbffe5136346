"""Who acts, and where a tool comes from."""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

OriginKind: TypeAlias = Literal["builtin", "plugin", "mcp", "remote", "device", "browser"]
ScopeKind: TypeAlias = Literal["global", "owner", "session", "turn"]
TokenScope: TypeAlias = Literal["chat", "device", "admin"]
DEVICE_SCOPES: Final = ("chat", "device")
"""What a ClawSeed client needs: it talks and brings tools."""


class Principal(Struct, frozen=True):
    """Someone who may act: the owner of what the act leaves behind, and the scopes of the token that was shown."""

    owner: str
    scopes: tuple[str, ...] = ()


OPERATOR = Principal(owner="operator", scopes=("admin", "chat", "device"))
"""The person who runs this gateway, at its own terminal."""


class Origin(Struct, frozen=True):
    """Where a tool came from (SPEC R1). Two connections of one session are two origins: removal goes by connection."""

    kind: OriginKind
    name: str = ""
    """Plugin, MCP server, session, device label or browser client."""
    connection: str = ""
    """The connection (remote, device), or thread and set of tools (browser), that brings the tool."""

    def __str__(self) -> str:
        return f"{self.kind}({self.name})" if self.name else self.kind

    @property
    def is_foreign(self) -> bool:
        """The tool's words and behaviour are somebody else's."""
        return self.kind not in ("builtin", "plugin")

    @property
    def is_builtin(self) -> bool:
        """The tool comes with the gateway: its name is reserved (SPEC R2), its permissions are granted (P1)."""
        return self.kind == "builtin"


BUILTIN = Origin("builtin")


class Scope(Struct, frozen=True):
    """Who sees a tool: everybody, an owner's sessions, one session, or only the turns in it. Names are unique in it."""

    kind: ScopeKind
    id: str = ""
    """The owner; or the session, for its turns too."""

    def __str__(self) -> str:
        return f"{self.kind} {self.id!r}" if self.id else self.kind


GLOBAL = Scope("global")
