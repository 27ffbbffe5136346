"""`python -m bench.capacity_page`: what 5,000 to a million devices need, and what breaks first (`make scale-sim`).

Takes the figures of the last `make bench` and measures what is missing. Every assumption is an argument. `--keep`
writes what was measured to bench/capacity.json and the table to docs/scale.md.
"""

import argparse
import textwrap
from pathlib import Path
from typing import Final

import msgspec

from bench.capacity import SIZES, Assumptions, Base, lay_out, most_on_one_database, table

RESULTS: Final = Path(__file__).parent / "results" / "latest.json"
MEASURED: Final = Path(__file__).parent / "capacity.json"
"""The figures of the table in docs/scale.md."""
PAGE: Final = Path(__file__).parents[1] / "docs" / "scale.md"
HEADING: Final = "## How far it goes\n"
_OTHER_RUN: Final = "`python -m bench.scale_sim`, another run"


def section(base: Base, assumed: Assumptions) -> str:
    """The part of docs/scale.md with the table."""
    shown = table(lay_out(size, base, assumed) for size in SIZES)
    figures = f"| figure | value | |\n|---|---|---|\n{_figures(base, assumed)}"
    return "\n".join(
        [HEADING, _fill(_begin(base, assumed)), "", shown, "", _fill(_walls(base, assumed)), "", figures, ""]
    )


def _fill(text: str) -> str:
    return textwrap.fill(text, 125, break_long_words=False, break_on_hyphens=False)


def _begin(base: Base, assumed: Assumptions) -> str:
    is_busy = "other work" in base.machine
    busy = " Other work makes figures worse, and different from run to run: repeat it on a calm machine."
    return (
        "Computed by `make scale-sim`; **so many devices were never connected**. The figures of one gateway were"
        f" measured on {base.when}, on {base.machine}; the rest is arithmetic.{busy if is_busy else ''}"
        f"{base.note and ' ' + base.note}"
        f" Assumed: {assumed.active:.0%} of the devices are at work at one time, each with a call every"
        f" {assumed.call_every:g} s ({assumed.peak:g} times as many at a peak) and {assumed.frames_per_s:g} pieces of"
        f" an answer a second; {assumed.writes_per_call:g} rows are written for a call; a connection lasts"
        f" {assumed.connection_minutes:g} minutes; machines have {assumed.cores} cores and {assumed.memory_gb:g} GB,"
        f" that of the database {assumed.database_cores} cores, and {assumed.planned:.0%} of everything is planned for."
        " Each assumption is an argument, as in `make scale-sim ARGS=--cores=16`."
    )


def _walls(base: Base, assumed: Assumptions) -> str:
    found = most_on_one_database(base, assumed)
    enough = "" if found is None else f" One is enough for {found[0]:,} devices, and at best for {found[1]:,}."
    return (
        "The last column is the part that is nearest to what is planned for, or furthest beyond it, with its use."
        " Processes and machines can be added. A database can't: all nodes of one installation share one PostgreSQL."
        " How many writes a large one takes is the open question. The table has two answers: if its writes grow with"
        " its cores (an estimate: its disk was not measured), and if it takes no more than one gateway got acknowledged"
        f" on the machine of the measurement, which is the worst case and the one of the last column.{enough} Beyond"
        " that, owners have to be divided between installations. Not measured: TLS, which the proxy has, and a replica."
    )


def _figures(base: Base, assumed: Assumptions) -> str:
    """Each figure: measured in this run, in an earlier one, or an estimate."""

    def row(field: str, value: float | None, unit: str) -> str:
        said = "not measured" if value is None else f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
        return f"| {said} | {base.sources.get(field, 'measured in this run') if value is not None else ''} |"

    rows = [
        ("memory of an idle device with 3 tools", row("device_kb", base.device_kb, "KB")),
        ("a device connects, CPU of the gateway", row("connect_ms", base.connect_ms, "ms")),
        ("a call of a device's tool, stored, CPU of the gateway", row("call_us", base.call_us, "µs")),
        ("a piece of an answer to a chat, CPU of the gateway", row("frame_us", base.frame_us, "µs")),
        ("writes to SQLite", row("sqlite_per_s", base.sqlite_per_s, "/s")),
        ("writes to PostgreSQL, from one gateway", row("postgres_per_s", base.postgres_per_s, "/s")),
        ("a write to PostgreSQL, CPU of its server", row("postgres_us", base.postgres_us, "µs")),
        ("memory of the kernel for a connection", f"| {assumed.kernel_kb:g} KB | estimate |"),
        ("a ping, CPU of the gateway", f"| {assumed.ping_us:g} µs | estimate |"),
        ("a call between nodes, CPU of the device's node", f"| {assumed.owner_us:,g} µs | {_OTHER_RUN} |"),
        ("a call between nodes by REST, CPU of the caller's node", f"| {assumed.caller_us:,g} µs | {_OTHER_RUN} |"),
        ("a call between nodes, CPU of NATS", f"| {assumed.nats_us:g} µs | estimate |"),
    ]
    return "\n".join(f"| {name} {rest}" for name, rest in rows)


def replace_section(page: str, text: str) -> str:
    """The page with this section in place of the one that it has, or at its end."""
    before, found, after = page.partition(HEADING)
    _, rest, later = after.partition("\n## ")
    return f"{before if found else page.rstrip() + chr(10) * 2}{text}{rest}{later}"


def read_arguments() -> tuple[Assumptions, bool, str]:
    """The assumptions that were given, whether to keep the result, and a note about it."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity_page", description="What so many devices need.")
    for field in msgspec.structs.fields(Assumptions):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    parser.add_argument("--keep", action="store_true", help="write bench/capacity.json and the table of docs/scale.md")
    parser.add_argument("--note", default="", help="what readers have to know of this run")
    given = vars(parser.parse_args())
    keep, note = given.pop("keep"), given.pop("note")
    return Assumptions(**given), keep, note


def main() -> None:
    """Measure what is missing, compute, print; keep it if asked."""
    assumed, keep, note = read_arguments()
    if keep and assumed != Assumptions():
        raise SystemExit("--keep writes the table with the default assumptions: leave the others out.")
    from bench.capacity_figures import collect  # noqa: PLC0415 - a test of the text needs no gateway

    base = msgspec.structs.replace(collect(RESULTS), note=note)
    text = section(base, assumed)
    print(text)
    if keep:
        MEASURED.write_bytes(msgspec.json.format(msgspec.json.encode(base)) + b"\n")
        PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
