"""Messages between nodes over NATS: signed, at most once, in the order of their sender (SPEC K; core NATS only).

A subject is `hs1.` and what it is for; names that come from outside are hashed, so that no wildcard gets in.
"""

import asyncio
import contextlib
import hashlib
import logging
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from nats.aio.client import Client
from nats.errors import ConnectionClosedError, Error, NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from handspan.bus.senders import ReceivedNumbers, Senders
from handspan.bus.signing import SIGNATURE_BYTES, Signing
from handspan.core.bounded import BoundedDict
from handspan.core.errors import ConfigError
from handspan.core.nodes import LinkDown, NoSuchNode

PREFIX: Final = "hs1"
"""The version of the messages between nodes. Fields are only added; any other change would need `hs2`."""
_NO_LISTENER: Final = "503"
"""The status that a NATS server sends back when it has passed a message on to no client."""
_MAX_WATCHED: Final = 10_000
"""Messages for which that status is awaited. It comes at once: the oldest ones have arrived, or are lost."""
_MAX_WAITING: Final = 20_000
"""Messages that may wait to be sent, and messages of one subject that may wait to be read. Further ones are lost."""
_PING_SECONDS: Final = 2
_RETRY_SECONDS: Final = 0.1
_CONNECT_SECONDS: Final = 2
_REOPEN_SECONDS: Final = 1.0
_OPEN_SECONDS: Final = 10
"""Seconds in which a start finds a server, or fails."""
_FIRST_TRIES: Final = 3
"""How often each server is tried at the start. After the first connection, each is tried for ever."""
_log = logging.getLogger(__name__)

Receive = Callable[[str, bytes], None]
"""Takes the subject and the body of a message. Never waits."""
Respond = Callable[[str, bytes], bytes | None]
"""Takes the kind (the last part of the subject) and the body of a message to this node. Never waits.

Returns the response, or None if the message gets no response.
"""
OnMessage = Callable[[Any], Awaitable[None]]
"""Takes a message as the NATS library passes it: a `Msg`, whose signature is not checked yet."""


class LinkOptions(Struct, frozen=True):
    """How a node connects to NATS."""

    servers: tuple[str, ...]
    user: str = ""
    password: str = ""
    nkey: Path | None = None
    credentials: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __repr__(self) -> str:
        """Return a text without the password (SPEC S5)."""
        return f"LinkOptions({len(self.servers)} servers)"

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for TLS, or None if no address and no file asks for TLS. Raises `ConfigError`."""
        if not self.tls_ca and not self.tls_cert and not any(one.startswith("tls://") for one in self.servers):
            return None
        try:
            context = ssl.create_default_context(cafile=str(self.tls_ca) if self.tls_ca else None)
            if self.tls_cert:
                context.load_cert_chain(str(self.tls_cert), str(self.tls_key) if self.tls_key else None)
        except OSError as error:
            text = f"cluster.tls_ca, cluster.tls_cert: the files can't be used: {error.strerror or error}."
            raise ConfigError(f"{text} Give certificates and key as PEM.") from None
        return context


def hash_name(name: str) -> str:
    """Return a hash of the name that is safe in a subject."""
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=12).hexdigest()


class NatsLink:
    """The connection of one node to NATS. It comes back by itself, whatever happens to the servers."""

    def __init__(self, options: LinkOptions, respond: Respond, senders: Senders) -> None:
        """`respond` gets every message for this node. `senders` says whose messages count."""
        self._options = options
        self._respond = respond
        self.signing = Signing(senders)
        self._client: Any = None
        self._node = ""
        self._up_since: float | None = None
        self._jobs: deque[Callable[[], Awaitable[None]]] = deque()
        self._has_jobs = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._listeners: dict[str, OnMessage] = {}
        """Who gets the messages of each subject. They stay when the connection is made anew."""
        self._subscriptions: dict[str, Any] = {}
        """The subscriptions of the present connection, by their subjects."""
        self._watched = BoundedDict[str, Callable[[], None]](_MAX_WATCHED)
        """What to call when a message came to no node, by the subject to which the server reports it."""
        self._reports = ""
        """The beginning of these subjects."""
        self.lost = 0
        """Messages that were not sent: there was no connection, or too many waited."""

    async def open(self, key: bytes, node: str) -> None:
        """Connect, and listen for messages to this node. Raises `ConfigError` when there is no connection."""
        self.signing.use_key(key)
        self._client = await self._connect(node)
        self._up_since = time.monotonic()
        self._working = asyncio.create_task(self._work())
        self._reports = self._client.new_inbox()
        await self._subscribe(f"{self._reports}.*", self._on_report)
        await self.listen(node)

    async def _connect(self, node: str) -> Client:
        """Return a new connection, which comes back by itself when it breaks. Raises `ConfigError`."""
        options, client = self._options, Client()
        tls = options.tls()
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await client.connect(
                    servers=list(options.servers),
                    name=f"handspan {node[:8]}",
                    no_echo=True,
                    allow_reconnect=False,  # a first try that fails says why
                    max_reconnect_attempts=_FIRST_TRIES,
                    reconnect_time_wait=_RETRY_SECONDS,  # type: ignore[arg-type] # the library only sleeps so long
                    ping_interval=_PING_SECONDS,
                    max_outstanding_pings=2,
                    connect_timeout=_CONNECT_SECONDS,
                    disconnected_cb=self._on_down,
                    reconnected_cb=self._on_up,
                    closed_cb=partial(self._on_closed, client),
                    error_cb=self._on_error,
                    user=options.user or None,
                    password=options.password or None,
                    nkeys_seed=str(options.nkey) if options.nkey else None,
                    user_credentials=str(options.credentials) if options.credentials else None,
                    tls=tls,
                )
        except (Error, OSError, ValueError, TimeoutError) as error:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await client.close()
            cause = client.last_error or error
            reason = str(cause) or type(cause).__name__
            text = f"cluster.url: no connection to NATS: {reason}. Start nats-server, or correct the address"
            raise ConfigError(f"{text} and the credentials.") from None
        client.options.update(allow_reconnect=True, max_reconnect_attempts=-1)  # a server that was there comes back
        return client

    async def listen(self, node: str) -> None:
        """Listen for messages to this incarnation, and no longer to an earlier one."""
        earlier, self._node = self._node, node
        self.signing.use_name(node)
        await self.listen_also(node)
        if earlier:
            await self._unsubscribe(f"{PREFIX}.n.{earlier}.*")

    async def listen_also(self, name: str) -> None:
        """Listen for messages to this name, too. The name stays when this node gets a new incarnation."""
        await self._subscribe(f"{PREFIX}.n.{name}.*", self._listener(self._answer))
        with contextlib.suppress(Error, OSError):  # if this fails, the next connection makes the subscription
            await self._sync()  # other nodes may know this node only when their messages reach it

    async def close(self) -> None:
        """Send the messages that wait, then close the connection."""
        if self._working is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self.flush()
            tasks = [task for task in (self._working, self._reopening) if task is not None]
            self._working = None
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self.signing.senders.close()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.close()
            self._client = None

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._client is not None and bool(self._client.is_connected)

    @property
    def up_for(self) -> float:
        """Seconds since the connection came up; 0 while it is down."""
        return time.monotonic() - self._up_since if self.is_up and self._up_since is not None else 0.0

    # Messages to a node.

    def send(self, node: str, kind: str, body: bytes, missed: Callable[[], None] | None = None) -> None:
        """Send a message to a node. Never waits; while there is no connection, the message is lost.

        `missed` is called when the message certainly came to no node: no node listens, or there is no connection.
        """
        subject = f"{PREFIX}.n.{node}.{kind}"
        if missed is None:
            self.publish(subject, body)
        elif not self._can_send():
            missed()
        else:
            self._add_job(lambda: self._send_watched(subject, body, missed))

    async def _send_watched(self, subject: str, body: bytes, missed: Callable[[], None]) -> None:
        signed = self.signing.sign_message(subject, body)
        report = f"{self._reports}.{self.signing.sent}"
        self._watched[report] = missed
        await self._client.publish(subject, signed, reply=report)

    async def _on_report(self, message: Any) -> None:
        missed = self._watched.pop(message.subject, None)
        if missed is not None and (message.headers or {}).get("Status") == _NO_LISTENER:
            missed()

    async def request(self, node: str, kind: str, body: bytes, seconds: float) -> bytes:
        """Return the node's response. Raises `NoSuchNode`, `LinkDown`, or `TimeoutError`."""
        if not self.is_up:
            raise LinkDown("There is no connection to NATS.")
        subject = f"{PREFIX}.n.{node}.{kind}"
        signed = self.signing.sign_message(subject, body)
        try:
            answer = await self._client.request(subject, signed, timeout=seconds)
        except NoRespondersError:
            raise NoSuchNode(f"No node listens as {node}.") from None
        except NatsTimeout:
            raise TimeoutError from None
        except (Error, OSError) as error:
            raise LinkDown(f"The connection to NATS failed: {error}.") from None
        content = self.signing.check(f"{subject} {signed[:SIGNATURE_BYTES].hex()}", answer.data)
        if content is None:
            raise TimeoutError
        return content

    # Messages to every node that is interested.

    def publish(self, subject: str, body: bytes) -> None:
        """Send this to every node that follows the subject. Never waits; without a connection the message is lost."""
        if self._can_send():
            self._add_job(lambda: self._client.publish(subject, self.signing.sign_message(subject, body)))

    def follow(self, subject: str, receive: Receive) -> None:
        """Pass every message of this subject to `receive`."""
        on_message = self._listener(lambda message, body: receive(message.subject, body))
        self._add_job(lambda: self._subscribe(subject, on_message))

    def unfollow(self, subject: str) -> None:
        """Follow this subject no longer."""
        self._add_job(lambda: self._unsubscribe(subject))

    async def flush(self) -> None:
        """Wait until the server has all messages and subscriptions so far. Raises `LinkDown`."""
        before = asyncio.Event()

        async def note() -> None:
            before.set()

        if not self.is_up:
            raise LinkDown("There is no connection to NATS.")
        self._add_job(note)
        await before.wait()
        try:
            await self._sync()
        except (Error, OSError, TimeoutError) as error:
            raise LinkDown(f"The connection to NATS failed: {error}.") from None

    # Inside.

    def _can_send(self) -> bool:
        """Whether a message can be sent now. One that can't is counted as lost."""
        can_send = self.is_up and len(self._jobs) < _MAX_WAITING
        self.lost += not can_send
        return can_send

    def _add_job(self, job: Callable[[], Awaitable[None]]) -> None:
        """Let `_work` do this job after all jobs before it."""
        self._jobs.append(job)
        self._has_jobs.set()

    async def _work(self) -> None:
        """Do the jobs in their order. A job that fails does not stop the others: every message may be lost."""
        while True:
            await self._has_jobs.wait()
            self._has_jobs.clear()
            while self._jobs:
                try:
                    await self._jobs.popleft()()
                except (Error, OSError, TimeoutError) as error:
                    self.lost += 1
                    _log.debug("A message to other nodes was lost: %s", error)
                except Exception:  # a bug of the library: the messages after this one must not wait for ever
                    self.lost += 1
                    _log.exception("A message to other nodes was lost")

    async def _sync(self) -> None:
        """Wait until the server has received everything that was written so far.

        One flush is not enough: the library sends its PING before what waits in its buffer. The second PING comes
        after that.
        """
        await self._client.flush()
        await self._client.flush()

    async def _subscribe(self, subject: str, on_message: OnMessage) -> None:
        self._listeners[subject] = on_message
        if subject not in self._subscriptions:
            self._subscriptions[subject] = await self._client.subscribe(
                subject, cb=on_message, pending_msgs_limit=_MAX_WAITING
            )

    async def _unsubscribe(self, subject: str) -> None:
        self._listeners.pop(subject, None)
        subscription = self._subscriptions.pop(subject, None)
        if subscription is not None:
            with contextlib.suppress(ConnectionClosedError):
                await subscription.unsubscribe()

    def _listener(self, take: Callable[[Any, bytes], None]) -> OnMessage:
        """Return what takes the messages of one subject, each once, and passes them to `take`."""
        received = ReceivedNumbers(self.signing.senders)

        async def on_message(message: Any) -> None:
            self.signing.accept(received, message, take)

        return on_message

    def _answer(self, message: Any, body: bytes) -> None:
        """Pass a message to this node to `respond`, and send the response."""
        answer = self._respond(message.subject.rpartition(".")[2], body)
        if message.reply and answer is not None:
            asked = f"{message.subject} {message.data[:SIGNATURE_BYTES].hex()}"  # a response fits only its request
            self._add_job(lambda: self._client.publish(message.reply, self.signing.sign(asked, answer)))

    async def _on_down(self) -> None:
        self._up_since = None

    async def _on_up(self) -> None:
        self._up_since = time.monotonic()

    async def _on_closed(self, client: Client) -> None:
        """Make a new connection. After some errors, as for expired credentials, the library does not reconnect."""
        if client is self._client and self._working is not None:
            _log.warning("NATS has closed the connection of this node: %s. It is made anew.", client.last_error)
            self._reopening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        """Try until there is a new connection, and subscribe again to all subjects."""
        while True:
            await asyncio.sleep(_REOPEN_SECONDS)
            try:
                client = await self._connect(self._node)
            except ConfigError as error:
                _log.warning("%s", error)
                continue
            self._client, self._up_since = client, time.monotonic()
            self._subscriptions.clear()
            for subject, on_message in list(self._listeners.items()):
                with contextlib.suppress(Error, OSError):  # then this connection was closed, too
                    await self._subscribe(subject, on_message)
            return

    async def _on_error(self, error: Exception) -> None:
        _log.debug("NATS: %s", error)
