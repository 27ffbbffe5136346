"""Requests to the Bot API: errors in words, no token in any text or log line, texts in parts."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.channels.bus import Unsent
from handspan.channels.telegram_api import TelegramApi, split_text, utf16_length
from handspan.core.errors import ConfigError, ToolError
from handspan.net.guard import NetGuard
from tests.channels.telegram_server import TOKEN, TelegramServer
from tests.net.site import Site, response
from tests.waiting import soon

pytestmark = pytest.mark.anyio


def api(url: str, token: str = TOKEN) -> TelegramApi:
    return TelegramApi("tg", token, url, NetGuard())


@pytest.mark.parametrize("token", ["", "x", "123:short", f"{TOKEN}/../x", f"{TOKEN}\n"])
def test_what_can_not_be_a_token_is_refused_at_once(token: str) -> None:
    with pytest.raises(ConfigError, match=r"channels\.tg\.token is not the token of a bot"):
        api("https://api.telegram.org", token)


async def test_the_token_is_in_no_error_and_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with TelegramServer() as telegram:
        wrong = api(telegram.url, f"1:{'x' * 30}")
        with pytest.raises(ToolError, match=r"401.*@BotFather shows it") as refused:
            await soon(wrong.call("getMe", {}))
        assert "xxxx" not in refused.value.message
        await soon(wrong.close())
        port = telegram.port
    closed = api(f"http://127.0.0.1:{port}")
    with pytest.raises(Unsent, match="Telegram can't be reached") as unsent:
        await soon(closed.call("getMe", {}))
    await soon(closed.close())
    assert TOKEN not in unsent.value.message
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("httpx2")]
    assert any("/bot…/getMe" in line for line in lines)
    assert not any("xxxx" in line or TOKEN in line for line in lines)


async def test_a_server_that_is_not_telegram_is_named() -> None:
    async with Site({f"/bot{TOKEN}/getMe": response(b"<html>")}) as site:
        asked = api(site.url(""))
        with pytest.raises(ToolError, match="without JSON: is the Bot API there"):
            await soon(asked.call("getMe", {}))
        await soon(asked.close())


@pytest.mark.parametrize(("status", "is_unsent"), [(429, True), (502, True), (400, False), (403, False)])
async def test_only_what_certainly_was_not_done_may_be_sent_again(status: int, is_unsent: bool) -> None:
    async with TelegramServer() as telegram:
        telegram.refuse = lambda method: (status, "Nope", {"retry_after": 3})
        asked = api(telegram.url)
        with pytest.raises(ToolError) as refused:
            await soon(asked.call("sendMessage", {}))
        await soon(asked.close())
        assert isinstance(refused.value, Unsent) is is_unsent
        if isinstance(refused.value, Unsent):
            assert refused.value.wait == 3


@given(text=st.text(st.sampled_from("ab 😀\n"), max_size=300), most=st.integers(2, 40))
def test_parts_fit_and_together_have_every_word_character(text: str, most: int) -> None:
    parts = split_text(text, most)
    assert parts and all(utf16_length(part) <= most for part in parts)
    assert "".join("".join(parts).split()).replace("…", "") == "".join(text.split())
