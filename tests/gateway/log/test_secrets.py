"""Secrets that a text from outside may hold do not reach the log (SPEC S5)."""

from pathlib import Path

import pytest

from handspan.config.load import load_settings
from handspan.core.values import Json
from handspan.gateway.entry.tokens import new_token
from handspan.gateway.log.secrets import hide_secrets_of


@pytest.mark.parametrize(
    "secret",
    [
        "tesQJsa6oFuAeIQRnc5cL3ZGxbE2vbY-qo3p7V5Duh8",
        "FucoAZtjRCSlQOUuAkKIZqFruTbrtpEQJiYtISiwuTE",  # one token in 1,500 has no digit
        "page.lQkmvG_78AF9MfcNwN_fusJuoXiS61iSVmJ2nS1UIE8",
        "1234-5678-9012",
        "sk-proj-abcdefghijklmnop1234",
        "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        f"{'0a' * 16}.{'1b' * 20}",
    ],
)
def test_known_forms_are_hidden(tmp_path: Path, secret: str) -> None:
    hide = hide_secrets_of(load_settings(None, {"HOME": str(tmp_path)}), {})
    assert secret.removeprefix("page.") not in hide(f"GET /x/{secret} and '{secret}' was refused")


def test_every_token_that_is_made_has_a_known_form(tmp_path: Path) -> None:
    hide = hide_secrets_of(load_settings(None, {"HOME": str(tmp_path)}), {})
    assert not [token for token in (new_token() for _ in range(200)) if token in hide(f"({token})")]


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2hunter2",
        "/ws/chat?token=hunter2hunter2&x=1",
        "/signin?code=hunter2hunter2",
        "api_key='hunter2hunter2'",
        '{"password": "hunter2hunter2"}',
        "postgresql://ann:hunter2hunter2@db/handspan",
    ],
)
def test_fields_that_hold_a_secret_lose_their_value(tmp_path: Path, text: str) -> None:
    hidden = hide_secrets_of(load_settings(None, {"HOME": str(tmp_path)}), {})(text)
    assert "hunter2" not in hidden and "…" in hidden


def test_ordinary_words_stay(tmp_path: Path) -> None:
    hide = hide_secrets_of(load_settings(None, {"HOME": str(tmp_path)}), {"EDITOR_KEY": "vi"})
    for text in (
        "call phone__battery: failed after 12 ms, execution_failed (b2b725fa-9068-4c7e-946f-8a04d10d95b0)",
        "chat in 3ecf272bf9068ada3ea33dd891cae675 disconnected (1000)",
        "code: invalid_arguments",
        "a token of operator was revoked",
        "vi",
    ):
        assert hide(text) == text


def test_values_of_the_settings_and_of_the_environment_are_hidden(tmp_path: Path) -> None:
    given: dict[str, Json] = {
        "models": {"mine": {"api": "custom", "base_url": "http://h/v1", "key": "key-of-settings"}},
        "tools": {"mcp_servers": {"s": {"command": "x", "env": {"A": "value-of-env"}}}},
        "store": {"url": "postgresql://word-of-url@h/d"},
    }
    settings = load_settings(None, {"HOME": str(tmp_path)}, given)
    hide = hide_secrets_of(settings, {"SOME_API_KEY": "key-of-environment", "LANG": "en_GB.UTF-8"})
    said = hide("key-of-settings, value-of-env, word-of-url, key-of-environment, en_GB.UTF-8")
    assert said == "…, …, …, …, en_GB.UTF-8"
