"""Channels from the settings. One that can't be used keeps its reason, and stops neither the others nor the gateway."""

from collections.abc import Mapping
from typing import Final, get_args

from handspan.channels.apprise_urls import AppriseChannel
from handspan.channels.bus import Channel, ChannelQueue, MessageBus
from handspan.channels.page import PageChannel, ShowMessage, show_nowhere
from handspan.channels.telegram import TelegramChannel
from handspan.channels.telegram_api import TelegramApi
from handspan.channels.webhook import WebhookChannel
from handspan.config.secrets import read_secret
from handspan.config.settings import ChannelSettings
from handspan.core.channels import ChannelKind
from handspan.core.errors import ConfigError
from handspan.net.guard import NetGuard

_KINDS: Final[tuple[ChannelKind, ...]] = get_args(ChannelKind)


class ChannelMaker:
    """Makes channels, each as its kind wants it."""

    def __init__(self, guard: NetGuard, environ: Mapping[str, str], show: ShowMessage = show_nowhere) -> None:
        self._guard = guard
        self._environ = environ
        self._show = show

    def make_bus(self, channels: Mapping[str, ChannelSettings]) -> MessageBus:
        """Return the bus with all these channels."""
        return MessageBus({name: self._queue_of(name, settings) for name, settings in channels.items()})

    def _queue_of(self, name: str, settings: ChannelSettings) -> ChannelQueue:
        """Return the queue of this channel. Of one that can't be used, it has only the reason."""
        kind = next((one for one in _KINDS if one == name), None) if settings.type == "auto" else settings.type
        if kind is None:
            text = f"channels.{name}.type is missing. Set it to one of {', '.join(map(repr, _KINDS))}."
            return ChannelQueue(name, "webhook", settings, text)
        try:
            return ChannelQueue(name, kind, settings, self._make(name, kind, settings))
        except ConfigError as error:
            return ChannelQueue(name, kind, settings, str(error))

    def _make(self, name: str, kind: ChannelKind, settings: ChannelSettings) -> Channel:
        """Return the channel of this kind."""
        match kind:
            case "page":
                return PageChannel(self._show)
            case "telegram":
                token = self._secret(name, "token", settings.token)
                return TelegramChannel(name, TelegramApi(name, token, settings.base_url, self._guard), settings.queue)
            case "webhook":
                url, secret = self._secret(name, "url", settings.url), self._secret(name, "secret", settings.secret)
                return WebhookChannel(name, url, secret, self._guard)
            case "apprise":
                return AppriseChannel(name, self._secret(name, "url", settings.url))

    def _secret(self, name: str, key: str, reference: str) -> str:
        if not reference:
            raise ConfigError(f"channels.{name}.{key} is missing. Set it, or name where it is: env:NAME or file:PATH.")
        return read_secret(reference, self._environ, f"channels.{name}.{key}")
