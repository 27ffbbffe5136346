"""The manifests say what cetp.md 7 wants and what Android asks for, and name classes that exist."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

KIT = Path(__file__).parents[1]
ANDROID = "{http://schemas.android.com/apk/res/android}"
APP = KIT / "app" / "src"
MODULES = ("client", "provider", "bridge", "sample", "app")
PERMISSION = "com.clawseed.permission.ACCESS_TOOLS"


def attributes(element: ElementTree.Element | None) -> dict[str, str]:
    assert element is not None
    return {name.removeprefix(ANDROID): value for name, value in element.attrib.items()}


def manifest(module: str) -> ElementTree.Element:
    return ElementTree.parse(KIT / module / "src" / "main" / "AndroidManifest.xml").getroot()


def names(root: ElementTree.Element, path: str) -> list[str]:
    return [attributes(one)["name"] for one in root.findall(path)]


def code(module: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((KIT / module / "src" / "main").rglob("*.kt")))


def test_a_provider_declares_its_service_its_provider_and_its_start_at_boot() -> None:
    root = manifest("sample")
    service = root.find("application/service")
    assert service is not None
    assert attributes(service) == {"name": ".cetp.ToolProviderService", "exported": "true"}
    assert attributes(service.find("intent-filter/action")) == {"name": "com.clawseed.action.TOOL_PROVIDER"}
    authority = "com.example.myfinance.clawseed.tools"
    assert [attributes(one) for one in service.findall("meta-data")] == [
        {"name": "com.clawseed.tools.authority", "value": authority},
        {"name": "com.clawseed.tools.version", "value": "1"},
    ]
    assert attributes(root.find("application/provider")) == {
        "name": ".cetp.ToolProvider",
        "authorities": authority,
        "exported": "true",
        "permission": PERMISSION,
        "initOrder": "100",
    }
    receiver = root.find("application/receiver")
    assert receiver is not None and attributes(receiver)["name"] == ".cetp.BootReceiver"
    assert attributes(receiver.find("intent-filter/action")) == {"name": "android.intent.action.BOOT_COMPLETED"}
    assert names(root, "uses-permission") == ["android.permission.RECEIVE_BOOT_COMPLETED"]


def test_a_consumer_defines_and_holds_the_permission_and_may_see_providers() -> None:
    assert attributes(manifest("app").find("permission")) == {"name": PERMISSION, "protectionLevel": "normal"}
    for module in ("app", "bridge"):
        root = manifest(module)
        assert PERMISSION in names(root, "uses-permission")
        assert "com.clawseed.action.TOOL_PROVIDER" in names(root, "queries/intent/action")


def test_the_sample_is_a_whole_provider_in_about_a_hundred_lines() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (KIT / "sample" / "src" / "main").rglob("*.kt")}
    assert sum(len(text.splitlines()) for text in sources.values()) <= 100
    for name in ("ToolProvider", "ToolProviderService", "BootReceiver", "AuthorizeActivity"):
        assert any(f"class {name} " in text for text in sources.values()), name


@pytest.mark.parametrize("module", MODULES)
def test_every_class_of_a_manifest_is_there(module: str) -> None:
    text = code(module) + (code("client") if module == "app" else "")
    for kind in (
        "application",
        "application/activity",
        "application/service",
        "application/receiver",
        "application/provider",
    ):
        for element in manifest(module).findall(kind):
            if name := attributes(element).get("name"):
                assert re.search(rf"\bclass {name.rpartition('.')[2]}\b", text), name


def test_the_service_s_types_are_declared_with_their_permissions() -> None:
    root = manifest("app")
    services = {attributes(one)["name"]: attributes(one) for one in root.findall("application/service")}
    types = services["org.handspan.app.DeviceService"]["foregroundServiceType"].split("|")
    assert types == ["connectedDevice", "camera", "location"]
    asked = names(root, "uses-permission")
    for kind in ("CONNECTED_DEVICE", "CAMERA", "LOCATION"):
        assert f"android.permission.FOREGROUND_SERVICE_{kind}" in asked
    assert "android.permission.CHANGE_NETWORK_STATE" in asked, "Android 14 wants it for connectedDevice"


def test_only_the_variant_that_is_not_for_stores_asks_for_text_messages() -> None:
    full = ElementTree.parse(APP / "full" / "AndroidManifest.xml").getroot()
    assert names(full, "uses-permission") == ["android.permission.READ_SMS", "android.permission.SEND_SMS"]
    assert not any("SMS" in name for name in names(manifest("app"), "uses-permission"))
    assert "SmsManager" not in code("app")


def test_what_others_may_start_is_only_what_must_be() -> None:
    root = manifest("app")
    exported = [
        attributes(one)["name"].rpartition(".")[2]
        for one in root.findall("application/*")
        if attributes(one).get("exported") == "true"
    ]
    assert exported == ["MainActivity", "PairActivity"]


def test_every_text_is_in_the_resources_and_none_is_left_over() -> None:
    resources = APP / "main" / "res"
    strings = ElementTree.parse(resources / "values" / "strings.xml").getroot()
    defined = {one.attrib["name"] for one in strings.findall("string")}
    sources = [*APP.glob("*/kotlin/**/*.kt"), *resources.rglob("*.xml"), APP / "main" / "AndroidManifest.xml"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    used = set(re.findall(r"(?:(?<!android\.)R\.string\.|@string/)(\w+)", text))
    assert used == defined
    for layout in (resources / "layout").glob("*.xml"):
        for element in ElementTree.parse(layout).getroot().iter():
            words = element.attrib.get(f"{ANDROID}text", "@string/")
            assert words.startswith("@string/"), f"{layout.name}: {words}"


def test_nothing_of_androidx_is_used() -> None:
    for module in (*MODULES, "json"):
        assert "androidx" not in code(module), module
