"""Signatures of webhooks: over time and body, for five minutes."""

import pytest

from handspan.channels.webhook import SIGNATURE_HEADER, TIME_HEADER, check_signature, sign
from handspan.core.errors import WireError

SECRET, BODY, NOW = "sixteen characters", b'{"sender_id":"1"}', 1_800_000_000


def signed(at: int = NOW) -> tuple[str, str]:
    headers = sign(SECRET, BODY, at)
    return headers[TIME_HEADER], headers[SIGNATURE_HEADER]


def test_the_signature_is_the_one_that_the_document_shows() -> None:
    """docs/channels.md has this example; `openssl dgst -sha256 -hmac` gives the same."""
    moment, signature = signed()
    assert moment == "1800000000"
    assert signature == "v1=816444a49d8bd6ec0f3f40852a1619e693bdfcf5f974527fefb8a9daffc3dafb"
    assert check_signature(SECRET, BODY, moment, signature, NOW) == signature.removeprefix("v1=")


@pytest.mark.parametrize("late", [301, -301, 10**9])
def test_a_signature_is_good_for_five_minutes(late: int) -> None:
    moment, signature = signed()
    assert check_signature(SECRET, BODY, moment, signature, NOW + 300)
    with pytest.raises(WireError, match="older than 300 s"):
        check_signature(SECRET, BODY, moment, signature, NOW + late)


@pytest.mark.parametrize(
    ("secret", "body", "moment", "signature", "says"),
    [
        ("another secret here", BODY, *signed(), "signature is wrong"),
        (SECRET, BODY + b" ", *signed(), "signature is wrong"),
        (SECRET, BODY, str(NOW + 1), signed()[1], "signature is wrong"),
        (SECRET, BODY, signed()[0], "v1=" + "ü" * 64, "signature is wrong"),
        (SECRET, BODY, "", signed()[1], "Sign the request"),
        (SECRET, BODY, signed()[0], "", "Sign the request"),
        (SECRET, BODY, "1e9", signed()[1], "Sign the request"),
        (SECRET, BODY, "9" * 40, signed()[1], "Sign the request"),
        (SECRET, BODY, "١٢٣", signed()[1], "Sign the request"),
    ],
)
def test_what_is_not_signed_so_is_refused(secret: str, body: bytes, moment: str, signature: str, says: str) -> None:
    with pytest.raises(WireError, match=says):
        check_signature(secret, body, moment, signature, NOW)
