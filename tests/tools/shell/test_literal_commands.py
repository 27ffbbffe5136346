"""What runs without a sandbox reads inside the workspace and does nothing else. The programs are not run here."""

from pathlib import Path

import pytest

from handspan.core.errors import ToolError
from handspan.tools.shell.literal_commands import LITERAL_COMMANDS, check_literal


@pytest.fixture
def state(workspace: Path) -> Path:
    """Files of the gateway inside the workspace."""
    folder = workspace / "sub" / "state"
    folder.mkdir(parents=True)
    (folder / "token").write_text("the secret")
    return folder


def refusal(workspace: Path, command: str, *hidden: Path) -> ToolError:
    with pytest.raises(ToolError) as caught:
        check_literal(command.split(), workspace, hidden)
    return caught.value


def test_the_list_is_the_short_one() -> None:
    short = "cat date diff echo grep head ls pwd sort stat tail uniq wc"
    assert " ".join(sorted(LITERAL_COMMANDS)) == short


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "cat ../x",
        "cat sub/../../x",
        "cat -- ../x",
        "cat a /etc/passwd",
        "cat -n /etc/passwd",
        "cat link",
        "cat folder/passwd",
        "ls /",
        "ls -la ..",
        "ls -l folder",
        "head -n 5 /etc/passwd",
        "head -5 /etc/passwd",
        "tail --lines 5 /etc/passwd",
        "wc -l /etc/passwd",
        "grep root /etc/passwd",
        "grep -e root /etc/passwd",
        "grep -ie root /etc/passwd",
        "grep --regexp=root /etc/passwd",
        "grep --regexp root /etc/passwd",
        "grep -A 3 root /etc/passwd",
        "grep -r root /etc",
        "sort -k 2 /etc/passwd",
        "uniq /etc/passwd",
        "diff a /etc/passwd",
        "stat /etc/passwd",
        "stat -c %n /etc/passwd",
    ],
)
def test_a_path_that_leads_out_of_the_workspace_is_refused(workspace: Path, command: str) -> None:
    (workspace / "link").symlink_to("/etc/passwd")
    (workspace / "folder").symlink_to("/etc")
    error = refusal(workspace, command)
    assert error.code == "invalid_path"
    assert "leads out of the workspace" in error.message


@pytest.mark.parametrize(
    "command",
    [
        "sort -o out a",
        "sort -oout a",
        "sort -uo out a",
        "sort --output=out a",
        "sort --outp=out a",
        "sort --files0-from=names",
        "sort --compress-program=sh a",
        "sort -T / a",
        "sort --random-source=/etc/passwd -R a",
        "sort -S 100G a",
        "wc --files0-from=names",
        "wc --files0-from names",
        "grep -f /etc/passwd a",
        "grep --file=/etc/passwd a",
        "grep --fil=/etc/passwd a",
        "grep -R x .",
        "grep --dereference-recursive x .",
        "grep -d recurse x .",
        "grep --exclude-from=/etc/passwd x a",
        "diff -r a b",
        "diff --from-file=/etc/passwd a",
        "diff --to-file=/etc/passwd a",
        "diff -X /etc/passwd a b",
        "diff -l a b",
        "diff --paginate a b",
        "date -f names",
        "date --file=names",
        "date -r /etc/passwd",
        "date -s now",
        "date --set=now",
        "date -us now",
        "tail -f a",
        "tail -F a",
        "tail --follow a",
        "ls -L link",
        "ls -RL .",
        "ls --dereference link",
        "cat --unknown",
        "cat -Z",
        "stat --cached=never a",
        "pwd --x",
        "ls --all=x",
    ],
)
def test_an_option_that_could_write_run_or_read_elsewhere_is_refused(workspace: Path, command: str) -> None:
    error = refusal(workspace, command)
    assert error.code == "policy_denied"
    assert "may not be given the option" in error.message


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("uniq a out", "would write to 'out'"),
        ("uniq -c - out", "would write to 'out'"),
        ("date 010100002030", "would set it"),
        ("date -u 010100002030", "would set it"),
        ("pwd x", "takes no 'x'"),
        ("diff a folder", "name two files"),
    ],
)
def test_an_operand_that_means_more_than_reading_is_refused(workspace: Path, command: str, why: str) -> None:
    (workspace / "folder").mkdir()
    error = refusal(workspace, command)
    assert error.code == "policy_denied" and why in error.message


@pytest.mark.parametrize("command", ["cat sub/state/token", "ls sub/state", "ls sub/state/../state", "cat way/token"])
def test_files_of_the_gateway_are_out_of_reach(workspace: Path, state: Path, command: str) -> None:
    (workspace / "way").symlink_to(state)
    error = refusal(workspace, command, state)
    assert error.code == "invalid_path" and "belongs to the gateway" in error.message


@pytest.mark.parametrize(
    "command", ["grep -r x", "grep -r x .", "grep -ir x sub", "grep --recursive x", "ls -R", "ls -lR sub"]
)
def test_nothing_goes_through_folders_that_hold_files_of_the_gateway(
    workspace: Path, state: Path, command: str
) -> None:
    assert "holds files of the gateway" in refusal(workspace, command, state).message
    check_literal(command.split(), workspace, [workspace.parent / "elsewhere"])


@pytest.mark.parametrize(
    "command",
    [
        "echo -n --anything /etc/passwd ../x",
        "pwd -P",
        "date",
        "date -u +%Y-%m-%d",
        "date -d yesterday +%F",
        "date -Iseconds",
        "date --iso-8601=seconds",
        "date --date=now --rfc-3339=date",
        "cat a",
        "cat -nA a b",
        "cat - a",
        "cat",
        "cat missing",
        "ls",
        "ls -la --color=never sub",
        "ls -R sub",
        "ls -w 80 --sort=size",
        "ls --sort size",
        "head -n 5 -q a",
        "head -20 a",
        "head -c5 a",
        "tail -n +3 a",
        "tail --bytes=9 a",
        "wc -lwc a b",
        "grep -rn --include=*.py pattern sub",
        "grep -E /etc/passwd a",
        "grep -C 3 -m1 x a",
        "grep -c -e x -e y a",
        "grep x -- -odd-name",
        "sort -t, -k2,2n -u a",
        "sort --check a",
        "uniq -c a",
        "uniq -f 1 --all-repeated=separate",
        "diff -u a b",
        "diff --unified=3 --color a -",
        "stat -c %s a",
        "stat --format=%s a",
        "cat sub/../a",
    ],
)
def test_ordinary_words_pass(workspace: Path, command: str) -> None:
    (workspace / "sub").mkdir()
    (workspace / "a").write_text("text")
    check_literal(command.split(), workspace, [])


def test_an_absolute_path_below_the_workspace_works(workspace: Path, tmp_path: Path) -> None:
    check_literal(["cat", str(workspace / "a")], workspace, [])
    (tmp_path / "way").symlink_to(workspace)
    check_literal(["cat", str(workspace / "a"), str(tmp_path / "way" / "a")], tmp_path / "way", [])


def test_an_option_whose_value_is_missing_passes_to_the_program_which_says_so(workspace: Path) -> None:
    check_literal(["head", "-n"], workspace, [])
    check_literal(["head", "--lines"], workspace, [])
