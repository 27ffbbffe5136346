"""Notifications of browsers: subscriptions in REST, what a notification carries, and its answer (SPEC J4)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

NoticeKind: TypeAlias = Literal["question", "message", "test"]
_Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Notice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a notification shows: never the arguments of a call, nor the text of a message or a question."""

    kind: NoticeKind
    title: str
    body: str
    url: str
    """Where a click leads: the end of the page's address."""
    tag: str
    """A newer notification takes the place of one with the same tag."""
    question: str = ""
    subscription: str = ""
    allow: str = ""
    """The token that allows it once. Empty: only the page can answer."""
    deny: str = ""


class PushKeys(Struct, frozen=True):
    """The keys of a browser's subscription, in base64url."""

    p256dh: _Key
    auth: _Key


class NewSubscription(Struct, frozen=True):
    """A subscription as browsers make it (`PushSubscription.toJSON`), with a label for people."""

    endpoint: Annotated[str, Meta(min_length=1, max_length=2048)]
    keys: PushKeys
    label: Annotated[str, Meta(max_length=64)] = ""


class SubscriptionView(Struct, frozen=True):
    """A browser that gets notifications."""

    id: str
    label: str
    host: str
    """The host of its push service. The rest of the address is a secret."""
    created: str
    last_success: str | None
    """When its push service has last accepted one."""
    current: bool
    """Whether it was made with the token of this request."""


class SubscriptionList(Struct, frozen=True):
    """The caller's browsers that get notifications."""

    public_key: str
    """The key that a new subscription names (`applicationServerKey`)."""
    subscriptions: list[SubscriptionView]


class AddedSubscription(Struct, frozen=True):
    """The browser gets notifications from now on."""

    id: str


class RemovedSubscription(Struct, frozen=True):
    """The browser gets no more notifications."""

    id: str
    removed: Literal[True] = True


class TestedSubscription(Struct, frozen=True):
    """The push service has accepted a notification."""

    id: str
    accepted: Literal[True] = True


class PushAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of a person who has pressed a button of a notification."""

    subscription: Annotated[str, Meta(max_length=64)]
    question: Annotated[str, Meta(max_length=200)]
    decision: Literal["allow", "deny"]
    token: Annotated[str, Meta(max_length=64)]
