"""Memories over HTTP, in the words of the unmodified client; for their owner alone (graph.md 9.5)."""

from typing import Any

import pytest

from tests.gateway.graph.pages import Graph, Page

pytestmark = pytest.mark.anyio

# What the unmodified client sends with each of them.
ALWAYS = {"config": {}, "options": {"x": 1}}


async def ask(page: Page, path: str, method: str = "POST", /, **body: Any) -> Any:
    return await page.ask(method, f"/v1/store/{path}", {**ALWAYS, **body})


async def keep(page: Page, content: str, **more: Any) -> str:
    return str((await ask(page, "memories", content=content, **more)).data["memory_id"])


async def contents(page: Page, path: str, key: str, **body: Any) -> list[str]:
    return [memory["content"] for memory in (await ask(page, path, **body)).data[key]]


async def test_the_memory_of_another_owner_is_one_that_never_was(there: Graph, page: Page) -> None:
    memory = await keep(page, "my secret")
    stranger = await there.another("somebody else")
    for method, body in (("POST", {}), ("PUT", {"content": "mine"}), ("DELETE", {})):
        theirs = await ask(stranger, f"memories/{memory}", method, **body)
        never = await ask(stranger, f"memories/{'0' * 24}", method, **body)
        assert (theirs.status, theirs.error["code"]) == (404, "RESOURCE_NOT_FOUND")
        assert theirs.error["message"] == never.error["message"].replace("0" * 24, memory)
    assert await contents(stranger, "search", "results", query="secret") == []
    assert await contents(stranger, "memories/list", "memories") == []
    assert (await ask(stranger, "memories/forget", filters={})).data["data"] == {"removed_count": 0}
    assert await contents(page, "memories/list", "memories") == ["my secret"]


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("memories", {}, ["body", "content"]),
        ("memories", {"content": " "}, ["body", "content"]),
        ("memories", {"content": {}}, ["body", "content"]),
        ("memories", {"content": "x", "memory_type": "nonsense"}, ["body", "memory_type"]),
        ("memories", {"content": "x", "metadata": []}, ["body", "metadata"]),
        ("search", {"query": ""}, ["body", "query"]),
        ("search", {"query": "x", "limit": 0}, ["body", "limit"]),
        ("search", {"query": "x", "limit": 101}, ["body", "limit"]),
        ("memories/list", {"limit": 1001}, ["body", "limit"]),
        ("memories/list", {"limit": -1}, ["body", "limit"]),
        ("memories/forget", {}, ["body"]),
        ("memories/forget", {"type": "episodic"}, ["body"]),
        ("memories/forget", {"filters": "all"}, ["body", "filters"]),
    ],
)
async def test_what_cant_be_read_is_refused_by_its_place(
    page: Page, path: str, body: dict[str, Any], place: list[str]
) -> None:
    await keep(page, "stays")
    refused = await ask(page, path, **body)
    assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
    assert refused.error["details"][0]["loc"] == place
    assert await contents(page, "memories/list", "memories") == ["stays"]


@pytest.mark.parametrize("memory", ["never", "%2e%2e", "%00", "%F0%9F%98%80", "x" * 2000, "list"])
async def test_an_id_that_is_none_leads_nowhere(page: Page, memory: str) -> None:
    for method in ("PUT", "DELETE"):
        refused = await ask(page, f"memories/{memory}", method, content="x")
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND")
    blank = await ask(page, "memories/%20")
    assert (blank.status, blank.error["details"][0]["loc"]) == (422, ["path", "memory_id"])


async def test_a_memory_has_the_fields_that_the_unmodified_client_reads(page: Page) -> None:
    kept = await keep(page, "Tea, 手 🍵", memory_type="semantic", category="drinks", metadata={"cups": 2})
    memory = (await ask(page, f"memories/{kept}")).data["memory"]
    assert memory.pop("timestamp").endswith("Z")
    assert memory == {
        "id": kept,
        "content": "Tea, 手 🍵",
        "score": 0.0,
        "memory_type": "semantic",
        "metadata": {"cups": 2, "category": "drinks"},
        "vector": None,
        "user_id": "operator",
        "thread_id": None,
    }
    bare = await keep(page, "only words")
    memory = (await page.ask("POST", f"/v1/store/memories/{bare}")).data["memory"]  # no body at all
    assert (memory["memory_type"], memory["metadata"]) == ("episodic", {"category": "general"})


async def test_a_search_finds_by_words_with_a_score(page: Page) -> None:
    await keep(page, "Ann likes green TEA", memory_type="semantic", metadata={"who": "ann"})
    await keep(page, "Bob likes coffee", metadata={"who": "bob"})
    found = (await ask(page, "search", query="likes tea")).data["results"]
    assert [(memory["content"], memory["score"]) for memory in found] == [
        ("Ann likes green TEA", 1.0),
        ("Bob likes coffee", 0.5),
    ]
    assert {memory["vector"] for memory in found} == {None}
    for body, expected in (
        ({"query": "likes", "memory_type": "semantic"}, ["Ann likes green TEA"]),
        ({"query": "likes", "filters": {"who": "bob"}}, ["Bob likes coffee"]),
        ({"query": "likes", "category": "none"}, []),
        ({"query": "likes", "limit": 1}, ["Bob likes coffee"]),
        ({"query": "likes tea", "score_threshold": 0.6}, ["Ann likes green TEA"]),
        ({"query": "likes", "retrieval_strategy": "similarity", "distance_metric": "cosine"}, None),
    ):
        texts = await contents(page, "search", "results", **body)
        assert texts == (expected if expected is not None else ["Bob likes coffee", "Ann likes green TEA"]), body


async def test_a_memory_is_changed_and_removed(page: Page) -> None:
    kept = await keep(page, "old", metadata={"a": 1})
    changed = (await ask(page, f"memories/{kept}", "PUT", content="new")).data
    assert changed == {"success": True, "data": {"memory_id": kept}}
    memory = (await ask(page, f"memories/{kept}")).data["memory"]
    assert (memory["content"], memory["metadata"]["a"]) == ("new", 1)
    assert (await ask(page, f"memories/{kept}", "DELETE")).data["success"] is True
    assert (await page.ask("DELETE", f"/v1/store/memories/{kept}")).status == 404
    assert (await page.ask("DELETE", f"/v1/store/memories/{await keep(page, 'bare')}")).status == 200  # without a body


async def test_forgetting_removes_what_fits(page: Page) -> None:
    for number in range(120):
        await keep(page, f"number {number}", category="even" if number % 2 == 0 else "odd")
    assert (await ask(page, "memories/forget", category="odd", memory_type="semantic")).data["data"] == {
        "removed_count": 0
    }
    assert (await ask(page, "memories/forget", category="odd")).data["data"] == {"removed_count": 60}
    listed = await contents(page, "memories/list", "memories")
    assert (len(listed), listed[0]) == (60, "number 118")
    assert (await ask(page, "memories/forget", filters={})).data["data"] == {"removed_count": 60}


async def test_an_empty_category_is_no_category(page: Page) -> None:
    await keep(page, "Likes red.", category="")
    assert await contents(page, "search", "results", query="red", category="") == ["Likes red."]
    assert await contents(page, "search", "results", query="red", category="general") == ["Likes red."]
    assert (await ask(page, "memories/forget", category="")).status == 422  # it does not mean all of them


async def test_they_are_there_after_a_restart(there: Graph, page: Page) -> None:
    kept = await keep(page, "for ever")
    await there.gateway.restart()
    assert (await ask(page, f"memories/{kept}")).data["memory"]["content"] == "for ever"
    assert await contents(page, "search", "results", query="EVER") == ["for ever"]


async def test_what_would_keep_the_gateway_busy_is_refused(page: Page) -> None:
    query = " ".join(f"w{number}" for number in range(1000))
    assert (await ask(page, "search", query=query)).error["details"][0]["loc"] == ["body", "query"]
    assert (await ask(page, "memories", content="x" * 100_001)).error["details"][0]["loc"] == ["body", "content"]
    await keep(page, "x" * 100_000)
