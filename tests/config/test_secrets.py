"""Keys: found where the settings point to, and shown nowhere."""

from pathlib import Path

import pytest

from handspan.config.secrets import read_secret
from handspan.core.errors import ConfigError


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("env:MISSING", "models.x.key: the environment variable 'MISSING' is not set"),
        ("env:BLANK", "models.x.key: the environment variable 'BLANK' is not set"),
        ("file:key.txt", "models.x.key: 'key.txt' is a relative path"),
        ("file:~/missing", "models.x.key: the file '~/missing' can't be read: No such file or directory"),
        ("file:~/", "can't be read: Is a directory"),
        ("file:~/binary", "can't be read: it is not a text file"),
        ("file:~/empty", "models.x.key: the file '~/empty' is empty"),
        ("file:/a\0b", "can't be read: it is not a text file"),
    ],
)
def test_a_key_that_is_not_there_is_an_error_that_names_the_place(tmp_path: Path, reference: str, problem: str) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(ConfigError) as refused:
        read_secret(reference, {"HOME": str(tmp_path), "BLANK": " "}, "models.x.key")
    assert problem in str(refused.value)


def test_a_key_may_stand_in_a_variable_a_file_or_the_settings(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  s3cret\n")
    environ = {"HOME": str(tmp_path), "KEY": " s3cret "}
    for reference in ("env:KEY", "file:~/key", f"file:{tmp_path / 'key'}", " s3cret "):
        assert read_secret(reference, environ, "key") == "s3cret"
    assert read_secret("", environ, "key") == ""
