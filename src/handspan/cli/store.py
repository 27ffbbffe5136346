"""`handspan store`: look whether what is stored fits together, and move it into PostgreSQL (SPEC K1)."""

import asyncio
import sys
import time
from collections.abc import Awaitable
from typing import TypeVar

import click

from handspan.cli.options import CommandGroup, read_client_settings, settings_options
from handspan.gateway.stores import check_store, move_store

T = TypeVar("T")


@click.group("store", cls=CommandGroup)
def command() -> None:
    """Check what is stored, and move it into PostgreSQL."""


@command.command("check")
@settings_options
def check() -> None:
    """Count what is stored, and look whether it fits together. Exits with 1 when something does not."""
    checked = asyncio.run(check_store(read_client_settings()))
    for table, count in checked.counts.items():
        click.echo(f"{table:<10}{count:>10}")
    for fault, count in checked.faults.items():
        click.echo(f"fault: {count} {fault}", err=True)
    if checked.faults:
        click.echo("Put a backup in its place, or report this with the counts above.", err=True)
        raise SystemExit(1)
    click.echo("All of it fits together.")


@command.command("migrate")
@click.option("--to", "url", required=True, help="The address: postgresql://…, env:NAME or file:PATH.")
@settings_options
def migrate(url: str) -> None:
    """Copy everything of the state folder's database into an empty PostgreSQL database.

    The gateway has to be stopped. Counts and hashes of each table are compared before anything counts. It can be run
    again after any interruption; the state folder is not changed.
    """
    report = asyncio.run(_with_clock(move_store(read_client_settings(), url, _print_line)))
    rows = sum(total.count for total in report.tables.values())
    click.echo(f"{rows} rows {'were there already' if report.was_done else 'are moved'}, and all of them are equal.")
    click.echo(
        "Now set store.url (or HANDSPAN_DATABASE_URL) to this address, keep the state folder, and start the gateway."
    )


async def _with_clock(work: Awaitable[T]) -> T:
    """Return what the work returns. At a terminal, show meanwhile how long it takes."""
    clock = asyncio.create_task(_show_clock(time.monotonic()))
    try:
        return await work
    finally:
        clock.cancel()
        await asyncio.gather(clock, return_exceptions=True)


async def _show_clock(began: float) -> None:
    while sys.stderr.isatty():
        await asyncio.sleep(1)
        click.echo(f"\rcopying and comparing … {time.monotonic() - began:.0f} s", nl=False, err=True)


def _print_line(text: str) -> None:
    """Print a line in place of the clock."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(text)
