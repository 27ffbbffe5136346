"""Every setting there is, as plain data. The docstring under a field is its reference.

In a file the keys are these names, or the same in camelCase; in the environment `HANDSPAN_` and the names in capitals,
joined by two underscores: `HANDSPAN_TOOLS__URL_POLICY__ALLOW_PRIVATE=true`. Two variables are no settings:
`HANDSPAN_CONFIG` names the file, and `HANDSPAN_FAST=off` takes the libraries' way instead of our speed tricks.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from handspan.core.agents import AgentLimits, Mode
from handspan.core.names import Disabled
from handspan.core.principals import OriginKind
from handspan.core.values import JsonObject

# The description says in an error what is wanted; `read_as` lists other spellings and what they stand for.
NotEmpty: TypeAlias = Annotated[str, Meta(pattern=r"\S", description="a text that is not empty")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
TimeLimit: TypeAlias = Annotated[
    Annotated[float, Meta(gt=0)] | None,
    Meta(
        description='a number of seconds, or 0 or "none" for no limit',
        extra={"read_as": ((0, None), (0.0, None), ("none", None))},
    ),
]
Days: TypeAlias = Annotated[
    Annotated[float, Meta(gt=0)] | None,
    Meta(
        description='a number of days, or 0 or "none" for all time',
        extra={"read_as": ((0, None), (0.0, None), ("none", None))},
    ),
]
Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number of 1 or more")]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, description="an amount of US dollars, 0 or more")]
WebAddress: TypeAlias = Annotated[
    str, Meta(pattern=r"^(https?://[^\s/]\S*)?$", description="an address that begins with http:// or https://")
]
ServerName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*__)\S*[^\s_]$",
        description="a server name without '__', white space or a '_' at its end: tools are called SERVER__TOOL",
    ),
]
ChannelName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_-]{0,31}$",
        description="a channel name of up to 32 of a-z 0-9 _ -, beginning with a letter",
    ),
]
Switch: TypeAlias = Annotated[
    Literal["auto", "on", "off"],
    Meta(description="'auto', 'on' or 'off'", extra={"read_as": ((True, "on"), (False, "off"))}),
]
Bytes: TypeAlias = Annotated[int, Meta(ge=1024, description="a whole number of bytes, 1024 or more")]
NodeRole: TypeAlias = Literal["all", "edge", "agent"]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65535, description="a port from 1 to 65535, or 0 for any that is free")]
ServedPath: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$",
        description="a path such as '/handspan', with a '/' at its beginning and none at its end",
    ),
]
KnownHost: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@*?#%]+)(:[0-9]{1,5})?$",
        description="a host as browsers send it, 'name' or 'name:port', without 'http://' and without '*'",
    ),
]
KnownOrigin: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://[^\s/@*?#%]+$",
        description="an origin such as 'https://app.example.com', without a path and without '*'",
    ),
]


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


class McpDoorSettings(Struct, frozen=True):
    """What MCP clients may do at `/mcp` and with `handspan mcp serve`."""

    answers: bool = False
    """A client may answer for its person whether a call of its own may run (SPEC P7). Without it, the person answers on
    the page or with `handspan questions`. A single token gets this right by `handspan tokens new NAME --answers`."""
    sessions: Count = 1000
    """How many sessions of the older protocol may be open; one more ends the oldest unused one of the token that has
    the most."""
    sessions_by_token: Count = 100
    """How many of them one token may have; one more ends its oldest unused one."""


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


class HookSettings(Struct, frozen=True):
    """One hook of the chain."""

    type: NotEmpty
    """A built-in one (`audit_log`, `rate_limit`, `path_prefix`) or the name of an entry point `handspan.hooks`."""
    config: JsonObject = {}
    """The options of this type. `audit_log`: `arguments` (false: not written), `file` (`audit.jsonl` in the state
    folder), `max_bytes` (10,000,000) and `backups` (5 full files are kept). `rate_limit`: `per_minute`, `tools`.
    `path_prefix`: `prefix`, `tools`, `parameter`."""
    timeout: Seconds = 5.0
    """Seconds for one verdict; a before-hook that takes longer refuses the call (SPEC E7)."""


class HookChain(Struct, frozen=True):
    """The hooks that check every call before and after it runs (SPEC E7)."""

    enabled: bool = True
    """False switches the whole chain off."""
    chain: tuple[HookSettings, ...] = ()
    """The hooks, in order."""


class ModelPrice(Struct, frozen=True):
    """What a model costs, in US dollars for a million tokens. Unset is unknown, which is not the same as 0."""

    input: Dollars | None = None
    """For what the model reads."""
    output: Dollars | None = None
    """For what the model writes."""
    cached: Dollars | None = None
    """For input that is read from a cache; unset: as other input."""
    cache_write: Dollars | None = None
    """For input that is written to a cache; unset: as other input."""


class ModelSettings(Struct, frozen=True):
    """One model: which protocol it speaks, where it is and what to send with every request (SPEC M1)."""

    api: Literal["openai-chat", "openai-responses", "anthropic", "gemini", "custom"] = "custom"
    """The protocol. `custom`: Chat Completions, which most other servers speak, at a `base_url` of your own."""
    base_url: WebAddress = ""
    """Where it is, up to and without the API's own path; empty: the vendor's public one. `custom` needs one."""
    key: str = ""
    """`env:NAME` for a variable, `file:PATH` for a file, or the key itself; empty: the vendor's usual variable."""
    model: str = ""
    """The model's id in the words of its API; empty: the name of this section."""
    options: JsonObject = {}
    """More fields of the request, in the API's own words (`max_tokens`, `temperature` …)."""
    strict: bool = False
    """Ask the API to enforce tools' schemas. It takes fewer of them then; the engine always enforces all."""
    stream: bool = True
    """False asks for whole answers; for servers that can't stream tool calls."""
    context: Count | None = None
    """How many tokens it can read; unset: unknown."""
    price: ModelPrice = ModelPrice()
    """In place of the known price."""

    def __repr__(self) -> str:
        """Without the key and the options, which may hold one (SPEC S5)."""
        return f"ModelSettings(api={self.api!r}, base_url={self.base_url!r}, model={self.model!r})"


class AgentSettings(Struct, frozen=True):
    """One agent: which tools it may use, and when a person is asked first."""

    tools: tuple[NotEmpty, ...] | None = None
    """Names or globs that it may use; unset: all, empty: none (SPEC R7)."""
    deny: tuple[NotEmpty, ...] = ()
    """Names or globs that it may not use; they win."""
    mode: Mode = "automatic"
    """When a person is asked (SPEC P4)."""
    instructions: str = ""
    """The instructions that the model reads first; empty: none, and for `General` a text made from the live state."""
    model: str = ""
    """The model that it talks to, as `model` at the top level; empty: the gateway's own."""
    description: str = ""
    """One sentence for people who choose an agent."""
    max_tool_iterations: Annotated[int | None, Meta(description="a whole number of rounds, or 0 for no limit")] = 20
    """Rounds of calls in one turn; 0 for no limit (SPEC E4)."""
    skills: tuple[NotEmpty, ...] = ()
    """Skills that are on from the start (SPEC A3)."""
    nodes: tuple[NotEmpty, ...] | None = None
    """Nodes of web pages and programs over HTTP whose tools it may use; unset: all (SPEC H1)."""
    limits: AgentLimits = AgentLimits()


class RemoteLimits(Struct, frozen=True):
    """What the gateway takes from one client; the frame `connected` lists it (ws.md 8.1)."""

    message_bytes: Bytes = 1024 * 1024
    """The size of one message; a larger one closes the connection."""
    depth: Count = 64
    """How deep JSON may be nested."""
    tools: Count = 256
    """How many tools it may offer."""
    description_bytes: Count = 4096
    """The size of a tool's description."""
    schema_bytes: Count = 16 * 1024
    """The size of a tool's JSON Schema."""
    schema_depth: Count = 16
    """How deep a tool's JSON Schema may be nested."""
    messages_per_second: Count = 60
    """How many messages it may send; a client that sends more is read more slowly."""
    pending_calls: Count = 64
    """How many calls may wait for its answer at once."""
    backlog_bytes: Bytes = 4 * 1024 * 1024
    """How many unread bytes may wait for it; a client that reads too slowly is dropped."""


class ConnectionLimits(Struct, frozen=True):
    """How much of the gateway one connection may take, also before it has shown a token (SPEC S7)."""

    most: Count | None = None
    """How many connections may be open; unset: as many as the process may open files, without a reserve for its own
    files. One more closes the connection that has been without a request for the longest time."""
    idle_by_address: Count = 256
    """How many connections of one address may be open without a request; one more closes the oldest of them. The
    gateway's own computer is not counted."""
    head_seconds: Seconds = 10.0
    """How long a connection may take for TLS, and then for the head of a request."""
    stall_seconds: Seconds = 60.0
    """How long an answer waits for a client that does not read it; then the connection is closed."""
    pipelined: Count = 1000
    """How many requests a connection may send before it has the answer to the one before; then it is closed."""
    tokenless_per_second: Count = 500
    """How many requests without a valid token are read in a second, of all connections together; as many may come at
    once. The others wait. The first request of a connection is not counted. A request that comes before the answer to
    the one before is counted, also with a token."""
    frames_per_second: Count = 1000
    """How many WebSocket frames that are no whole text message a client may send: fragments, pings, pongs, binary
    frames. One that sends more is read more slowly; one that goes on is closed with 1008."""
    fragments: Count = 4096
    """How many fragments one WebSocket message may have; one more closes the connection with 1008."""


class RemotePolicy(Struct, frozen=True):
    """Which tools clients and devices may register (SPEC W5)."""

    allow: tuple[NotEmpty, ...] | None = None
    """Names or globs that they may use; unset: all, empty: none."""
    deny: tuple[NotEmpty, ...] = ()
    """Names or globs that they may not use; they win."""
    deny_permissions: tuple[NotEmpty, ...] = ()
    """Permissions or globs of them, as `android.permission.*`, that no tool of theirs may ask for."""


class GatewaySettings(Struct, frozen=True):
    """The server: its address, the hosts and origins that it knows, and its limits (SPEC G1, S5)."""

    host: NotEmpty = "127.0.0.1"
    """The address to listen on. `0.0.0.0` is every network of this computer: phones can reach it then, and others."""
    port: Port = 42617
    """The port to listen on; 0 for any that is free."""
    path_prefix: ServedPath = ""
    """What all paths begin with, for a gateway behind a reverse proxy."""
    tls: bool = False
    """Speak https with a certificate of our own for the local network (as `serve --tls` does). A phone has to load its
    root once, from `/device`. `tls_cert` names one of yours in its place."""
    tls_cert: Path | None = None
    """The certificate with its chain (PEM); with it the gateway speaks https."""
    tls_key: Path | None = None
    """The key of the certificate (PEM, without a password); unset: it stands in the file of the certificate."""
    hosts: tuple[KnownHost, ...] = ()
    """Names that the gateway is also known by, such as that of a reverse proxy. Requests for any other are refused."""
    public_url: WebAddress = ""
    """Where browsers find the gateway, with its path prefix, if that is not its own address: a reverse proxy's https
    address. A login at an MCP server returns there, so its host has to be in `hosts`."""
    origins: tuple[KnownOrigin, ...] = ()
    """Origins of other web pages that may use the gateway, with a token of their own."""
    resume_grace: Seconds = 60.0
    """How long the calls of a client that lost its connection wait for it (SPEC W8)."""
    longest_call: Seconds = 600.0
    """How long a call of a client's tool may last, however often it reports progress."""
    browser_call: Seconds = 600.0
    """How long a run waits for the result of a web page's tool that names no timeout (SPEC H2)."""
    request_bytes: Bytes = 1024 * 1024
    """The largest size of the body of a request."""
    upload_bytes: Bytes = 64 * 1024 * 1024
    """The largest size of an upload."""
    connections: ConnectionLimits = ConnectionLimits()
    limits: RemoteLimits = RemoteLimits()
    remote: RemotePolicy = RemotePolicy()


class ArtifactSettings(Struct, frozen=True):
    """How many artifacts are stored at most. The oldest are removed first."""

    count: Count = 1000
    """How many artifacts there may be, of all owners together."""
    size: Bytes = 64 * 1024 * 1024
    """Bytes of one artifact. A larger one is refused."""
    total: Bytes = 1024 * 1024 * 1024
    """Bytes of all artifacts together."""
    days: Annotated[float, Meta(gt=0, description="a number of days above 0")] = 30.0
    """How long an artifact is stored."""


class BucketSettings(Struct, frozen=True):
    """An S3-compatible object storage for large artifacts; used with PostgreSQL alone."""

    url: WebAddress = ""
    """Its address, as in `https://s3.eu-central-1.amazonaws.com` or `http://minio.internal:9000`; the network guard
    lets requests go there. Empty: all artifacts are rows of the database."""
    bucket: str = ""
    """The bucket. It has to be there already, and should be for Handspan alone."""
    prefix: str = ""
    """What the keys of all objects begin with, as in `handspan/`."""
    region: NotEmpty = "us-east-1"
    """The region that requests are signed for. Most storages of one's own take the default."""
    access_key: str = ""
    """The name of the key: `env:NAME` or `file:PATH` names where it is."""
    secret_key: str = ""
    """The key: `env:NAME` or `file:PATH` names where it is."""
    above: Bytes = 1024 * 1024
    """Artifacts with more bytes than this are objects; the others are rows of the database."""
    timeout: Seconds = 30.0
    """How long a request may be silent."""

    def __repr__(self) -> str:
        """Without the keys (SPEC S5)."""
        return f"BucketSettings(url={self.url!r}, bucket={self.bucket!r}, prefix={self.prefix!r})"


class ChannelSettings(Struct, frozen=True):
    """One channel: a way to write to people, and perhaps for people to write to an agent (docs/channels.md)."""

    type: Literal["auto", "page", "telegram", "webhook", "apprise"] = "auto"
    """`page`: the owner's open pages and WebSocket clients. `telegram`: a bot. `webhook`: signed HTTP to and from a
    program of yours. `apprise`: everything that the Apprise library knows. `auto`: what the channel's name says."""
    token: str = ""
    """Telegram: the token of the bot; it may be `env:NAME` or `file:PATH`."""
    url: str = ""
    """Webhook: the http or https address that gets messages. Apprise: the address of the service, in which
    `{chat_id}` stands for the chat. It may be `env:NAME` or `file:PATH`."""
    secret: str = ""
    """Webhook: the key of the signatures, 16 characters at least; it may be `env:NAME` or `file:PATH`."""
    owner: NotEmpty = "operator"
    """The owner whose agents send here, and whose sessions the people of `allow` open. `*`: all agents send here, and
    the sessions are the operator's."""
    agent: str = ""
    """The agent that answers; empty: the default agent. It asks at least before destructive calls."""
    allow: tuple[NotEmpty, ...] = ()
    """Ids of senders who may write to the agent, and of chats that it may write to, beside those that were paired;
    `*` for all."""
    receive: bool = True
    """False: people can't write to the agent here."""
    queue: Count = 1024
    """How many messages may wait in each direction; then senders are told to wait."""
    per_minute: Count = 20
    """How many messages a minute are taken of one sender."""
    base_url: WebAddress = "https://api.telegram.org"
    """Telegram: where its Bot API is."""

    def __repr__(self) -> str:
        """Without token, secret and address: they are keys or hold one (SPEC S5)."""
        return f"ChannelSettings(type={self.type!r}, owner={self.owner!r}, agent={self.agent!r})"


class StoreSettings(Struct, frozen=True):
    """Where everything that must last is stored (SPEC K1)."""

    url: str = ""
    """The address of a PostgreSQL database, as in `postgresql://user:password@host:5432/handspan?sslmode=verify-full`;
    `env:NAME` or `file:PATH` names where it is. The variable `HANDSPAN_DATABASE_URL` sets it, too. Empty: a database
    in the state folder."""
    connections: Annotated[int, Meta(ge=3, description="a whole number of 3 or more")] = 10
    """How many connections to PostgreSQL may be open: one writes, one holds the lease, the others read."""
    application_name: Annotated[
        str, Meta(pattern=r"^[\x20-\x7e]{1,40}$", description="a text of 1 to 40 characters of ASCII")
    ] = "handspan"
    """What the server calls our connections. Their purpose and the number of the process follow it: `… writer 4711`."""
    timeout: Seconds = 10.0
    """PostgreSQL: how long one statement may take, and how long a request waits for a database that can't be reached.
    Then it is refused."""
    artifacts: ArtifactSettings = ArtifactSettings()
    objects: BucketSettings = BucketSettings()

    def __repr__(self) -> str:
        """Without the address: it may hold a password (SPEC S5)."""
        return f"StoreSettings(url={'…' if self.url else ''!r}, connections={self.connections})"


class ClusterSettings(Struct, frozen=True):
    """Several gateways as one (SPEC K1). Needs `store.url`, which all of them share."""

    url: str = ""
    """The addresses of the NATS servers, as in `nats://a:4222,nats://b:4222` (`tls://` for TLS); `env:NAME` or
    `file:PATH` names where they are. The variable `HANDSPAN_CLUSTER` sets it, too. Empty: this gateway is alone."""
    name: str = ""
    """The name of this node, for people; empty: the name of the computer."""
    role: NodeRole = "all"
    """`edge`: this node takes devices and runs no turns: chats, messages by HTTP and channels are for other nodes.
    `agent`: it runs turns and takes no devices. `all`: both. `handspan serve --role` sets it, too."""
    user: str = ""
    """The user of this node at NATS; `env:NAME` or `file:PATH` names where it is."""
    password: str = ""
    """Its password; `env:NAME` or `file:PATH` names where it is."""
    operator_token: str = ""
    """The operator's token of all nodes: 32 or more random letters, digits, `-` and `_`; `env:NAME` or `file:PATH`
    names where it is. Empty: each node makes one of its own, which is revoked when the node stops."""
    nkey: Path | None = None
    """A file with the nkey seed of this node, in place of a user. """
    credentials: Path | None = None
    """A `.creds` file of this node, in place of a user."""
    tls_ca: Path | None = None
    """The certificates that the NATS servers are checked with (PEM); unset: those of the system."""
    tls_cert: Path | None = None
    """The certificate of this node for NATS (PEM), if the servers ask for one."""
    tls_key: Path | None = None
    """The key of that certificate (PEM)."""
    lease: Seconds = 3.0
    """How long a node counts as alive after its last sign in the database. It gives one every third of this time."""
    away: Seconds = 10.0
    """How long a node without a connection to NATS keeps its clients; then it sends them to other nodes (1012), if
    another one has a connection. Without the database, it keeps its MCP servers as long."""
    drain: Seconds = 10.0
    """Over how many seconds a node that stops sends its clients away, one after the other. Its own work has 10 more.
    Other nodes go on with its turns: each moves after the step that runs, at the latest when that time is over."""

    def __repr__(self) -> str:
        """Without address and password (SPEC S5)."""
        return f"ClusterSettings(url={'…' if self.url else ''!r}, name={self.name!r}, role={self.role!r})"


class LogSettings(Struct, frozen=True):
    """What `handspan serve` logs, and where. No line has a token, a key, arguments or results of calls (SPEC S5)."""

    level: Literal["warning", "info", "debug"] = "info"
    """`warning` (as `serve --quiet`): what needs a person. `info`: connections, calls with their duration, refusals,
    too. `debug` (as `serve --verbose`): every call and every request. With `info`, at most ten calls a second have a
    line of their own; the others are counted."""
    format: Literal["text", "json"] = "text"
    """`text`: lines for people. `json`: one JSON object a line, for programs."""
    file: Path | None = None
    """The file to write to, which you alone can read; unset: standard error."""
    max_bytes: Bytes = 10_000_000
    """A line that would make the file larger begins a new one; the full one becomes `FILE.1`."""
    backups: Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")] = 5
    """How many full files are kept."""


class BridgeSettings(Struct, frozen=True):
    """Where `handspan bridge` looks for other apps, besides the manifests of this computer."""

    android: bool = False
    """Whether it also bridges apps on Android phones and emulators, through `adb` (docs/android.md)."""
    adb: NotEmpty = "adb"
    """The program `adb`: a name in the PATH, or a path."""
    package_seconds: Seconds = 5.0
    """Seconds between two looks at the packages of the phones; devices that come and go are noticed at once."""


class Settings(Struct, frozen=True):
    """All settings. `load_settings` gives one; the two folders have no default here because they depend on the user."""

    workspace: Path
    """The folder that file and shell tools work in; default `$XDG_DATA_HOME/handspan/workspace`."""
    state: Path
    """The folder for journal, artifacts, tokens and all else that must last; default `$XDG_STATE_HOME/handspan`."""
    store: StoreSettings = StoreSettings()
    cluster: ClusterSettings = ClusterSettings()
    journal_days: Days = 30.0
    """How long the journal keeps calls that have their result; 0 or "none" for all time. Open calls stay (SPEC E8)."""
    default_agent: NotEmpty = "General"
    """The agent to use when none is named: one of `agents`, or a stored one (`handspan agents`)."""
    model: str = ""
    """The model that is meant where none is named: a name of `models`, `offline`, or `API:MODEL` as in
    `anthropic:claude-sonnet-5`; empty: the first that is found (the first of `models`, a key in the environment, a
    local Ollama, offline)."""
    models: dict[NotEmpty, ModelSettings] = {}
    """Models by name. Without `model`, the first one answers."""
    model_requests: Count = 100
    """How many requests to one model may run at once. Further ones wait for their turn, and the turn says so."""
    tools: ToolSettings = ToolSettings()
    hooks: HookChain = HookChain()
    agents: dict[NotEmpty, AgentSettings] = field(default_factory=lambda: {"General": AgentSettings()})
    """Agents by name. `General` is always there."""
    channels: dict[ChannelName, ChannelSettings] = {}
    """Channels by name: where the tool `message` delivers, and where people write to an agent."""
    gateway: GatewaySettings = GatewaySettings()
    mcp: McpDoorSettings = McpDoorSettings()
    log: LogSettings = LogSettings()
    bridge: BridgeSettings = BridgeSettings()
