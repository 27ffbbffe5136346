"""`handspan store`: look whether what is stored fits together, and move it into PostgreSQL (SPEC K1)."""

import asyncio
import sys

import click

from handspan.cli.options import read_settings, settings_options
from handspan.gateway.app import check_store, move_store


@click.group("store")
def command() -> None:
    """Check what is stored, and move it into PostgreSQL."""


@command.command("check")
@settings_options
def check() -> None:
    """Count what is stored, and look whether it fits together. Exits with 1 when something does not."""
    checked = asyncio.run(check_store(read_settings()))
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
    report = asyncio.run(move_store(read_settings(), url, _MovePrinter()))
    rows = sum(total.count for total in report.tables.values())
    click.echo(f"{rows} rows {'were there already' if report.was_done else 'are moved'}, and all of them are equal.")
    click.echo(
        "Now set store.url (or HANDSPAN_DATABASE_URL) to this address, keep the state folder, and start the gateway."
    )


class _MovePrinter:
    """Prints each table that is moved; at a terminal also how far the one at work is."""

    def on_rows(self, table: str, count: int) -> None:
        """Show how many rows were read, on the line that `on_table` writes over."""
        if sys.stderr.isatty():
            click.echo(f"\r{table}: {count:,} rows …", nl=False, err=True)

    def on_table(self, table: str, count: int, digest: str) -> None:
        """Print that the table is equal on both sides."""
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
        click.echo(f"{table}: {count} rows, sha256 {digest[:16]}")
