"""The capacity table: its arithmetic, what it says breaks first, and that the page shows what was measured."""

from pathlib import Path

import msgspec
import pytest
from bench import capacity_figures
from bench.capacity import SIZES, Assumptions, Base, lay_out, load_of, most_on_one_database, table
from bench.capacity_page import HEADING, MEASURED, PAGE, replace_section, section
from bench.figures import Figure

BASE = Base(
    "a day", "a machine", device_kb=21, connect_ms=0.5, call_us=100, frame_us=50, sqlite_per_s=5_000,
    postgres_per_s=10_000, postgres_us=150,
)  # fmt: skip
PLAIN = Assumptions(owner_us=159, caller_us=159)


def test_the_load_of_a_million_devices() -> None:
    load = load_of(1_000_000, PLAIN)
    # 20,000 are at work, one call in 5 s each: 4,000 calls/s, five times as many at a peak.
    assert load.calls == pytest.approx(20_000) and load.frames == pytest.approx(400_000)
    assert load.connects == pytest.approx(1_666.7, rel=1e-3)
    assert load.writes == pytest.approx(20_000 * 5 + 2 * 1_666.7, rel=1e-3)


def test_few_devices_need_one_process_and_nothing_else() -> None:
    small = lay_out(5_000, BASE, PLAIN)
    assert (small.edges, small.agents, small.machines, small.nats, small.databases) == (1, 0, 1, 0, None)
    assert small.return_s == pytest.approx(2.5) and max(small.uses.values()) <= 1


def test_a_million_devices() -> None:
    big = lay_out(1_000_000, BASE, PLAIN)
    # 32 KB each: 30.5 GB, of 1.2 GB a process; 20,000 devices a process are fewer.
    assert big.edges == 50
    # 400,000 frames of 50 us and 20,000 calls of 159 us are 23.18 s of CPU in a second, 0.6 of a core each.
    assert big.agents == 39
    assert big.machines == 13 and big.nats == 3  # 89 processes on 8 cores, and one to spare
    # 103,333 writes/s of 150 us are 15.5 cores, of 9.6 that are planned for; 6,000/s are what one gateway may write.
    assert big.databases == (2, 18) and big.first_wall == "writes to PostgreSQL"
    assert big.return_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("changed", "wall"),
    [
        ({"device_kb": 5_000.0}, "memory of the gateway"),
        ({"frame_us": 250.0}, "CPU of the gateway"),
        ({"sqlite_per_s": 600.0}, "writes to SQLite"),
    ],
)
def test_what_breaks_first_follows_the_figures(changed: dict[str, float], wall: str) -> None:
    assert lay_out(1_000, msgspec.structs.replace(BASE, **changed), PLAIN).first_wall == wall


@pytest.mark.parametrize("size", SIZES)
def test_processes_are_enough_and_not_too_many(size: int) -> None:
    layout = lay_out(size, BASE, PLAIN)
    ours = {name: use for name, use in layout.uses.items() if name != "writes to PostgreSQL"}
    assert 0 < max(ours.values()) <= 1


def test_one_database_is_enough_until_its_writes_are_used_up() -> None:
    surely, at_best = most_on_one_database(BASE, PLAIN) or (0, 0)
    assert lay_out(surely, BASE, PLAIN).databases == (1, 1)
    assert lay_out(surely + 1_000, BASE, PLAIN).databases == (1, 2)
    least, most = lay_out(at_best + 1_000, BASE, PLAIN).databases or (0, 0)
    assert least == 2 and most > 2
    larger = msgspec.structs.replace(PLAIN, database_cores=32)
    same, twice = most_on_one_database(BASE, larger) or (0, 0)
    assert same == surely and twice == pytest.approx(2 * at_best, abs=1)


def test_each_agent_process_writes_on_one_connection() -> None:
    slow = lay_out(1_000_000, msgspec.structs.replace(BASE, postgres_per_s=1_000), PLAIN)
    # 103,333 writes/s, 600 of each that are planned for.
    assert slow.agents == 173 and slow.databases == (2, 173)


def test_without_postgresql_the_table_says_that_it_was_not_measured() -> None:
    layout = lay_out(300_000, msgspec.structs.replace(BASE, postgres_per_s=None, postgres_us=None), PLAIN)
    assert layout.databases is None and "not measured" in table([layout])


def test_estimates_and_earlier_figures_are_marked() -> None:
    text = section(msgspec.structs.replace(BASE, sources={"device_kb": "`make bench` of a day"}), PLAIN)
    assert text.count("| estimate |") == 3 and text.count("measured in this run") == 6
    assert "| 21 KB | `make bench` of a day |" in text


def test_a_note_about_the_run_is_shown() -> None:
    assert "Twice as slow before." in section(msgspec.structs.replace(BASE, note="Twice as slow before."), PLAIN)


def test_figures_of_the_last_bench_are_used(tmp_path: Path) -> None:
    kept = tmp_path / "latest.json"
    assert capacity_figures.earlier(kept) == {}
    kept.write_bytes(msgspec.json.encode([Figure("connect_cpu_ms", 0.4, "ms"), Figure("dispatch_us", 5.0, "us")]))
    assert capacity_figures.earlier(kept) == {"connect_ms": 0.4}


def test_a_section_takes_the_place_of_the_one_before() -> None:
    first = replace_section("# Page\n\nText.\n", f"{HEADING}\nold\n")
    assert first == f"# Page\n\nText.\n\n{HEADING}\nold\n"
    assert (
        replace_section(f"{first}\n## After\n", f"{HEADING}\nnew\n")
        == f"# Page\n\nText.\n\n{HEADING}\nnew\n\n## After\n"
    )


def test_the_page_shows_what_was_measured() -> None:
    base = msgspec.json.decode(MEASURED.read_bytes(), type=Base)
    assert section(base, Assumptions()) in PAGE.read_text(encoding="utf-8")
