"""Bodies about memories: what is refused, and what counts where nothing is said (graph.md 9.5)."""

import pytest

from handspan.wire.graph.faults import BodyError
from handspan.wire.graph.memories import ForgetBody, ListBody, SearchBody, StoreBody, UpdateBody
from handspan.wire.graph.reading import read_body


@pytest.mark.parametrize(
    ("data", "kind", "place", "fault"),
    [
        (b"", StoreBody, "body.content", "missing"),
        (b'{"content": " "}', StoreBody, "body.content", "value_error"),
        (b'{"content": ""}', StoreBody, "body.content", "value_error"),
        (b'{"content": "a", "memory_type": "fond"}', StoreBody, "body.memory_type", "value_error"),
        (b'{"query": 3}', SearchBody, "body.query", "type_error"),
        (b'{"query": "a", "limit": 101}', SearchBody, "body.limit", "value_error"),
        (b'{"limit": 0}', ListBody, "body.limit", "value_error"),
        (b"{}", UpdateBody, "body.content", "missing"),
        (b'{"filters": []}', ForgetBody, "body.filters", "type_error"),
        (b"[]", ListBody, "body", "type_error"),
    ],
)
def test_what_can_not_be_taken_is_refused_with_its_place(
    data: bytes, kind: type[StoreBody], place: str, fault: str
) -> None:
    with pytest.raises(BodyError) as refused:
        read_body(data, kind)
    assert {".".join(detail.loc): detail.type for detail in refused.value.details} == {place: fault}


def test_a_blank_memory_is_refused_in_words_that_help() -> None:
    with pytest.raises(BodyError, match="send some text"):
        read_body(b'{"content": " "}', StoreBody)


def test_a_body_may_be_missing_where_nothing_has_to_be_said() -> None:
    assert read_body(b"", ListBody) == read_body(b"null", ListBody) == read_body(b"{}", ListBody) == ListBody(100)
    assert read_body(b"", ForgetBody) == ForgetBody()


def test_null_and_unknown_fields_count_as_nothing() -> None:
    data = b'{"content": "a", "memory_type": null, "category": null, "metadata": null, "config": {}, "options": {}}'
    assert read_body(data, StoreBody) == StoreBody("a", "episodic", "general")
    assert read_body(b'{"query": "a", "retrieval_strategy": "similarity", "limit": null}', SearchBody).limit == 10
