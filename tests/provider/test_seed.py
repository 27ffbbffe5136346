"""The seed of CETP, sentence by sentence in our own words: where each one is kept, and the tests that show it."""

from typing import Final, NamedTuple

from tests.docs.repository import ROOT

TESTS: Final = ROOT / "tests"
PAGE: Final = (ROOT / "protocol" / "cetp.md").read_text(encoding="utf-8")
HAS_BRIDGE: Final = (TESTS / "bridge").exists()


class Sentence(NamedTuple):
    """One thing that the seed says."""

    place: str
    """The section of the seed."""
    words: str
    clause: str
    """Of `cetp.md`."""
    tests: tuple[str, ...] = ()
    """Empty: it concerns Android alone, and the page is all there is of it."""


VECTORS: Final = "vectors/test_cetp.py::test_the_case_is_read_as_it_says"
PROVIDER: Final = "provider/test_provider.py::"
ACCESS: Final = "provider/test_access.py::"
MANIFESTS: Final = "provider/test_manifests.py::"
COMMAND: Final = "provider/test_command.py::"
CONNECTION: Final = "provider/test_connection.py::"
BRIDGE: Final = "bridge/test_bridge.py::"
SENTENCES: Final = (
    Sentence(
        "1",
        "An app is a data provider, and the chat is elsewhere",
        "1.1",
        (f"{PROVIDER}test_tools_run_with_their_arguments_on_a_thread_or_on_the_loop",),
    ),
    Sentence(
        "1",
        "Version 1 finds and calls tools that only read",
        "3.4",
        (VECTORS, f"{BRIDGE}test_only_tools_that_read_are_bridged_and_people_see_what_is_left_out"),
    ),
    Sentence(
        "1",
        "Apps do not connect to the gateway: a bridge discovers them and registers their tools",
        "8.1",
        (f"{BRIDGE}test_apps_come_change_and_go_while_calls_run",),
    ),
    Sentence("1", "Specs of tools are JSON Schema", "3.3", (f"{PROVIDER}test_tools_are_listed_with_their_schemas",)),
    Sentence(
        "1",
        "Any program may be the consumer; the provider controls access",
        "5.1",
        (
            f"{ACCESS}test_every_program_of_the_person_is_admitted_by_default",
            f"{ACCESS}test_the_list_of_admitted_programs_has_names_paths_and_wildcards",
        ),
    ),
    Sentence(
        "1",
        "Little effort: about a hundred lines",
        "1.1",
        ("provider/test_examples.py::test_finance_has_at_most_forty_lines_of_code",),
    ),
    Sentence(
        "1 scope",
        "The provider's info is optional",
        "1.4",
        (f"{CONNECTION}test_the_three_methods_are_answered_over_one_connection", VECTORS),
    ),
    Sentence(
        "1 scope",
        "Authorization is AUTH_REQUIRED, the person's step, and the call again",
        "5.3",
        (
            f"{COMMAND}test_a_provider_is_installed_started_authorized_and_ends_with_a_signal",
            f"{BRIDGE}test_a_login_is_started_for_the_person_and_the_call_runs_then",
        ),
    ),
    Sentence(
        "1 non-goals",
        "Writing is not part of it",
        "3.4",
        (VECTORS, f"{BRIDGE}test_only_tools_that_read_are_bridged_and_people_see_what_is_left_out"),
    ),
    Sentence(
        "1 non-goals",
        "How to authorize is the provider's own affair",
        "5.2",
        (f"{ACCESS}test_the_first_call_of_a_new_program_needs_the_person",),
    ),
    Sentence(
        "1 non-goals",
        "The consumer's identity serves the provider's rules and proves nothing",
        "5.1",
        ("provider/test_server.py::test_the_caller_is_known_by_the_kernel",),
    ),
    Sentence("1 non-goals", "Each app has its own form of results", "2.1", (VECTORS,)),
    Sentence(
        "1 non-goals",
        "Idempotency is not demanded",
        "1.7",
        (f"{PROVIDER}test_the_same_request_id_runs_once_and_gets_the_same_answer",),
    ),
    Sentence(
        "2.2",
        "A provider declares itself, with its address and version",
        "6.2",
        (f"{MANIFESTS}test_a_good_manifest_is_taken_with_the_path_of_its_socket",),
    ),
    Sentence("2.2", "On Android: a service, a content provider and their meta-data", "7.1"),
    Sentence("2.2", "A permission of level normal, which is no boundary", "7.1"),
    Sentence("2.2", "The consumer holds that permission, and scans for the action", "7.2"),
    Sentence(
        "2.2",
        "A consumer scans for what was declared",
        "6.1",
        (f"{MANIFESTS}test_the_persons_own_manifest_comes_before_the_systems",),
    ),
    Sentence(
        "2.3",
        "Every interaction is one call with one form of response",
        "6.5",
        (f"{CONNECTION}test_the_three_methods_are_answered_over_one_connection",),
    ),
    Sentence("2.3", "Success has data, a JSON string", "2.1", (VECTORS,)),
    Sentence("2.3", "An error has a code and a message", "2.3", (f"{CONNECTION}test_every_error_code_arrives",)),
    Sentence(
        "2.3",
        "AUTH_REQUIRED may have a hint and an intent",
        "2.4",
        (VECTORS, f"{ACCESS}test_the_first_call_of_a_new_program_needs_the_person"),
    ),
    Sentence(
        "2.3 list_tools",
        "Tools have a name, a description and parameters",
        "3.1",
        (f"{PROVIDER}test_tools_are_listed_with_their_schemas",),
    ),
    Sentence(
        "2.3 list_tools",
        "A name is unique in its provider; the consumer prefixes it",
        "8.2",
        (
            f"{PROVIDER}test_a_function_that_can_not_be_a_tool_is_refused",
            f"{BRIDGE}test_labels_that_clash_get_a_suffix_that_stays",
        ),
    ),
    Sentence(
        "2.3 execute_tool", "Extras are the tool's name, arguments as JSON, and an optional id", "1.3", (VECTORS,)
    ),
    Sentence(
        "2.3 execute_tool",
        "Nothing is written, submitted or deleted",
        "3.4",
        (VECTORS, "provider/test_examples.py::test_a_query_that_writes_or_is_wrong_is_refused_at_the_start"),
    ),
    Sentence(
        "2.3 execute_tool",
        "The id joins logs and marks calls that are tried again",
        "1.7",
        (
            f"{PROVIDER}test_every_call_is_logged_with_its_request_id_and_without_arguments",
            f"{BRIDGE}test_a_call_without_an_answer_is_tried_three_times_under_one_id",
        ),
    ),
    Sentence("2.3 execute_tool", "The data is any JSON", "2.2", (VECTORS,)),
    Sentence(
        "2.3 get_provider_info",
        "Name, description and scopes",
        "3.5",
        (f"{PROVIDER}test_provider_info_names_the_app_and_its_scopes",),
    ),
    Sentence(
        "2.4",
        "AUTH_REQUIRED: the person has to do something in the app",
        "2.3",
        (f"{ACCESS}test_the_first_call_of_a_new_program_needs_the_person",),
    ),
    Sentence(
        "2.4",
        "PERMISSION_DENIED: the provider does not admit the caller",
        "2.3",
        (f"{ACCESS}test_programs_of_another_person_are_denied",),
    ),
    Sentence(
        "2.4",
        "TOOL_NOT_FOUND: there is no such tool",
        "1.6",
        (f"{PROVIDER}test_an_unknown_method_and_an_unknown_tool_are_not_found",),
    ),
    Sentence(
        "2.4", "INVALID_ARGS: the arguments do not fit", "1.6", (f"{PROVIDER}test_arguments_that_do_not_fit_are_named",)
    ),
    Sentence(
        "2.4",
        "RATE_LIMITED: too many calls",
        "2.3",
        (f"{PROVIDER}test_calls_beyond_the_limit_of_a_program_are_limited",),
    ),
    Sentence(
        "2.4", "INTERNAL_ERROR: the provider failed", "2.3", (f"{PROVIDER}test_a_tool_that_fails_is_an_internal_error",)
    ),
    Sentence(
        "2.5",
        "The version is declared; an unknown one degrades gracefully",
        "4.2",
        (VECTORS, "cli/test_provider.py::test_the_list_says_what_a_bridge_would_skip_and_why"),
    ),
    Sentence(
        "2.5",
        "A method that is not known is TOOL_NOT_FOUND",
        "1.5",
        (f"{PROVIDER}test_an_unknown_method_and_an_unknown_tool_are_not_found",),
    ),
    Sentence("2.5", "New fields of a tool are ignored", "1.1", (VECTORS,)),
    Sentence(
        "3.1",
        "The bridge scans, lists, prefixes, registers and forwards",
        "8.3",
        (f"{BRIDGE}test_fifty_apps_are_bridged_at_once",),
    ),
    Sentence(
        "3.1",
        "It follows apps that are added, replaced and removed",
        "8.6",
        (f"{BRIDGE}test_apps_come_change_and_go_while_calls_run",),
    ),
    Sentence(
        "3.2",
        "A provider knows its caller and keeps a list of those it admits",
        "5.2",
        (f"{ACCESS}test_the_list_of_admitted_programs_has_names_paths_and_wildcards",),
    ),
    Sentence(
        "3.2",
        "The first call may be AUTH_REQUIRED with hint and intent",
        "5.2",
        (f"{ACCESS}test_the_first_call_of_a_new_program_needs_the_person",),
    ),
    Sentence(
        "3.2",
        "Callers may get data of different detail",
        "5.2",
        (
            f"{ACCESS}test_some_programs_see_coarser_data",
            "provider/test_examples.py::test_finance_needs_the_persons_yes_and_shows_less_to_some",
        ),
    ),
    Sentence("3.2", "An authorization may expire", "5.2", (f"{ACCESS}test_a_grant_expires_and_can_be_taken_back",)),
    Sentence("3.3", "Some Android systems do not start providers: start at boot, initialise early", "7.6"),
    Sentence(
        "3.3",
        "A provider starts on demand",
        "6.8",
        (f"{COMMAND}test_a_provider_is_installed_started_authorized_and_ends_with_a_signal",),
    ),
    Sentence(
        "3.3",
        "The consumer wakes it silently first, then by its screen",
        "8.5",
        (f"{BRIDGE}test_a_call_wakes_an_app_silently_first_and_then_its_screen",),
    ),
    Sentence(
        "3.3",
        "When both fail, the next connection or change tries again",
        "8.5",
        (f"{BRIDGE}test_a_scan_wakes_silently_alone_and_the_next_connection_tries_again",),
    ),
)


def test_every_sentence_of_the_seed_has_its_clause_and_only_those_of_android_have_no_test() -> None:
    assert [one.words for one in SENTENCES if f"\n{one.clause} " not in PAGE] == []
    assert [one.words for one in SENTENCES if bool(one.tests) == one.clause.startswith("7.")] == []


def test_every_sentence_of_the_seed_has_tests_that_exist() -> None:
    named = [(one.words, test) for one in SENTENCES for test in one.tests if HAS_BRIDGE or not test.startswith(BRIDGE)]
    assert [(words, test) for words, test in named if not exists(test)] == []


def exists(test: str) -> bool:
    """Whether a file of tests has this test."""
    file, _, name = test.partition("::")
    return f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")
