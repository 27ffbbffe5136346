"""What the product promises, by the ids that tests cite, and the tests that show it.

`docs/spec.md` explains every id: a letter for its section and a number.
`test_requirements.py` holds this list and the tests to each other.
"""

from typing import Final, NamedTuple


class Requirement(NamedTuple):
    """One promise and where it is kept."""

    text: str
    tests: tuple[str, ...]


REQUIREMENTS: Final = {
    "T1": Requirement(
        "A tool has name, description, schema, permissions, timeout, version, annotations and a function.",
        (
            "core/test_function_tool.py::test_the_decorator_says_what_the_signature_can_not",
            "core/test_tool.py::test_a_tool_has_a_time_limit_even_when_it_names_none",
        ),
    ),
    "T2": Requirement(
        "Our names are snake_case; names from outside are mapped reversibly, never onto a taken one.",
        (
            "core/test_names.py::test_a_name_of_ours_that_is_not_snake_case_is_refused_with_an_example",
            "core/test_names.py::test_distinct_names_stay_distinct_and_none_lands_on_a_taken_one",
            "core/test_names.py::test_the_first_double_underscore_splits",
        ),
    ),
    "T3": Requirement(
        "A function becomes a tool with one decorator; it runs on the loop, a thread or in a process of its own.",
        (
            "core/test_signature.py::test_models_enums_dates_and_more_are_made_from_their_json_forms",
            "core/test_signature.py::test_the_context_is_injected_however_it_is_asked_for_and_no_model_sees_it",
            "engine/workers/test_pool.py::test_whatever_happens_in_a_worker_is_only_this_calls_failure",
            "engine/test_watchdog.py::test_a_tool_that_blocks_in_its_first_step_is_named",
        ),
    ),
    "T5": Requirement(
        "Every definition has a fingerprint that changes with it; a pinned tool that changed waits for a person.",
        (
            "core/test_tool.py::test_the_fingerprint_changes_with_each_field",
            "registry/test_pins.py::test_a_changed_definition_is_not_available_until_it_is_accepted_and_the_others_go_on",
            "registry/test_pins.py::test_where_changes_are_only_recorded_they_are_shown_and_nothing_is_blocked",
            "engine/test_new_tools.py::test_it_asks_until_a_person_approves_and_never_again",
        ),
    ),
    "T6": Requirement(
        "People bring tools in a folder and packages by entry point; a broken one is reported and skipped.",
        (
            "sources/test_plugins.py::test_a_broken_file_is_reported_and_the_others_work",
            "sources/test_plugins.py::test_a_broken_plugin_is_reported_and_skipped",
            "cli/test_tools_folder.py::test_a_tool_that_is_written_beside_a_running_gateway_works_at_once",
        ),
    ),
    "R1": Requirement(
        "Every tool has an origin; removal goes by connection.",
        (
            "core/test_principals.py::test_two_connections_of_one_session_are_two_origins",
            "registry/test_registry.py::test_names_of_a_closed_connection_are_free_at_once",
        ),
    ),
    "R2": Requirement(
        "Names are unique per scope, names of the gateway's own tools reserved; an origin replaces only its own tools.",
        (
            "registry/test_name_rights.py::test_a_name_of_the_gateways_own_tools_is_refused_to_every_client_and_its_owner_is_named",
            "registry/test_name_rights.py::test_a_name_that_the_settings_allow_is_for_everyone_until_they_do_not",
            "gateway/clients/test_names.py::test_names_of_servers_and_of_the_tools_folder_are_refused_to_clients_and_the_attempt_is_shown",
            "gateway/clients/test_names.py::test_a_prefix_is_reserved_while_its_server_is_down_or_switched_off_and_free_when_it_is_removed",
            "nodes/test_names.py::test_the_server_that_another_node_runs_gets_the_calls_and_no_device_gets_its_names",
            "registry/test_registry.py::test_register_refuses_a_taken_name_and_names_its_holder",
            "registry/test_registry.py::test_a_builtin_name_is_reserved_in_every_scope_for_everybody",
            "registry/test_registry.py::test_an_origin_replaces_only_its_own_tool_even_on_another_connection_of_the_same_session",
            "registry/test_registry.py::test_unregister_by_source_takes_all_of_that_origin_and_nothing_else",
        ),
    ),
    "R3": Requirement(
        "Schemas are found by globs.",
        ("registry/test_registry.py::test_schemas_are_found_by_globs_over_global_names",),
    ),
    "R4": Requirement(
        "What an agent is shown is what it can call; of a big toolbox it is sent a part and searches the rest.",
        (
            "engine/test_engine.py::test_a_read_only_agent_may_not_change_things",
            "gateway/test_big_toolbox.py::test_a_model_finds_one_of_two_thousand_tools_and_calls_it",
            "agent/test_big_toolbox.py::test_tools_that_were_sent_keep_their_place_and_new_ones_follow",
        ),
    ),
    "R5": Requirement(
        "Built-ins come first, then plugins, MCP servers and others, whoever was there first.",
        (
            "registry/test_registry.py::test_a_reserved_name_is_refused_with_the_way_out",
            "registry/test_name_rights.py::no_name_of_a_higher_rank_leads_to_a_lower_one",
            "registry/test_name_rights.py::test_a_tool_of_a_higher_rank_takes_the_name_from_clients_that_had_it_first",
            "gateway/clients/test_names.py::test_a_file_in_the_tools_folder_takes_its_name_from_clients_that_had_it_first",
        ),
    ),
    "R6": Requirement(
        "All built-in tools are registered at start.",
        ("gateway/test_app.py::test_all_built_in_tools_are_there_and_gone_after_close",),
    ),
    "R7": Requirement(
        "Allow and deny globs per agent; deny wins; no list means all, an empty one none.",
        ("registry/test_toolbox.py::test_allow_and_deny_globs_choose_and_deny_wins",),
    ),
    "R8": Requirement(
        '"Why can this agent not use this tool?" has an answer.',
        (
            "registry/test_toolbox.py::test_why_names_every_reason",
            "cli/test_cli.py::test_why_has_an_answer_for_every_reason",
            "gateway/test_sources.py::test_a_source_opens_in_the_background_tries_again_and_takes_its_tools_along",
        ),
    ),
    "R9": Requirement(
        "A tool or a whole origin can be switched off for all owners.",
        (
            "registry/test_registry.py::test_tools_are_switched_off_by_name_glob_or_origin",
            "cli/test_cli.py::test_a_tool_that_is_switched_off_is_off_for_everybody_until_it_is_switched_on",
        ),
    ),
    "E1": Requirement(
        "The stations of a call come in one order.",
        (
            "engine/test_order.py::test_of_two_neighbours_that_fail_the_earlier_one_is_shown",
            "engine/test_order.py::test_all_stations_are_passed_in_order",
        ),
    ),
    "E2": Requirement(
        "Every call gets exactly one result.",
        (
            "engine/test_runner.py::test_whatever_a_tool_raises_is_a_result",
            "engine/test_ledger.py::test_a_second_result_is_refused_and_changes_nothing",
            "engine/test_pending.py::test_two_outcomes_at_once_leave_one_result_and_its_own_true_one",
            "store/test_closing.py::test_a_call_that_is_told_to_be_safe_to_repeat_is_not_handed_out_after_a_restart",
        ),
    ),
    "E3": Requirement(
        "Several calls run side by side, results in request order; serial tools and groups in order; none is refused.",
        (
            "engine/test_engine.py::test_results_come_in_the_order_of_the_calls_whoever_is_first",
            "engine/test_runner.py::test_serial_tools_run_one_after_another_in_the_order_of_the_calls",
            "engine/test_runner.py::test_a_call_waits_for_its_turn_longer_than_its_tool_may_run",
            "gateway/graph/test_limits.py::test_calls_of_one_reply_see_what_the_earlier_ones_wrote",
        ),
    ),
    "E5": Requirement(
        "Every tool has a time limit, overridden by settings; on timeout the work is really stopped.",
        (
            "registry/test_entry.py::test_settings_win_over_the_tools_own_limit_by_exact_name_then_by_the_longest_glob",
            "tools/shell/test_shell.py::test_a_late_command_is_killed_with_all_it_started_and_its_output_is_told",
            "engine/workers/test_pool.py::test_a_stopped_call_takes_its_worker_and_everything_it_started_with_it",
        ),
    ),
    "E6": Requirement(
        "One deadline; a person's time does not count; the error says which clock fired.",
        (
            "engine/test_runner.py::test_the_error_says_which_clock_fired_and_after_how_long",
            "engine/test_questions.py::test_a_persons_time_does_not_count_against_the_callers_deadline",
        ),
    ),
    "E7": Requirement(
        "Hooks cancel, change and replace; one that fails refuses.",
        (
            "engine/test_hooks.py::test_a_before_hook_that_fails_refuses_the_call",
            "engine/test_hooks.py::test_a_failing_after_hook_leaves_the_true_result_in_the_journal",
            "engine/test_builtin_hooks.py::test_a_hook_of_an_entry_point_is_made_with_its_config",
            "gateway/test_app.py::test_hooks_of_the_settings_see_every_call",
        ),
    ),
    "E8": Requirement(
        "The journal keeps every call.",
        (
            "engine/test_engine.py::test_the_journal_keeps_who_what_when_and_how_it_ended",
            "gateway/openai/test_chat.py::test_the_calls_of_a_request_without_a_key_stay_in_the_journal",
            "interaction/test_behaviours.py::test_a_behaviour_is_the_same_through_every_door",
        ),
    ),
    "X1": Requirement(
        "One envelope for success, one for errors.",
        (
            "core/test_results.py::test_a_success_has_exactly_its_two_keys",
            "core/test_results.py::test_an_error_has_exactly_its_four_keys",
            "interaction/test_behaviours.py::test_a_behaviour_is_the_same_through_every_door",
        ),
    ),
    "X2": Requirement(
        "One table of error words.",
        (
            "core/test_errors.py::test_every_code_of_the_spec_stands_under_its_error_type_and_no_other_does",
            "interaction/test_behaviours.py::test_every_code_of_a_failed_call_goes_through_every_door",
        ),
    ),
    "X3": Requirement(
        "A result over 64 KB is kept as an artifact and read on.",
        (
            "engine/test_engine.py::test_a_result_at_the_limit_goes_out_whole_and_one_byte_more_is_cut",
            "gateway/test_app.py::test_the_whole_output_of_a_command_is_kept_and_searched_by_its_lines",
            "interaction/test_behaviours.py::test_a_result_over_64_kb_is_kept_whole_and_read_on_through_the_same_door",
            "store/test_artifacts.py::test_another_owner_gets_the_same_words_as_for_an_artifact_that_never_was",
        ),
    ),
    "X4": Requirement(
        "Results carry images, sounds and files; an image of any size reaches the model as an image.",
        (
            "engine/test_runner.py::test_attachments_come_with_the_value_or_alone",
            "media/test_photos.py::test_a_phones_photo_of_5_mb_is_an_image_in_this_round_and_in_the_next_turn",
            "media/test_photos.py::test_an_image_that_came_inline_is_scaled_too",
        ),
    ),
    "X5": Requirement(
        "Progress reaches the caller while the tool runs.",
        (
            "engine/test_runner.py::test_progress_reaches_the_caller_from_loop_and_thread",
            "tools/shell/test_shell.py::test_output_is_streamed_as_progress",
        ),
    ),
    "P1": Requirement(
        "Permissions are checked before every call; built-ins' count as granted.",
        ("registry/test_entry.py::test_permissions_of_builtins_count_as_granted_and_devices_ask_themselves",),
    ),
    "P2": Requirement(
        "The person is asked; the answer is remembered; denied for ever says how to enable it.",
        (
            "engine/test_questions.py::test_a_denied_permission_is_said_in_the_words_of_the_seed_and_asked_again_next_time",
            "engine/test_questions.py::test_denied_for_ever_says_how_to_enable_it_and_is_remembered",
            "cli/test_terminal.py::test_what_is_typed_is_the_answer",
        ),
    ),
    "P3": Requirement(
        "Nobody there: the question waits its own time, then expires.",
        (
            "engine/test_questions.py::test_a_question_that_nobody_answers_expires",
            "cli/test_cli.py::test_nobody_to_ask_means_no_and_yes_means_yes",
        ),
    ),
    "P4": Requirement(
        "Modes: automatic, ask for destructive, ask always, read-only.",
        (
            "engine/test_policy.py::test_each_mode_decides_by_the_annotations",
            "core/test_agents.py::test_a_foreign_tool_that_says_nothing_counts_as_destructive_and_not_read_only",
        ),
    ),
    "P5": Requirement(
        "A question is bound to exact arguments; first answer wins; edit-and-approve; always ends with the definition.",
        (
            "engine/test_questions.py::test_the_question_is_bound_to_the_call_with_exactly_these_arguments",
            "engine/test_questions.py::test_the_first_answer_wins_and_nobody_elses_counts",
            "engine/test_questions.py::test_a_person_may_edit_the_arguments_and_approve",
            "engine/test_questions.py::test_always_ends_when_the_definition_changes",
        ),
    ),
    "P6": Requirement(
        "One question for all kinds: permission, approval, input, login, trust; a valid value; a call or none.",
        (
            "core/test_question_checks.py::test_a_value_that_does_not_fit_is_refused_in_words",
            "engine/test_tools_that_ask.py::test_the_answer_with_its_value_reaches_the_tool",
            "store/test_questions.py::test_a_question_without_a_call_survives_a_restart_and_is_answered_once",
            "gateway/rest/test_questions.py::test_a_question_for_a_value_shows_its_schema_and_takes_only_what_fits",
            "client/test_with_gateway.py::test_a_tool_of_the_gateway_gets_a_value_from_the_person_of_the_chat",
            "cli/test_terminal.py::test_what_is_typed_is_the_value",
            "gateway/clients/test_logins.py::"
            "test_after_the_login_the_call_runs_again_and_the_persons_time_does_not_count",
            "gateway/clients/test_logins.py::test_a_login_outlives_a_gateway_that_dies",
        ),
    ),
    "P7": Requirement(
        "Who may answer: the person; an administrator; an MCP client for its own call, as far as it is allowed to.",
        (
            "gateway/test_question_rights.py::test_rest_and_the_graph_api_show_a_question_to_those_who_may_answer_it",
            "gateway/test_question_rights.py::test_a_chat_is_asked_only_what_its_token_may_answer",
            "gateway/test_question_rights.py::test_a_chat_of_a_channel_shows_no_question_for_an_administrator",
            "gateway/test_question_rights.py::test_an_mcp_client_is_asked_only_what_it_may_answer_about_its_own_call",
            "gateway/test_question_rights.py::test_a_device_that_asks_to_be_trusted_cannot_answer_itself",
        ),
    ),
    "B": Requirement(
        "The built-in tools do what their table says, and bad input gets a clear error.",
        (
            "interaction/test_bad_input.py::test_bad_arguments_get_one_clear_error_from_every_tool",
            "tools/test_web_search.py::test_a_refusal_of_the_api_says_what_it_is_and_what_to_do",
            "gateway/channels/test_webhook.py::test_the_tool_delivers_where_it_may_and_says_where_it_may_not",
            "gateway/channels/test_webhook.py::test_without_a_channel_no_model_is_offered_the_tool_and_why_says_so",
        ),
    ),
    "S1": Requirement(
        "File tools stay in the workspace, whatever happens meanwhile.",
        (
            "tools/test_workspace.py::test_whatever_leads_out_is_an_invalid_path_and_changes_nothing",
            "tools/test_workspace_races.py::test_a_link_swapped_in_never_leaks_what_it_leads_to",
            "gateway/test_app.py::test_the_state_folder_is_out_of_reach_when_the_workspace_contains_it",
        ),
    ),
    "S2": Requirement(
        "Requests reach no inner address in any spelling, after DNS and on every redirect.",
        (
            "net/test_guard.py::test_no_spelling_of_an_inner_address_is_connected_to",
            "net/test_guard.py::test_a_redirect_is_judged_like_the_first_request",
            "net/test_guard.py::test_a_name_that_turns_inward_between_two_hops_is_refused",
        ),
    ),
    "S3": Requirement(
        "Every ordinary command runs in the sandbox, its network is guarded, and little runs without one.",
        (
            "tools/shell/test_ordinary_commands.py::test_a_hundred_ordinary_command_lines_work_in_the_sandbox",
            "tools/shell/test_shell.py::test_the_description_says_what_holds_here_and_now",
            "tools/test_guarded_network.py::test_inner_addresses_are_refused_and_the_result_says_how_they_could_be_allowed",
            "tools/test_guarded_network.py::test_nothing_but_the_proxy_leads_out",
            "net/test_forward_proxy.py::test_no_spelling_of_an_inner_address_is_connected_to",
            "tools/shell/test_policy.py::test_what_is_not_listed_is_refused_wherever_it_stands",
            "tools/test_sandbox.py::test_the_network_can_not_be_reached",
            "tools/test_sandbox.py::test_nothing_of_the_machine_but_usr_is_visible",
            "tools/shell/test_shell.py::test_without_a_sandbox_only_the_short_list_runs",
        ),
    ),
    "S5": Requirement(
        "Keys appear in no error and no repr; signed webhooks are taken once.",
        (
            "channels/test_telegram_api.py::test_the_token_is_in_no_error_and_no_log_line",
            "gateway/channels/test_webhook.py::test_a_message_is_taken_once_and_its_answer_is_posted_signed",
            "config/test_load.py::test_a_key_is_repeated_in_no_error",
            "config/test_load.py::test_a_key_is_shown_in_no_repr",
        ),
    ),
    "S6": Requirement(
        "What is kept is for its owner alone.",
        (
            "store/test_folder_artifacts.py::test_folder_and_files_are_for_their_user_alone",
            "tools/test_memory.py::test_owners_do_not_see_each_other_whatever_their_names",
        ),
    ),
    "S7": Requirement(
        "No client can stop the gateway, with a token or without: what it may hold up is counted, and comes back.",
        (
            "gateway/serving/test_http_floods.py::test_requests_that_wait_for_others_are_not_all_parsed",
            "gateway/serving/test_http_floods.py::test_pipelined_requests_have_a_few_turns_at_once_and_then_each_waits",
            "gateway/serving/test_http_floods.py::test_the_next_request_of_a_connection_without_a_token_waits_for_its_turn",
            "gateway/serving/test_http_floods.py::test_a_body_in_tiny_chunks_is_read_in_turns",
            "gateway/serving/test_http_protocol.py::test_an_upgrade_that_cannot_be_read_is_answered_and_ends_the_connection",
            "gateway/serving/test_http_floods.py::test_idle_connections_lock_no_client_out",
            "gateway/serving/test_http_floods.py::test_a_head_that_does_not_come_in_time_ends_the_connection",
            "gateway/clients/test_socket.py::test_floods_of_frames_are_read_in_small_parts_and_then_closed",
            "gateway/clients/test_socket.py::test_many_small_messages_are_read_in_small_parts_and_all_of_them",
            "chaos/test_scenarios.py::test_floods_hurt_no_other_client",
        ),
    ),
    "E4": Requirement(
        "Rounds go on until the model stops calling; at a limit it is asked once more, without tools.",
        (
            "agent/test_loop.py::test_the_same_call_for_ever_runs_until_the_limit_and_the_model_is_told_why",
            "agent/test_loop.py::test_all_equal_calls_of_one_reply_run_however_many_there_are",
            "agent/test_loop.py::test_the_guard_against_repeats_lets_so_many_run_and_the_journal_has_the_others",
            "agent/test_loop.py::test_twelve_rounds_in_a_row_end_well",
        ),
    ),
    "M1": Requirement(
        "Adapters for four APIs, at any base URL.",
        (
            "models/openai/test_recorded.py::test_recorded_error_is_an_error_that_names_a_remedy",
            "models/anthropic/test_recorded.py::test_a_recorded_answer_is_read_to_the_same_calls",
            "models/gemini/test_recorded.py::test_recorded_answer_has_the_same_calls_words_and_usage_in_our_reading",
            "models/test_choice.py::test_a_model_may_be_named_by_its_api",
        ),
    ),
    "M2": Requirement(
        "Calls, results, errors and images convert both ways; an API's own state goes back to it unchanged.",
        (
            "models/test_golden.py::test_three_parallel_calls_with_an_error_and_an_image",
            "models/test_golden.py::test_two_chained_rounds_send_the_models_own_state_back_unchanged",
            "models/test_golden.py::test_one_stored_run_goes_to_all_four_and_foreign_state_to_none",
        ),
    ),
    "M3": Requirement(
        "One schema compiler with a loss report; what an API can't take is quarantined; the original is enforced.",
        (
            "core/test_schema.py::test_the_schemas_of_real_mcp_servers_are_all_taken_and_refuse_nonsense",
            "core/test_schema.py::test_every_error_is_told_at_once_with_its_path",
            "models/schema/test_lowering.py::test_a_quarantined_tool_leaves_the_others_alone",
        ),
    ),
    "M4": Requirement(
        "The transcript can't break.",
        ("models/test_golden.py::test_whatever_happened_every_api_takes_the_history",),
    ),
    "M5": Requirement(
        "A rule-based model needs no key.",
        (
            "models/test_offline_sentences.py::test_sentences_that_must_work_in_any_case",
            "models/test_choice.py::test_without_anything_it_is_offline_and_says_why",
        ),
    ),
    "M6": Requirement(
        "Usage and cost; unknown stays unknown.",
        (
            "store/test_usage.py::test_what_no_reply_said_is_unknown_and_never_0",
            "models/test_prices.py::test_cost_is_unknown_when_anything_it_needs_is",
        ),
    ),
    "A1": Requirement(
        "Agents as data: created, cloned, edited, deleted.",
        (
            "store/test_agents.py::test_agents_are_created_cloned_and_edited",
            "store/test_agents.py::test_sessions_of_a_deleted_agent_move_to_the_built_in_one",
        ),
    ),
    "A2": Requirement(
        "Nothing acknowledged is lost, started calls are closed honestly, and what waits outlasts death and stop.",
        (
            "store/test_killed.py::test_nothing_acknowledged_is_lost_however_often_the_process_is_killed",
            "gateway/test_stopping.py::test_a_turn_that_waits_for_a_person_goes_on_after_a_stop",
            "gateway/test_stopping.py::test_a_question_is_answered_once_though_the_gateway_is_stopped_again_and_again",
            "gateway/test_stopping.py::test_a_call_of_a_program_that_waits_for_a_person_stays_open_and_runs_after_the_start",
            "agent/test_loop.py::test_a_pending_call_pauses_the_turn_and_its_outcome_lets_it_go_on",
        ),
    ),
    "A3": Requirement(
        "Skills decide the toolbox while they are on; the workspace's stay off until a person enables them.",
        (
            "gateway/sessions/test_skills.py::test_a_model_switches_a_skill_on_by_name_and_has_its_tools_from_the_next_round",
            "gateway/sessions/test_skills.py::test_what_the_model_switched_on_is_off_in_the_next_turn",
            "gateway/sessions/test_skills.py::test_a_skill_of_the_workspace_stays_off_until_a_person_enables_it",
            "registry/test_internal.py::test_a_skill_shows_those_that_its_globs_match",
        ),
    ),
    "A5": Requirement(
        "The built-in agent has instructions of its own, made from the live state, and replaceable.",
        (
            "agent/test_instructions.py::test_the_built_in_agent_knows_the_day_the_workspace_and_how_to_use_its_tools",
            "agent/test_instructions.py::test_instructions_of_a_persons_own_replace_them",
        ),
    ),
    "A6": Requirement(
        "Arguments are read as their sender meant them; the journal shows what was read.",
        (
            "core/test_lenient.py::test_what_is_clear_is_read_and_what_was_sent_stays_as_it_is",
            "engine/test_engine.py::test_the_journal_shows_the_arguments_that_were_read",
            "interaction/test_behaviours.py::test_a_behaviour_is_the_same_through_every_door",
        ),
    ),
    "A4": Requirement(
        "A running turn can be aborted; what arrived is kept.",
        (
            "agent/test_loop.py::test_aborting_keeps_what_arrived_and_every_call_has_its_result",
            "agent/test_loop.py::test_aborting_while_the_model_speaks_keeps_its_words",
        ),
    ),
    "S4": Requirement(
        "What comes from outside is marked, and nothing invisible is in it.",
        ("agent/test_loop.py::test_words_from_outside_are_marked_and_hold_nothing_invisible",),
    ),
    "W11": Requirement(
        "Device tools are called by the words of a request.",
        ("models/test_offline_sentences.py::test_tools_from_elsewhere",),
    ),
    "W12": Requirement(
        "An app for Android has one form for both builds, and pairs by a link that names the gateway's own root.",
        (
            "docs/test_android.py::test_gradle_and_maven_have_the_same_modules_and_versions",
            "gateway/serving/test_lan_certificates.py::test_a_pin_names_the_root_for_addresses_that_it_serves",
        ),
    ),
    "C1": Requirement(
        "MCP servers are settings: command, args, env or url; internal by default.",
        ("config/test_load.py::test_the_seeds_json_works_as_it_stands",),
    ),
    "D1": Requirement(
        "CETP's three methods, its answers and six error codes; request_id is in the provider's log.",
        (
            "vectors/test_cetp.py::test_the_case_is_read_as_it_says",
            "provider/test_connection.py::test_every_error_code_arrives",
            "provider/test_provider.py::test_every_call_is_logged_with_its_request_id_and_without_arguments",
        ),
    ),
    "D2": Requirement(
        "Apps are discovered; a later version is skipped and shown; an unknown method is not found.",
        (
            "provider/test_manifests.py::test_a_manifest_that_can_not_be_used_is_skipped_with_the_reason",
            "provider/test_provider.py::test_an_unknown_method_and_an_unknown_tool_are_not_found",
            "cli/test_provider.py::test_the_list_says_what_a_bridge_would_skip_and_why",
        ),
    ),
    "D3": Requirement(
        "The bridge lists, prefixes, registers, forwards, retries, wakes and refreshes.",
        (
            "bridge/test_bridge.py::test_apps_come_change_and_go_while_calls_run",
            "bridge/test_bridge.py::test_a_call_without_an_answer_is_tried_three_times_under_one_id",
            "bridge/test_bridge.py::test_a_call_wakes_an_app_silently_first_and_then_its_screen",
            "bridge/test_bridge.py::test_labels_that_clash_get_a_suffix_that_stays",
            "cli/test_bridge.py::test_an_agent_answers_from_the_data_of_an_app",
        ),
    ),
    "D4": Requirement(
        "A provider in a few lines, with an authorization of its own.",
        (
            "provider/test_examples.py::test_finance_has_at_most_forty_lines_of_code",
            "provider/test_access.py::test_the_first_call_of_a_new_program_needs_the_person",
            "provider/test_access.py::test_a_grant_expires_and_can_be_taken_back",
        ),
    ),
    "D5": Requirement(
        "Bridged tools are read-only; others are not bridged, and that is shown.",
        ("bridge/test_bridge.py::test_only_tools_that_read_are_bridged_and_people_see_what_is_left_out",),
    ),
    "D6": Requirement(
        "Apps on the desktop declare themselves by a manifest, and are started when the person agrees; phones by adb.",
        (
            "bridge/test_bridge.py::test_an_app_is_started_when_the_person_trusts_it_and_that_is_remembered",
            "bridge/test_android.py::test_an_agent_calls_apps_on_two_phones_and_changes_are_followed",
            "bridge/test_android.py::test_a_refused_shell_user_is_told_what_to_do",
            "wire/test_android_bundle.py::test_the_data_of_a_success_is_read_exactly",
        ),
    ),
    "L1": Requirement(
        "No conversation ends by its length; what models see gets shorter, what is stored stays whole.",
        (
            "agent/compaction/test_long_talk.py::test_a_talk_of_many_turns_with_tools_and_images_runs_to_its_end",
            "agent/compaction/test_planner.py::test_whatever_is_cut_the_conversation_stays_one",
            "agent/compaction/test_planner.py::test_it_ends_below_the_limit_or_says_by_how_much_it_can_not",
            "agent/compaction/test_planner.py::"
            "test_the_same_history_gives_the_same_plan_and_a_second_one_changes_nothing",
            "store/test_long_conversations.py::test_between_two_moves_what_was_sent_stays_the_same",
            "store/test_long_conversations.py::test_another_process_and_another_node_see_the_same",
            "store/test_long_conversations.py::test_a_version_from_before_a_mark_does_not_know_it",
            "store/test_long_conversations.py::test_a_process_that_is_killed_in_mid_summary_loses_nothing",
            "store/test_long_conversations.py::"
            "test_a_model_that_finds_it_too_long_is_asked_again_once_and_its_window_is_kept",
            "store/test_long_conversations.py::test_a_message_that_was_too_long_does_not_block_what_is_said_next",
            "store/test_contexts.py::test_what_a_person_deletes_is_in_no_summary",
            "tools/test_artifact.py::test_the_stored_result_of_a_call_is_read_by_the_id_of_the_call",
        ),
    ),
    "L2": Requirement(
        "A summary has a form that is checked, keeps words from outside apart, is shown and counted.",
        (
            "agent/compaction/test_summary.py::test_the_form_is_checked_however_the_model_writes_it",
            "agent/compaction/test_summary.py::test_every_open_id_has_to_be_named",
            "agent/compaction/test_summary.py::test_a_model_that_falls_for_words_from_outside_does_not_make_them_ours",
            "store/test_long_conversations.py::test_a_person_asks_for_a_summary_and_says_what_to_keep",
            "store/test_long_conversations.py::test_what_a_summary_used_counts_and_is_told",
        ),
    ),
    "L3": Requirement(
        "How full the context is can be seen, and with what.",
        (
            "gateway/rest/test_context.py::test_a_context_is_told_in_its_parts",
            "gateway/rest/test_context.py::test_how_full_it_is_comes_with_the_session_and_its_events",
        ),
    ),
    "L4": Requirement(
        "Prices come from data in the package; settings win, and unknown stays unknown.",
        (
            "models/test_prices.py::test_costs_are_those_that_the_package_works_out",
            "models/test_prices.py::test_the_data_are_those_of_the_installed_package",
            "models/test_prices.py::test_a_start_and_a_model_that_is_not_priced_read_no_prices",
            "models/test_estimate.py::test_known_models_have_their_window",
            "models/test_prices.py::test_the_settings_win_even_with_a_price_of_nothing",
            "models/test_prices.py::test_cost_is_unknown_when_anything_it_needs_is",
        ),
    ),
    "L5": Requirement(
        "A budget is a hard limit: each request reserves what it may cost, waits, asks, or is refused.",
        (
            "store/test_budget_side_by_side.py::test_no_more_is_spent_than_the_budget_and_what_requests_used_beyond_their_estimates",
            "nodes/test_money.py::"
            "test_no_more_is_spent_than_the_budget_and_a_request_is_refused_only_for_what_is_spent",
            "store/test_budgets.py::test_requests_side_by_side_never_reserve_the_same_money",
            "store/test_budgets.py::test_nodes_that_change_the_same_budget_all_the_time_wait_for_each_other",
            "store/test_budgets.py::test_the_write_of_a_reply_settles_its_request",
            "store/test_budgets.py::test_a_round_reserves_once_and_is_settled_by_the_write_of_its_reply",
            "models/test_budgeted.py::"
            "test_a_request_reserves_for_all_that_is_sent_and_for_the_output_that_a_client_wishes",
            "models/test_prices.py::test_a_model_at_this_computer_is_free_unless_it_is_known_to_cost_money",
            "agent/test_budgets.py::test_days_begin_in_the_zone_of_the_settings",
            "store/test_budgets.py::test_what_a_process_that_is_gone_has_reserved_is_released",
            "gateway/test_budgets.py::test_a_person_who_adds_money_lets_the_turn_go_on",
            "gateway/test_budgets.py::test_a_spent_budget_says_when_it_is_free_again",
            "gateway/test_budgets.py::test_four_fifths_are_told_once",
            "gateway/test_budgets.py::test_models_without_a_price_are_refused_under_a_budget_with_the_remedy",
            "gateway/test_budgets.py::test_models_that_run_here_cost_nothing",
            "gateway/test_budgets.py::test_a_turn_says_that_its_request_waits_for_money_of_others",
            "gateway/test_budgets.py::test_a_task_of_open_webui_is_paid_by_the_owner_of_its_token",
            "store/test_tried_models.py::test_it_is_paid_and_refused_when_the_budget_is_spent",
        ),
    ),
    "L6": Requirement(
        "Another model answers when one can't, before the first word, for the rest of the turn; it says so and why.",
        (
            "models/test_chain.py::test_another_model_answers_when_the_first_can_not",
            "models/test_chain.py::test_an_answer_that_is_cut_after_its_first_word_is_told",
            "models/test_chain.py::test_what_another_model_would_only_hide_is_told",
            "models/test_chain.py::test_it_goes_on_with_the_calls_that_the_first_one_began_and_stays_for_the_turn",
            "models/test_chain.py::test_each_failure_after_a_rest_doubles_the_next_one_up_to_an_hour",
            "models/test_chain.py::test_a_model_without_images_gets_a_note_in_place_of_each",
            "gateway/test_other_models.py::test_the_event_the_message_and_the_log_name_the_model_that_answers_and_why",
            "gateway/test_other_models.py::test_the_journal_names_the_model_that_asked_for_a_call_and_why_it_answered",
            "gateway/test_other_models.py::test_the_cost_in_the_usage_of_openais_api_is_that_of_the_model_that_answered",
            "gateway/test_other_models.py::test_a_model_that_a_person_chose_answers_alone",
        ),
    ),
    "L7": Requirement(
        "How a turn ended is part of its session, with what had arrived; it is shown later, and retry works on it.",
        (
            "store/test_turn_ends.py::test_an_end_is_found_after_its_last_message_until_the_turn_goes_on",
            "store/test_turn_ends.py::test_a_turn_that_a_crash_cut_off_says_so_and_its_session_is_named",
            "gateway/sessions/test_ends.py::test_the_text_of_a_broken_stream_is_kept_and_the_next_turn_can_follow",
            "gateway/sessions/test_ends.py::test_a_turn_that_is_answered_again_has_its_new_end_alone",
            "gateway/rest/test_sessions.py::test_a_session_shows_how_its_turns_ended_and_retry_answers_again",
            "gateway/graph/test_failing_models.py::test_a_thread_says_how_its_runs_ended",
        ),
    ),
    "L8": Requirement(
        "Going back leaves a version that can be chosen again; nothing said is thrown away.",
        (
            "store/test_versions.py::test_nothing_that_was_said_is_lost",
            "store/test_versions.py::test_a_chosen_version_and_the_current_one_change_places",
            "store/test_versions.py::test_replies_count_once_whatever_version_is_current",
            "store/test_versions.py::test_the_oldest_versions_go_first",
            "store/test_versions.py::test_a_message_of_a_left_version_is_deleted_by_its_number",
            "gateway/rest/test_sessions.py::test_an_answer_that_was_made_again_can_be_chosen_again",
            "gateway/clients/test_ws.py::"
            "test_a_client_with_versions_is_told_when_the_conversation_goes_on_from_another_place",
        ),
    ),
    "L9": Requirement(
        "What was said is found again by all words of a search; what was deleted is not.",
        (
            "store/test_search.py::test_all_words_are_found_in_any_order_case_and_accent",
            "store/test_search.py::test_no_query_fails_and_operators_mean_nothing",
            "store/test_search.py::test_results_of_calls_are_found_only_when_asked",
            "store/test_search.py::test_versions_that_were_left_are_found_only_when_asked",
            "store/test_search.py::test_what_was_deleted_is_not_in_the_index",
            "store/sqlite/test_erasing.py::test_words_of_deleted_messages_are_gone_from_the_disk_soon",
            "gateway/rest/test_sessions.py::test_a_search_takes_any_words_and_says_where_they_are",
        ),
    ),
    "J5": Requirement(
        "An agent asks another one in a child session; the call waits, also over a crash and at another node.",
        (
            "gateway/sessions/test_children.py::"
            "test_the_answer_of_the_other_agent_is_the_result_and_its_calls_are_in_the_journal",
            "gateway/sessions/test_children.py::test_several_agents_work_at_the_same_time_and_no_more_than_so_many",
            "gateway/sessions/test_children.py::test_only_agents_that_exist_and_that_the_settings_name_can_be_asked",
            "gateway/sessions/test_children.py::test_agents_that_ask_in_a_circle_end_at_the_third",
            "gateway/sessions/test_children.py::test_an_agent_never_has_a_wider_mode_than_the_one_who_asks",
            "gateway/sessions/test_children.py::test_to_stop_the_asker_stops_all_agents_that_work_for_it",
            "gateway/sessions/test_children.py::test_an_agent_that_is_too_slow_is_stopped",
            "gateway/sessions/test_children.py::"
            "test_a_question_of_the_other_agent_comes_to_the_chat_of_the_asker_and_its_time_does_not_count",
            "gateway/sessions/test_children.py::"
            "test_both_turns_go_on_after_a_stop_in_the_middle_of_the_other_agents_work",
            "gateway/sessions/test_children_killed.py::test_both_agents_go_on_after_the_process_was_killed",
            "nodes/test_children.py::test_the_answer_of_the_other_agent_comes_at_another_node",
        ),
    ),
    "K1": Requirement(
        "One process with SQLite needs nothing else; one address makes it a process on PostgreSQL.",
        (
            "store/postgres/test_connecting.py::test_without_the_setting_nothing_of_it_is_imported",
            "store/postgres/test_settings.py::test_the_variable_names_the_database_and_no_list_shows_its_password",
            "store/postgres/test_connecting.py::test_a_second_gateway_is_refused_and_told_which_one_has_the_database",
        ),
    ),
    "K2": Requirement(
        "A tool is listed on every node and can be called from each; a call gets one result.",
        ("nodes/test_calls.py::test_a_device_of_one_node_is_listed_and_called_on_all",),
    ),
    "K3": Requirement(
        "Nothing acknowledged is lost when the database, the way to it, a node or NATS breaks.",
        (
            "nodes/test_calls.py::test_the_node_of_a_device_dies_in_the_middle_of_a_call_and_the_device_answers_elsewhere",
            "nodes/test_calls.py::test_the_node_of_the_caller_dies_in_the_middle_of_a_call_and_the_session_goes_on_elsewhere",
            "nodes/test_calls.py::test_nats_is_killed_and_started_again_while_calls_wait",
            "store/postgres/test_nodes.py::test_what_a_node_writes_for_a_turn_that_another_one_took_over_is_refused",
            "store/postgres/test_outages.py::test_nothing_acknowledged_is_lost_when_the_connection_is_cut_at_any_moment",
            "store/postgres/test_outages.py::test_a_restart_of_the_server_loses_nothing_and_heals_by_itself",
        ),
    ),
    "K4": Requirement(
        "The bus has one test suite that runs in memory and on NATS.",
        (
            "bus/test_bus.py::test_every_event_arrives_as_it_was_published",
            "bus/test_nats.py::test_every_event_arrives_on_another_node_as_it_was_published_and_in_order",
        ),
    ),
    "K5": Requirement(
        "Limits, revocations, pairing codes, questions, live views and metrics hold across nodes.",
        (
            "nodes/test_shared.py::test_every_node_has_the_counts_of_each_node_and_their_sum",
            "nodes/test_shared.py::test_tokens_codes_and_switches_hold_on_every_node",
            "nodes/test_shared.py::test_an_approval_is_given_on_another_node_than_the_one_that_asks",
            "nodes/test_shared.py::test_a_turn_is_seen_stopped_and_followed_by_another_on_every_node",
        ),
    ),
    "K6": Requirement(
        "A node that stops sends its clients to the others first, and no call fails.",
        (
            "nodes/test_calls.py::test_a_node_that_stops_sends_its_clients_away_and_no_call_fails",
            "nodes/test_turns.py::test_a_device_call_that_takes_longer_than_the_drain_stays_open_and_another_node_gets_its_answer",
        ),
    ),
    "U2": Requirement(
        "Commands with exit codes 0, 1 and 2; batches answer every line in order.",
        (
            "cli/test_cli.py::test_wrong_usage_is_explained",
            "cli/test_cli.py::test_a_failing_call_prints_its_envelope_and_exits_with_1",
            "cli/test_cli.py::test_a_batch_answers_every_line_in_order_and_later_lines_see_what_earlier_ones_did",
            "cli/test_both_ways.py::test_each_command_answers_the_same_with_and_without_a_gateway",
            "cli/test_everyday.py::test_an_error_under_json_is_json",
            "cli/test_rich_chat.py::test_a_conversation_from_the_first_prompt_to_the_end",
        ),
    ),
    "U4": Requirement(
        "Settings in TOML, or JSON with the same keys; a running gateway takes changed ones.",
        (
            "config/test_load.py::test_the_command_line_wins_over_the_environment_and_that_over_the_file",
            "cli/test_reload.py::test_a_reload_applies_what_it_can_and_says_what_needs_a_restart",
        ),
    ),
    "U5": Requirement(
        "A Python program has an agent with its own functions as tools in five lines, typed, and documented.",
        (
            "front/test_handspan.py::test_five_lines_give_an_answer_with_a_tool_of_the_program",
            "front/test_typing.py::test_pyright_sees_the_types_of_a_program",
            "test_embedding.py::test_every_option_is_explained",
        ),
    ),
    "U6": Requirement(
        "A chat has its own model, times, versions and a way to try again; it is pinned, searched and restored.",
        (
            "gateway/rest/test_sessions.py::test_the_model_of_one_chat_answers_from_its_next_turn_on",
            "gateway/rest/test_sessions.py::test_messages_are_what_was_said",
            "gateway/rest/test_sessions.py::test_an_answer_that_was_made_again_can_be_chosen_again",
            "gateway/rest/test_sessions.py::test_a_session_shows_how_its_turns_ended_and_retry_answers_again",
            "gateway/rest/test_sessions.py::test_flags_are_set_shown_and_filter_the_list",
            "gateway/rest/test_sessions.py::test_a_version_that_was_left_is_read_and_searched_when_asked",
            "gateway/rest/test_sessions.py::test_a_session_that_was_deleted_with_undo_comes_back",
            "store/test_versions.py::test_messages_have_their_times_also_in_versions",
        ),
    ),
    "F1": Requirement(
        "Runs of a client that may have tools of its own are one kit; doors over it translate.",
        (
            "gateway/graph/test_runs.py::test_the_unmodified_clients_loop_ends_with_what_its_tool_answered",
            "gateway/graph/test_races.py::test_of_an_older_run_does_not_end_a_newer_one",
        ),
    ),
    "F2": Requirement(
        "Clients of OpenAI's API talk to agents, with tools of both sides.",
        (
            "gateway/openai/test_chat.py::test_the_clients_own_accumulator_takes_the_stream",
            "gateway/openai/test_chat.py::test_a_round_with_tools_of_both_sides_runs_ours_and_asks_for_theirs",
            "gateway/openai/test_chat.py::test_usage_is_that_of_all_rounds_and_a_stream_has_it_last",
            "gateway/openai/test_chat.py::test_an_answer_of_a_schema_is_json_that_fits",
            "gateway/openai/test_errors.py::test_once_anything_has_run_no_client_tries_again_by_itself",
            "gateway/openai/test_errors.py::"
            "test_a_token_that_is_bound_to_an_agent_has_that_one_here_and_nothing_elsewhere",
            "gateway/openai/test_wishes.py::test_they_are_said_in_the_words_of_the_models_api",
            "gateway/openai/test_responses.py::test_the_clients_accumulator_gets_the_same_from_the_stream",
            "gateway/openai/test_responses.py::test_tools_of_the_gateway_are_items_that_no_client_runs",
            "gateway/openai/test_responses.py::test_a_response_is_read_again_also_after_a_restart",
            "gateway/openai/test_responses.py::test_another_token_finds_no_response",
            "gateway/openai/test_node_clients.py::test_tools_of_both_sides_run_once_and_the_answer_comes",
        ),
    ),
    "F3": Requirement(
        "A request is a conversation of its own, or says what is new in the session of its chat.",
        (
            "gateway/openai/test_chat.py::test_nothing_of_a_request_without_a_key_is_left_but_what_it_used",
            "gateway/openai/test_chat.py::test_a_call_of_another_token_takes_no_result",
            "gateway/openai/test_chat.py::test_calls_that_we_did_not_ask_for_are_text_for_the_model",
            "gateway/openai/test_keyed_chats.py::"
            "test_a_whole_history_adds_what_is_new_and_no_reply_that_the_client_sends",
            "gateway/openai/test_keyed_chats.py::test_an_edited_message_makes_a_version_from_there",
            "gateway/openai/test_responses.py::test_an_older_response_begins_a_version_from_there",
            "gateway/openai/test_keyed_chats.py::test_the_same_request_joins_the_answer_that_runs",
            "gateway/openai/test_killed.py::test_a_chat_with_a_key_goes_on_and_its_tool_does_not_run_twice",
        ),
    ),
    "F4": Requirement(
        "Clients of AG-UI run agents, with tools of both sides, questions as interrupts, and threads that last.",
        (
            "gateway/agui/test_runs.py::test_tools_of_the_gateway_are_calls_with_results_that_no_client_runs",
            "gateway/agui/test_runs.py::test_tools_of_both_sides_in_one_round",
            "gateway/agui/test_runs.py::test_a_result_for_a_call_that_we_did_not_ask_is_not_taken",
            "gateway/agui/test_runs.py::test_images_and_files_reach_the_model_and_context_its_instructions",
            "gateway/agui/test_runs.py::test_closing_the_connection_stops_the_run_and_the_next_one_knows_what_came",
            "gateway/agui/test_runs.py::test_a_client_that_knows_nothing_of_its_thread_is_told_it",
            "gateway/agui/test_interrupts.py::test_a_question_ends_the_run_and_approval_goes_on_with_it",
            "gateway/agui/test_interrupts.py::test_edited_arguments_are_those_that_run",
            "gateway/agui/test_interrupts.py::test_an_answer_counts_only_for_an_open_question_of_this_thread",
            "gateway/agui/test_interrupts.py::test_several_questions_of_a_round_are_asked_together",
            "gateway/agui/test_killed.py::test_a_text_that_was_cut_off_is_told_anew",
            "gateway/agui/test_killed.py::test_a_question_outlasts_the_gateway",
            "gateway/agui/test_errors.py::test_a_token_that_is_bound_to_an_agent_talks_to_that_one_alone",
            "gateway/agui/test_example.py::test_it_runs_its_own_tool_and_asks_before_a_change",
        ),
    ),
    "F5": Requirement(
        "Pages of the AI SDK talk to agents, with tools of both sides, approvals, and streams that are resumed.",
        (
            "gateway/ui_stream/test_chat.py::test_a_tool_of_the_gateway_is_run_here_and_shown",
            "gateway/ui_stream/test_chat.py::test_parallel_calls_of_both_sides",
            "gateway/ui_stream/test_chat.py::test_a_result_for_a_call_that_was_not_asked_counts_for_nothing",
            "gateway/ui_stream/test_chat.py::test_regenerate_makes_a_version",
            "gateway/ui_stream/test_questions.py::test_a_person_says_yes_on_the_page_and_the_run_goes_on",
            "gateway/ui_stream/test_questions.py::test_arguments_that_the_person_changed_are_run",
            "gateway/ui_stream/test_questions.py::test_a_forged_approval_answers_nothing",
            "gateway/ui_stream/test_streams.py::test_another_page_gets_the_whole_answer_that_is_being_made",
            "gateway/ui_stream/test_streams.py::test_closing_the_page_lets_the_run_go_on",
            "gateway/ui_stream/test_streams.py::test_a_gateway_that_is_killed_goes_on_with_the_run",
        ),
    ),
    "F6": Requirement(
        "A question in an API without a place for it says in one line where it can be answered.",
        (
            "gateway/openai/test_questions.py::test_a_stream_says_where_to_answer_and_goes_on_with_the_answer",
            "gateway/openai/test_questions.py::test_with_a_key_the_run_goes_on_and_the_next_request_gets_its_answer",
            "gateway/ui_stream/test_questions.py::test_a_question_that_the_page_cannot_show_is_a_line",
        ),
    ),
    "W1": Requirement(
        "A client registers tools, additively; what is refused is named with its reason.",
        (
            "sources/test_ws.py::test_an_entry_that_lacks_a_field_is_rejected_with_the_reason_and_the_others_are_taken",
            "sources/test_ws.py::test_registering_adds_and_replaces_by_name",
        ),
    ),
    "W2": Requirement(
        "Ids are not to be guessed; a request is answered once, and acknowledged when the result is kept.",
        (
            "core/test_calls.py::test_an_id_is_a_random_uuid_in_its_usual_form",
            "gateway/clients/test_ws.py::test_a_tool_of_the_client_is_called_and_its_answer_reaches_the_model",
            "gateway/clients/test_ws.py::test_results_without_an_id_are_skipped_and_unknown_ones_are_acknowledged",
        ),
    ),
    "W3": Requirement(
        "A call that is not answered times out; an answer to nothing is dropped.",
        (
            "sources/test_ws.py::test_an_unanswered_call_times_out_and_the_client_is_told",
            "sources/test_ws.py::test_a_second_answer_and_one_to_nothing_are_dropped_and_counted",
        ),
    ),
    "W4": Requirement(
        "The tools of a closed connection are gone from everywhere at once.",
        (
            "sources/test_ws.py::test_closing_takes_every_tool_from_every_toolbox_at_once",
            "gateway/clients/test_ws.py::test_the_tools_of_a_closed_connection_are_gone_everywhere",
        ),
    ),
    "W5": Requirement(
        "The policy says which names and permissions clients may register; built-ins are not shadowed.",
        (
            "sources/test_ws.py::test_what_is_beyond_a_limit_or_a_rule_is_rejected",
            "sources/test_ws.py::test_a_builtin_is_not_shadowed",
        ),
    ),
    "W6": Requirement(
        "Several calls may be open; only the connection that was asked can answer.",
        (
            "sources/test_ws.py::test_several_calls_are_answered_in_any_order",
            "gateway/clients/test_ws.py::test_a_result_of_another_connection_is_refused_and_logged",
        ),
    ),
    "W7": Requirement(
        "A ClawSeed client works as it is; closing its socket cancels its turn.",
        (
            "gateway/clients/test_ws.py::test_connect_is_answered_and_an_old_client_hears_nothing_new",
            "gateway/clients/test_ws.py::test_frames_may_follow_each_other_without_waiting",
            "gateway/clients/test_ws.py::test_a_turn_on_the_wire_has_the_order_of_the_protocol",
            "gateway/clients/test_ws.py::test_a_closed_socket_cancels_its_turn_and_what_was_sent_has_an_unknown_outcome",
        ),
    ),
    "W8": Requirement(
        "A call survives a dropped link and the end of the gateway; nothing runs twice.",
        (
            "gateway/clients/test_ws.py::test_a_call_survives_a_dropped_link",
            "gateway/clients/test_ws.py::test_a_call_survives_the_end_of_the_gateway",
            "gateway/test_stopping.py::test_a_call_of_a_program_that_outlasts_the_grace_waits_for_the_device_after_the_start",
            "gateway/clients/test_ws.py::test_after_the_grace_time_a_sent_call_has_an_unknown_outcome",
            "gateway/clients/test_ws.py::test_a_late_result_is_kept_as_a_note",
            "gateway/clients/test_ws.py::test_a_turn_goes_on_while_its_client_is_away_and_events_are_told_again",
        ),
    ),
    "W10": Requirement(
        "A device's tools are for every session of its owner, under its label.",
        (
            "gateway/clients/test_ws.py::test_a_devices_tools_are_for_every_session_of_its_owner",
            "gateway/clients/test_ws.py::test_two_devices_of_one_label_are_told_apart",
            "gateway/clients/test_names.py::test_a_device_that_labels_itself_like_an_mcp_server_gets_another_label_and_no_call_of_the_server",
            "gateway/clients/test_names.py::test_a_server_that_is_added_takes_its_prefix_from_a_device_that_has_it_as_its_label",
            "gateway/clients/test_devices.py::test_presence_and_last_seen_follow_the_link",
        ),
    ),
    "H1": Requirement(
        "Setup, invoke and stream as AgentFlow has them; tools by node; a taken name is shown with its node.",
        (
            "gateway/graph/test_setup.py::test_what_the_unmodified_client_sends_is_taken",
            "gateway/graph/test_runs.py::"
            "test_a_name_of_a_built_in_tool_is_shown_with_its_node_and_keeps_its_own_on_the_wire",
            "gateway/graph/test_runs.py::"
            "test_a_name_of_a_plugin_or_an_mcp_server_is_shown_with_its_node_and_keeps_its_own_on_the_wire",
            "gateway/graph/test_runs.py::test_the_limit_of_rounds_ends_the_run_over_all_its_requests",
        ),
    ),
    "H2": Requirement(
        "An unmodified AgentFlow client completes the whole loop.",
        (
            "gateway/graph/test_runs.py::test_the_unmodified_clients_loop_ends_with_what_its_tool_answered",
            "vectors/test_graph_vectors.py::test_gateway_does_what_the_case_says",
        ),
    ),
    "H3": Requirement(
        "Invalid definitions are 422 with details; a handler that throws is a failure.",
        (
            "gateway/graph/test_setup.py::test_every_wrong_tool_is_named_and_none_is_kept",
            "gateway/graph/test_runs.py::test_a_failed_handler_is_a_failure_with_its_words",
        ),
    ),
    "H4": Requirement(
        "Tools come inside a request, so that no setup is needed; the loop goes over streams and sockets too.",
        (
            "gateway/graph/test_runs.py::test_two_tabs_with_tools_in_their_requests_stay_apart",
            "gateway/graph/test_stream.py::test_a_run_goes_over_it",
        ),
    ),
    "H5": Requirement(
        "A client's tools are its own: nobody else's run can call them.",
        (
            "gateway/graph/test_ownership.py::test_while_the_run_is_at_work_nobody_else_has_its_tools",
            "gateway/graph/test_runs.py::test_another_client_in_the_same_thread_does_not_have_them",
            "gateway/graph/test_runs.py::test_another_owner_can_not_answer",
        ),
    ),
    "C2": Requirement(
        "Internal tools are hidden, not absent, until a skill that is on names them.",
        (
            "registry/test_internal.py::test_no_agent_sees_or_calls_them_even_if_its_own_list_names_them",
            "registry/test_internal.py::test_a_skill_shows_those_that_its_globs_match",
        ),
    ),
    "J1": Requirement(
        "Schedules run at their times, each due time once on whichever node, or it is told as missed.",
        (
            "core/test_schedule_times.py::test_cron_follows_the_clocks_through_both_changes_as_a_walk_minute_by_minute_does",
            "store/sqlite/test_schedule_machine.py::test_each_due_time_runs_once_or_is_told_as_missed",
            "store/test_schedules.py::test_two_processes_never_get_the_same_time",
            "gateway/schedules/test_schedules.py::test_a_run_that_was_cut_off_goes_on_and_nothing_is_said_twice",
            "gateway/schedules/test_schedules.py::test_five_failures_in_a_row_pause_it_and_the_owner_is_told",
        ),
    ),
    "J2": Requirement(
        "An agent proposes schedules, the person confirms; their turns may do no more than its own turn.",
        (
            "gateway/schedules/test_schedules.py::test_the_person_confirms_what_the_agent_proposes_with_the_next_three_times",
            "gateway/schedules/test_schedules.py::test_a_scheduled_turn_has_at_most_the_tools_and_the_mode_of_the_turn_that_made_it",
        ),
    ),
    "C3": Requirement(
        "Programs offer tools of their own over MCP.",
        (
            "mcp/test_shell.py::test_clients_of_both_eras_list_and_call_the_tools",
            "mcp/test_shell.py::test_a_namespace_is_unique_not_empty_and_without_the_separator",
        ),
    ),
    "C4": Requirement(
        "Both eras of the protocol; servers that die, hang or lie hurt nothing.",
        (
            "sources/mcp/test_real_servers.py::test_time",
            "gateway/mcp/test_door.py::test_a_client_is_told_when_a_phone_connects",
            "gateway/mcp/test_door.py::test_a_cancelled_call_is_cancelled_in_the_engine",
        ),
    ),
    "C5": Requirement(
        "Every tool of an agent, a phone's camera too, is any MCP client's tool, through the same engine.",
        (
            "gateway/mcp/test_door.py::test_a_client_lists_and_calls_built_in_tools_and_the_camera_of_a_phone",
            "gateway/mcp/test_foreign_clients.py::test_the_client_of_the_typescript_sdk",
            "cli/test_mcp_clients.py::test_a_program_gets_the_tools_of_a_running_gateway_over_standard_input_and_output",
        ),
    ),
    "J4": Requirement(
        "Browsers are told of questions and messages without arguments; a button answers once; other ways come first.",
        (
            "gateway/test_push_encryption.py::test_the_example_of_the_rfc_comes_out_byte_by_byte",
            "gateway/test_push_encryption.py::test_another_implementation_reads_every_text",
            "gateway/test_push.py::test_a_question_is_told_with_agent_and_tool_and_without_arguments",
            "gateway/test_push.py::test_a_token_is_good_once_and_for_its_own_decision_question_and_browser",
            "gateway/test_push.py::test_a_page_in_view_comes_first_and_keeps_the_browsers_quiet",
            "gateway/test_push.py::test_a_message_that_no_page_shows_is_told_without_its_text",
            "gateway/test_push_sender.py::test_an_endpoint_that_is_private_or_not_https_is_refused",
        ),
    ),
    "G1": Requirement(
        "One process serves HTTP and WebSocket on loopback; tokens, pairing and limits guard it.",
        (
            "cli/test_serve.py::test_it_says_each_thing_on_its_line_and_the_files_are_private",
            "cli/test_serve.py::test_a_device_pairs_with_the_code_and_is_out_when_its_token_is_revoked",
            "gateway/clients/test_ws.py::test_who_floods_is_read_more_slowly_and_disturbs_nobody",
        ),
    ),
    "G3": Requirement(
        "A signal ends the gateway in order: calls get their results, clients are told, the exit code is 0.",
        (
            "cli/test_serve.py::test_a_signal_ends_it_with_0_and_clients_are_told_to_come_back",
            "gateway/test_stopping.py::test_a_call_that_runs_has_its_grace_and_the_question_beside_it_outlasts_the_stop",
        ),
    ),
}
