"""A newcomer finds where something is done with one search: the first line of that module has the words."""

import ast
import re

import pytest

from tests.docs.repository import SOURCE, modules


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("dropped phone calls again", "sources/ws/calls.py"),
        ("result 64 KB truncated", "engine/result_limit.py"),
        ("tool timeout enforced", "engine/deadline.py"),
        ("token checked", "gateway/entry/auth.py"),
        ("tool name mapped rule", "core/names.py"),
        ("model's arguments leniently", "core/lenient.py"),
        ("session's lease append", "store/tables/conversations.py"),
        ("MCP server started again", "sources/mcp/connection.py"),
        ("page's bundle served", "gateway/pages.py"),
        ("questions rows rule", "store/tables/questions.py"),
        ("calls at once parallel", "engine/concurrency.py"),
        ("other nodes know clients", "gateway/nodes/client_rows.py"),
        ("device reconnects backoff", "client/ws.py"),
        ("always allow rule", "store/tables/questions.py"),
        ("repairs model's arguments", "core/lenient.py"),
        ("photo resized model's", "media/images.py"),
        ("system prompt", "agent/instructions.py"),
        ("how many rounds turn", "agent/limits.py"),
        ("limit wrong tokens", "gateway/entry/rate_limit.py"),
        ("hides secrets log", "gateway/log/secrets.py"),
        ("failed request sent again", "models/retry.py"),
        ("first signal stops", "gateway/serving/server.py"),
        ("paths workspace refused outside", "tools/paths.py"),
        ("node stops turns clients", "gateway/nodes/draining.py"),
        ("call needs approval", "engine/policy.py"),
        ("private addresses refused", "net/policy.py"),
        ("another node died", "sources/nodes/probes.py"),
        ("node died take over", "gateway/nodes/lost_nodes.py"),
        ("gateway died take over work", "gateway/nodes/lost_nodes.py"),
        ("asks person before dangerous tool", "engine/questions.py"),
        ("retention calls", "store/tables/journal.py"),
    ],
)
def test_one_search_in_the_first_lines_of_modules_finds_the_place(words: str, file: str) -> None:
    assert search(words) == [file]


def search(words: str) -> list[str]:
    """The modules whose first line of documentation has all these words."""
    wanted = set(words.lower().split())
    return [file.relative_to(SOURCE).as_posix() for _, file, tree in modules() if wanted <= first_words(tree)]


def first_words(tree: ast.Module) -> set[str]:
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    return set(re.findall(r"[a-z0-9]+(?:'s)?", first.lower()))
