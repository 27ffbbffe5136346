"""Globs: what they match, and that no glob takes long."""

import subprocess
import time
from pathlib import Path

import pytest

from handspan.core.errors import ToolError
from handspan.tools.search.globs import compile_glob
from handspan.tools.search.ignored import IgnoreRules


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "lib/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "lib/src/a.py"]),
        ("**/test/**", ["test/a", "x/test/y/z"], ["test", "tests/a"]),
        ("**/a/**/b/*", ["a/b/c", "x/a/y/a/z/b/c"], ["b/c", "a/b"]),
        ("a?c", ["abc", "x/a.c"], ["ac", "a/c"]),
        ("[a-c]x[!0-9]", ["bxz"], ["dxz", "bx1", "bx/"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx", "x/a.b.tsx"], ["a.t", "a.tsxx"]),
        ("{src,lib}/{a,b}.py", ["src/a.py", "lib/b.py"], ["src/c.py"]),
        ("a*b*c", ["abc", "axbxbxc", "a.b.c"], ["acb", "ab/c"]),
        (r"\*.txt", ["*.txt"], ["a.txt"]),
        ("[x", ["[x"], ["x"]),
        ("./docs/*", ["docs/a"], ["docs"]),
        ("/docs/*", ["docs/a"], ["x/docs/a"]),
        ("**", ["a", "a/b"], []),
    ],
)
def test_a_glob_matches_paths(glob: str, matching: list[str], others: list[str]) -> None:
    pattern = compile_glob(glob)
    assert [path for path in matching if not pattern.fullmatch(path)] == []
    assert [path for path in others if pattern.fullmatch(path)] == []


@pytest.mark.parametrize("glob", ["x" * 1001, "{a,b}" * 10, "[z-a]"])
def test_a_glob_that_can_not_be_used_is_refused(glob: str) -> None:
    with pytest.raises(ToolError) as caught:
        compile_glob(glob)
    assert caught.value.code == "invalid_arguments"


@pytest.mark.parametrize("glob", ["*a" * 100 + "b", "**/a/" * 50 + "b", "*?" * 100 + "[b]"])
def test_no_glob_takes_long(glob: str) -> None:
    """With an ordinary translation each of these would not end in a lifetime."""
    began = time.monotonic()
    assert not compile_glob(glob).fullmatch("a" * 250)
    assert not compile_glob(glob).fullmatch("a/" * 1000)
    assert time.monotonic() - began < 30


RULES = f"""
# a comment
*.log
!keep.log
/only-here.txt
build/
docs/*.tmp
**/cache/**
deep/**/leaf
trailing.space{" " * 3}
\\#literal
\\!literal
a[bc]d
[broken
*.[oa]
!important.o
sub/inner/
"""

PATHS = [
    *(
        "a.log",
        "keep.log",
        "x/a.log",
        "x/keep.log",
        "only-here.txt",
        "x/only-here.txt",
        "build/a",
        "x/build/a",
        "build2/a",
    ),
    *("docs/a.tmp", "docs/x/a.tmp", "cache/a", "x/cache/y/a", "cached/a", "deep/leaf", "deep/x/y/leaf", "deep/leafs"),
    *("trailing.space", "#literal", "!literal", "abd", "add", "[broken", "x.o", "x.a", "important.o", "x/important.o"),
    *("sub/inner/a", "x/sub/inner/a", "plain.txt", ".hidden", "docs/a.md"),
]


def is_ignored(rules: IgnoreRules, path: str) -> bool:
    """Judges every folder on the way as a walk does, then the file."""
    names = path.split("/")
    return any(
        rules.judge(name, "/".join(names[: place + 1]), is_folder=place < len(names) - 1)
        for place, name in enumerate(names)
    )


def test_rules_ignore_what_git_ignores(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(RULES)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    asked = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin"],
        input="\n".join(PATHS),
        capture_output=True,
        text=True,
        check=False,
    )
    rules = IgnoreRules(RULES)
    assert [path for path in PATHS if is_ignored(rules, path)] == [
        path.strip('"') for path in asked.stdout.splitlines()
    ]
