"""`handspan channels`: the ways to people, whether each works, and who may write there (SPEC B, `message`)."""

import click

from handspan.cli.door import ask_gateway, note_changed_settings, place_options
from handspan.cli.options import ListingGroup, json_option
from handspan.cli.render import print_done, print_json, print_rows
from handspan.cli.requests import Requests, segment
from handspan.wire.rest.channels import ChannelList, ChannelTested, ChannelView, SenderChanged


@click.group("channels", cls=ListingGroup, invoke_without_command=True)
@json_option
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the channels: kind, state, agent, who may write. docs/channels.md says how to set one up."""
    if ctx.invoked_subcommand is not None:
        return
    found = ask_gateway(_list, says=not as_json)
    if as_json:
        print_json(found.channels)
        return
    rows = [(one.name, one.kind, one.state.status, one.agent or "(default)", _people(one)) for one in found.channels]
    print_rows(("name", "kind", "state", "agent", "people"), rows, "No channel yet: the setting `channels` names them.")
    for one in found.channels:
        if one.state.reason:
            click.echo(f"{one.name}: {one.state.reason}")


async def _list(requests: Requests) -> ChannelList:
    await note_changed_settings(requests)  # a channel that was added to them needs a restart
    return await requests.get("/api/channels", ChannelList)


def _people(channel: ChannelView) -> str:
    if not channel.receives:
        return "(only sends)"
    paired = [f"{one.sender} {one.name}".strip() for one in channel.senders]
    return ", ".join([*channel.allow, *paired]) or "(none may write yet)"


@command.command("test")
@click.argument("name")
@click.argument("chat_id", default="")
@click.argument("text", default="")
@json_option
@place_options
def test(name: str, chat_id: str, text: str, as_json: bool) -> None:
    """Send a message through the channel NAME to CHAT_ID: 'all' for a page, 'default' for an Apprise address."""
    body = {"chat_id": chat_id or ("all" if name == "page" else "default"), **({"content": text} if text else {})}
    path = f"/api/channels/{segment(name)}/test"
    done = ask_gateway(lambda requests: requests.change("POST", path, ChannelTested, body), says=not as_json)
    print_done(done, f"The channel {name!r} delivered a message to {done.chat_id!r}.", as_json=as_json)


@command.command("pair")
@click.argument("name")
@click.argument("sender")
@click.option("--as", "shown_name", default="", help="The person's name, for lists.")
@json_option
@place_options
def pair(name: str, sender: str, shown_name: str, as_json: bool) -> None:
    """Let the person with the id SENDER write to your agents on the channel NAME."""
    path, body = f"/api/channels/{segment(name)}/senders", {"sender": sender, "name": shown_name}
    done = ask_gateway(lambda requests: requests.change("POST", path, SenderChanged, body), says=not as_json)
    print_done(done, f"{sender} may write on the channel {name!r} now.", as_json=as_json)


@command.command("unpair")
@click.argument("name")
@click.argument("sender")
@json_option
@place_options
def unpair(name: str, sender: str, as_json: bool) -> None:
    """Let the person with the id SENDER write no more on the channel NAME."""
    path = f"/api/channels/{segment(name)}/senders/{segment(sender)}"
    done = ask_gateway(lambda requests: requests.change("DELETE", path, SenderChanged), says=not as_json)
    print_done(done, f"{sender} may write on the channel {name!r} no more.", as_json=as_json)
