"""Channels from settings: what is wrong is said of this channel alone. Apprise with its own notifier."""

from pathlib import Path

import msgspec
import pytest

from handspan.channels.bus import MessageBus
from handspan.channels.setup import ChannelMaker
from handspan.config.settings import ChannelSettings
from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ToolError
from handspan.net.guard import NetGuard
from tests.channels.telegram_server import TOKEN
from tests.net.site import Site, response
from tests.waiting import soon

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise"),
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated"),
]

SECRET = "a secret of more than sixteen"


def make(environ: dict[str, str] | None = None, **channels: ChannelSettings) -> MessageBus:
    return ChannelMaker(NetGuard(), environ or {}).make_bus(channels)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (ChannelSettings(), "channels.x.type is missing"),
        (ChannelSettings("telegram"), "channels.x.token is missing"),
        (ChannelSettings("telegram", token="env:BOT"), "the environment variable 'BOT' is not set"),
        (ChannelSettings("telegram", token="hunter2"), "is not the token of a bot"),
        (ChannelSettings("webhook", url="https://x.example", secret="short"), "fewer than 16 characters"),
        (ChannelSettings("webhook", url="x.example", secret=SECRET), "channels.x.url"),
        (ChannelSettings("webhook", url="https://x.example"), "channels.x.secret is missing"),
        (ChannelSettings("apprise", url="pigeon://x"), "no address that Apprise knows"),
        (ChannelSettings("apprise", url="json://{chat_id}/x"), "behind the host only"),
    ],
)
async def test_a_channel_that_can_not_be_used_says_why(settings: ChannelSettings, says: str) -> None:
    bus = make(x=settings, page=ChannelSettings())
    queue = bus.find("x")
    assert queue is not None
    await soon(queue.check())
    assert queue.state.status == "failed" and says in queue.state.reason
    assert "hunter2" not in queue.state.reason
    assert bus.problem == ""


async def test_a_channel_is_what_its_name_says_and_its_key_is_read_from_its_place(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    bus = make(
        {"BOT": TOKEN},
        telegram=ChannelSettings(token="env:BOT"),
        hook=ChannelSettings("webhook", url="https://x.example", secret=f"file:{tmp_path}/secret"),
    )
    assert [(queue.kind, queue.state.status) for queue in bus] == [("telegram", "ready"), ("webhook", "ready")]


async def test_a_page_without_clients_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="No page of the person is in view"):
        await soon(make(page=ChannelSettings()).send(OutgoingMessage("page", "all", "hi", "operator")))


async def test_apprise_delivers_with_its_json_notifier() -> None:
    async with Site({"/to/ada%20l": response(b"{}"), "/fail": response(b"", "500 Oops")}) as site:
        bus = make(
            many=ChannelSettings("apprise", url=f"json://127.0.0.1:{site.port}/to/{{chat_id}}"),
            one=ChannelSettings("apprise", url=f"json://127.0.0.1:{site.port}/fail"),
        )
        await soon(bus.send(OutgoingMessage("many", "ada l", "Grüße", "operator")))
        assert msgspec.json.decode(site.seen[0].body)["message"] == "Grüße"
        with pytest.raises(ToolError, match="Apprise could not deliver"):
            await soon(bus.send(OutgoingMessage("one", "default", "x", "operator")))
        with pytest.raises(ToolError, match="use the chat_id 'default', not 'bob'"):
            await soon(bus.send(OutgoingMessage("one", "bob", "x", "operator")))
        assert len(site.seen) == 2
