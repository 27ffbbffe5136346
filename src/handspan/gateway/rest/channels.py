"""Channels: their state, a test, the people who may write; and `POST /channels/{name}`, signed messages (SPEC S5)."""

from hashlib import sha256
from typing import Final

import msgspec

from handspan.agent.refusals import NoTurnsHere
from handspan.channels.bus import ChannelQueue, describe_unknown
from handspan.channels.webhook import check_signature
from handspan.core.channels import ChannelSender, IncomingMessage, OutgoingMessage
from handspan.core.errors import ToolError, WireError
from handspan.core.values import encode
from handspan.gateway.channels.door import ChannelDoor
from handspan.gateway.http.bodies import read_body
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, Reply, RestRequest
from handspan.gateway.rest.status import channel_states
from handspan.wire import strict_json
from handspan.wire.rest import channels as wire

family: Final = Family("channels")
_ID_LENGTH: Final = 32
_RECEIVES: Final = frozenset(("telegram", "webhook"))
_REFUSALS: Final = {"refused": (403, "sender_refused"), "limited": (429, "rate_limited"), "replayed": (409, "replayed")}


@family.get("/api/channels")
async def channels(request: RestRequest) -> wire.ChannelList:
    """The channels, whether each works, and who may write there."""
    await request.app.messages.check()
    door, states = request.parts.channels, channel_states(request)
    found = []
    for queue in door or ():
        assert door is not None
        senders = [one for one in await door.book.senders(queue.name) if one.owner == request.owner]
        views = [wire.SenderView(one.sender, one.owner, one.name, moment(one.at)) for one in senders]
        settings = queue.settings
        receives = settings.receive and queue.kind in _RECEIVES
        about = (settings.owner, settings.agent, receives, states[queue.name], settings.allow, views)
        found.append(wire.ChannelView(queue.name, queue.kind, *about))
    return wire.ChannelList(found)


@family.post("/api/channels/{name}/test", "admin", also_refuses=(502,))
async def test_channel(request: RestRequest, name: str, body: wire.ChannelTest) -> wire.ChannelTested:
    """Send a message through a channel, to see whether it works."""
    queue = _find(request, name)
    try:
        await queue.send(OutgoingMessage(name, body.chat_id, body.content, request.owner))
    except ToolError as error:
        raise Refusal(502, "not_delivered", f"The message was not delivered: {error.message}") from None
    return wire.ChannelTested(name, body.chat_id)


@family.post("/api/channels/{name}/senders", "admin", status=201)
async def pair_sender(request: RestRequest, name: str, body: wire.NewSender) -> wire.SenderChanged:
    """Let a person write to agents on this channel, for the caller's owner."""
    queue = _find(request, name)
    if queue.kind not in _RECEIVES:
        raise Refusal(422, "invalid_request", f"No person can write to an agent on {name!r}, which is {queue.kind!r}.")
    await _door(request).book.pair(ChannelSender(name, body.sender, request.owner, body.name))
    return wire.SenderChanged(name, body.sender, paired=True)


@family.delete("/api/channels/{name}/senders/{sender}", "admin")
async def unpair_sender(request: RestRequest, name: str, sender: str) -> wire.SenderChanged:
    """Let a person write no more. The ids of the settings stay."""
    _find(request, name)
    if not await _door(request).book.unpair(name, sender):
        raise not_found_refusal("sender", sender)
    return wire.SenderChanged(name, sender, paired=False)


@family.post(
    "/channels/{name}",
    "open",
    status=202,
    also={200: wire.SignedAnswer},
    also_refuses=(400, 401, 403, 408, 409, 413, 421, 429),
)
async def take_signed(request: RestRequest, name: str, headers: wire.SignatureHeaders) -> wire.SignedAnswer | Reply:
    """Take a message of a person, signed by the program that passes it on. A signature is good once, for 5 minutes."""
    limits = request.rest.limits
    body = await read_body(request.asgi, limits.of("small"), limits.seconds)
    channel = None if request.parts.channels is None else request.parts.channels.find_webhook(name)
    # An unknown channel is refused like a wrong signature: without the secret nothing can be learned.
    secret = channel.secret if channel is not None else ""
    try:
        proof = check_signature(secret, body, headers.x_handspan_timestamp, headers.x_handspan_signature)
    except WireError as error:
        raise Refusal(401, "bad_signature", str(error)) from None
    if channel is None:
        raise Refusal(401, "bad_signature", "The signature is wrong.")
    return await _take(request, _read(name, body, proof))


async def _take(request: RestRequest, message: IncomingMessage) -> wire.SignedAnswer | Reply:
    """Give the message to its channel, and answer how it was taken. Raises `Refusal` if it was not."""
    if not request.parts.nodes.runs_turns:
        raise NoTurnsHere
    try:
        taken = await _door(request).receive(message)
    except ToolError as error:
        if error.code != "busy":
            raise
        raise Refusal(429, "busy", error.message, 5) from None
    if taken.status in _REFUSALS:
        text = taken.text or "It was not accepted."
        if taken.status == "replayed":
            text = "This request came before, and each is taken once. Sign the message again, with the time of now."
        raise Refusal(*_REFUSALS[taken.status], text)
    assert taken.status in ("accepted", "answered", "duplicate")
    answer = wire.SignedAnswer(taken.status, message.reply_to or message.id, taken.text)
    return answer if taken.status == "accepted" else Reply(answer, 200)


def _read(name: str, body: bytes, proof: str) -> IncomingMessage:
    """Return the message in a signed body. Raises `Refusal`."""
    try:
        read = msgspec.convert(strict_json.parse(body), wire.SignedMessage)
    except (WireError, msgspec.ValidationError) as error:
        raise Refusal(400, "invalid_json", f"The body can't be read. {error}") from None
    if read.media:
        raise Refusal(400, "invalid_request", "Only text is read: leave `media` empty.")
    if not read.content.strip() and not read.button:
        text = "The message is empty: put its text into `content`, or the pressed button into `button`."
        raise Refusal(400, "invalid_request", text)
    chat = read.chat_id or read.sender_id
    about = (read.sender_id, chat, read.content, read.sender_name, read.button, proof, read.id)
    # Programs count the messages of each sender and chat for themselves. Without an id, the signature is one.
    own_id = sha256(encode((chat, read.sender_id, read.id))).hexdigest()[:_ID_LENGTH] if read.id else proof
    return IncomingMessage(name, own_id, *about)


def _door(request: RestRequest) -> ChannelDoor:
    door = request.parts.channels
    if door is None:
        raise not_found_refusal("channel", "")
    return door


def _find(request: RestRequest, name: str) -> ChannelQueue:
    door = request.parts.channels
    queue = None if door is None else door.messages.find(name)
    if queue is None:
        raise Refusal(404, "not_found", describe_unknown(name, [one.name for one in door or ()]))
    return queue
