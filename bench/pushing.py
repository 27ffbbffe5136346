"""What a notification costs the gateway: encrypted, signed, and given to a push service on this computer."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.figures import Figure, best_cpu
from handspan.config.push_settings import PushSettings
from handspan.core.records import PushSubscription
from handspan.gateway.push.encryption import write_base64
from handspan.gateway.push.sender import PushSender
from handspan.net.guard import NetGuard
from handspan.wire.rest.push import Notice

NOTICE = Notice(
    kind="question",
    title="General asks",
    body="May it use shell?",
    url="#/chat/0123456789abcdef",
    tag="0123456789abcdef0123456789abcdef",
    question="0123456789abcdef0123456789abcdef",
    subscription="0123456789abcdef0123456789abcdef",
    allow="f" * 64,
    deny="e" * 64,
)


async def measure(folder: Path) -> Iterable[Figure]:
    """`push_ms`: CPU time of one notification, with that of the push service, which is in this process."""
    server = await asyncio.start_server(_accept, "127.0.0.1", 0)
    host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    point = generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    keys = (write_base64(point), write_base64(bytes(16)))
    phone = PushSubscription("s", "ann", "t", f"http://{host}/send", *keys, "phone")
    sender = PushSender(bytes(32), NetGuard(), PushSettings(hosts=(host,)))
    send = partial(sender.send, phone, NOTICE, ttl=60.0, is_urgent=True)
    async with server:
        assert not (await send()).problem
        taken = await best_cpu({"push": send}, rounds=7)
    return [Figure("push_ms", taken["push"] / 1e3, "ms of CPU", target=3.0)]


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take one message."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()
