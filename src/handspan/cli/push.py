"""`handspan push`: list the browsers that get notifications, test and remove them (SPEC J4)."""

from typing import Final

import click

from handspan.cli.door import RequestGroup, change, fetch
from handspan.cli.render import print_as_json, print_done, print_rows, render_time
from handspan.cli.requests import segment
from handspan.wire.rest.push import RemovedSubscription, SubscriptionList, TestedSubscription

_NONE: Final = "No browser gets notifications yet: on the page, under Devices, choose 'Notify me here'."


@click.group("push", cls=RequestGroup)
def command() -> None:
    """List the browsers that get notifications: id, label, push service, when it last accepted one."""
    found = fetch("/api/push", SubscriptionList).subscriptions
    if print_as_json(found):
        return
    seen = [(one, "never" if one.last_success is None else render_time(one.last_success)) for one in found]
    rows = [(one.id, one.label, one.host, last) for one, last in seen]
    print_rows(("id", "label", "push service", "last accepted"), rows, _NONE)


@command.command("test")
@click.argument("subscription_id", metavar="ID")
def test(subscription_id: str) -> None:
    """Send the browser ID a notification."""
    done = change("POST", f"/api/push/{segment(subscription_id)}/test", TestedSubscription)
    print_done(done, "Its push service has accepted a notification.")


@command.command("remove")
@click.argument("subscription_id", metavar="ID")
def remove(subscription_id: str) -> None:
    """Send the browser ID no more notifications."""
    done = change("DELETE", f"/api/push/{segment(subscription_id)}", RemovedSubscription)
    print_done(done, "It gets no more notifications.")
