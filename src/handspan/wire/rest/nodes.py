"""The nodes of several gateways that are one, as REST shows them."""

from collections.abc import Mapping

from msgspec import Struct


class ListedNode(Struct, frozen=True):
    """One node."""

    id: str
    name: str
    address: str
    version: str
    role: str
    started: str
    lag: float
    """Seconds since its last sign of life."""
    draining: bool
    load: Mapping[str, float]
    here: bool
    """Whether it is the node that answers."""


class NodeList(Struct, frozen=True):
    """All nodes that count as alive; none where the gateway is alone."""

    nodes: list[ListedNode]
