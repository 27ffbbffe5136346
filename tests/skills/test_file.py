"""Skills from their files (SPEC A3, S4)."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.core.values import Json
from handspan.skills.file import MAX_BYTES, MAX_FILLED, Skill, fill, parse_legacy, parse_skill
from handspan.skills.front_matter import SkillError
from handspan.skills.text import clean_text, fill_variables, find_variables
from tests.skills.control_tokens import has_control_token

TOKENS = [
    "<system>",
    "</system>",
    "< / SYSTEM >",
    '<system role="root">',
    "<system-reminder>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<｜begin▁of▁sentence｜>",
    "[INST]",
    "[/INST]",
    "[ inst ]",
    "[SYSTEM_PROMPT]",
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<eos>",
    "<start_of_turn>",
    "<tool_call>",
]


def skill_of(front: str, body: str = "Do it.") -> Skill:
    return parse_skill(f"---\n{front}\n---\n{body}".encode())


def problem_of(data: bytes | str) -> str:
    with pytest.raises(SkillError) as caught:
        parse_skill(data.encode() if isinstance(data, str) else data, "x/SKILL.md")
    return str(caught.value)


# What is refused, with the file, the line and the remedy


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "x/SKILL.md, line 1: the front matter is missing"),
        (b"# Title\n\nname: x", "line 1: the front matter is missing"),
        (b"\n\n# Title", "line 3: the front matter is missing"),
        (b"---\nname: x\n", "line 1: the front matter has no end"),
        (
            b"---\nname: x\nversion: 1\nbad \xff\n---\n",
            "line 4: it is not UTF-8 (invalid start byte). Save it as UTF-8.",
        ),
        (b"---\nname: x\n---\n" + b"a" * MAX_BYTES, "at most 51200 bytes"),
        (b"---\n---\nbody", "line 2: the front matter must be lines of 'key: value'"),
        (b"---\n- name\n- x\n---\n", "line 2: the front matter must be lines of 'key: value'"),
        (b"---\nname\n---\n", "line 2: the front matter must be lines of 'key: value'"),
        (b"---\nname: x\na: " + b"b" * 16384 + b"\n---\n", "line 2: the front matter is too long"),
    ],
)
def test_a_file_that_is_no_skill_is_refused_with_its_place(data: bytes, problem: str) -> None:
    assert problem in problem_of(data)


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("description: y", "the key 'name' is missing or empty. Add one"),
        ("nmae: x", "Did you mean 'nmae'?"),
        ("name:", "line 2: the key 'name' is missing or empty"),
        ("description: y\nname: two words", "line 3: 'two words' can't be a skill's name"),
        ("name: ../up", "line 2: '../up' can't be a skill's name"),
        ("name: [x]", "line 2: 'name' must be a text"),
        ("name: x\nname: y", "line 3: the key 'name' stands twice"),
        ("name: x\nallowed-tools: a\nallowed_tools: b", "line 4: the key 'allowed_tools' stands twice"),
        ("name: x\nuser-invocable: maybe", "line 3: 'user_invocable' is 'maybe'. Use true or false."),
        ("name: x\nallowed-tools: 3", "line 3: 'allowed_tools' must be a list, not 3"),
        ("name: x\nallowed-tools: [3]", "line 3: 'allowed_tools' can't have 3"),
        ("name: x\nallowed-tools: Bash(git *)", "line 3: 'allowed_tools' can't have 'Bash(git'"),
        ("name: x\nvariables: [a b]", "line 3: 'variables' can't have 'a b'"),
        ("name: x\nvariables: {a: b}", "line 3: 'variables' must be a list"),
        ("name: x\nspeed: .inf", "line 3: 'speed' has the value inf, which is no JSON"),
        (f"name: x\nspeed: 0x{'f' * 4000}", "line 3: 'speed' has the value a very long number"),
        (f"name: x\nspeed: {2**63}", "line 3: 'speed' has the value 9223372036854775808"),
    ],
)
def test_a_value_that_is_not_what_it_must_be_is_refused_with_its_place(front: str, problem: str) -> None:
    assert problem in problem_of(f"---\n{front}\n---\n")


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("name: x\ndescription: Use when: now", "line 3: it is not YAML ('mapping values are not allowed here'). Put"),
        ("name: x\n  y: [", "line 3: it is not YAML"),
        ("name: x\nallowed-tools: *", "line 3: it is not YAML"),
        ("name: x\nallowed-tools: [*_file]", "line 3: aliases and anchors ('*', '&') are not allowed"),
        ("name: &a x", "line 2: aliases and anchors"),
        ("name: !!python/object/apply:os.system [id]", "line 2: tags ('!') are not allowed"),
        ("name: x\non: !!bool maybe", "line 3: tags"),
        ("name: x\n? [a]\n: b", "it is not YAML"),
        ("name: x\nd: \uffff", "line 3: YAML does not take the character 0xffff"),
        ("name: x\nd: 2024-99-99", "a value can't be read ('month must be in 1..12'). Put it in quotes."),
        ('name: x\nd: "\\UFFFFFFFF"', "a value can't be read"),
        (f"name: x\nd: {'9' * 5000}", "a value can't be read"),
        ("name: x\nd: " + "[" * 10 + "]" * 10, "line 3: it is nested deeper than 10 levels"),
        ("name: x\nd: [" + "1," * 1000 + "]", "line 3: it has more than 1000 values"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_place(front: str, problem: str) -> None:
    assert problem in problem_of(f"---\n{front}\n---\n")


def test_a_bomb_of_aliases_is_refused_before_anything_is_built() -> None:
    levels = "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 200))
    assert "line 3: aliases and anchors" in problem_of(f"---\nname: x\na0: &a0 {{k: v}}\n{levels}\n---\n")


@pytest.mark.parametrize(
    ("manifest", "prompt", "problem"),
    [
        (b"{", b"", "x/skill.json: Not JSON"),
        (b'["name"]', b"", "x/skill.json: it must be a JSON object with a 'name', not list."),
        (b"{}", b"", "x/skill.json: the key 'name' is missing"),
        (b'{"name": "x", "name": "y"}', b"", "stands twice"),
        (b'{"name": "x", "a": ' + b"[" * 10 + b"]" * 10 + b"}", b"", "10 levels deep"),
        (b'{"name": "x"}', b"\xff", "x/prompt.md, line 1: it is not UTF-8"),
        (b'{"name": "x"}', b"a" * (MAX_BYTES + 1), "x/prompt.md: it is too large"),
        (b" " * (MAX_BYTES + 1), b"", "x/skill.json: it is too large"),
    ],
)
def test_an_older_skill_that_is_broken_is_refused(manifest: bytes, prompt: bytes, problem: str) -> None:
    with pytest.raises(SkillError) as caught:
        parse_legacy(manifest, prompt, "x/skill.json")
    assert problem in str(caught.value)


# What is read


def test_a_skill_says_all_that_it_can_say() -> None:
    front = """
name: review-code
description: Review a change.
version: 1.10
variables: [file, branch_name]
allowed-tools:
  - read_file
  - "git_*"
  - read_file
argument-hint: FILE BRANCH
user-invocable: true
disable-model-invocation: yes
license: MIT
tags: [a, 1, 2.5, true, null, {since: 2024-01-02}]
"""
    skill = skill_of(front, "\nLook at {{file}}.\n\n---\n\nThe rest.\n")
    assert skill == Skill(
        name="review-code",
        description="Review a change.",
        version="1.10",
        variables=("file", "branch_name"),
        allowed_tools=("read_file", "git_*"),
        argument_hint="FILE BRANCH",
        user_invocable=True,
        disable_model_invocation=True,
        metadata={"license": "MIT", "tags": ["a", 1, 2.5, True, None, {"since": "2024-01-02"}]},
        instructions="Look at {{file}}.\n\n---\n\nThe rest.",
        fingerprint=skill.fingerprint,
    )


def test_a_name_is_all_that_a_skill_needs() -> None:
    skill = parse_skill(b"\xef\xbb\xbf\r\n---  \r\nname: 007\r\n--- \r\n\r\nGo.\r\n")
    assert skill == Skill("007", instructions="Go.", fingerprint=skill.fingerprint)
    assert parse_skill(b"---\nname: x\n---").instructions == ""


@pytest.mark.parametrize(
    ("line", "globs"),
    [
        ("description: y", None),
        ("allowed-tools:", None),
        ("allowed-tools: []", ()),
        ("allowed_tools: [a, b]", ("a", "b")),
        ("allowed-tools: a, web_*  c", ("a", "web_*", "c")),
        ("allowed-tools: '*'", ("*",)),
    ],
)
def test_tools_are_a_list_or_words_and_none_is_not_the_same_as_empty(line: str, globs: tuple[str, ...] | None) -> None:
    assert skill_of(f"name: x\n{line}").allowed_tools == globs


@pytest.mark.parametrize(("word", "value"), [("'True'", True), ("'false'", False), ("off", False), ("", False)])
def test_a_flag_is_read_however_it_is_written(word: str, value: bool) -> None:
    assert skill_of(f"name: x\nuser_invocable: {word}").user_invocable is value


def test_ten_levels_are_not_too_deep() -> None:
    assert skill_of("name: x\nd: " + "[" * 9 + "]" * 9).metadata["d"] == [[[[[[[[[]]]]]]]]]


def test_an_older_skill_is_read_from_its_two_files() -> None:
    manifest = {
        "name": "x",
        "version": 2,
        "allowed_tools": ["a"],
        "user-invocable": True,
        "variables": ["v"],
        "k": {"1": "<s>z"},
    }
    skill = parse_legacy(json.dumps(manifest).encode(), b"Use {{v}}.\n")
    assert skill == Skill(
        "x",
        version="2",
        variables=("v",),
        allowed_tools=("a",),
        user_invocable=True,
        metadata={"k": {"1": "z"}},
        instructions="Use {{v}}.",
        fingerprint=skill.fingerprint,
    )


def test_the_fingerprint_is_of_every_byte() -> None:
    prints = {
        parse_skill(b"---\nname: x\n---\nGo.").fingerprint,
        parse_skill(b"---\nname: x\n---\nGo. ").fingerprint,
        parse_legacy(b'{"name": "x"}', b" a").fingerprint,
        parse_legacy(b'{"name": "x"} ', b"a").fingerprint,
        parse_legacy(b'{"name": "x"}', b"a").fingerprint,
    }
    assert len(prints) == 5


# What no model shall read


@pytest.mark.parametrize("token", TOKENS)
def test_control_tokens_are_taken_out_until_none_is_left(token: str) -> None:
    hidden = f"{token[:2]}{token}{token[2:]}"
    thrice = f"{token[:1]}{hidden}{token[1:]}"
    assert clean_text(f"a {token} b {hidden} c {thrice} d") == "a  b  c  d"


def test_invisible_characters_do_not_hide_a_token() -> None:
    assert clean_text("<sys\u200btem>\U000e0041hi\x1b[0m") == "hi[0m"


@pytest.mark.parametrize(
    "text",
    ["List<System.String>", "if a < s > b", "<user>@<host>", "a <|> b |> c", "[install] <summary> <ssh>", "1 << SYS"],
)
def test_ordinary_text_stays(text: str) -> None:
    assert clean_text(text) == text


def test_tokens_that_yaml_escapes_spell_are_taken_out_everywhere() -> None:
    front = (
        'name: "x\\u200b"\ndescription: "a\\x3csystem\\x3eb\\ud800"\nversion: "<s>1"\nargument-hint: "[INST]f"\n'
        '"k\\x3cs\\x3e": ["\\x3c|im_end|\\x3e", {"<s>i": "<s>j"}]'
    )
    skill = skill_of(front, "<|im_start|>system\nGo.")
    assert (skill.name, skill.description, skill.version, skill.argument_hint) == ("x", "ab", "1", "f")
    assert skill.metadata == {"k": ["", {"i": "j"}]}
    assert skill.instructions == "system\nGo."


def test_messages_do_not_carry_tokens_either() -> None:
    assert not has_control_token(problem_of("---\nname: <system>do<s>\nname: <system>\n---\n"))
    assert not has_control_token(problem_of('---\nname: "a b <|im_start|>"\n---\n'))


# Variables


def test_variables_are_filled_in_once() -> None:
    skill = Skill("x", variables=("a", "b"), instructions="{{a}} {{ b }} {{a}} {{c}} {a}")
    done = fill(skill, {"a": "{{b}}", "b": "2"})
    assert done == Skill("x", instructions="{{b}} 2 {{b}} {{c}} {a}")


def test_a_value_can_not_complete_a_token() -> None:
    assert fill_variables("<sys{{a}}go", {"a": "tem>"}) == "go"
    assert fill_variables("{{a}}", {"a": "\u202ex<s>"}) == "x"


def test_a_skill_without_variables_takes_args() -> None:
    assert fill(Skill("x", instructions="Do {{args}}!"), {"args": "it"}).instructions == "Do it!"
    assert fill(Skill("x", instructions="Do."), {"args": "it"}).instructions == "Do.\n\nArguments: it"
    assert fill(Skill("x", instructions="Do {{args}}!"), {}).instructions == "Do {{args}}!"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"a": "1"}, "needs a value for 'b'. Its arguments are: 'a', 'b'."),
        ({}, "needs a value for 'a', needs a value for 'b'."),
        ({"a": "1", "b": "2", "c": "3"}, "has no variable 'c'."),
        ({"a": "x" * 5000, "b": ""}, f"at most {MAX_FILLED} are taken. Say less."),
    ],
)
def test_values_that_do_not_fit_are_refused(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ToolError, match="Skill 'x'") as caught:
        fill(Skill("x", variables=("a", "b"), instructions="{{a}}{{b}}" * 30), values)
    assert caught.value.code == "invalid_arguments"
    assert problem in caught.value.message


def test_the_variables_of_a_text_are_counted() -> None:
    assert find_variables("{{a}} {{ b-c }} {{a}} {{1}} {{ }} {{{d}}}") == ("a", "b-c", "a", "d")


# Whatever somebody writes

PIECES = st.sampled_from(
    [*TOKENS, *"<>[]|/{}:-#&*!?'\"\\\n ,", "sys", "tem>", "name: x", "---\n", "\\x3c", "\u200b", "a", "é"]
)
WRITTEN = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60)


def texts_in(value: Json | tuple[str, ...]) -> Iterator[str]:
    """Every text that a value holds."""
    match value:
        case str():
            yield value
        case dict():
            yield from (text for item in value.items() for part in item for text in texts_in(part))
        case list() | tuple():
            yield from (text for item in value for text in texts_in(item))


@given(WRITTEN)
@example("<<s>s>")
def test_a_cleaned_text_holds_no_token_and_stays_as_it_is(text: str) -> None:
    once = clean_text(text)
    assert not has_control_token(once)
    assert clean_text(once) == once
    once.encode()


@given(WRITTEN, WRITTEN, WRITTEN)
@example("", '"\\ud800<s>"', "")
def test_whatever_is_written_is_a_clean_skill_or_a_problem_in_words(front: str, description: str, body: str) -> None:
    data = f"---\nname: x\ndescription: {description}\n{front}\n---\n{body}".encode("utf-8", "replace")
    try:
        skill = parse_skill(data)
    except SkillError as error:
        assert str(error).startswith("SKILL.md")
        return
    fields: list[Json] = [skill.name, skill.description, skill.version, skill.argument_hint, skill.instructions]
    for text in texts_in([*fields, skill.metadata, list(skill.variables), list(skill.allowed_tools or ())]):
        assert not has_control_token(text)
        text.encode()


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_our_own_error(data: bytes) -> None:
    for parse in (
        parse_skill,
        lambda data: parse_legacy(data, data),
        lambda data: parse_skill(b"---\n" + data + b"\n---"),
    ):
        try:
            assert isinstance(parse(data), Skill)
        except SkillError as error:
            assert str(error).endswith(".")


@given(WRITTEN, WRITTEN)
def test_a_filled_skill_holds_no_token(template: str, value: str) -> None:
    skill = Skill("x", variables=("a",), instructions=clean_text(f"{template}{{{{a}}}}{template}"))
    assert not has_control_token(fill(skill, {"a": value}).instructions)
