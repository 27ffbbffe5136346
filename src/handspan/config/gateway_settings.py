"""The settings of the server: its address, whom it lets in, and what it takes from clients."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from handspan.config.kinds import Bytes, Count, KnownHost, KnownOrigin, NotEmpty, Port, Seconds, ServedPath, WebAddress


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


class OpenAiFrontSettings(Struct, frozen=True):
    """What clients of OpenAI's API get at `/v1/chat/completions` and `/v1/responses` (docs/fronts.md)."""

    activity: Literal["none", "text"] = "none"
    """Whether an answer shows which tools of the gateway ran, for a client that knows nothing of them. `text`: one
    folded `<details>` block a round, which Open WebUI and LibreChat render."""


class FrontSettings(Struct, frozen=True):
    """The doors for clients that people have already: OpenAI's API, AG-UI, the AI SDK (SPEC F)."""

    request_bytes: Bytes = 16 * 1024 * 1024
    """The largest size of the body of a request: it may hold pictures of a phone."""
    wait: Seconds = 50.0
    """How long an answer without a stream waits for a person who was asked something (SPEC F6). Clients and proxies
    give up after a minute."""
    openai: OpenAiFrontSettings = OpenAiFrontSettings()
