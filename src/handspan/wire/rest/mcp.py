"""MCP servers in REST (SPEC C1)."""

from msgspec import UNSET, Struct, UnsetType

from handspan.core.values import Json, JsonObject


class NewMcpOauth(Struct, frozen=True, forbid_unknown_fields=True):
    """How the gateway is known at the login of a server."""

    client_id: str = ""
    client_secret: str = ""
    """May be `env:NAME` or `file:PATH`."""
    client_metadata_url: str = ""


class NewMcpServer(Struct, frozen=True, forbid_unknown_fields=True):
    """A server to add or to change: the fields of `tools.mcp_servers`."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    oauth: NewMcpOauth = NewMcpOauth()
    internal_only: bool = False
    trusted: bool = False
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    timeout: float | None = 30.0
    start_timeout: float = 60.0
    idle_timeout: float | None = None
    concurrency: int = 16
    most_tools: int = 1000


class NewMcpServerQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to a server of the same name."""

    replace: bool = True
    """False: it stays as it is, also one that is switched off, and the request is refused (409, `exists`)."""


class McpServerChange(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a server to change. Other fields stay."""

    internal_only: bool | UnsetType = UNSET
    """Whether its tools are hidden until a skill names them."""
    trusted: bool | UnsetType = UNSET
    """Whether changed definitions of its tools are accepted without a question."""


class McpPromptView(Struct, frozen=True):
    """A prompt of a server. An agent gets it by the server's tool `get_prompt`."""

    name: str
    description: str
    arguments: tuple[str, ...]
    """The names of its arguments."""


class McpServerView(Struct, frozen=True):
    """A server and its state. Only an admin sees how it is started and why it failed."""

    name: str
    status: str
    """`opening`, `ready`, `failed` or `closed`."""
    tools: tuple[str, ...]
    """Names of its tools, as agents call them."""
    internal_only: bool
    trusted: bool
    waiting: tuple[str, ...]
    """Tools whose changed or new definition a person has to accept (SPEC T5)."""
    can_change: bool
    """Whether it can be changed here; a server of the settings file can't."""
    where: str = ""
    """Its command line or its address."""
    reason: str = ""
    """Why it failed."""
    problems: tuple[str, ...] = ()
    """Tools that can't be used, and why."""
    node: str = ""
    """The name of the node that runs it, where there are several and it is a program; empty while none does."""
    prompts: tuple[McpPromptView, ...] = ()
    """What a person can choose of it while it is up, unless its tools are hidden."""


class McpServerList(Struct, frozen=True):
    """All MCP servers."""

    servers: list[McpServerView]


class RemovedMcpServer(Struct, frozen=True):
    """The server is stopped, and its tools are gone."""

    name: str


class ChangedTool(Struct, frozen=True):
    """A tool whose definition no person has accepted yet."""

    tool: str
    old: JsonObject | None
    """The definition that was accepted. Null: the tool is new."""
    new: JsonObject
    is_blocked: bool
    """Whether it can't be called before a person accepts the new definition."""


class ChangedTools(Struct, frozen=True):
    """The tools of a server that wait for a person (SPEC T5)."""

    name: str
    tools: list[ChangedTool]


class TrustedTools(Struct, frozen=True):
    """The tools whose definitions are accepted now."""

    name: str
    tools: list[str]


class McpToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A call of one tool of a server, by the server's own name for it."""

    tool: str
    args: dict[str, Json] = {}


class McpEnvelope(Struct, frozen=True):
    """The result of the call."""

    result: JsonObject


class McpLoginPage(Struct, frozen=True):
    """The login at a server has begun: a person opens the address in a browser."""

    name: str
    address: str
    expires_in: float
    """Seconds; after that the login has to begin anew."""


class McpLoginState(Struct, frozen=True):
    """How far a login is."""

    name: str
    status: str
    """`open`, `done` or `failed`."""
    reason: str = ""
    """Why it failed."""


class McpLoginReturn(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the login page sent a browser that can't reach the gateway."""

    address: str


class McpLogout(Struct, frozen=True):
    """The tokens of a server are removed."""

    name: str
    had_login: bool
    """Whether there were any."""


class OauthQuery(Struct, frozen=True):
    """What a login page sends back with the browser."""

    state: str = ""
    code: str = ""
    iss: str | None = None
    error: str = ""
