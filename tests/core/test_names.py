"""SPEC T2, R3: names of our own, names from outside, globs, and hints for wrong names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import DefinitionError
from handspan.core.names import (
    check_namespace,
    check_own_name,
    did_you_mean,
    is_outside_name,
    list_known,
    matches,
    matches_any,
    outside_name,
    split_name,
)

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

names = st.text(max_size=90)
namespaces = st.from_regex(r"[a-z]([a-z0-9-]|_[a-z]){0,23}", fullmatch=True)
short_words = st.text(alphabet="abc*?[].!", max_size=8)


# Our own.


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Read",
        "readFile",
        "read-file",
        "_read",
        "read_",
        "read__file",
        "1read",
        "read file",
        "lesé",
        "a" * 65,
        "a\n",
    ],
)
def test_a_name_of_ours_that_is_not_snake_case_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(repr(name))) as refused:
        check_own_name(name)
    assert "snake_case" in str(refused.value) and "'read_file'" in str(refused.value)


@pytest.mark.parametrize("name", ["a", "read_file", "get_current_time", "v2", "a_1", "a" * 64])
def test_snake_case_names_are_ours(name: str) -> None:
    check_own_name(name)


# Namespaces.


@pytest.mark.parametrize("namespace", ["", "a__b", "a_", "_", "9lives", "-a", "my server", "a.b", "é", "a" * 49, "a\n"])
def test_a_namespace_that_could_not_be_split_off_again_is_refused(namespace: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(repr(namespace))) as refused:
        check_namespace(namespace)
    assert "'my_server'" in str(refused.value)


@pytest.mark.parametrize("namespace", ["git", "my_server", "My-Phone", "_x", "a" * 48])
def test_a_namespace_of_letters_digits_and_single_underscores_is_taken(namespace: str) -> None:
    check_namespace(namespace)


# From outside.


@given(names, st.one_of(st.just(""), namespaces))
def test_every_name_from_outside_becomes_a_legal_one_and_always_the_same(name: str, namespace: str) -> None:
    mapped = outside_name(name, namespace)
    assert LEGAL.fullmatch(mapped) and is_outside_name(mapped)
    assert mapped == outside_name(name, namespace)


@given(st.lists(names, max_size=30, unique=True), st.one_of(st.just(""), namespaces))
def test_distinct_names_stay_distinct_and_none_lands_on_a_taken_one(several: list[str], namespace: str) -> None:
    taken: set[str] = set()
    for name in several:
        mapped = outside_name(name, namespace, taken)
        assert mapped not in taken and is_outside_name(mapped)
        taken.add(mapped)


@given(st.lists(names, max_size=30, unique=True), namespaces)
def test_distinct_names_of_one_namespace_map_to_distinct_ones_without_looking_at_each_other(
    several: list[str], namespace: str
) -> None:
    assert len({outside_name(name, namespace) for name in several}) == len(several)


@given(names, namespaces)
def test_however_a_name_is_mapped_its_namespace_can_be_split_off(name: str, namespace: str) -> None:
    check_namespace(namespace)
    assert split_name(outside_name(name, namespace))[0] == namespace


@given(st.from_regex(LEGAL, fullmatch=True))
def test_a_name_that_fits_is_kept_as_it_is(name: str) -> None:
    assert outside_name(name) == name


def test_a_name_is_mapped_past_every_mapping_that_is_taken() -> None:
    taken: set[str] = set()
    for _ in range(20):
        taken.add(outside_name("take photo", taken=taken))
    assert len(taken) == 20


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("take photo", "phone__take_photo_"),
        ("foto📷", "phone__foto__"),
        ("a" * 65, f"phone__{'a' * 48}_"),
        ("\ud800", "phone____"),
        ("a\x00b", "phone__a_b_"),
    ],
)
def test_a_mapped_name_shows_what_it_was_as_far_as_it_can(name: str, shown: str) -> None:
    mapped = outside_name(name, "phone")
    assert mapped.startswith(shown) and re.fullmatch(r"[0-9a-f]{8}", mapped.removeprefix(shown))


def test_after_a_namespace_a_name_may_begin_with_anything_legal() -> None:
    assert outside_name("9lives", "cat") == "cat__9lives"
    assert outside_name("9lives").startswith("_9lives_")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("phone__camera", ("phone", "camera")),
        ("phone__take__photo", ("phone", "take__photo")),
        ("phone___private", ("phone", "_private")),
        ("read_file", ("", "read_file")),
        ("__init", ("", "__init")),
        ("phone__", ("phone", "")),
    ],
)
def test_the_first_double_underscore_splits(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts


# Globs.


@given(short_words, short_words)
def test_only_the_star_and_the_question_mark_are_special(pattern: str, name: str) -> None:
    assert matches(pattern, name) == _matches_by_the_book(pattern, name)


def _matches_by_the_book(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_matches_by_the_book(pattern[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and _matches_by_the_book(pattern[1:], name[1:])


def test_a_glob_matches_the_whole_name_and_knows_case() -> None:
    assert not matches("read", "read_file")
    assert not matches("READ_*", "read_file")
    assert matches("*", "") and matches("*", "any\nthing")
    assert not matches("read_file", "read_file\n")


def test_a_glob_full_of_stars_ends() -> None:
    assert not matches("*a" * 30 + "*b", "a" * 64)


def test_one_glob_of_several_is_enough_and_none_is_not() -> None:
    assert matches_any(["write_*", "read_*"], "read_file")
    assert not matches_any([], "read_file")


# Hints.


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("camra", " Did you mean 'camera'?"),
        ("CAMERA", " Did you mean 'camera'?"),
        ("reed_file", " Did you mean 'read_file' or 'write_file'?"),
        ("readFile", " Did you mean 'read_file' or 'write_file'?"),
        ("quantum", ""),
        ("", ""),
        ("read_file" + "x" * 10_000, ""),
    ],
)
def test_a_hint_names_what_is_near(wrong: str, hint: str) -> None:
    assert did_you_mean(wrong, ["camera", "read_file", "write_file", "spawn"]) == hint


def test_among_very_many_names_the_near_one_is_still_found() -> None:
    known = [f"server_{number % 50}__tool_number_{number}" for number in range(10_000)]
    assert "'server_3__tool_number_5103'" in did_you_mean("server_3__tool_numbr_5103", known)


def test_without_any_known_name_there_is_no_hint() -> None:
    assert did_you_mean("camera", []) == ""


def test_names_are_listed_as_far_as_a_person_reads_them() -> None:
    assert list_known([]) == ""
    assert list_known(["timezone"]) == " There is only 'timezone'."
    assert list_known(["city", "street"]) == " There are: 'city', 'street'."
    assert list_known([f"tool_{number}" for number in range(10, 40)]).endswith("'tool_20', 'tool_21' and 18 more.")
