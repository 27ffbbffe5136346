"""The files of the Android app can be read, and its two builds say the same. `make test-android` builds and runs it."""

import re
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
KIT = ROOT / "sdks" / "android"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"


def test_every_manifest_resource_and_pom_is_xml() -> None:
    files = [path for path in KIT.rglob("*.xml") if not {"target", "build"} & set(path.relative_to(KIT).parts)]
    assert len(files) > 20
    for path in files:
        ElementTree.parse(path)


def test_gradle_and_maven_have_the_same_modules_and_versions() -> None:
    pom = ElementTree.parse(KIT / "pom.xml").getroot()
    modules = {str(one.text) for one in pom.iter(f"{MAVEN}module")}
    settings = (KIT / "settings.gradle.kts").read_text(encoding="utf-8")
    assert set(re.findall(r'":(\w+)"', settings)) == modules - {"monitor"}, (
        "Gradle has the library that it stands in for"
    )
    versions = tomllib.loads((KIT / "gradle" / "libs.versions.toml").read_text(encoding="utf-8"))["versions"]
    text = (KIT / "pom.xml").read_text(encoding="utf-8")
    assert f"<kotlin.version>{versions['kotlin']}<" in text
    assert f"<robolectric.version>{versions['robolectric']}<" in text
    for name in ("okhttp", "junit"):
        assert re.search(rf"<artifactId>{name}</artifactId>\s*<version>{re.escape(versions[name])}<", text), name
    for module in modules:
        assert (KIT / module / "pom.xml").exists()
        assert module == "monitor" or (KIT / module / "build.gradle.kts").exists()


def test_every_file_of_kotlin_names_the_package_of_its_folder() -> None:
    for path in KIT.glob("*/src/main/kotlin/org/**/*.kt"):
        package = ".".join(path.parent.relative_to(next(one for one in path.parents if one.name == "kotlin")).parts)
        assert path.read_text(encoding="utf-8").startswith(f"package {package}\n"), path


def test_the_script_is_one_of_bash() -> None:
    subprocess.run(("bash", "-n", str(ROOT / "scripts" / "android-test")), check=True)
