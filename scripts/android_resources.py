"""Compiles the manifest and the resources of the Android app with Debian's `aapt`, for the tests on a JVM.

Writes below `sdks/android/app/target`: `R.java`, the resources as Robolectric loads them, and where it finds them.
Gradle does the same with its own tools. Argument: the jar of Android's framework with the resources that `aapt` can
read (Android 13; newer ones have a form that it does not know). What only later versions have (`values-v35`) is left
out here.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

APP = Path(__file__).parents[1] / "sdks" / "android" / "app"
BUILT = APP / "target"
NEWER = ("values-v35",)


def main(framework: Path) -> None:
    base = repack(framework)
    manifest = with_package(APP / "src" / "main" / "AndroidManifest.xml", BUILT / "aapt" / "main")
    check(with_package(APP / "src" / "full" / "AndroidManifest.xml", BUILT / "aapt" / "full"), base)
    resources = BUILT / "aapt" / "res"
    shutil.rmtree(resources, ignore_errors=True)
    shutil.copytree(APP / "src" / "main" / "res", resources, ignore=shutil.ignore_patterns(*NEWER))
    code = BUILT / "generated" / "r"
    code.mkdir(parents=True, exist_ok=True)
    compiled = BUILT / "aapt" / "app.ap_"
    aapt("-M", manifest, "-S", resources, "-I", base, "-J", code, "-F", compiled)
    write_config(manifest, compiled)


def repack(framework: Path) -> Path:
    """The framework's resources alone: `aapt` can't open a jar of that size."""
    packed = BUILT / "aapt" / f"{framework.stem}.apk"
    if not packed.exists():
        packed.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(framework) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as small:
            for name in ("resources.arsc", "AndroidManifest.xml"):
                small.writestr(name, whole.read(name))
    return packed


def with_package(manifest: Path, folder: Path) -> Path:
    """A copy that names the app's package, as `aapt` wants it and Gradle does not."""
    folder.mkdir(parents=True, exist_ok=True)
    copied = folder / "AndroidManifest.xml"
    text = manifest.read_text(encoding="utf-8")
    copied.write_text(text.replace("<manifest ", '<manifest package="org.handspan.app" ', 1), encoding="utf-8")
    return copied


def check(manifest: Path, base: Path) -> None:
    aapt("-M", manifest, "-I", base, "-F", manifest.with_suffix(".ap_"))


def aapt(*words: object) -> None:
    versions = (
        "--min-sdk-version",
        "26",
        "--target-sdk-version",
        "35",
        "--version-code",
        "1",
        "--version-name",
        "0.1.0",
    )
    done = subprocess.run(
        ("aapt", "package", "-f", *map(str, words), *versions), capture_output=True, text=True, check=False
    )
    # The framework has more overlays than this `aapt` knows; what it says about them is no fault of the app.
    problems = [line for line in done.stderr.splitlines() if "ResourceType W" not in line and line.strip()]
    if done.returncode or problems:
        sys.exit("android: aapt refuses the app:\n" + "\n".join(problems))


def write_config(manifest: Path, compiled: Path) -> None:
    """The file by which Robolectric finds what was compiled: Gradle writes the same one."""
    config = BUILT / "robolectric" / "com" / "android" / "tools" / "test_config.properties"
    config.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "android_merged_manifest": manifest,
        "android_resource_apk": compiled,
        "android_custom_package": "org.handspan.app",
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in found.items()), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
