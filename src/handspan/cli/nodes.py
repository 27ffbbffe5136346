"""`handspan nodes`: which gateways are one with this one (SPEC K)."""

import click

from handspan.cli.door import RequestCommand, fetch
from handspan.cli.render import print_as_json, print_rows, render_time
from handspan.wire.rest.status import NodeList


@click.command("nodes", cls=RequestCommand)
def command() -> None:
    """List the nodes: name, role, version, since when, last sign of life, load."""
    found = fetch("/api/nodes", NodeList)
    if print_as_json(found.nodes):
        return
    if not found.nodes:
        click.echo("This gateway is alone: cluster.url (HANDSPAN_CLUSTER) names no NATS server.")
        return
    rows = [
        (
            f"{one.name} (this one)" if one.here else one.name,
            one.address,
            f"{one.role}, drains" if one.draining else one.role,
            one.version,
            render_time(one.started),
            f"{one.lag:.1f} s ago",
            ", ".join(f"{count:g} {name}" for name, count in one.load.items() if count and not name.endswith("_total")),
        )
        for one in found.nodes
    ]
    print_rows(("name", "address", "role", "version", "started", "seen", "load"), rows)
