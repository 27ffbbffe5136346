"""The settings of notifications."""

from msgspec import Struct

from handspan.config.kinds import ContactAddress, Count, KnownHost, Seconds


class PushSettings(Struct, frozen=True):
    """Notifications of browsers and phones by Web Push (SPEC J4, docs/push.md)."""

    subscriptions: Count = 20
    """How many browsers of one owner may get them."""
    after: Seconds = 15.0
    """How long a question waits for an answer where it is shown first: on a page in view, in a terminal, in a chat.
    Then browsers are told."""
    contact: ContactAddress = "mailto:handspan@example.com"
    """The operator's address, which push services ask for. Apple's refuses a host such as `localhost` or `.local`."""
    hosts: tuple[KnownHost, ...] = ()
    """Push services of your own, `host:port`: these may also have a private address, or plain http."""
