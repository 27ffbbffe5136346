"""Memories of the owner: stored, searched, changed, removed (graph.md 9.5).

A search compares words. The score is the share of the words that a memory has. There are no vectors.
"""

from handspan.core.records import MemoryFilter, MemoryRecord
from handspan.gateway.graph.request import GraphRequest
from handspan.gateway.http.routing import moment
from handspan.wire.graph import memories as wire
from handspan.wire.graph.faults import BodyError, Detail


async def store_memory(request: GraphRequest) -> wire.StoredAnswer:
    """Store a memory."""
    body = await request.read(wire.StoreBody)
    stored = await request.store.memories.add(
        body.content,
        owner=request.owner,
        kind=body.memory_type,
        category=body.category or wire.DEFAULT_CATEGORY,
        metadata=body.metadata or {},
    )
    return wire.StoredAnswer(stored.id)


async def search_memories(request: GraphRequest) -> wire.FoundAnswer:
    """Return the memories that have some of the words, the best first."""
    body = await request.read(wire.SearchBody)
    wanted, least = MemoryFilter(body.memory_type, body.category or None, body.filters), body.score_threshold or 0.0
    memories = request.store.memories
    found = await memories.search(body.query, wanted, owner=request.owner, limit=body.limit, least=least)
    return wire.FoundAnswer([_render_memory(one.memory, one.score) for one in found])


async def memory(request: GraphRequest) -> wire.MemoryAnswer:
    """Return one memory."""
    found = await request.store.memories.get(request.path_id("memory_id"), owner=request.owner)
    return wire.MemoryAnswer(_render_memory(found))


async def update_memory(request: GraphRequest) -> wire.ChangedAnswer:
    """Change the content of a memory."""
    memory_id, body = request.path_id("memory_id"), await request.read(wire.UpdateBody)
    await request.store.memories.change(memory_id, body.content, body.metadata, owner=request.owner)
    return wire.ChangedAnswer(data={"memory_id": memory_id})


async def delete_memory(request: GraphRequest) -> wire.ChangedAnswer:
    """Remove a memory."""
    memory_id = request.path_id("memory_id")
    await request.body()  # graph.md 1.5: the body is ignored
    await request.store.memories.delete(memory_id, owner=request.owner)
    return wire.ChangedAnswer(data={"memory_id": memory_id})


async def list_memories(request: GraphRequest) -> wire.MemoriesAnswer:
    """Return the newest memories."""
    body = await request.read(wire.ListBody)
    found = await request.store.memories.all(owner=request.owner, limit=body.limit)
    return wire.MemoriesAnswer(list(map(_render_memory, found)))


async def forget_memories(request: GraphRequest) -> wire.ChangedAnswer:
    """Remove the memories that match the body. An empty body is refused: it does not mean all."""
    body = await request.read(wire.ForgetBody)
    if body.memory_type is None and not body.category and body.filters is None:
        text = "Say which: send 'memory_type', 'category' or 'filters'. Empty 'filters' are for all of them."
        raise BodyError([Detail(["body"], text, "missing")])
    wanted = MemoryFilter(body.memory_type, body.category or None, body.filters)
    count = await request.store.memories.forget(wanted, owner=request.owner)
    return wire.ChangedAnswer(data={"removed_count": count})


def _render_memory(one: MemoryRecord, score: float = 0.0) -> wire.MemoryView:
    """Return the memory as the graph API shows it."""
    return wire.MemoryView(
        id=one.id,
        content=one.content,
        score=score,
        memory_type=one.kind,  # type: ignore[arg-type]  # only these kinds can be stored
        metadata=one.shown_metadata,
        user_id=one.owner,
        thread_id=one.thread or None,
        timestamp=moment(one.at),
    )
