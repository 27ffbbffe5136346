"""The settings of tools: of commands and their sandbox, of the network, of MCP servers."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from handspan.config.kinds import Bytes, Count, NotEmpty, Seconds, ServerName, Switch, TimeLimit, WebAddress
from handspan.core.names import Disabled
from handspan.core.principals import OriginKind


class CommandSettings(Struct, frozen=True):
    """Which commands `exec_shell` and `spawn` may run (SPEC S3)."""

    mode: Literal["auto", "allowlist", "denylist"] = "auto"
    """`allowlist`: only listed commands run. `denylist`: all but those that hold a listed pattern. `auto`: in a
    sandbox, which is the boundary, the deny list, unless `allowlist` has entries; without a sandbox the allow list."""
    allowlist: tuple[NotEmpty, ...] = ()
    """Commands by their base name, in place of the built-in list; empty: the built-in list. An entry of several words,
    such as `git log`, allows the commands that begin with these words."""
    allow_also: tuple[NotEmpty, ...] = ()
    """Commands beside those of the allow list, written in the same way."""
    denylist: tuple[NotEmpty, ...] = ()
    """Patterns that refuse a command, beside the built-in ones."""


class SandboxSettings(Struct, frozen=True):
    """The sandbox (bubblewrap) that commands run in."""

    enabled: Switch = "auto"
    """`auto`: used when it works here. `on`: without it no command runs. `off`: never used."""
    uid: Annotated[int, Meta(ge=1, le=2**32 - 2, description="a user id other than 0, root's")] = 65534
    """The user that commands run as where the gateway itself is root."""
    network: Literal["none", "guarded", "host"] = "none"
    """`none`: commands have no network. `guarded`: http and https through a proxy of the gateway that applies
    `tools.url_policy`; ssh, UDP and DNS stay closed. `host`: the whole network of the machine, private hosts too."""
    memory_bytes: Annotated[int, Meta(ge=0, description="a whole number of bytes; 0: half of the memory")] = 0
    """How much memory all commands together may take, where the system can bound that (a control group); 0: half of
    what the computer, or the group of the gateway, has. `handspan doctor` says which bound is active."""
    network_connections: Count = 32
    """Guarded network: how many connections one command may have open at once; more of them wait."""
    network_bytes: Bytes = 1024 * 1024 * 1024
    """Guarded network: how many bytes one command may send and receive; then its connections are closed."""


class UrlPolicy(Struct, frozen=True):
    """Where network tools may go (SPEC S2)."""

    enabled: bool = True
    """False lets network tools go everywhere, private addresses included."""
    allow_private: bool = False
    """Private and loopback addresses may be asked. Cloud metadata addresses stay blocked."""
    allowed_domains: tuple[NotEmpty, ...] = ()
    """Hosts that may be asked whatever address they have: `host`, `host:port`, an address, a network (`10.0.0.0/8`)."""
    blocked_domains: tuple[NotEmpty, ...] = ()
    """Hosts that may never be asked."""


class HttpRequestSettings(Struct, frozen=True):
    """The tool `http_request`."""

    allowed_hosts: tuple[NotEmpty, ...] | None = None
    """The only hosts that it may ask; unset: every host that `url_policy` lets through."""


class SearchPointers(Struct, frozen=True):
    """Where the answer of a search API has what `web_search` returns: JSON pointers. Empty: the API's usual place."""

    results: str = ""
    """The list of results in the whole answer, such as `/web/results`."""
    title: str = ""
    """The title in each result, such as `/title`."""
    url: str = ""
    """The address in each result."""
    snippet: str = ""
    """The text in each result."""


class WebSearchSettings(Struct, frozen=True):
    """The tool `web_search`."""

    endpoint: WebAddress = ""
    """The search API; without it no model is offered the tool. It is asked with `q` and `count`."""
    api_key: str = ""
    """The key for that API; it may be `env:NAME` or `file:PATH`."""
    api: Literal["auto", "searxng", "brave", "tavily", "generic"] = "auto"
    """What the API is. `auto`: Brave and Tavily are known by their hosts; any other is `generic`, and its results are
    looked for in the usual places."""
    pointers: SearchPointers = SearchPointers()

    def __repr__(self) -> str:
        """Without the key: a repr ends up in logs (SPEC S5)."""
        return f"WebSearch(endpoint={self.endpoint!r}, api_key={'…' if self.api_key else ''!r})"


class McpOauth(Struct, frozen=True):
    """How this gateway is known at the login of an MCP server; empty: it registers itself there."""

    client_id: str = ""
    """The id of a registration that was made by hand, where the server registers no programs by themselves."""
    client_secret: str = ""
    """The secret of that registration, if it has one; it may be `env:NAME` or `file:PATH`."""
    client_metadata_url: WebAddress = ""
    """An https address of a document that describes this gateway, for servers that read such a document in place of a
    registration; its `redirect_uris` need the address of `/oauth/callback`."""

    def __repr__(self) -> str:
        """Without the secret (SPEC S5)."""
        return f"McpOauth(client_id={self.client_id!r}, client_metadata_url={self.client_metadata_url!r})"


class McpServer(Struct, frozen=True):
    """One MCP server: a program that is started (`command`), or an address (`url`). With both, the program."""

    command: str = ""
    """The program to start; it speaks MCP on standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, str] = {}
    """Environment variables for it, beside PATH, HOME, LANG and TMPDIR; a value may be `env:NAME` or `file:PATH`."""
    url: WebAddress = ""
    """The address of a server that speaks MCP over HTTP."""
    headers: dict[str, str] = {}
    """Headers of every request to `url`; a value may be `env:NAME` or `file:PATH`."""
    oauth: McpOauth = McpOauth()
    internal_only: bool = True
    """Its tools are hidden from models until a skill names them (SPEC C2)."""
    trusted: bool = False
    """A changed tool definition is taken without asking a person (SPEC T5)."""
    allow: tuple[NotEmpty, ...] | None = None
    """Names or globs of its tools that may be used, in the server's own words; unset: all, empty: none."""
    deny: tuple[NotEmpty, ...] = ()
    """Names or globs of its tools that may not be used; they win."""
    permissions: tuple[NotEmpty, ...] = ()
    """Permissions that a person has to grant before its tools run (SPEC P1)."""
    timeout: TimeLimit = 30.0
    """Seconds for one call of its tools; 0 or "none" for no limit."""
    start_timeout: Seconds = 60.0
    """Seconds for its start, and for one list of its tools."""
    idle_timeout: TimeLimit = None
    """Seconds without a call after which the server is stopped; the next call starts it again. "none": never."""
    concurrency: Count = 16
    """How many of its calls may run at once; more wait."""
    most_tools: Count = 1000
    """How many of its tools are used, in the order of its list; `handspan mcp` says when it has more."""

    def __repr__(self) -> str:
        """Without the values of `env` and `headers`: they hold keys (SPEC S5)."""
        return f"McpServer(command={self.command!r}, args={self.args!r}, env={sorted(self.env)!r}, url={self.url!r})"


class MediaSettings(Struct, frozen=True):
    """The processes that read images and PDF for models (SPEC X4). A file that needs more is not shown to the model."""

    seconds: Seconds = 20.0
    """How long one file may take."""
    memory: Bytes = 1024 * 1024 * 1024
    """How much memory one process may have."""
    pixels: Count = 100_000_000
    """Width times height of the largest image that is decoded."""
    processes: Count = 2
    """How many of them may run at once; other files wait."""


class ToolSettings(Struct, frozen=True):
    """What holds for all tools and all callers."""

    timeouts: dict[str, TimeLimit] = {}
    """Seconds by tool name or glob, in place of the tools' own; 0 or "none" for no limit (SPEC E5)."""
    disabled: tuple[Disabled, ...] = ()
    """Switched off for everyone: names, globs, `origin:KIND` or `origin:KIND(NAME)` (SPEC R9)."""
    allow_shadowing: tuple[NotEmpty, ...] = ()
    """Names of the gateway's own tools (built-in, of plugins, of MCP servers) that clients may take (SPEC R2)."""
    result_limit: Bytes = 65536
    """Bytes of a result that go to the model; a larger one is kept as an artifact, and cut (SPEC X3)."""
    result_preview: Bytes = 65536
    """Bytes of a cut result that go to the model: three quarters from its beginning, one from its end; `result_limit`
    at most."""
    output_limit: Annotated[
        int, Meta(ge=1024, le=64 * 1024 * 1024, description="a number of bytes from 1024 to 67108864")
    ] = 10 * 1024 * 1024
    """Bytes of each stream of `exec_shell` and `spawn` that are kept; of more the result says how much is missing."""
    concurrency: dict[OriginKind, Count] = {}
    """How many calls may run at once, by kind of origin."""
    shown: Annotated[int, Meta(ge=0, description="a whole number of 0 or more")] = 48
    """With more tools than this a model gets only some, and finds the others by `search_tools`; 0: all (SPEC R4)."""
    question_timeout: Seconds = 300.0
    """How long a question to a person stays open (SPEC P3)."""
    command_policy: CommandSettings = CommandSettings()
    unsafe_shell_without_sandbox: bool = False
    """Without a sandbox run the whole allow list, interpreters too. They can do whatever the gateway's user can."""
    sandbox: SandboxSettings = SandboxSettings()
    url_policy: UrlPolicy = UrlPolicy()
    http_request: HttpRequestSettings = HttpRequestSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    media: MediaSettings = MediaSettings()
    mcp_servers: dict[ServerName, McpServer] = {}
    """MCP servers by name; their tools are called `NAME__TOOL`."""
