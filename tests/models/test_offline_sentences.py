"""The offline model: sentences, and the calls that they stand for (SPEC M5)."""

import pytest

from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import JsonObject
from tests.models.offline_talk import BUILTIN, calls_for, device, foreign, mcp_tools

pytestmark = pytest.mark.anyio

LAPTOP = device("laptop")
Calls = list[tuple[str, JsonObject]]


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("What time is it in Tokyo?", [[("get_current_time", {"timezone": "Asia/Tokyo"})]]),
        (
            "write 'hello' to notes.txt then read notes.txt",
            [[("write_file", {"path": "notes.txt", "content": "hello"})], [("read_file", {"path": "notes.txt"})]],
        ),
        ("list the files here and tell me the time", [[("list_directory", {"path": "."}), ("get_current_time", {})]]),
        ("read notes.txt", [[("read_file", {"path": "notes.txt"})]]),
        ("append 'x' to notes.txt", [[("write_file", {"path": "notes.txt", "content": "x", "mode": "append"})]]),
        ("fetch https://example.com", [[("web_fetch", {"url": "https://example.com"})]]),
        ("run ls -la", [[("exec_shell", {"command": "ls -la"})]]),
        ("run the command `cat notes.txt | wc -l`", [[("exec_shell", {"command": "cat notes.txt | wc -l"})]]),
        ("remember that my cat is called Tom", [[("memory_write", {"content": "my cat is called Tom"})]]),
        ("what do you remember about my cat", [[("memory_read", {"query": "cat"})]]),
        ("take device info of my computer", [[("laptop__device_info", {})]]),
        ("take a photo", [[("laptop__camera", {})]]),
        ("search the web for tea", [[("web_search", {"query": "tea"})]]),
        (
            "replace 'a' by 'b' in notes.txt",
            [[("edit_file", {"path": "notes.txt", "old_text": "a", "new_text": "b"})]],
        ),
        (
            "call get_current_time with timezone=Europe/Paris",
            [[("get_current_time", {"timezone": "Europe/Paris"})]],
        ),
        ('/read_file {"path": "notes.txt"}', [[("read_file", {"path": "notes.txt"})]]),
    ],
)
async def test_sentences_that_must_work_in_any_case(text: str, rounds: list[Calls]) -> None:
    assert await calls_for(text, [*BUILTIN, *LAPTOP]) == rounds
    if "`" not in text and "ls" not in text:
        shouted = await calls_for(text.upper(), [*BUILTIN, *LAPTOP])
        assert [[name for name, _ in calls] for calls in shouted] == [[name for name, _ in calls] for calls in rounds]


# The scenarios that the product was asked for. None of the page's tools says anything about its effects.
PAGE = [
    foreign("read_clipboard", "Read the current system clipboard content"),
    foreign("get_browser_locale", "Get the browser locale and preferred language"),
    foreign("get_weather", "Get the current weather for a city", {"city": {"type": "string"}}, "city"),
]
BITCOIN: JsonObject = {"url": "https://api.coinbase.com/v2/prices/BTC-USD/spot"}


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("What time is it?", [[("get_current_time", {})]]),
        ("Read my notes file", [[("read_file", {"path": "notes.txt"})]]),
        ("Fetch the latest Bitcoin price", [[("web_fetch", BITCOIN)]]),
        (
            "Fetch the latest Bitcoin price, then write it to price.txt and tell me the time",
            [
                [("web_fetch", BITCOIN)],
                [("write_file", {"path": "price.txt", "content": "[web_fetch]"}), ("get_current_time", {})],
            ],
        ),
        (
            "What is in my clipboard and what is my preferred language?",
            [[("read_clipboard", {}), ("get_browser_locale", {})]],
        ),
        (
            "What is in my clipboard, and what is my browser's locale?",
            [[("read_clipboard", {}), ("get_browser_locale", {})]],
        ),
        ("What is the weather in Paris?", [[("get_weather", {"city": "Paris"})]]),
        ("weather in New York", [[("get_weather", {"city": "New York"})]]),
    ],
)
async def test_scenarios_of_the_first_day(text: str, rounds: list[Calls]) -> None:
    assert await calls_for(text, [*BUILTIN, *LAPTOP, *PAGE]) == rounds


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("what's in notes.txt?", [("read_file", {"path": "notes.txt"})]),
        ("could you show me the file README, please?", [("read_file", {"path": "README"})]),
        ('read "my notes.txt"', [("read_file", {"path": "my notes.txt"})]),
        ("read notes.txt limit=10 offset=5", [("read_file", {"path": "notes.txt", "limit": 10, "offset": 5})]),
        ("save 'a, b and c' in 'my notes.txt'", [("write_file", {"path": "my notes.txt", "content": "a, b and c"})]),
        ("write hello world to notes.txt", [("write_file", {"path": "notes.txt", "content": "hello world"})]),
        ("read ```notes.txt", [("read_file", {"path": "notes.txt"})]),
        ("read = notes.txt", [("read_file", {"path": "notes.txt"})]),
        ("in notes.txt replace 'a' by 'b'", [("edit_file", {"path": "notes.txt", "old_text": "a", "new_text": "b"})]),
        ("I want to write 'x' to a.txt", [("write_file", {"path": "a.txt", "content": "x"})]),
        ("can you write 'x' to a.txt?", [("write_file", {"path": "a.txt", "content": "x"})]),
        ("put 'it's me' into a file called out.txt", [("write_file", {"path": "out.txt", "content": "it's me"})]),
        ("list the folder src", [("list_directory", {"path": "src"})]),
        ("ls src/", [("list_directory", {"path": "src/"})]),
        ("Use web_fetch on https://example.com/a?b=1.", [("web_fetch", {"url": "https://example.com/a?b=1"})]),
        ("post 'x' to https://a.com", [("http_request", {"url": "https://a.com", "method": "POST", "body": "x"})]),
        ("search the web for 'tea' num_results=3", [("web_search", {"query": "tea", "num_results": 3})]),
        ("search the web for 'tea' 999 results", [("web_search", {"query": "tea"})]),
        ("search for green tea on the web", [("web_search", {"query": "green tea"})]),
        ("google tea and coffee", [("web_search", {"query": "tea and coffee"})]),
        ("execute 'ls -la'", [("exec_shell", {"command": "ls -la"})]),
        ("Run the command sleep 2", [("exec_shell", {"command": "sleep 2"})]),
        ("run the command: sort notes.txt", [("exec_shell", {"command": "sort notes.txt"})]),
        ("run cat notes.txt.", [("exec_shell", {"command": "cat notes.txt"})]),
        ("remember: buy milk and bread", [("memory_write", {"content": "buy milk and bread"})]),
        ("remember that I woke up then ate", [("memory_write", {"content": "I woke up then ate"})]),
        ("what do you remember?", [("memory_read", {})]),
        ("what time is it in new york", [("get_current_time", {"timezone": "America/New_York"})]),
        ("what time is it in Atlantis?", [("get_current_time", {"timezone": "Atlantis"})]),
        ("hello, what time is it?", [("get_current_time", {})]),
        ("/read_file notes.txt", [("read_file", {"path": "notes.txt"})]),
        (
            "/write_file path=a.txt content='b c' mode=APPEND",
            [("write_file", {"path": "a.txt", "content": "b c", "mode": "append"})],
        ),
        (r'/exec_shell command="echo \"a b\""', [("exec_shell", {"command": 'echo "a b"'})]),
        (r'/exec_shell "echo \"a b\""', [("exec_shell", {"command": 'echo "a b"'})]),
        (r'run "echo \"a b\""', [("exec_shell", {"command": 'echo "a b"'})]),
        ("/exec_shell command=\"echo 'a'\"", [("exec_shell", {"command": "echo 'a'"})]),
        ("/write_file path=a.txt, content='Hi!'", [("write_file", {"path": "a.txt", "content": "Hi!"})]),
        (r'/read_file path="C:\dir\"', [("read_file", {"path": "C:\\dir\\"})]),
    ],
)
async def test_other_ways_to_say_it(text: str, calls: Calls) -> None:
    assert await calls_for(text) == [calls]


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        ("read a.txt and read b.txt", [[("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]]),
        (
            "what time is it in Tokyo and what time is it in Paris?",
            [[("get_current_time", {"timezone": "Asia/Tokyo"}), ("get_current_time", {"timezone": "Europe/Paris"})]],
        ),
        (
            "replace 'a' by 'b' in x.txt and replace 'a' by 'b' in y.txt",
            [
                [
                    ("edit_file", {"path": "x.txt", "old_text": "a", "new_text": "b"}),
                    ("edit_file", {"path": "y.txt", "old_text": "a", "new_text": "b"}),
                ]
            ],
        ),
        ("run `a; b` and read x.txt", [[("exec_shell", {"command": "a; b"}), ("read_file", {"path": "x.txt"})]]),
        (
            "Write 'a' to x.txt. Read x.txt.",
            [[("write_file", {"path": "x.txt", "content": "a"})], [("read_file", {"path": "x.txt"})]],
        ),
        (
            "fetch https://a.com, then tell me the time",
            [[("web_fetch", {"url": "https://a.com"})], [("get_current_time", {})]],
        ),
    ],
)
async def test_and_means_at_once_and_then_means_after(text: str, rounds: list[Calls]) -> None:
    assert await calls_for(text) == rounds


async def test_what_touches_the_same_file_waits_although_it_says_and() -> None:
    rounds = await calls_for("write 'hello' to a.txt and read a.txt")
    assert [[name for name, _ in calls] for calls in rounds] == [["write_file"], ["read_file"]]


# Tools that it has never seen.


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("take a photo with high quality", [("laptop__camera", {"quality": "high"})]),
        ("take a selfie", [("laptop__camera", {})]),
        ("find the contact Anna", [("laptop__contacts", {"query": "Anna"})]),
        ("look up Anna in my contacts", [("laptop__contacts", {"query": "Anna"})]),
        ("read the gps sensor", [("laptop__sensors", {"type": "gps"})]),
        ("set the brightness level to 7", [("set_brightness", {"level": 7})]),
        ("what's the weather in Paris", [("get_weather", {"city": "Paris"})]),
        ("compress the files a.txt and b.txt", [("compress_files", {"paths": ["a.txt", "b.txt"]})]),
        ("/compress_files paths=a,b recursive=yes", [("compress_files", {"paths": ["a", "b"], "recursive": True})]),
        ('/plot_points {"points": [1, 2.5]}', [("plot_points", {"points": [1, 2.5]})]),
        ("plot the points 1 and 2", [("plot_points", {"points": [1, 2]})]),
        ("what is the sum of 2 and 3.5?", [("get_sum", {"a": 2, "b": 3.5})]),
        ('/draw_shape {"shape": {"sides": 3}}', [("draw_shape", {"shape": {"sides": 3}})]),
        ("use the echo tool with 'hi'", [("test__echo", {"message": "hi"})]),
    ],
)
async def test_tools_from_elsewhere(text: str, calls: Calls) -> None:
    number: JsonObject = {"type": "number"}
    text_list: JsonObject = {"type": "array", "items": {"type": "string"}}
    points: JsonObject = {"type": "array", "items": {"$ref": "#/$defs/n"}}
    plot = foreign("plot_points", "Plot points", {"points": points}, "points")
    plot.parameters["$defs"] = {"n": {"anyOf": [{"type": "null"}, number]}}
    specs = [
        *BUILTIN,
        *LAPTOP,
        ToolSpec(
            "get_sum",
            "Add two numbers",
            {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]},
            annotations=READ_ONLY,
        ),
        foreign("set_brightness", "Set the brightness of the screen", {"level": {"type": "integer"}}, "level"),
        ToolSpec(
            "get_weather",
            "Get the weather of a city",
            {"type": "object", "properties": {"city": {"type": ["null", "string"]}}, "required": ["city"]},
            annotations=READ_ONLY,
        ),
        foreign("compress_files", "Pack files", {"paths": text_list, "recursive": {"type": "boolean"}}, "paths"),
        plot,
        foreign("draw_shape", "Draw a shape", {"shape": {"type": "object"}}, "shape"),
        foreign("test__echo", "Say it again", {"message": {"type": "string"}}, "message"),
    ]
    assert await calls_for(text, specs) == [calls]


async def test_own_tool_comes_before_the_same_one_elsewhere() -> None:
    elsewhere = ToolSpec("server__read_file", "Read a file", BUILTIN[1].parameters, annotations=READ_ONLY)
    assert await calls_for("read notes.txt", [elsewhere, *BUILTIN]) == [[("read_file", {"path": "notes.txt"})]]
    assert await calls_for("use read_file of the server on notes.txt", [elsewhere, *BUILTIN]) == [
        [("read_file", {"path": "notes.txt"})]
    ]
    assert await calls_for("call server__read_file with path=a", [elsewhere, *BUILTIN]) == [
        [("server__read_file", {"path": "a"})]
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("what's the sum of 2 and 3?", "everything__get-sum"),
        ("git status of .", "git__git_status"),
        ("delete the entity 'Tom'", "memory__delete_entities"),
        ("echo hello", "everything__echo"),
        ("read notes.txt", "read_file"),
        ("what time is it in Tokyo?", "get_current_time"),
        ("list the files here", "list_directory"),
    ],
)
async def test_among_the_tools_of_real_mcp_servers_it_finds_the_one(text: str, name: str) -> None:
    rounds = await calls_for(text, [*BUILTIN, *LAPTOP, *mcp_tools()])
    assert [[called for called, _ in calls] for calls in rounds] == [[name]]


async def test_of_two_names_that_differ_in_case_the_written_one_is_called() -> None:
    loud = ToolSpec("READ_FILE", "Read a file", BUILTIN[1].parameters, annotations=READ_ONLY)
    for text, name in (("use READ_FILE on a.txt", "READ_FILE"), ("/READ_FILE path=a.txt", "READ_FILE")):
        assert await calls_for(text, [*BUILTIN, loud]) == [[(name, {"path": "a.txt"})]]
    assert await calls_for("use read_file on a.txt", [loud, *BUILTIN]) == [[("read_file", {"path": "a.txt"})]]
