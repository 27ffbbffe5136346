"""What each of the four APIs would refuse, as a check of a request's body (SPEC M4).

Each function raises `Refused` with the sense of what the real API answers with status 400. The rules are those of the
vendors' documentation and of observed answers; where an API is lenient in a way that no client should rely on, it is
strict here. `Issued` is what the server has handed out itself: signatures and ids that may only come back unchanged.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct, field

from handspan.core.messages import Api

Body = dict[str, Any]

DUMMY_SIGNATURE: Final = "skip_thought_signature_validator"
_OPENAI_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_ANTHROPIC_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_GEMINI_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_NOT_STRICT: Final = frozenset(
    {"default", "minLength", "maxLength", "patternProperties", "unevaluatedProperties", "unevaluatedItems", "oneOf"}
    | {"propertyNames", "minProperties", "maxProperties", "contains", "uniqueItems", "allOf", "not", "if"}
)
_GEMINI_TOP: Final = frozenset(
    {"contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent"}
)
_GEMINI_PART: Final = frozenset(
    {"text", "inlineData", "fileData", "functionCall", "functionResponse", "thought", "thoughtSignature"}
)
_GEMINI_SUBSET: Final = frozenset(
    {"type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties"}
    | {"required", "propertyOrdering", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf", "example"}
    | {"minProperties", "maxProperties", "default"}
)
_GEMINI_MEDIA: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})


class Refused(Exception):
    """The API would answer 400 with this text."""


class Issued(Struct):
    """What a server has handed out."""

    signatures: set[str] = field(default_factory=set)
    reasoning_of: dict[str, str] = field(default_factory=dict)
    """Responses: the id of a function call, and the id of the reasoning item that led to it."""


def refuse(condition: object, text: str) -> None:
    """Refuse where the condition holds."""
    if condition:
        raise Refused(text)


# Chat Completions


def check_chat(body: Body, issued: Issued | None = None) -> None:
    """Refuse what OpenAI Chat Completions would."""
    refuse(not body.get("model"), "you must provide a model parameter")
    messages = body.get("messages")
    refuse(not isinstance(messages, list) or not messages, "[] is too short - 'messages'")
    _check_openai_extras(body)
    _check_tools([_nested_function(tool) for tool in body.get("tools", ())], "parameters")
    refuse("stream_options" in body and not body.get("stream"), "'stream_options' is only allowed when stream is true")
    assert isinstance(messages, list)
    awaited: list[str] = []
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            _check_tool_message(message, awaited, place)
            continue
        refuse(
            awaited,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
            f" 'tool_call_id'. The following tool_call_ids did not have response messages: {awaited}",
        )
        awaited = _check_chat_message(message, place)
    refuse(awaited, f"the tool_call_ids {awaited} did not have response messages")


def _check_openai_extras(body: Body) -> None:
    refuse("tools" in body and not body["tools"], "[] is too short - 'tools'")
    for name in ("tool_choice", "parallel_tool_calls"):
        refuse(name in body and not body.get("tools"), f"'{name}' is only allowed when 'tools' are specified")


def _nested_function(tool: Body) -> Body:
    refuse(tool.get("type") != "function", "tools: Missing required parameter 'type'")
    refuse(not isinstance(tool.get("function"), dict), "Missing required parameter: 'tools[0].function'")
    function: Body = tool["function"]
    return function


def _check_tool_message(message: Body, awaited: list[str], place: int) -> None:
    given = message.get("tool_call_id")
    refuse(
        given not in awaited,
        f"messages[{place}]: messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    )
    awaited.remove(str(given))
    content = message.get("content")
    if isinstance(content, list):
        refuse(not content, f"messages[{place}].content: [] is too short")
        refuse(any(part.get("type") != "text" for part in content), f"messages[{place}]: only text parts in a result")
    else:
        refuse(not isinstance(content, str), f"messages[{place}].content: expected a string")


def _check_chat_message(message: Body, place: int) -> list[str]:
    """Check one message that is no result; the ids of its calls."""
    role, content = message.get("role"), message.get("content")
    refuse(role not in ("system", "developer", "user", "assistant"), f"messages[{place}]: {role!r} is no role")
    calls = message.get("tool_calls")
    if role != "assistant":
        refuse(calls is not None, f"messages[{place}]: 'tool_calls' is only for assistants")
        refuse(not content, f"messages[{place}]: expected content")
        if isinstance(content, list):
            kinds = {part.get("type") for part in content}
            allowed = {"text", "image_url", "input_audio", "file"} if role == "user" else {"text"}
            refuse(kinds - allowed, f"messages[{place}]: invalid content {kinds - allowed} for {role}")
            _check_image_urls(part["image_url"]["url"] for part in content if part.get("type") == "image_url")
        return []
    refuse(calls is not None and not calls, f"[] is too short - 'messages.{place}.tool_calls'")
    refuse(content is None and not calls, f"messages[{place}].content: expected a string, got null")
    if isinstance(content, list):
        refuse(any(part.get("type") not in ("text", "refusal") for part in content), "assistants say text only")
    ids = [_check_chat_call(call, place) for call in calls or ()]
    refuse(len(set(ids)) < len(ids), f"messages[{place}].tool_calls: Duplicate tool call id")
    return ids


def _check_chat_call(call: Body, place: int) -> str:
    refuse(call.get("type") != "function", f"messages[{place}].tool_calls: type must be 'function'")
    refuse(not isinstance(call.get("id"), str) or not call["id"], f"messages[{place}].tool_calls: id is missing")
    function = call.get("function") or {}
    refuse(not _OPENAI_NAME.fullmatch(function.get("name", "")), f"{function.get('name')!r} does not match the pattern")
    refuse(not isinstance(function.get("arguments"), str), "tool_calls.function.arguments: expected a string")
    return str(call["id"])


def _check_image_urls(urls: Iterator[str]) -> None:
    for url in urls:
        known = url.startswith("https://") or any(url.startswith(f"data:{kind};base64,") for kind in _IMAGE_TYPES)
        refuse(not known, f"image: {url[:40]!r} is neither a URL nor a supported image")


# Responses


def check_responses(body: Body, issued: Issued | None = None) -> None:
    """Refuse what OpenAI Responses would."""
    refuse(not body.get("model"), "Missing required parameter: 'model'.")
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    refuse(not isinstance(items, list) or not items, "Missing required parameter: 'input'.")
    _check_openai_extras(body)
    for tool in body.get("tools", ()):
        refuse("function" in tool, "Unknown parameter: 'tools[0].function'.")
        refuse(tool.get("type") != "function", "Missing required parameter: 'tools[0].type'.")
        refuse("strict" not in tool, "strict has to be sent: unset may be taken as true")
    _check_tools(body.get("tools", ()), "parameters")
    assert isinstance(items, list)
    _check_items(items, stored=body.get("store") is not False, issued=issued or Issued())


def _check_items(items: list[Body], *, stored: bool, issued: Issued) -> None:
    called: set[str] = set()
    answered: set[str] = set()
    reasoning = ""
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if reasoning:
            follows = kind in ("function_call", "reasoning") or (kind == "message" and item.get("role") == "assistant")
            refuse(
                not follows, f"Item '{reasoning}' of type 'reasoning' was provided without its required following item"
            )
        if kind == "function_call":
            _check_item_call(item, called, place)
            wanted = issued.reasoning_of.get(item.get("id", ""), reasoning)
            refuse(
                wanted != reasoning and wanted not in _ids(items[:place]),
                f"Item '{item.get('id')}' was provided without its reasoning item",
            )
        elif kind == "function_call_output":
            _check_item_output(item, called, answered)
        elif kind == "reasoning":
            _check_reasoning(item, issued, stored=stored)
        elif kind == "message":
            _check_item_message(item, place)
        else:
            refuse(True, f"Invalid value: {kind!r} (input[{place}].type)")
        reasoning = item["id"] if kind == "reasoning" else ""
    refuse(reasoning, f"Item '{reasoning}' of type 'reasoning' was provided without its required following item")
    missing = sorted(called - answered)
    refuse(missing, f"No tool output found for function call {', '.join(missing)}.")


def _ids(items: list[Body]) -> set[str]:
    return {str(item.get("id")) for item in items}


def _check_item_call(item: Body, called: set[str], place: int) -> None:
    refuse(not item.get("call_id"), f"Missing required parameter: 'input[{place}].call_id'.")
    refuse(item["call_id"] in called, f"Duplicate call_id {item['call_id']!r}")
    refuse(not _OPENAI_NAME.fullmatch(item.get("name", "")), f"Invalid 'input[{place}].name'")
    refuse(not isinstance(item.get("arguments"), str), f"Invalid type for 'input[{place}].arguments'")
    _check_item_id(item, "fc")
    called.add(item["call_id"])


def _check_item_output(item: Body, called: set[str], answered: set[str]) -> None:
    given = item.get("call_id")
    refuse(given not in called, f"No tool call found for function call output with call_id {given}.")
    refuse(given in answered, f"Duplicate output for call_id {given}.")
    answered.add(str(given))
    output = item.get("output")
    if isinstance(output, list):
        kinds = {part.get("type") for part in output}
        refuse(not output or kinds - {"input_text", "input_image", "input_file"}, f"Invalid output of call {given}")
        _check_image_urls(part["image_url"] for part in output if part.get("type") == "input_image")
    else:
        refuse(not isinstance(output, str), f"Invalid type for the output of call {given}")


def _check_reasoning(item: Body, issued: Issued, *, stored: bool) -> None:
    refuse(not isinstance(item.get("summary"), list), "Missing required parameter: 'summary'.")
    _check_item_id(item, "rs")
    refuse(not stored and not item.get("encrypted_content"), f"Item with id '{item['id']}' not found: store is false")
    sealed = item.get("encrypted_content")
    refuse(
        sealed and issued.signatures and sealed not in issued.signatures, "The encrypted content could not be verified."
    )


def _check_item_message(item: Body, place: int) -> None:
    role, content = item.get("role"), item.get("content")
    refuse(role not in ("user", "assistant", "system", "developer"), f"Invalid value: {role!r} (input[{place}].role)")
    _check_item_id(item, "msg")
    if isinstance(content, str):
        refuse(not content, f"Invalid 'input[{place}].content': empty")
        return
    allowed = {"output_text", "refusal"} if role == "assistant" else {"input_text", "input_image", "input_file"}
    parts: list[Body] = content or []
    kinds = {part.get("type") for part in parts}
    refuse(not parts or kinds - allowed, f"Invalid value: {kinds - allowed}. Supported values are {allowed}.")
    _check_image_urls(part["image_url"] for part in parts if part.get("type") == "input_image")


def _check_item_id(item: Body, prefix: str) -> None:
    given = item.get("id")
    refuse(
        given is not None and not given.startswith(prefix), f"Invalid id {given!r}: it has to begin with '{prefix}'."
    )


# Anthropic


def check_anthropic(body: Body, issued: Issued | None = None) -> None:
    """Refuse what Anthropic Messages would."""
    refuse(not body.get("model"), "model: Field required")
    refuse(not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1, "max_tokens: Field required")
    messages = body.get("messages")
    refuse(not messages, "messages: at least one message is required")
    refuse("system" in body and not body["system"], "system: text content blocks must be non-empty")
    refuse("tool_choice" in body and not body.get("tools"), "tool_choice may only be specified while providing tools")
    _check_tools(body.get("tools", ()), "input_schema", _ANTHROPIC_NAME)
    assert isinstance(messages, list)
    refuse(messages[0].get("role") != "user", 'messages: first message must use the "user" role')
    awaited: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        refuse(role not in ("user", "assistant"), f"messages.{place}.role: Input should be 'user' or 'assistant'")
        blocks = _anthropic_blocks(message, place)
        if role == "assistant":
            refuse(awaited, _without_results(awaited))
            awaited = _check_assistant_blocks(blocks, place, issued or Issued())
            refuse(seen & set(awaited) or len(set(awaited)) < len(awaited), "`tool_use` ids must be unique")
            seen.update(awaited)
        else:
            _check_user_blocks(blocks, awaited, place)
            awaited = []
    refuse(awaited, _without_results(awaited))


def _without_results(ids: list[str]) -> str:
    return f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(ids)}"


def _anthropic_blocks(message: Body, place: int) -> list[Body]:
    content = message.get("content")
    blocks: list[Body] = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    refuse(not blocks, f"messages.{place}: all messages must have non-empty content")
    _check_texts(blocks, place)
    return blocks


def _check_texts(blocks: list[Body], place: int) -> None:
    for block in blocks:
        if block.get("type") == "text":
            refuse(not block["text"], f"messages.{place}: text content blocks must be non-empty")
            refuse(not block["text"].strip(), f"messages.{place}: text content blocks must contain non-whitespace text")
        if block.get("type") == "image" and block["source"]["type"] == "base64":
            refuse(block["source"]["media_type"] not in _IMAGE_TYPES, f"messages.{place}: image media_type")


def _check_assistant_blocks(blocks: list[Body], place: int, issued: Issued) -> list[str]:
    """Check what the model said; the ids of its calls."""
    ids = []
    for block in blocks:
        match block.get("type"):
            case "tool_use":
                refuse(not _ANTHROPIC_ID.fullmatch(block.get("id", "")), f"messages.{place}: tool_use.id")
                refuse(not _ANTHROPIC_NAME.fullmatch(block.get("name", "")), f"messages.{place}: tool_use.name")
                refuse(not isinstance(block.get("input"), dict), f"messages.{place}: tool_use.input: a dictionary")
                ids.append(block["id"])
            case "thinking":
                signature = block.get("signature")
                refuse(not signature, f"messages.{place}: thinking.signature: Field required")
                known = not issued.signatures or signature in issued.signatures
                refuse(not known, f"messages.{place}: Invalid `signature` in `thinking` block")
            case "text" | "redacted_thinking":
                pass
            case other:
                refuse(True, f"messages.{place}: {other!r} blocks are not permitted here")
    final = blocks[-1].get("type")
    refuse(final in ("thinking", "redacted_thinking"), f"messages.{place}: The final block cannot be `thinking`")
    return ids


def _check_user_blocks(blocks: list[Body], awaited: list[str], place: int) -> None:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    answered = [block.get("tool_use_id") for block in results]
    unexpected = [given for given in answered if given not in awaited]
    refuse(unexpected, f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {unexpected}")
    refuse(len(set(answered)) < len(answered), f"messages.{place}: each tool_use must have a single result")
    missing = [given for given in awaited if given not in answered]
    refuse(missing, _without_results(missing))
    refuse(blocks[: len(results)] != results, f"messages.{place}: `tool_result` blocks have to come first")
    for block in blocks:
        if block.get("type") == "tool_result":
            _check_tool_result(block, place)
        else:
            refuse(block.get("type") not in ("text", "image", "document"), f"messages.{place}: {block.get('type')!r}")


def _check_tool_result(block: Body, place: int) -> None:
    content = block.get("content", "")
    if isinstance(content, str):
        return
    refuse(not content, f"messages.{place}: tool_result.content: empty list")
    _check_texts(content, place)
    kinds = {part.get("type") for part in content}
    refuse(kinds - {"text", "image", "document", "search_result"}, f"messages.{place}: tool_result of {kinds}")
    refuse(
        block.get("is_error") and kinds != {"text"},
        f'messages.{place}: tool_result: all content must be type "text" if "is_error" is true',
    )


# Gemini


def check_gemini(body: Body, issued: Issued | None = None, *, model: str = "") -> None:
    """Refuse what Gemini generateContent would."""
    unknown = sorted(set(body) - _GEMINI_TOP)
    refuse(unknown, f"Invalid JSON payload received. Unknown name {unknown}")
    contents = body.get("contents")
    refuse(not contents, "contents is not specified")
    for tool in body.get("tools", ()):
        for declaration in tool.get("functionDeclarations", ()):
            refuse({"parameters", "parametersJsonSchema"} <= set(declaration), "only one kind of parameters may be set")
            _check_gemini_subset(declaration.get("parameters", {}), declaration.get("name"))
    declarations = [item for tool in body.get("tools", ()) for item in tool.get("functionDeclarations", ())]
    _check_tools(declarations, "parametersJsonSchema", _GEMINI_NAME)
    assert isinstance(contents, list)
    before: list[Body] = []
    for place, content in enumerate(contents):
        refuse(
            content.get("role") not in ("user", "model"), f"contents[{place}]: Please use a valid role: user, model."
        )
        parts: list[Body] = content.get("parts") or []
        refuse(not parts, f"contents[{place}].parts must not be empty")
        _check_parts(parts, place, issued or Issued())
        _check_turn(content, before, place, signed=model.startswith("gemini-3"))
        before = [*contents[: place + 1]]
    refuse(_calls(contents[-1]), "the function calls have no function responses")
    refuse(contents[-1].get("role") != "user", "Please ensure that multiturn requests end with a user role")


def _calls(content: Body) -> list[Body]:
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def _check_parts(parts: list[Body], place: int, issued: Issued) -> None:
    for part in parts:
        unknown = sorted(set(part) - _GEMINI_PART)
        refuse(unknown, f"contents[{place}]: Unknown name {unknown}")
        data = set(part) - {"thought", "thoughtSignature"}
        refuse(len(data) != 1, f"contents[{place}]: a part holds exactly one kind of data, not {sorted(data)}")
        empty = part.get("text") == "" and "thoughtSignature" not in part
        refuse(empty, f"contents[{place}]: a text part must not be empty")
        signature = part.get("thoughtSignature")
        known = signature in (None, DUMMY_SIGNATURE) or not issued.signatures or signature in issued.signatures
        refuse(not known, f"contents[{place}]: Thought signature is not valid")


def _check_turn(content: Body, before: list[Body], place: int, *, signed: bool) -> None:
    calls = _calls(content)
    answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
    open_calls = _calls(before[-1]) if before else []
    if calls:
        refuse(content["role"] != "model" or answers, f"contents[{place}]: a function call is the model's")
        refuse(
            not before or before[-1].get("role") != "user",
            "Please ensure that function call turn comes immediately after a user turn or after a function response"
            " turn.",
        )
        for call in calls:
            refuse(not _GEMINI_NAME.fullmatch(call.get("name", "")), f"contents[{place}]: Invalid function name")
            refuse(not isinstance(call.get("args", {}), dict), f"contents[{place}]: args must be an object")
        first = next(part for part in content["parts"] if "functionCall" in part)
        refuse(signed and "thoughtSignature" not in first, "Function call is missing a thought_signature")
    refuse(
        len(answers) != len(open_calls) and (answers or open_calls),
        "Please ensure that the number of function response parts is equal to the number of function call parts of the"
        " function call turn.",
    )
    for call, answer in zip(open_calls, answers, strict=True):
        _check_function_response(call, answer, place)


def _check_function_response(call: Body, answer: Body, place: int) -> None:
    refuse(
        answer.get("name") != call["name"], f"contents[{place}]: response {answer.get('name')!r} for {call['name']!r}"
    )
    refuse(answer.get("id") != call.get("id"), f"contents[{place}]: the id of a response must be that of its call")
    refuse(not isinstance(answer.get("response"), dict), f"contents[{place}]: response must be an object")
    for part in answer.get("parts", ()):
        kind = part.get("inlineData", {}).get("mimeType")
        refuse(kind not in _GEMINI_MEDIA, f"contents[{place}]: {kind!r} is not supported in a function response")


def _check_gemini_subset(schema: Body, name: object) -> None:
    for part in _subschemas(schema):
        unknown = sorted(set(part) - _GEMINI_SUBSET)
        refuse(unknown, f"{name}: Invalid JSON payload received. Unknown name {unknown}")
        refuse(not isinstance(part.get("type", ""), str), f"{name}: type: Proto field is not repeating")
        refuse(any(not isinstance(item, str) for item in part.get("enum", ())), f"{name}: enum: not a string")
        refuse("anyOf" in part and set(part) - {"anyOf"}, f"{name}: when using any_of, it must be the only field set")


# Tools, everywhere alike


def _check_tools(tools: Any, schema_key: str, name_form: re.Pattern[str] = _OPENAI_NAME) -> None:
    names = [tool.get("name", "") for tool in tools]
    refuse(len(set(names)) < len(names), f"tools: names must be unique: {sorted(names)}")
    for tool in tools:
        refuse(not name_form.fullmatch(tool.get("name", "")), f"tools: {tool.get('name')!r} does not match the pattern")
        schema = tool.get(schema_key)
        refuse(schema_key == "input_schema" and schema is None, "tools: input_schema: Field required")
        if schema is not None:
            _check_root(schema, tool["name"])
            if schema_key == "input_schema":
                names = [key for part in _subschemas(schema) for key in part.get("properties", ())]
                bad = [key for key in names if not _ANTHROPIC_PROPERTY.fullmatch(key)]
                refuse(bad, f"tools: property keys {bad} should match the pattern")
            if tool.get("strict") and schema_key == "parameters":
                _check_strict(schema, tool["name"])


def _check_root(schema: Body, name: str) -> None:
    refuse(schema.get("type") != "object", f"Invalid schema for function '{name}': schema must be of type 'object'")
    above = sorted({"oneOf", "anyOf", "allOf", "enum", "not"} & set(schema))
    refuse(above, f"Invalid schema for function '{name}': no {above} at the top level")
    for part in _subschemas(schema):
        refuse(
            part.get("type") == "array" and "items" not in part and "prefixItems" not in part,
            f"'{name}': array schema missing items",
        )


def _check_strict(schema: Body, name: str) -> None:
    for part in _subschemas(schema):
        refuse(set(part) & _NOT_STRICT, f"'{name}': {sorted(set(part) & _NOT_STRICT)} is not permitted")
        refuse("$ref" in part and len(part) > 1, f"'{name}': $ref cannot have keywords beside it")
        refuse(part.get("format", "date") not in _STRICT_FORMATS, f"'{name}': format {part.get('format')!r}")
        if part.get("type") == "object" or "properties" in part:
            refuse(part.get("additionalProperties") is not False, f"'{name}': 'additionalProperties' must be false")
            complete = set(part.get("required", ())) == set(part.get("properties", ()))
            refuse(not complete, f"'{name}': 'required' must include every key in properties")


def _subschemas(schema: Any) -> Iterator[Body]:
    """This schema and all below it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("items", "additionalProperties", "not"):
        yield from _subschemas(schema.get(key))
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(key, ()):
            yield from _subschemas(part)
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        for part in schema.get(key, {}).values():
            yield from _subschemas(part)


VALIDATORS: Final[dict[Api, Callable[[Body, Issued], None]]] = {
    "openai-chat": check_chat,
    "openai-responses": check_responses,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
}
