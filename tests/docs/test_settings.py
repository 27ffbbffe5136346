"""docs/settings.md says what the settings are."""

from scripts import settings_page


def test_the_page_is_what_the_settings_say() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), "Run `make docs`."
