"""`handspan channels`: the ways to people, whether each works, and who may write there (SPEC B, `message`)."""

import click

from handspan.cli.door import RequestGroup, ask_gateway, change, note_changed_settings
from handspan.cli.render import print_as_json, print_done, print_rows
from handspan.cli.requests import Requests, segment
from handspan.wire.rest.channels import ChannelList, ChannelTested, ChannelView, SenderChanged


@click.group("channels", cls=RequestGroup)
def command() -> None:
    """List the channels: kind, state, agent, who may write. docs/channels.md says how to set one up."""

    async def work(requests: Requests) -> ChannelList:
        await note_changed_settings(requests)  # a channel that was added to them needs a restart
        return await requests.get("/api/channels", ChannelList)

    found = ask_gateway(work)
    if print_as_json(found.channels):
        return
    rows = [(one.name, one.kind, one.state.status, one.agent or "(default)", _people(one)) for one in found.channels]
    print_rows(("name", "kind", "state", "agent", "people"), rows, "No channel yet: the setting `channels` names them.")
    for one in found.channels:
        if one.state.reason:
            click.echo(f"{one.name}: {one.state.reason}")


def _people(channel: ChannelView) -> str:
    if not channel.receives:
        return "(only sends)"
    paired = [f"{one.sender} {one.name}".strip() for one in channel.senders]
    return ", ".join([*channel.allow, *paired]) or "(none may write yet)"


@command.command("test")
@click.argument("name")
@click.argument("chat_id", default="")
@click.argument("text", default="")
def test(name: str, chat_id: str, text: str) -> None:
    """Send a message through the channel NAME to CHAT_ID: 'all' for a page, 'default' for an Apprise address."""
    body = {"chat_id": chat_id or ("all" if name == "page" else "default"), **({"content": text} if text else {})}
    done = change("POST", f"/api/channels/{segment(name)}/test", ChannelTested, body)
    print_done(done, f"The channel {name!r} delivered a message to {done.chat_id!r}.")


@command.command("pair")
@click.argument("name")
@click.argument("sender")
@click.option("--as", "shown_name", default="", help="The person's name, for lists.")
def pair(name: str, sender: str, shown_name: str) -> None:
    """Let the person with the id SENDER write to your agents on the channel NAME."""
    body = {"sender": sender, "name": shown_name}
    done = change("POST", f"/api/channels/{segment(name)}/senders", SenderChanged, body)
    print_done(done, f"{sender} may write on the channel {name!r} now.")


@command.command("unpair")
@click.argument("name")
@click.argument("sender")
def unpair(name: str, sender: str) -> None:
    """Let the person with the id SENDER write no more on the channel NAME."""
    done = change("DELETE", f"/api/channels/{segment(name)}/senders/{segment(sender)}", SenderChanged)
    print_done(done, f"{sender} may write on the channel {name!r} no more.")
