"""A phone-like device with the seed's four tools, in the seed's builder form. What it tells is made up.

python -m examples.phone --url http://127.0.0.1:42617 --token TOKEN [--check]
"""

import random
from typing import Any

from examples.gateway import arguments, call, run, show
from examples.phone.photo import photo
from handspan import READ_ONLY, ToolSpec
from handspan.client import Client, Image, PermissionQuestion, ToolCallRequest, ToolCallResult

DEVICE_INFO = ToolSpec(
    "device_info",
    "Get device information",
    {"type": "object", "properties": {}, "required": []},
    annotations=READ_ONLY,
)
CAMERA = ToolSpec(
    "camera",
    "Take a photo",
    {"type": "object", "properties": {"quality": {"type": "string", "enum": ["low", "high"]}}, "required": []},
    permissions=("android.permission.CAMERA",),
    annotations=READ_ONLY,
)
CONTACTS = ToolSpec(
    "contacts",
    "Query phone contacts",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    annotations=READ_ONLY,
)
SENSORS = ToolSpec(
    "sensors",
    "Read sensor data",
    {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["accelerometer", "gyroscope", "gps"]}},
        "required": ["type"],
    },
    annotations=READ_ONLY,
)
PEOPLE = {
    "Ada Lovelace": "+44 20 7946 0101",
    "Alan Turing": "+44 20 7946 0142",
    "Grace Hopper": "+1 202 555 0143",
    "Konrad Zuse": "+49 30 23125 104",
}


def handle(request: ToolCallRequest) -> Any:
    """One function for all tools, as the seed has it. An exception would be answered, too."""
    match request.name:
        case "device_info":
            return ToolCallResult.Success({"manufacturer": "Google", "model": "Pixel 8", "android_version": "14"})
        case "camera":
            width, height = (640, 360) if request.args.get("quality") == "high" else (160, 90)
            return Image(photo(width, height), name="photo.png")
        case "contacts":
            query = str(request.args["query"]).casefold()
            found = (name for name in PEOPLE if query in name.casefold())
            return ToolCallResult.Success([{"name": name, "phone": PEOPLE[name]} for name in found])
        case "sensors":
            return ToolCallResult.Success(read_sensor(str(request.args["type"])))
    return ToolCallResult.Failure("unknown tool")


def read_sensor(kind: str) -> dict[str, Any]:
    """What a phone that lies on a desk in Berlin would measure."""
    if kind == "gps":
        return {"latitude": 52.52 + random.gauss(0, 1e-5), "longitude": 13.405 + random.gauss(0, 1e-5), "accuracy": 4.8}
    at_rest, unit = ((0.0, 0.0, 9.81), "m/s²") if kind == "accelerometer" else ((0.0, 0.0, 0.0), "rad/s")
    return {**dict(zip("xyz", (round(random.gauss(axis, 0.02), 4) for axis in at_rest), strict=True)), "unit": unit}


def ask(question: PermissionQuestion) -> Any:
    """Where a real phone shows its own prompt."""
    show(f"{question.tool} wants {question.permission}: allowed")
    return "allow"


async def check(url: str, token: str, label: str) -> None:
    """Call each tool as an agent would, and look at what comes."""
    info = await call(url, token, f"{label}__device_info")
    assert info["result"]["model"] == "Pixel 8", info
    taken = await call(url, token, f"{label}__camera", quality="high")
    assert taken["attachments"][0]["media_type"] == "image/png", taken
    found = await call(url, token, f"{label}__contacts", query="ada")
    assert [one["name"] for one in found["result"]] == ["Ada Lovelace"], found
    place = await call(url, token, f"{label}__sensors", type="gps")
    assert abs(place["result"]["latitude"] - 52.52) < 1, place
    wrong = await call(url, token, f"{label}__sensors", type="nose")
    assert wrong["code"] == "invalid_arguments", wrong
    show(f"device_info: {info['result']}\ncamera: {taken['attachments'][0]['bytes']} bytes")
    show(f"contacts: {found['result']}\nsensors: {place['result']}")


async def main() -> None:
    """Be a phone."""
    given = arguments("A phone-like device with four tools.").parse_args()
    client = (
        Client.builder(given.url)
        .auth_token(given.token)
        .device("phone")
        .register_tool(DEVICE_INFO)
        .register_tool(CAMERA)
        .register_tool(CONTACTS)
        .register_tool(SENSORS)
        .tool_call_handler(handle)
        .ask_permission(ask)
        .on_connected(lambda: show("connected"))
        .on_disconnected(lambda: show("disconnected"))
        .build()
    )
    if not given.check:
        await client.run()
        return
    async with client:
        await check(given.url, given.token, client.label)


if __name__ == "__main__":
    run(main())
