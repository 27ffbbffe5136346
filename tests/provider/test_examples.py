"""The providers of `examples/`: what they answer, and what nothing gets out of them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples.providers import finance, notes, sqlite_queries
from examples.providers.shop import make_database

from handspan.provider import Consumer, Provider, ProviderError
from handspan.wire.cetp import CetpError, CetpSuccess, execute_request, read_data

pytestmark = pytest.mark.anyio
SHOP = Path(sqlite_queries.__file__).with_name("shop.toml")


async def refused(app: Provider, tool: str, **arguments: Any) -> str:
    """The code and the message of a call that fails."""
    with pytest.raises(ProviderError) as caught:
        await app.call(tool, **arguments)
    return f"{caught.value.answer.error_code} {caught.value.answer.error_message}"


# Finance.


async def test_finance_lists_holdings_and_transactions() -> None:
    everything, funds = [
        await finance.app.call("get_portfolio_holdings", **more) for more in ({}, {"account_type": "fund"})
    ]
    assert isinstance(everything, list) and len(everything) == 3
    assert funds == [{"type": "fund", "symbol": "WORLD", "units": 40, "value": 5203.25}]
    spring = await finance.app.call("get_transactions", start_date="2026-03-01", end_date="2026-04-30")
    assert spring == [{"date": "2026-03-02", "kind": "buy", "symbol": "WORLD", "units": 40}]
    latest = await finance.app.call("get_transactions", start_date="2026-01-01", limit=1)
    assert isinstance(latest, list) and len(latest) == 1


async def test_finance_names_what_is_wrong_with_arguments() -> None:
    assert (await refused(finance.app, "get_transactions")).startswith("INVALID_ARGS")
    assert (await refused(finance.app, "get_transactions", start_date="soon")).startswith("INVALID_ARGS")
    wrong = await refused(finance.app, "get_transactions", start_date="2026-02-01", end_date="2026-01-01")
    assert wrong == "INVALID_ARGS end_date is before start_date"
    assert (await refused(finance.app, "get_portfolio_holdings", account_type="crypto")).startswith("INVALID_ARGS")


async def test_finance_needs_the_persons_yes_and_shows_less_to_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finance.app.grants, "_path", tmp_path / "grants.json")
    request = execute_request("get_portfolio_holdings", {})
    bridge, statistics = Consumer(0, 1, "/opt/bin/bridge"), Consumer(0, 2, "/opt/bin/statistics-tool")
    answer = await finance.app.answer(request, bridge)
    assert isinstance(answer, CetpError)
    assert answer.error_code == "AUTH_REQUIRED" and "authorize" in answer.resolution_hint
    for consumer in (bridge, statistics):
        finance.app.grants.add(consumer.program)
    whole, coarse = [await finance.app.answer(request, consumer) for consumer in (bridge, statistics)]
    assert isinstance(whole, CetpSuccess) and isinstance(coarse, CetpSuccess)
    assert "ACME" in whole.data
    assert read_data(coarse.data) == {"positions": 3, "value": 8000.0}


def test_finance_has_at_most_forty_lines_of_code() -> None:
    lines = Path(finance.__file__).read_text(encoding="utf-8").partition('"""\n\nfrom')[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


# Notes.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of notes, a secret beside it, and a link to the secret."""
    made = tmp_path / "notes"
    (made / "work").mkdir(parents=True)
    (made / "Shopping.md").write_text("# Shopping\n- Milk\n- Bread\n", encoding="utf-8")
    (made / "work" / "plan.md").write_text("Buy milk for the office.\n", encoding="utf-8")
    (made / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.md").write_text("milk and a password", encoding="utf-8")
    (made / "link.md").symlink_to(tmp_path / "secret.md")
    return made


async def test_notes_are_listed_read_and_searched(folder: Path) -> None:
    app = notes.make_app(folder)
    assert await app.call("list_notes") == ["Shopping", "work/plan"]
    assert await app.call("list_notes", words="PLAN") == ["work/plan"]
    assert await app.call("read_note", title="work/plan") == "Buy milk for the office.\n"
    assert await app.call("search_notes", words="milk") == [
        {"title": "Shopping", "line": "- Milk"},
        {"title": "work/plan", "line": "Buy milk for the office."},
    ]
    assert await app.call("search_notes", words="milk", limit=1) == [{"title": "Shopping", "line": "- Milk"}]


@pytest.mark.parametrize("title", ["../secret", "link", "/etc/passwd", "picture.png", "", "work"])
async def test_no_title_leads_out_of_the_folder(title: str, folder: Path) -> None:
    assert "There is no note" in await refused(notes.make_app(folder), "read_note", title=title)


async def test_a_large_note_is_cut_and_a_broken_one_is_read(folder: Path) -> None:
    (folder / "large.md").write_text("x" * 300_000, encoding="utf-8")
    (folder / "broken.md").write_bytes(b"caf\xe9")
    app = notes.make_app(folder)
    large = await app.call("read_note", title="large")
    assert isinstance(large, str) and len(large) == notes.LARGEST
    assert await app.call("read_note", title="broken") == "caf\ufffd"


# SQLite.


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The declared queries, beside their database."""
    make_database(tmp_path / "shop.db")
    file = tmp_path / "shop.toml"
    file.write_text(SHOP.read_text(encoding="utf-8"), encoding="utf-8")
    return file


async def test_declared_queries_are_tools(shop: Path) -> None:
    app = sqlite_queries.make_app(shop)
    assert await app.call("orders_of_customer", customer="Ann", limit=1) == [
        {"id": 2, "day": "2026-02-03", "total": 4.0}
    ]
    assert await app.call("orders_of_customer", customer="Ann' OR 1=1 --") == []
    assert await app.call("total_by_month") == [
        {"month": "2026-01", "total": 10.5},
        {"month": "2026-02", "total": 11.0},
        {"month": "2026-03", "total": 32.8},
    ]
    assert (await refused(app, "orders_of_customer", customer="Ann", limit=1000)).startswith("INVALID_ARGS")
    assert (await refused(app, "orders_of_customer", customer="Ann", table="x")).startswith("INVALID_ARGS")
    assert (await refused(app, "drop_orders")).startswith("TOOL_NOT_FOUND")


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM orders", "ATTACH 'new.db' AS other", "PRAGMA user_version = 3", "SELECT * FROM nothing", "SELECT :x"],
)
def test_a_query_that_writes_or_is_wrong_is_refused_at_the_start(sql: str, shop: Path) -> None:
    add_query(shop, "bad", sql)
    with pytest.raises(ValueError, match="'bad' can't be used"):
        sqlite_queries.make_app(shop)
    assert not (shop.parent / "new.db").exists()


def add_query(file: Path, name: str, sql: str) -> None:
    """Declare one more query."""
    text = file.read_text(encoding="utf-8")
    file.write_text(f'{text}\n[[queries]]\nname = "{name}"\ndescription = "One."\nsql = "{sql}"\n', encoding="utf-8")


async def test_a_query_that_never_ends_is_stopped(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_queries, "SECONDS", 0.05)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) AS m FROM n"
    add_query(shop, "long", endless)
    assert "interrupted" in await refused(sqlite_queries.make_app(shop), "long")


async def test_a_database_that_goes_away_is_an_error(shop: Path) -> None:
    app = sqlite_queries.make_app(shop)
    (shop.parent / "shop.db").unlink()
    assert "The database says" in await refused(app, "total_by_month")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the programs to its end."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_a_program_without_its_data_says_what_to_do(tmp_path: Path) -> None:
    folder, declared = tmp_path / "none", tmp_path / "shop.toml"
    said = run(notes.__file__, str(folder), "manifest")
    assert (said.returncode, said.stderr) == (1, f"There is no folder '{folder}': name the one that has the notes.\n")
    said = run(sqlite_queries.__file__, str(declared), "manifest")
    assert said.returncode == 1 and said.stderr.startswith(f"'{declared}' can't be read: ")
    declared.write_text(SHOP.read_text(encoding="utf-8"), encoding="utf-8")
    said = run(sqlite_queries.__file__, str(declared), "manifest")
    assert said.returncode == 1 and f"there is no database '{tmp_path}/shop.db'. Name one" in said.stderr
    assert said.stderr.endswith("run: python examples/providers/shop.py\n")
    make_database(tmp_path / "shop.db")
    assert run(sqlite_queries.__file__, str(declared), "manifest").returncode == 0


# The page.


async def test_the_programs_of_the_page_work() -> None:
    page = (Path(sqlite_queries.__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    made: dict[str, Any] = {"__name__": "recipes"}
    exec(first, made)
    assert await made["app"].call("find_recipes", ingredient="Milk") == ["pancakes"]
    exec(second, made)
    assert await made["app"].call("balance") == 7654.35
