"""Memories of the owner: kept, found by their words, forgotten (graph.md 9.5).

A search is one for words: the score is the part of them that a memory has. There are no vectors.
"""

from handspan.core.records import MemoryFilter, MemoryRecord
from handspan.gateway.graph.asking import body_of, id_of
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.runs import GraphClient
from handspan.gateway.http.message import AsgiRequest
from handspan.gateway.http.routing import moment
from handspan.wire.graph.bodies import read_body
from handspan.wire.graph.faults import BodyError, Detail, Kind
from handspan.wire.graph.memories import (
    ChangedAnswer,
    ForgetBody,
    FoundAnswer,
    ListBody,
    MemoriesAnswer,
    MemoryAnswer,
    MemoryShown,
    SearchBody,
    StoreBody,
    StoredAnswer,
    UpdateBody,
)


async def store_memory(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> StoredAnswer:
    """Keep one."""
    body = await _body(request, StoreBody)
    kept = await doors.store.memories.add(
        body.content,
        owner=client.who.owner,
        kind=body.memory_type,
        category=body.category,
        metadata=body.metadata or {},
    )
    return StoredAnswer(kept.id)


async def search_memories(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> FoundAnswer:
    """Those that have some of the words, the best first."""
    body = await _body(request, SearchBody)
    found = await doors.store.memories.search(
        body.query,
        MemoryFilter(body.memory_type, body.category, body.filters),
        owner=client.who.owner,
        limit=body.limit,
        least=body.score_threshold or 0.0,
    )
    return FoundAnswer([_shown(one.memory, one.score) for one in found])


async def memory(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> MemoryAnswer:
    """One of them."""
    return MemoryAnswer(_shown(await doors.store.memories.get(id_of(request, "memory_id"), owner=client.who.owner)))


async def update_memory(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Let one say something else."""
    memory_id, body = id_of(request, "memory_id"), await _body(request, UpdateBody)
    await doors.store.memories.change(memory_id, body.content, body.metadata, owner=client.who.owner)
    return ChangedAnswer(data={"memory_id": memory_id})


async def delete_memory(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Remove one."""
    memory_id = id_of(request, "memory_id")
    await body_of(request)  # graph.md 1.5: it may have one, in which nothing counts
    await doors.store.memories.delete(memory_id, owner=client.who.owner)
    return ChangedAnswer(data={"memory_id": memory_id})


async def list_memories(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> MemoriesAnswer:
    """The newest ones."""
    body = await _body(request, ListBody)
    return MemoriesAnswer(list(map(_shown, await doors.store.memories.all(owner=client.who.owner, limit=body.limit))))


async def forget_memories(doors: GraphDoors, client: GraphClient, request: AsgiRequest) -> ChangedAnswer:
    """Remove those that are as the body says; one that says nothing is no order to remove all."""
    body = await _body(request, ForgetBody)
    if body == ForgetBody():
        text = "Say which: send 'memory_type', 'category' or 'filters'. Empty 'filters' are for all of them."
        raise BodyError([Detail(["body"], text, "missing")])
    wanted = MemoryFilter(body.memory_type, body.category, body.filters)
    return ChangedAnswer(data={"removed_count": await doors.store.memories.forget(wanted, owner=client.who.owner)})


async def _body(request: AsgiRequest, kind: type[Kind]) -> Kind:
    return read_body(await body_of(request), kind)


def _shown(one: MemoryRecord, score: float = 0.0) -> MemoryShown:
    return MemoryShown(
        id=one.id,
        content=one.content,
        score=score,
        memory_type=one.kind,  # type: ignore[arg-type]  # only such were let in
        metadata=one.shown_metadata,
        user_id=one.owner,
        thread_id=one.thread or None,
        timestamp=moment(one.at),
    )
