"""The command policy judges every visible part, and refuses what it can't read; a real shell is held against it."""

import asyncio
import os
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.tools.shell.parser import MAX_NESTING, MAX_PARTS, read_script
from handspan.tools.shell.policy import DANGEROUS_PATTERNS, DEFAULT_ALLOWLIST, MAX_BYTES, CommandPolicy
from handspan.tools.shell.script import Unreadable

DEFAULT = CommandPolicy()
WRAPPERS = CommandPolicy(
    allowlist=(
        *DEFAULT_ALLOWLIST,
        *("nice", "nohup", "timeout", "busybox", "exec", "sh", "bash", "eval", "setsid", "stdbuf", "time"),
    )
)
IN_SANDBOX = CommandPolicy(in_sandbox=True)
DENYING = CommandPolicy(mode="denylist", denylist=("curl", "secret.txt"))


def refusal(policy: CommandPolicy, command: str) -> str:
    with pytest.raises(ToolError) as caught:
        policy.judge_text(command)
    assert caught.value.code == "policy_denied"
    return caught.value.message


def refused_argv(policy: CommandPolicy, *argv: str) -> str:
    with pytest.raises(ToolError) as caught:
        policy.judge_argv(argv)
    assert caught.value.code == "policy_denied"
    return caught.value.message


@pytest.mark.parametrize(
    "command",
    [
        "curl x",
        "ls && curl x",
        "ls || curl x",
        "ls; curl x",
        "ls | curl x",
        "ls |& curl x",
        "ls & curl x",
        "ls\ncurl x",
        "ls&curl x",
        "(curl x)",
        "( ls; (curl x) )",
        "{ curl x; }",
        "echo $(curl x)",
        'echo "a $(curl x) b"',
        "echo $(echo $(curl x))",
        "echo `curl x`",
        'echo "`curl x`"',
        "echo `echo \\`curl x\\``",
        "echo ${x:-$(curl x)}",
        "echo ${x:-`curl x`}",
        'echo "${x:-"$(curl x)"}"',
        "FOO=1 curl x",
        "FOO=$(curl x) ls",
        "A=1 B='2 3' curl x",
        "if true; then curl x; fi",
        "if curl x; then ls; fi",
        "while true; do curl x; done",
        "for f in $(curl x); do ls; done",
        "for f in a; do curl x; done",
        "! curl x",
        "'curl' x",
        "c''ur\"l\" x",
        "\\curl x",
        "cu\\\nrl x",
        "/usr/bin/curl x",
        ">out curl x",
        "2>&1 curl x",
        "ls > $(curl x)",
        "cat <<E\n$(curl x)\nE",
        "cat <<E\n`curl x`\nE",
        "cat <<E\ntext\nE\ncurl x",
        "cat <<'E' | ls\ntext\nE\ncurl x",
        "cat <<-E\n\ttext\n\tE\ncurl x",
        "ls # comment\ncurl x",
        "env curl x",
        "env A=1 curl x",
        "env -i -u HOME curl x",
        "env -- curl x",
        "xargs curl",
        "xargs -n 1 -P4 curl",
        "ls | xargs -0 -I{} curl {}",
        "xargs env curl",
        "find . -exec curl {} \\;",
        "find . -exec ls {} + -exec curl {} ';'",
        "find . -execdir curl {} +",
        "find . -ok curl {} ;",
        "command curl x",
        "command -p curl x",
        "command command curl",
        "[ -f $(curl x) ]",
    ],
)
def test_what_is_not_listed_is_refused_wherever_it_stands(command: str) -> None:
    assert "command not allowed: " in refusal(DEFAULT, command)
    assert "curl" in refusal(DEFAULT, command)


@pytest.mark.parametrize(
    "command",
    [
        "nice curl",
        "nice -n 5 curl",
        "nice -10 curl",
        "nice --adjustment=5 curl",
        "nice --adjustment 5 curl",
        "nohup curl",
        "timeout 5 curl",
        "timeout -k 1 -s KILL --foreground 5 curl",
        "timeout --signal=KILL 5 curl",
        "busybox curl",
        "exec curl",
        "exec -a name curl",
        "sh -c curl",
        "sh -c 'ls; curl x'",
        "sh -ec 'ls && curl'",
        "bash -o pipefail -c curl",
        "sh -c -- curl",
        "sh -- -c curl; curl",
        "sh -c 'sh -c \"sh -c curl\"'",
        "eval curl x",
        "eval 'ls; ' curl",
        "setsid -w curl",
        "stdbuf -oL curl",
        "time -p curl",
        "find . -exec sh -c 'curl' \\;",
        "xargs sh -c 'curl'",
        "env sh -c curl",
    ],
)
def test_what_a_wrapper_runs_is_judged_too(command: str) -> None:
    assert "'curl" in refusal(WRAPPERS, command)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("env -S 'curl x'", "'-S'"),
        ("env -iS 'curl x'", "'-iS'"),
        ("env --split-string='curl x'", "--split-string"),
        ("env --split='curl x'", "--split"),
        ("xargs -I ls ls", "its input"),
        ("xargs -I{} {} x", "its input"),
        ("xargs --replace=ls ls", "its input"),
        ("xargs -i curl", "'-i'"),
        ("timeout $x ls", "computed"),
        ("timeout 5 $x", "computed"),
        ("env $x ls", "computed"),
        ("sh -c $x", "computed"),
        ('sh -c "ls $x"', "computed"),
        ("eval $x", "computed"),
        ("$x", "computed"),
        ("l$x", "computed"),
        ("ls${IFS}-l", "computed"),
        ("$(echo ls)", "computed"),
        ("/bin/l?", "computed"),
        ("l*", "computed"),
        ("[l]s", "computed"),
        ("{ls,-l}", "computed"),
        ("~/ls", "computed"),
        ("busybox --install", "'--install'"),
    ],
)
def test_a_command_that_is_computed_is_refused(command: str, why: str) -> None:
    assert why in refusal(WRAPPERS, command)


@pytest.mark.parametrize(
    "command", ["./ls", "../ls", "bin/ls", "/tmp/ls", "/workspace/ls", "/usr/bin/../../tmp/ls", "/ls"]
)
def test_a_listed_name_in_a_folder_that_is_not_the_systems_is_refused(command: str) -> None:
    assert "command not allowed" in refusal(DEFAULT, command)


@pytest.mark.parametrize(
    "command", ["PATH=. ls", "LD_PRELOAD=x ls", "IFS=x ls", "export PATH=.", "env LD_LIBRARY_PATH=. ls"]
)
def test_variables_that_decide_what_runs_can_not_be_set(command: str) -> None:
    assert "decides which programs run" in refusal(DEFAULT, command)


def test_a_refusal_says_what_is_allowed_and_which_setting_allows_more() -> None:
    message = refusal(CommandPolicy(allowlist=("ls", "cat")), "curl x")
    assert message == (
        "command not allowed: 'curl'. Do it with a file or web tool, or with a listed command: ls, cat. "
        "A person can allow it in the setting tools.command_policy.allow_also."
    )


def test_a_refusal_proposes_no_program_that_hardly_any_machine_has() -> None:
    message = refusal(DEFAULT, "curl x")
    assert "python3" in message and "weft" not in message and "claude-flow" not in message
    assert DEFAULT.judge_text("weft x; claude-flow y").parts


@pytest.mark.parametrize("command", ["git log", "git log -5 | cat", "/usr/bin/git log", "git 'log' $x"])
def test_an_entry_of_several_words_allows_the_commands_that_begin_with_them(command: str) -> None:
    assert CommandPolicy(allowlist=("git log", "cat")).judge_text(command).parts


@pytest.mark.parametrize(
    "command", ["git push", "git", "git logs", "git $x log", "git -C x log", "log", "env git push"]
)
def test_an_entry_of_several_words_allows_no_other_command_of_that_program(command: str) -> None:
    message = refusal(CommandPolicy(allowlist=("git log", "git diff --stat", "env")), command)
    if "'git'" in message:
        assert "Of it only these may run: git log, git diff --stat." in message


def test_more_commands_can_be_added_to_the_default_list() -> None:
    policy = CommandPolicy(allow_also=("make test", "jq"))
    assert policy.judge_text("make test && jq . a.json | cat").parts
    assert "make test" in refusal(policy, "make all")
    assert CommandPolicy(allowlist=("ls",), allow_also=("jq",)).judge_text("ls | jq .").parts


@pytest.mark.parametrize(
    "command",
    [
        "echo 'open",
        'echo "open',
        "echo `open",
        "echo $(ls",
        "echo ${x",
        "(ls",
        "ls)",
        "ls \\",
        "ls >",
        "ls > ;",
        "ls >\\\n;",
        "cat <<E\ntext",
        "cat <<E",
        "cat <<$x\n$x",
        "$(cat <<E)\nE",
        "cat <<E $(ls)\nE",
        "cat <<E `ls`\nE",
        "cat <(ls)",
        "ls() { ls; }",
        "f () (ls)",
        "function f { ls; }",
        "case x in x) ls;; esac",
        "select x in a; do ls; done",
        "[[ -f x ]]",
        "for x do ls; done",
        "for",
        "echo $'\\x41'",
        'echo $"a"',
        'echo "$\\\n(ls)"',
        "echo ${x:-'a'}",
        "echo $((ls) | (ls))",
        "echo $(( $(ls) ))",
        "echo $((1",
        "ls; " * (MAX_PARTS + 1),
        "$(" * (MAX_NESTING + 2) + ")" * (MAX_NESTING + 2),
        "(" * 1000,
        "`" * 1001,
    ],
)
def test_what_can_not_be_read_with_certainty_is_refused_in_every_mode(command: str) -> None:
    for policy in (DEFAULT, WRAPPERS, CommandPolicy(mode="denylist")):
        assert "can't be judged" in refusal(policy, command)


@pytest.mark.parametrize(
    "command",
    [
        "case $x in a) ls;; esac",
        "greet() { echo $1; }; greet you",
        "bash -c '[[ -f x ]] && cat <(ls)'",
        "grep -rn 'shutdown\\|reboot' src",
        "git commit -m 'Do not sudo or mkfs here'",
        "cat > README.md <<'E'\nsudo apt-get install x; rm -rf / is bad\nE",
        "rm -rf build /tmp/x /workspace/dist",
        "echo 'open",
        "true; " * 200,
    ],
)
def test_in_a_sandbox_every_command_runs_by_default_and_a_pattern_counts_only_as_a_command(command: str) -> None:
    assert IN_SANDBOX.judge_text(command).parts
    assert "command" in refusal(CommandPolicy(mode="allowlist", in_sandbox=True), f"{command}\ncurl x")


def test_in_a_sandbox_a_list_of_the_operator_is_still_the_whole_list() -> None:
    policy = CommandPolicy(allowlist=("ls",), in_sandbox=True)
    assert "'cat'" in refusal(policy, "cat a")
    assert "curl" in refusal(CommandPolicy(denylist=("curl",), in_sandbox=True), "case x in x) curl y;; esac")


def test_wrappers_in_wrappers_without_end_are_refused() -> None:
    assert "deep" in refusal(DEFAULT, "env " * 100 + "ls")


@pytest.mark.parametrize("command", ["ls \0", "ls \x1b[0m", "ls\r\ncurl", "\x7f", "ls \ud800"])
def test_control_characters_and_half_characters_are_refused(command: str) -> None:
    with pytest.raises(ToolError, match="control character") as caught:
        DEFAULT.judge_text(command)
    assert caught.value.code == "invalid_arguments"


@pytest.mark.parametrize("size", [65_537, 10_000_000])
def test_a_text_that_is_too_long_is_refused_by_its_size_alone(size: int) -> None:
    for text in ("a" * size, "'" * size, "é" * (size // 2 + 1)):
        with pytest.raises(ToolError, match="longer than 65536 bytes") as caught:
            DEFAULT.judge_text(text)
        assert caught.value.code == "invalid_arguments"


@pytest.mark.parametrize("command", ["", "  ", "\n\t"])
def test_an_empty_command_is_refused(command: str) -> None:
    with pytest.raises(ToolError, match="is empty"):
        DEFAULT.judge_text(command)


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        *((pattern, pattern.strip()) for pattern in DANGEROUS_PATTERNS if pattern != "sudo "),
        ("sudo ls", "sudo "),
        ("SUDO\tls", "sudo "),
        ("ls; sudo", "sudo "),
        ("su''do ls", "sudo "),
        ("rm  -rf\t/", "rm -rf /"),
        ("rm -fr /", "rm -rf /"),
        ("rm -r -f /", "rm -rf /"),
        ("rm --recursive --force /", "rm -rf /"),
        ("rm -Rf -- '/'", "rm -rf /"),
        ("/bin/rm -f -r /*", "rm -rf /"),
        ("r\\m -rf /", "rm -rf /"),
        ("ls $(rm -f -r /)", "rm -rf /"),
        ("A=1 rm -f -r /", "rm -rf /"),
        ("env rm -f -r /", "rm -rf /"),
        ("sh -c 'rm -f -r /'", "rm -rf /"),
        ("MKFS.ext4 x", "mkfs"),
        ("dd of=x if=y", "dd if="),
        (": () { : | : & } ; :", ":(){ :|:& };:"),
        ("chmod -R 777 /", "chmod 777 /"),
        ("chmod a+rwx /etc", "chmod 777 /"),
        ("echo x >/dev/sda", "> /dev/sd"),
        ("echo x 1> '/dev/sda'", "> /dev/sd"),
        ("'open; shutdown", "shutdown"),
    ],
)
def test_dangerous_patterns_come_first_in_every_mode_and_however_they_are_written(command: str, pattern: str) -> None:
    everything = CommandPolicy(allowlist=(*WRAPPERS.allowlist, "sudo", "rm", "dd", "mkfs", "shutdown"))
    other = CommandPolicy(mode="denylist", denylist=("other",))
    for policy in (everything, CommandPolicy(mode="denylist"), other, IN_SANDBOX):
        message = refusal(policy, command)
        assert message.startswith("dangerous command: ")
        assert f"(matched pattern: {pattern})" in message.replace("sudo )", "sudo )")


@pytest.mark.parametrize(
    "command", ["curl x", "ls | CURL x", "c''url x", "echo $(cu\\rl x)", "cat secret.txt", 'cat sec"ret".txt']
)
def test_a_deny_list_sees_every_part_after_quotes_are_gone(command: str) -> None:
    assert refusal(DENYING, command).startswith("command blocked: ")
    assert "tools.command_policy.denylist" in refusal(DENYING, command)


@pytest.mark.parametrize("command", ["make all", "$x", "eval $x", "sh -c $x", "./script", "PATH=. ls", "f x && g"])
def test_a_deny_list_lets_the_rest_pass(command: str) -> None:
    assert DENYING.judge_text(command).parts


def test_a_deny_list_counts_in_allow_list_mode_too() -> None:
    policy = CommandPolicy(denylist=("secret",))
    assert refusal(policy, "cat secret").startswith("command blocked: 'cat secret' (matched pattern: secret)")
    assert policy.judge_text("cat other").parts


@pytest.mark.parametrize(
    "command",
    [
        "ls -la | grep '[0-9]' | sort -u > out.txt 2>&1 && wc -l < out.txt || true",
        "echo 'a; curl' \"b && curl\" c\\;curl # curl",
        'for f in *.py; do echo "$f"; grep -c x $f; done',
        "if [ -f a ] && test -d b; then cat a; else touch a; fi",
        "while true; do date; done",
        "cat > a.py <<'E'\nimport curl  # $(curl)\nE\npython3 a.py",
        "cat <<E\n$HOME \\$(curl) costs 5$\nE",
        'FOO=1 BAR="x y" env | grep FOO',
        "echo $((1 + 2 * (3 - $x)))",
        'echo ${x} ${y:-z} $? $$ "$@" $1 cost: 5$',
        "(cd src && ls) ; { pwd; }",
        "find . -name '*.py' -type f -exec grep -l x {} + -o -exec echo {} \\;",
        "find . -name x -delete",
        "ls | xargs -r -n1 basename | xargs",
        "git log --format='%h %s' -5; git commit -m \"it's `date`\"",
        "awk '{ print $1 }' a | cut -d, -f2 | sed 's/a/b/'",
        "command -v curl; type ls; . ./env.sh; : nothing",
        "/usr/bin/ls /usr/local/bin",
        "export A=1; env -u A B=2 ls",
        "ls&&ls||ls;ls|ls&",
        "ls 2>/dev/null >>log 3<&0",
        "echo \"\" '' a''b",
        "echo {} }",
        "! ls",
        "ls <<< word",
        "echo $[1+2]",
        "echo a\\\nb",
        "if (ls); then ls; fi",
        "> empty.txt",
        "\n\nls\n\n",
    ],
)
def test_ordinary_commands_pass(command: str) -> None:
    assert DEFAULT.judge_text(command).parts


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'ls | cat'",
        "sh script.sh",
        "sh",
        "timeout 5 nice -n 3 env A=1 ls",
        "busybox ls",
        "eval ls",
        "exec 3<a",
        "sh +x -",
        "sh -",
    ],
)
def test_wrappers_around_what_is_listed_pass(command: str) -> None:
    assert WRAPPERS.judge_text(command).parts


def test_deleting_by_find_needs_rm() -> None:
    assert "'rm'" in refusal(CommandPolicy(allowlist=("find",)), "find . -delete")


def test_a_program_outside_the_systems_folders_can_be_listed_by_its_path() -> None:
    policy = CommandPolicy(allowlist=("/opt/tool", "./build.sh"))
    assert policy.judge_text("/opt/tool x; ./build.sh").parts
    assert "'/opt/other'" in refusal(policy, "/opt/other")
    assert "'tool'" in refusal(policy, "tool")


def test_words_without_a_shell_are_literal() -> None:
    DEFAULT.judge_argv(["echo", "$(curl x)", "; curl", "`curl`", "a\tb"])
    DEFAULT.judge_argv(["git", "status"])


@pytest.mark.parametrize(
    "argv",
    [
        ("curl", "x"),
        ("env", "A=1", "curl"),
        ("xargs", "curl"),
        ("find", ".", "-exec", "curl", ";"),
        ("./ls",),
        ("A=1", "ls"),
        ("ls; curl",),
        ("command", "curl"),
    ],
)
def test_words_without_a_shell_are_judged_with_their_wrappers(argv: tuple[str, ...]) -> None:
    assert "command not allowed" in refused_argv(DEFAULT, *argv)


def test_a_shell_as_a_program_is_judged_by_its_text() -> None:
    assert "'curl'" in refused_argv(WRAPPERS, "sh", "-c", "ls; curl")
    assert "can't be judged" in refused_argv(WRAPPERS, "sh", "-c", "ls '")
    assert "rm -rf /" in refused_argv(WRAPPERS, "rm", "-r", "-f", "/")
    assert "rm -rf /" in refused_argv(WRAPPERS, "rm", "-rf", "/")


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("ls -la 'a b'", True),
        ('grep "x|y" a', True),
        ("echo \\$x", True),
        ("ls\n", True),
        ("ls | cat", False),
        ("ls > a", False),
        ("ls *", False),
        ("echo $x", False),
        ("echo ~", False),
        ("A=1 ls", False),
        ("! ls", False),
        ("(ls)", False),
        ("ls; ls", False),
        ("ls &", False),
        ("ls # x", False),
        ("ls\nls", False),
        ("ls \\\n-l", False),
        ("# nothing", False),
    ],
)
def test_one_command_of_literal_words_needs_no_shell(command: str, plain: bool) -> None:
    assert read_script(command).is_literal is plain


@given(st.text("*?[]{},.~=ab", max_size=12))
def test_a_word_is_literal_where_a_shell_leaves_it_as_it_is(word: str) -> None:
    is_expanded = re.search(r"[*?]|\[.*\]|^~|=~|\{.*(,|\.\.).*\}", word)
    assert read_script(f"echo {word}").is_literal == (is_expanded is None)


# The first of these took a pattern hours, and the event loop waited for it.
@pytest.mark.parametrize("units", ["{,", "{.", "[", "{", "x", "{},", "\n"])
def test_the_longest_command_is_judged_in_bounded_time(units: str) -> None:
    rest = MAX_BYTES - len("echo x")
    IN_SANDBOX.judge_text("echo x" + "".join(unit * (rest // len(units)) for unit in units))


@given(st.text(alphabet=st.sampled_from("ab $(){}`'\"\\\n;&|<>#=*?!~-0E\t[],.")))
def test_every_text_is_read_or_refused(text: str) -> None:
    try:
        parts = read_script(text).parts
    except Unreadable as error:
        assert str(error)
    else:
        assert all(part.words or part.redirections for part in parts)


PIECES = (
    *("echo", "true", "boom", "boom", "cat", "env", "xargs", "eval", "command", "sh", "-c", "find", ".", "-exec", "{}"),
    *(
        ";",
        "&",
        "|",
        "&&",
        "||",
        "\n",
        "(",
        ")",
        "{",
        "}",
        "$(",
        "`",
        "'",
        '"',
        "\\",
        "$",
        "${x:-",
        "#",
        ">",
        "<",
        "\\\n",
    ),
    *("<<E\n", "\nE\n", "<<'E'\n", "$((", "))", "x=1", "*", "!", "if", "then", "fi", "for", "in", "do", "done", '"$('),
    *("-n1", "-I", "+", "0", "2>", "&>", "$'", " ", " ", " ", " ", "\t", "time", "[", "]", "\\;"),
)


@pytest.mark.anyio
async def test_what_passes_runs_nothing_else_in_a_real_shell(tmp_path: Path) -> None:
    """The reader is held against the shell itself: whatever passes must not reach the program that is not listed."""
    place_canary(tmp_path)
    policy = CommandPolicy(allowlist=("echo", "true", "cat", "env", "xargs", "eval", "command", "find"))
    choice = random.Random(20)
    passed = 0
    for _ in range(20_000):
        command = choice.choice(("", " ")).join(choice.choices(PIECES, k=choice.randint(2, 12)))
        if "boom" in command and await passes(policy, command):
            passed += 1
            await in_shell(command, tmp_path)
            assert "ran" not in os.listdir(tmp_path), command
    assert passed > 50
    await in_shell("boom", tmp_path)
    assert "ran" in os.listdir(tmp_path)


def place_canary(folder: Path) -> None:
    (folder / "cwd").mkdir()
    canary = folder / "bin" / "boom"
    canary.parent.mkdir()
    canary.write_text(f"#!/bin/sh\n: >'{folder}/ran'\n")
    canary.chmod(0o755)


async def passes(policy: CommandPolicy, command: str) -> bool:
    try:
        policy.judge_text(command)
    except ToolError:
        return False
    return True


async def in_shell(command: str, folder: Path) -> None:
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", command),
        cwd=folder / "cwd",
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
    )
    await asyncio.wait_for(process.wait(), 60)
