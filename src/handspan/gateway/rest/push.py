"""Notifications: the caller's browsers that get them, and the answers that their buttons give (SPEC J4)."""

import math
import secrets
from typing import Final
from urllib.parse import urlsplit

from handspan.core.errors import ToolError, WireError
from handspan.core.records import PushSubscription
from handspan.gateway.entry.auth import INSIDE
from handspan.gateway.entry.host_policy import address_of
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import push as wire
from handspan.wire.rest.questions import AcceptedAnswer

family: Final = Family("push")
_FULL: Final = "You have as many browsers with notifications as push.subscriptions allows: remove one first."
_NO_TOKEN: Final = "A subscription ends with the token that it was made with, and this request has none."
_OVER: Final = "This question is not open any more, or this token does not answer it: open the page to look."


@family.get("/api/push")
async def subscriptions(request: RestRequest) -> wire.SubscriptionList:
    """The caller's browsers that get notifications, and the key for a new one."""
    push = request.parts.push
    found = await push.subscriptions(request.owner)
    return wire.SubscriptionList(await push.public_key(), [_render(request, one) for one in found])


@family.post("/api/push", status=201, also_refuses=(409,))
async def subscribe(request: RestRequest, body: wire.NewSubscription) -> wire.AddedSubscription:
    """Let a browser get notifications, until the token of this request is revoked. The same endpoint stays one."""
    if INSIDE in request.asgi.scope.get("extensions", {}):
        raise Refusal(409, "conflict", _NO_TOKEN)
    keys, label = (body.keys.p256dh, body.keys.auth), " ".join(body.label.split())
    given = PushSubscription(secrets.token_hex(16), request.owner, request.token_hash, body.endpoint, *keys, label)
    try:
        subscription_id = await request.parts.push.add(given)
    except (WireError, ToolError) as error:
        raise Refusal(409, "unusable", f"Nothing can be sent to this browser: {error}") from None
    if not subscription_id:
        raise Refusal(409, "conflict", _FULL)
    request.publish("devices", change="notified")
    return wire.AddedSubscription(subscription_id)


@family.delete("/api/push/{subscription_id}")
async def unsubscribe(request: RestRequest, subscription_id: str) -> wire.RemovedSubscription:
    """Send a browser no more notifications."""
    if not await request.store.push.remove(subscription_id, owner=request.owner):
        raise not_found_refusal("subscription", subscription_id)
    request.publish("devices", change="notified")
    return wire.RemovedSubscription(subscription_id)


@family.post("/api/push/{subscription_id}/test", also_refuses=(502,))
async def test_subscription(request: RestRequest, subscription_id: str) -> wire.TestedSubscription:
    """Send a browser a notification, to see whether it works."""
    outcome = await request.parts.push.test(subscription_id, request.owner)
    if outcome is None:
        raise not_found_refusal("subscription", subscription_id)
    if outcome.problem:
        gone = " The browser is forgotten: switch notifications on there again." if outcome.is_forgotten else ""
        raise Refusal(502, "not_delivered", f"The notification was not delivered: {outcome.problem}{gone}")
    request.publish("devices", change="notified")
    return wire.TestedSubscription(subscription_id)


@family.post("/push/answer", "open", size="tiny", also_refuses=(403, 429))
async def answer_notification(request: RestRequest, body: wire.PushAnswer) -> AcceptedAnswer:
    """Answer a question by a button of its notification, which has a token for this one answer.

    One address has ten wrong tries a minute; then it has to wait.
    """
    tries, address = request.rest.push_tries, address_of(request.asgi.scope)
    if wait := tries.wait(address):
        text = f"Too many wrong answers came from this address: wait {math.ceil(wait)} s."
        raise Refusal(429, "too_many_tries", text, wait)
    if not await request.parts.push.answer(body):
        tries.note(address)
        raise Refusal(403, "forbidden", _OVER)
    return AcceptedAnswer(body.question)


def _render(request: RestRequest, one: PushSubscription) -> wire.SubscriptionView:
    last = None if one.last_success is None else moment(one.last_success)
    about = (one.id, one.label, urlsplit(one.endpoint).hostname or "", moment(one.created))
    return wire.SubscriptionView(*about, last_success=last, current=one.token == request.token_hash)
