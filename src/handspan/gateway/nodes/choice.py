"""Which nodes a gateway has: itself alone, or with the setting `cluster.url` several. Loaded at every start."""

import importlib
from typing import Final

from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.core.store import Store
from handspan.gateway.one_node import GatewayNodes, OneNode
from handspan.gateway.parts import Here

_CLUSTER: Final = "handspan.gateway.nodes.cluster"
"""Loaded only with the setting `cluster.url`."""


def make_nodes(settings: Settings, store: Store, here: Here, *, is_inside: bool) -> GatewayNodes:
    """Return all nodes of a gateway. Raises `ConfigError` without the library for several."""
    if is_inside or not settings.cluster.url:
        return OneNode(settings.state)
    try:
        cluster: GatewayNodes = importlib.import_module(_CLUSTER).Cluster(settings, store, here)
    except ModuleNotFoundError as error:
        text = f"cluster.url needs a library that is not installed ({error.name}): pip install 'handspan[cluster]'"
        raise ConfigError(text) from None
    return cluster
