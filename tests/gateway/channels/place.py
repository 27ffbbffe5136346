"""A real gateway with channels, for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from handspan.config.load import load_settings
from handspan.core.values import Json
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server
from handspan.models.scripted import Scripted
from tests.channels.telegram_server import TOKEN, TelegramServer
from tests.gateway.raw_clients import Place
from tests.waiting import WAIT

SECRET = "a secret of more than sixteen"


def telegram_settings(telegram: TelegramServer, **more: Json) -> dict[str, Json]:
    """The settings of the fake bot; Ada may write."""
    return {"token": TOKEN, "base_url": telegram.url, "allow": ["7"], **more}


@contextlib.asynccontextmanager
async def gateway_with(
    folder: Path, channels: dict[str, Any], turns: Sequence[Any] = ("Hello.",), **more: Json
) -> AsyncIterator[Place]:
    """A gateway on a port. What it stores stays in the folder."""
    overrides: dict[str, Json] = {
        "workspace": str(folder / "workspace"),
        "state": str(folder / "state"),
        "gateway": {"port": 0},
        "channels": channels,
        **more,
    }
    settings = load_settings(None, {"HOME": str(folder)}, overrides)
    gateway = Gateway(settings, model=Scripted(list(turns)))
    server = Server(gateway, settings.gateway)
    await asyncio.wait_for(server.open(), WAIT)
    try:
        yield Place(gateway, server)
    finally:
        await asyncio.wait_for(server.close(), WAIT)
