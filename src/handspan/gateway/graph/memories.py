"""Memories of the owner: stored, searched, changed, removed (graph.md 9.5).

A search compares words. The score is the share of the words that a memory has. There are no vectors.
"""

from handspan.core.records import MemoryFilter, MemoryRecord
from handspan.gateway.graph.envelope import path_id, read_body_bytes
from handspan.gateway.graph.parts import GraphParts
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.routing import moment
from handspan.wire.graph.faults import BodyError, Detail, Kind
from handspan.wire.graph.memories import (
    DEFAULT_CATEGORY,
    ChangedAnswer,
    ForgetBody,
    FoundAnswer,
    ListBody,
    MemoriesAnswer,
    MemoryAnswer,
    MemoryView,
    SearchBody,
    StoreBody,
    StoredAnswer,
    UpdateBody,
)
from handspan.wire.graph.reading import read_body


async def store_memory(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> StoredAnswer:
    """Store a memory."""
    body = await _body(request, StoreBody)
    stored = await parts.gateway.store.memories.add(
        body.content,
        owner=client.who.owner,
        kind=body.memory_type,
        category=body.category or DEFAULT_CATEGORY,
        metadata=body.metadata or {},
    )
    return StoredAnswer(stored.id)


async def search_memories(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> FoundAnswer:
    """Return the memories that have some of the words, the best first."""
    body = await _body(request, SearchBody)
    found = await parts.gateway.store.memories.search(
        body.query,
        MemoryFilter(body.memory_type, body.category or None, body.filters),
        owner=client.who.owner,
        limit=body.limit,
        least=body.score_threshold or 0.0,
    )
    return FoundAnswer([_render_memory(one.memory, one.score) for one in found])


async def memory(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> MemoryAnswer:
    """Return one memory."""
    return MemoryAnswer(
        _render_memory(await parts.gateway.store.memories.get(path_id(request, "memory_id"), owner=client.who.owner))
    )


async def update_memory(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Change the content of a memory."""
    memory_id, body = path_id(request, "memory_id"), await _body(request, UpdateBody)
    await parts.gateway.store.memories.change(memory_id, body.content, body.metadata, owner=client.who.owner)
    return ChangedAnswer(data={"memory_id": memory_id})


async def delete_memory(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Remove a memory."""
    memory_id = path_id(request, "memory_id")
    await read_body_bytes(request)  # graph.md 1.5: the body is ignored
    await parts.gateway.store.memories.delete(memory_id, owner=client.who.owner)
    return ChangedAnswer(data={"memory_id": memory_id})


async def list_memories(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> MemoriesAnswer:
    """Return the newest memories."""
    body = await _body(request, ListBody)
    return MemoriesAnswer(
        list(map(_render_memory, await parts.gateway.store.memories.all(owner=client.who.owner, limit=body.limit)))
    )


async def forget_memories(parts: GraphParts, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Remove the memories that match the body. An empty body is refused: it does not mean all."""
    body = await _body(request, ForgetBody)
    if body.memory_type is None and not body.category and body.filters is None:
        text = "Say which: send 'memory_type', 'category' or 'filters'. Empty 'filters' are for all of them."
        raise BodyError([Detail(["body"], text, "missing")])
    wanted = MemoryFilter(body.memory_type, body.category or None, body.filters)
    return ChangedAnswer(
        data={"removed_count": await parts.gateway.store.memories.forget(wanted, owner=client.who.owner)}
    )


async def _body(request: AsgiRequest, kind: type[Kind]) -> Kind:
    return read_body(await read_body_bytes(request), kind)


def _render_memory(one: MemoryRecord, score: float = 0.0) -> MemoryView:
    return MemoryView(
        id=one.id,
        content=one.content,
        score=score,
        memory_type=one.kind,  # type: ignore[arg-type]  # only these kinds can be stored
        metadata=one.shown_metadata,
        user_id=one.owner,
        thread_id=one.thread or None,
        timestamp=moment(one.at),
    )
