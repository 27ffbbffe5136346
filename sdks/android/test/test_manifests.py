"""The manifests say what cetp.md 7 wants, and name classes that exist."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

KIT = Path(__file__).parents[1]
ANDROID = "{http://schemas.android.com/apk/res/android}"
SAMPLE = KIT / "sample" / "myfinance" / "src" / "main"
PROVIDERS = {
    KIT / "manifests" / "provider.xml": "com.example.app.clawseed.tools",
    SAMPLE / "AndroidManifest.xml": "com.example.myfinance.clawseed.tools",
}


def attributes(element: ElementTree.Element | None) -> dict[str, str]:
    assert element is not None
    return {name.removeprefix(ANDROID): value for name, value in element.attrib.items()}


@pytest.mark.parametrize(("manifest", "authority"), PROVIDERS.items(), ids=("template", "sample"))
def test_a_provider_declares_its_service_its_provider_and_its_start_at_boot(manifest: Path, authority: str) -> None:
    root = ElementTree.parse(manifest).getroot()
    service = root.find("application/service")
    assert service is not None
    assert attributes(service) == {"name": ".cetp.ToolProviderService", "exported": "true"}
    assert attributes(service.find("intent-filter/action")) == {"name": "com.clawseed.action.TOOL_PROVIDER"}
    assert [attributes(one) for one in service.findall("meta-data")] == [
        {"name": "com.clawseed.tools.authority", "value": authority},
        {"name": "com.clawseed.tools.version", "value": "1"},
    ]
    assert attributes(root.find("application/provider")) == {
        "name": ".cetp.ToolProvider",
        "authorities": authority,
        "exported": "true",
        "permission": "com.clawseed.permission.ACCESS_TOOLS",
        "initOrder": "100",
    }
    receiver = root.find("application/receiver")
    assert receiver is not None and attributes(receiver)["name"] == ".cetp.BootReceiver"
    assert attributes(receiver.find("intent-filter/action")) == {"name": "android.intent.action.BOOT_COMPLETED"}
    asked = [attributes(one)["name"] for one in root.findall("uses-permission")]
    assert asked == ["android.permission.RECEIVE_BOOT_COMPLETED"]


def test_a_consumer_defines_and_holds_the_permission_and_may_see_providers() -> None:
    root = ElementTree.parse(KIT / "manifests" / "consumer.xml").getroot()
    permission = "com.clawseed.permission.ACCESS_TOOLS"
    assert attributes(root.find("permission")) == {"name": permission, "protectionLevel": "normal"}
    assert permission in [attributes(one)["name"] for one in root.findall("uses-permission")]
    assert attributes(root.find("queries/intent/action")) == {"name": "com.clawseed.action.TOOL_PROVIDER"}


def test_the_sample_is_a_whole_provider_in_about_a_hundred_lines() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in SAMPLE.rglob("*.kt")}
    assert sum(len(text.splitlines()) for text in sources.values()) <= 100
    for name in ("ToolProvider", "ToolProviderService", "BootReceiver", "AuthorizeActivity"):
        assert any(f"class {name} " in text for text in sources.values()), name
