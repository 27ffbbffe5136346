"""The settings of what lasts: the database and artifacts; and of several gateways that share them."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from handspan.config.kinds import Bytes, Count, NodeRole, NotEmpty, Seconds, WebAddress


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
    versions: Count = 50
    """How many versions of a conversation are kept beside the current one; the oldest are deleted first (SPEC L8)."""
    undo_seconds: Annotated[float, Meta(ge=0, le=86_400, description="a number of seconds from 0 to 86400")] = 30.0
    """How long a chat that was deleted on the page can be restored; 0: it is deleted at once. Other ways to delete one
    delete it at once."""
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
