"""What clients offer, as models and people see it (SPEC S4, W5)."""

from handspan.core.values import JsonObject
from handspan.sources.offers import SchemaCache


def test_the_words_of_an_offered_schema_hold_nothing_invisible() -> None:
    cache = SchemaCache()
    offered: JsonObject = {
        "type": "object",
        "properties": {"p": {"type": "string", "description": "ok\U000e0049\u202e"}},
    }
    schema = cache.get(offered)
    assert schema.parameters["properties"] == {"p": {"type": "string", "description": "ok"}}
    assert cache.get(offered) is schema
