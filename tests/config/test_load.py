"""Settings: one value from file, environment and flags; every error names its source, key and remedy, all at once."""

import json
import os
from pathlib import Path

import pytest

from handspan.config.check import RawText
from handspan.config.load import find_file, load_settings
from handspan.config.settings import AgentSettings, HookSettings, ModelPrice, ModelSettings, Settings
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError
from handspan.core.values import Json


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".config" / "handspan").mkdir(parents=True)
    return folder


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".config" / "handspan" / "config.toml"


def load(home: Path, file: Path | None = None, flags: dict[str, Json] | None = None, **variables: str) -> Settings:
    return load_settings(file, {"HOME": str(home), **variables}, flags)


def problems(home: Path, file: Path | None = None, flags: dict[str, Json] | None = None, **variables: str) -> list[str]:
    """The lines of the error, without what says that it is one."""
    with pytest.raises(ConfigError) as refused:
        load(home, file, flags, **variables)
    head, *lines = str(refused.value).splitlines()
    assert head == "The settings can't be used:"
    return [line.removeprefix("- ") for line in lines]


class TestFilesThatCannotBeUsed:
    def test_a_named_file_that_is_missing_is_an_error(self, home: Path, file: Path) -> None:
        assert problems(home, file) == [f"{file}: it can't be read: No such file or directory."]
        assert problems(home, HANDSPAN_CONFIG=str(file)) == problems(home, file)

    def test_a_folder_in_place_of_a_file_is_an_error(self, home: Path) -> None:
        assert "this is a folder" in problems(home, home)[0]

    def test_a_pipe_never_blocks(self, home: Path, file: Path) -> None:
        os.mkfifo(file)
        assert problems(home) == [f"{file}: this is not a regular file."]

    def test_a_link_to_nowhere_is_not_passed_over(self, home: Path, file: Path) -> None:
        file.symlink_to("nowhere")
        assert problems(home) == [f"{file}: it can't be read: No such file or directory."]

    def test_a_path_with_a_nul_is_an_error(self, home: Path) -> None:
        assert "can't be read" in problems(home, Path("a\0b"))[0]

    def test_a_huge_file_is_not_read(self, home: Path, file: Path) -> None:
        with file.open("wb") as content:
            content.truncate(10 * 1024**3)
        assert "too many for settings" in problems(home)[0]

    @pytest.mark.parametrize("content", [b"a = ", b"[a", b"a = 1\na = 2", b"a = [" * 5000, b"\x00"])
    def test_bad_toml_names_the_place_where_known(self, home: Path, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        (problem,) = problems(home)
        assert problem.startswith(f"{file}: this is not valid TOML: ") or "nested too deep" in problem

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"{", "not valid JSON"),
            (b'{"a": NaN}', "NaN is no JSON number"),
            (b'{"tools": {"disabled": [], "disabled": []}}', "the key 'disabled' stands twice"),
            (b"[" * 5000, "nested too deep"),
            (b"[]", "it has to be one JSON object"),
        ],
    )
    def test_bad_json_says_why(self, home: Path, file: Path, content: bytes, reason: str) -> None:
        file = file.with_suffix(".json")
        file.write_bytes(content)
        assert reason in problems(home)[0]

    def test_what_is_not_utf_8_is_an_error(self, home: Path, file: Path) -> None:
        file.write_bytes(b'workspace = "\xff"')
        assert problems(home) == [f"{file}: it is not UTF-8 (byte 13). Save it as UTF-8."]

    def test_two_files_side_by_side_are_an_error(self, home: Path, file: Path) -> None:
        file.write_text("")
        file.with_suffix(".json").write_text("{}")
        with pytest.raises(ConfigError, match=r"Both .*config.toml and .*config.json are there. Keep one"):
            load(home)

    def test_a_broken_file_does_not_hide_what_else_is_wrong(self, home: Path, file: Path) -> None:
        file.write_text("= x")
        assert len(problems(home, HANDSPAN_WORKSPCE="x")) == 2


def test_a_variable_with_one_underscore_gets_a_hint_at_the_nested_setting(home: Path) -> None:
    (problem,) = problems(home, None, {}, HANDSPAN_TOOLS_RESULT_LIMIT="3000")
    assert "Did you mean 'HANDSPAN_TOOLS__RESULT_LIMIT'? Two underscores stand between" in problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('workspce = "x"', "workspce: unknown key. Did you mean 'workspace'?"),
        ("[url_policy]", "url_policy: unknown key. Did you mean 'tools.url_policy'?"),
        ("[tools]\nallow-shadowing = []", "tools.allow-shadowing: unknown key. Did you mean 'allow_shadowing'?"),
        ("[hooks]\nxyz = 1", "hooks.xyz: unknown key. The keys here are: enabled, chain."),
        (
            "[tools]\nresultLimit = 2000\nresult_limit = 2000",
            "tools.result_limit: stands twice, in two spellings. Remove one.",
        ),
        ("tools = 1", "tools: must be a table (in JSON an object), not a number."),
        ("tools.timeouts = []", "tools.timeouts: must be a table (in JSON an object), not a list."),
        ("tools.disabled = 'x'", "tools.disabled: must be a list, not 'x'."),
        ("tools.url_policy.allow_private = 1", "tools.url_policy.allow_private: must be true or false, not 1."),
        ("tools.url_policy.enabled = {}", "tools.url_policy.enabled: must be true or false, not a table."),
        ("tools.result_limit = true", "tools.result_limit: must be a whole number of bytes, 1024 or more, not true."),
        ("tools.question_timeout = nan", "tools.question_timeout: must be a number of seconds above 0, not nan."),
        (
            "tools.timeouts.x = inf",
            'tools.timeouts.x: must be a number of seconds, or 0 or "none" for no limit, not inf.',
        ),
        (
            "tools.timeouts.x = -1",
            'tools.timeouts.x: must be a number of seconds, or 0 or "none" for no limit, not -1.',
        ),
        (
            "tools.timeouts.x = false",
            'tools.timeouts.x: must be a number of seconds, or 0 or "none" for no limit, not false.',
        ),
        ("tools.sandbox.uid = 0", "tools.sandbox.uid: must be a user id other than 0, root's, not 0."),
        ("tools.sandbox.enabled = 'yes'", "tools.sandbox.enabled: must be 'auto', 'on' or 'off', not 'yes'."),
        (
            "tools.command_policy.mode = 'allow'",
            "mode: must be one of 'auto', 'allowlist', 'denylist', not 'allow'. Did you mean 'allowlist'?",
        ),
        (
            "tools.concurrency.mpc = 1",
            "the name must be one of 'builtin', 'plugin', 'mcp', 'remote', 'device', 'browser', not 'mpc'.",
        ),
        ("tools.concurrency.mcp = 0", "tools.concurrency.mcp: must be a whole number of 1 or more, not 0."),
        ("tools.http_request.allowed_hosts = ['']", "must be a text that is not empty, not ''."),
        (
            "tools.web_search.endpoint = 'ftp://x'",
            "tools.web_search.endpoint: must be an address that begins with http:// or https://, not 'ftp://x'.",
        ),
        ("tools.mcp_servers.a__b.command = 'x'", "tools.mcp_servers.a__b: the name must be a server name without '__'"),
        ("tools.mcp_servers.a_.command = 'x'", "tools.mcp_servers.a_: the name must be a server name without '__'"),
        ("tools.mcp_servers.a.args = ['x']", "tools.mcp_servers.a: it needs a 'command' to start or a 'url' to ask."),
        (
            "tools.mcp_servers.a = {command = 'x', env = {X = 1}}",
            "tools.mcp_servers.a.env.X: must be a text, not a number.",
        ),
        ("[[hooks.chain]]\ntimeout = 1", "hooks.chain[0].type: is missing. It has to be a text that is not empty."),
        ("hooks.chain = [1]", "hooks.chain[0]: must be a table (in JSON an object), not a number."),
        (
            "[[hooks.chain]]\ntype = 'x'\ntimeout = 0",
            "hooks.chain[0].timeout: must be a number of seconds above 0, not 0.",
        ),
        (
            "hooks.chain = [{type = 'x', config = {a = nan}}]",
            "hooks.chain[0].config.a: must be a plain value, not nan.",
        ),
        ("agents.Bob.mode = 'readonly'", "not 'readonly'. Did you mean 'read_only'?"),
        ("agents.Bob.mode = 'zzz'", "'read_only', not 'zzz'."),
        ("agents.Bob.mode = 1", "'read_only', not 1."),
        ("models.x.api = 'openai'", "models.x.api: must be one of 'openai-chat', 'openai-responses', 'anthropic'"),
        ("models.x.base_url = 'localhost'", "models.x.base_url: must be an address that begins with http://"),
        ("models.x.context = 0", "models.x.context: must be a whole number of 1 or more, not 0."),
        ("models.x.price.input = -1", "models.x.price.input: must be an amount of US dollars, 0 or more, not -1."),
        ("models.'' = {}", "the name must be a text that is not empty"),
        ("model = 1", "model: must be a text, not a number."),
        ("journal_days = -1", 'journal_days: must be a number of days, or 0 or "none" for all time, not -1.'),
        ("default_agent = ' '", "default_agent: must be a text that is not empty, not ' '."),
        ("workspace = ''", "workspace: must be a path, not ''."),
        ('workspace = "a\\u0000b"', "workspace: must be a path, not 'a\\x00b'."),
        ("workspace = 2026-01-01", "workspace: must be a path, not a date or time."),
    ],
)
def test_what_is_wrong_in_a_file_names_file_key_and_remedy(home: Path, file: Path, content: str, problem: str) -> None:
    file.write_text(content)
    (found,) = problems(home)
    assert found.startswith(f"{file}: ")
    assert problem in found


@pytest.mark.parametrize("wrong", ["origin:mpc", "origin:", "origin:mcp()", "", "a b"])
def test_a_disabled_entry_is_a_glob_or_a_known_kind_of_origin(home: Path, file: Path, wrong: str) -> None:
    file.write_text(f"tools.disabled = ['web_*', 'origin:mcp', 'origin:device(My phone)', '{wrong}']")
    (problem,) = problems(home)
    assert problem.startswith(
        f"{file}: tools.disabled[3]: must be a tool's name, a glob such as 'web_*', 'origin:KIND'"
    )
    assert problem.endswith(f"not {wrong!r}.")


@pytest.mark.parametrize(("written", "days"), [("7", 7.0), ("0.5", 0.5), ("0", None), ("'none'", None)])
def test_the_journal_is_kept_for_some_days_or_for_all_time(
    home: Path, file: Path, written: str, days: float | None
) -> None:
    assert load(home).journal_days == 30.0
    file.write_text(f"journal_days = {written}")
    assert load(home).journal_days == days


def test_the_default_agent_may_be_one_that_only_the_store_knows(home: Path, file: Path) -> None:
    file.write_text("default_agent = 'Bob'")
    assert load(home).default_agent == "Bob"


def test_everything_that_is_wrong_is_said_at_once_with_its_source(home: Path, file: Path) -> None:
    file.write_text("workspce = 1\n[tools]\nmcp_servers.x = {}\nresult_limit = 'x'\ndisabled = [1, 'a', 2]")
    found = problems(home, None, {"tools.nope": True}, HANDSPAN_TOOLS__QUESTION_TIMEOUT="soon", HANDSPAN_AGENTS="3")
    assert [problem.rpartition(": ")[0] for problem in found] == [
        f"{file}: workspce",
        f"{file}: tools.result_limit",
        f"{file}: tools.disabled[0]",
        f"{file}: tools.disabled[2]",
        "environment variable HANDSPAN_AGENTS: agents",
        "environment variable HANDSPAN_TOOLS__QUESTION_TIMEOUT: tools.question_timeout",
        "command line: tools.nope: unknown key. The keys here are",
        f"{file}: tools.mcp_servers.x",
    ]


def test_a_key_is_repeated_in_no_error(home: Path, file: Path) -> None:
    file.write_text(
        "tools.web_search.api_key = 987654321\ntools.mcp_servers.x = {url = 'https://x', env = {KEY = 987654321}}\n"
        "models.x.key = 987654321"
    )
    assert len(problems(home)) == 3
    assert "987654321" not in "".join(problems(home))


def test_a_key_is_shown_in_no_repr(home: Path, file: Path) -> None:
    file.write_text(
        "tools.web_search.api_key = 's3cret'\ntools.mcp_servers.x = {url = 'https://x', env = {KEY = 's3cret'}}\n"
        "models.x = {key = 's3cret', options = {headers = 's3cret'}}"
    )
    settings = load(home)
    assert settings.tools.web_search.api_key == settings.tools.mcp_servers["x"].env["KEY"] == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "KEY" in repr(settings)


def test_without_any_file_everything_has_its_default(home: Path) -> None:
    settings = load(home)
    assert settings.workspace == home / ".local/share/handspan/workspace"
    assert settings.state == home / ".local/state/handspan"
    assert settings == Settings(settings.workspace, settings.state)
    assert settings.agents == {"General": AgentSettings()}
    assert settings.tools.result_limit == 65536
    assert settings.tools.question_timeout == 300


def test_folders_follow_the_xdg_variables_unless_they_are_relative(home: Path, tmp_path: Path) -> None:
    settings = load(home, XDG_DATA_HOME=str(tmp_path / "data"), XDG_STATE_HOME="relative")
    assert settings.workspace == tmp_path / "data" / "handspan" / "workspace"
    assert settings.state == home / ".local/state/handspan"
    (tmp_path / "handspan").mkdir()
    (tmp_path / "handspan" / "config.json").write_text("{}")
    assert find_file({"HOME": str(home), "XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "handspan" / "config.json"


def test_the_file_may_be_named_by_a_variable_with_a_tilde(home: Path) -> None:
    (home / "mine.toml").write_text("default_agent = 'General'\nworkspace = 'beside'")
    assert load(home, HANDSPAN_CONFIG="~/mine.toml").workspace == home / "beside"


def test_without_home_the_user_data_base_is_asked() -> None:
    assert load_settings(None, {"XDG_CONFIG_HOME": "/nonexistent"}).state.is_absolute()


def test_paths_start_from_home_or_from_the_file_or_from_here(home: Path, file: Path) -> None:
    file.write_text("workspace = '~/work'\nstate = 'state'")
    assert load(home).workspace == home / "work"
    assert load(home).state == file.parent / "state"
    assert load(home, HANDSPAN_WORKSPACE="work").workspace == Path.cwd() / "work"
    assert load(home, None, {"workspace": "/tmp/../x"}).workspace == Path("/tmp/../x")
    assert load(home, None, {"workspace": "~"}).workspace == home


def test_a_relative_path_in_a_removed_folder_is_an_error_and_an_absolute_one_is_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    monkeypatch.chdir(doomed)
    doomed.rmdir()
    assert "relative to a folder that is gone" in problems(home, None, {"workspace": "x"})[0]
    assert load(home, None, {"workspace": "/x"}).workspace == Path("/x")


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(home: Path, file: Path) -> None:
    file.write_text("[tools]\nresult_limit = 2000\nquestion_timeout = 20\n[tools.url_policy]\nallowed_domains = ['a']")
    variables = {"HANDSPAN_TOOLS__RESULT_LIMIT": "3000", "HANDSPAN_TOOLS__QUESTION_TIMEOUT": "30"}
    tools = load(home, None, {"tools.result_limit": 4000, "tools.question_timeout": None}, **variables).tools
    assert (tools.result_limit, tools.question_timeout, tools.url_policy.allowed_domains) == (4000, 30.0, ("a",))


def test_tables_are_merged_by_key_and_lists_replaced(home: Path, file: Path) -> None:
    file.write_text("tools.timeouts = {a = 1, b = 2}\ntools.disabled = ['a', 'b']")
    tools = load(home, None, {"tools": {"timeouts": {"b": 3}, "disabled": ["c"]}}).tools
    assert tools.timeouts == {"a": 1.0, "b": 3.0}
    assert tools.disabled == ("c",)


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("TOOLS__URL_POLICY__ALLOW_PRIVATE", "true", lambda tools: tools.url_policy.allow_private is True),
        ("TOOLS__URL_POLICY__ALLOW_PRIVATE", "TRUE", lambda tools: tools.url_policy.allow_private is True),
        ("TOOLS__URL_POLICY__ENABLED", "False", lambda tools: tools.url_policy.enabled is False),
        ("TOOLS__DISABLED", '["a", "b_*"]', lambda tools: tools.disabled == ("a", "b_*")),
        ("TOOLS__TIMEOUTS__EXEC_SHELL", "none", lambda tools: tools.timeouts == {"exec_shell": None}),
        ("TOOLS__TIMEOUTS__EXEC_SHELL", "0", lambda tools: tools.timeouts == {"exec_shell": None}),
        ("TOOLS__TIMEOUTS", '{"Web_*" = 2.5}', lambda tools: tools.timeouts == {"Web_*": 2.5}),
        ("TOOLS__WEB_SEARCH__API_KEY", "12345", lambda tools: tools.web_search.api_key == "12345"),
        ("TOOLS__WEB_SEARCH__API_KEY", "2026-01-01", lambda tools: tools.web_search.api_key == "2026-01-01"),
        ("TOOLS__WEB_SEARCH__API_KEY", "x = \n[y", lambda tools: tools.web_search.api_key == "x = \n[y"),
        ("TOOLS__WEB_SEARCH__API_KEY", "1\ny = 2", lambda tools: tools.web_search.api_key == "1\ny = 2"),
        ("TOOLS__WEB_SEARCH__ENDPOINT", "https://x", lambda tools: tools.web_search.endpoint == "https://x"),
        ("TOOLS__SANDBOX__ENABLED", "off", lambda tools: tools.sandbox.enabled == "off"),
        ("TOOLS__SANDBOX__ENABLED", "false", lambda tools: tools.sandbox.enabled == "off"),
        ("TOOLS__SANDBOX", "{uid = 1000}", lambda tools: tools.sandbox.uid == 1000),
    ],
)
def test_a_variable_is_read_as_what_its_key_asks_for(home: Path, name: str, text: str, read: object) -> None:
    assert callable(read)
    assert read(load(home, None, None, **{f"HANDSPAN_{name}": text}).tools)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("HANDSPAN_WORKSPCE", "x", "WORKSPCE: unknown key. Did you mean 'workspace'?"),
        ("HANDSPAN_", "x", "unknown key."),
        ("HANDSPAN_FAST", "no", "'no' is neither 'on' nor 'off'."),
        (
            "HANDSPAN_TOOLS__RESULT_LIMIT",
            "many",
            "tools.result_limit: must be a whole number of bytes, 1024 or more, not 'many'.",
        ),
        ("HANDSPAN_TOOLS__RESULT_LIMIT", "5", "not 5."),
        ("HANDSPAN_TOOLS__DISABLED", "exec_shell", "tools.disabled: must be a list, not 'exec_shell'."),
        ("HANDSPAN_TOOLS__DISABLED__X", "1", "tools.disabled: must be a list, not a table."),
        ("HANDSPAN_TOOLS__URL_POLICY__ENABLED", "1", "must be true or false, not 1."),
        ("HANDSPAN_TOOLS__TIMEOUTS", "[" * 5000, "must be a table"),
    ],
)
def test_a_wrong_variable_is_named(home: Path, name: str, text: str, problem: str) -> None:
    (found,) = problems(home, None, None, **{name: text})
    assert found.startswith(f"environment variable {name}: ")
    assert problem in found


@pytest.mark.parametrize("text", ["on", "off"])
def test_the_switch_of_the_speed_tricks_is_no_setting(home: Path, text: str) -> None:
    assert load(home, HANDSPAN_FAST=text) == load(home)


def test_a_name_in_capitals_means_the_one_that_is_there(home: Path, file: Path) -> None:
    file.write_text("agents.CodeReview.deny = ['x']")
    settings = load(home, HANDSPAN_AGENTS__CODEREVIEW__MODE="read_only", HANDSPAN_AGENTS__GENERAL__MODE="ask_always")
    assert settings.agents == {
        "General": AgentSettings(mode="ask_always"),
        "CodeReview": AgentSettings(deny=("x",), mode="read_only"),
    }


def test_texts_of_a_flag_are_read_as_in_the_environment(home: Path) -> None:
    assert load(
        home, None, {"tools.disabled": RawText('["a"]'), "tools.result_limit": RawText("2048")}
    ).tools.disabled == ("a",)


def test_models_are_read_by_name_with_options_and_price(home: Path, file: Path) -> None:
    file.write_text(
        "model = 'fast'\n[models.fast]\napi = 'anthropic'\nkey = 'env:MY_KEY'\nmodel = 'claude-sonnet-5'\n"
        "options = {max_tokens = 1000, thinking = {type = 'adaptive'}}\nprice = {input = 1, output = 2.5}\n"
        "[models.local]\nbaseUrl = 'http://localhost:1234/v1'\nstrict = true\ncontext = 8192\nstream = false"
    )
    settings = load(home, HANDSPAN_MODEL="local", HANDSPAN_MODELS__FAST__KEY="12345")
    assert settings.model == "local"
    assert settings.models == {
        "fast": ModelSettings(
            "anthropic",
            key="12345",
            model="claude-sonnet-5",
            options={"max_tokens": 1000, "thinking": {"type": "adaptive"}},
            price=ModelPrice(1.0, 2.5),
        ),
        "local": ModelSettings("custom", "http://localhost:1234/v1", strict=True, stream=False, context=8192),
    }
    assert load(home).model == "fast"


def test_no_allow_list_means_all_and_an_empty_one_none(home: Path, file: Path) -> None:
    file.write_text("[agents.All]\n[agents.None]\ntools = []\n[tools.http_request]\nallowed_hosts = []")
    settings = load(home)
    assert settings.agents["All"].tools is None
    assert settings.agents["None"].tools == ()
    assert settings.tools.http_request.allowed_hosts == ()


def test_hooks_keep_their_order_and_their_own_configuration(home: Path, file: Path) -> None:
    file.write_text(
        "[hooks]\nenabled = true\n[[hooks.chain]]\ntype = 'audit_log'\n"
        "config = {Path = 'a', since = 2026-01-02, deep = {x = [1]}}\n"
        "[[hooks.chain]]\ntype = 'rate_limit'\ntimeout = 1"
    )
    assert load(home).hooks.chain == (
        HookSettings("audit_log", {"Path": "a", "since": "2026-01-02", "deep": {"x": [1]}}),
        HookSettings("rate_limit", timeout=1.0),
    )


def test_a_configuration_nested_without_end_is_an_error(home: Path, file: Path) -> None:
    file = file.with_suffix(".json")
    levels = 100_000
    file.write_text(f'{{"hooks": {{"chain": [{{"type": "x", "config": {{"a": {"[" * levels}{"]" * levels}}}}}]}}}}')
    assert problems(home) == [f"{file}: it is nested too deep."]
    file.unlink()
    deep: Json = []
    for _ in range(5000):
        deep = [deep]
    found = problems(home, None, {"hooks.chain": [{"type": "x", "config": {"a": deep}}]})
    assert found == ["command line: hooks.chain[0].config.a: is nested too deep."]


def test_the_seeds_json_works_as_it_stands(home: Path, file: Path) -> None:
    """SPEC U4, C1: the snippet of the clawft seed."""
    file.with_suffix(".json").write_text("""
    {
      "tools": {
        "mcp_servers": {
          "my_server": {
            "command": "npx",
            "args": ["-y", "my-mcp-server"],
            "internal_only": false
          }
        }
      }
    }""")
    assert load(home).tools.mcp_servers == {
        "my_server": McpServer(command="npx", args=("-y", "my-mcp-server"), internal_only=False)
    }


def test_camel_case_is_understood_for_every_key_and_free_names_stay_as_they_are(home: Path, file: Path) -> None:
    content: Json = {
        "defaultAgent": "codeReview",
        "agents": {"codeReview": {}},
        "tools": {
            "allowShadowing": ["a"],
            "timeouts": {"camelTool": None},
            "commandPolicy": {"mode": "denylist"},
            "urlPolicy": {"allowPrivate": True, "allowedDomains": ["a"], "blockedDomains": ["b"]},
            "httpRequest": {"allowedHosts": None},
            "webSearch": {"apiKey": "k"},
            "unsafeShellWithoutSandbox": True,
            "mcpServers": {"myServer": {"url": "https://x", "internalOnly": False, "env": {"camelCase": "1"}}},
        },
    }
    file.with_suffix(".json").write_text(json.dumps(content))
    settings = load(home)
    assert settings.default_agent == "codeReview"
    assert settings.tools.timeouts == {"camelTool": None}
    assert settings.tools.command_policy.mode == "denylist"
    assert settings.tools.url_policy.allow_private
    assert settings.tools.url_policy.blocked_domains == ("b",)
    assert settings.tools.web_search.api_key == "k"
    assert settings.tools.unsafe_shell_without_sandbox
    assert settings.tools.mcp_servers["myServer"].env == {"camelCase": "1"}


def test_null_in_json_is_no_value_where_one_is_needed(home: Path, file: Path) -> None:
    file = file.with_suffix(".json")
    file.write_text('{"tools": {"result_limit": null}, "agents": {"General": {"tools": null}}}')
    assert problems(home) == [f"{file}: tools.result_limit: must be a whole number of bytes, 1024 or more, not null."]


def test_a_byte_order_mark_of_an_editor_does_no_harm(home: Path, file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbftools.disabled = ['a']")
    assert load(home).tools.disabled == ("a",)
