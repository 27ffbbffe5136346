"""The nodes of several gateways that are one (SPEC K)."""

from typing import Final

from handspan.gateway.http.routing import moment
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest.nodes import ListedNode, NodeList

family: Final = Family("nodes")


@family.get("/api/nodes", "admin")
async def nodes(request: RestRequest) -> NodeList:
    """All nodes: who is there, since when, with which version and load. None where the gateway is alone."""
    every = request.parts.nodes
    return NodeList(
        [
            ListedNode(
                one.id,
                one.name,
                one.address,
                one.version,
                one.role,
                moment(one.started),
                one.lag,
                one.is_draining,
                one.load,
                every.is_here(one.id),
            )
            for one in await every.nodes()
        ]
    )
