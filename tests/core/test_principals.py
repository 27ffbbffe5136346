"""SPEC R1, R2: where a tool comes from and who sees it, in words."""

import pytest

from handspan.core.principals import BUILTIN, GLOBAL, Origin, ToolScope


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (BUILTIN, "builtin"),
        (Origin("plugin", "weather"), "plugin(weather)"),
        (Origin("mcp", "git"), "mcp(git)"),
        (Origin("remote", "session-1", "connection-2"), "remote(session-1)"),
        (Origin("device", "phone", "connection-1"), "device(phone)"),
        (Origin("browser", "tab", "thread-1"), "browser(tab)"),
        (GLOBAL, "global"),
        (ToolScope("owner", "ada"), "owner 'ada'"),
        (ToolScope("session", "one"), "session 'one'"),
    ],
)
def test_origins_and_scopes_read_as_people_write_them(thing: Origin | ToolScope, text: str) -> None:
    assert str(thing) == text


def test_only_our_own_and_plugins_tools_are_not_foreign() -> None:
    assert not BUILTIN.is_foreign and not Origin("plugin", "weather").is_foreign
    assert all(Origin(kind, "x").is_foreign for kind in ("mcp", "remote", "device", "browser"))


def test_two_connections_of_one_session_are_two_origins() -> None:
    assert Origin("remote", "one", "a") != Origin("remote", "one", "b")
