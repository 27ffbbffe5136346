"""Web Push as bytes: the example of RFC 8291, and other implementations that read what we write (SPEC J4)."""

import subprocess
from pathlib import Path

import http_ece
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key, generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from py_vapid import Vapid02

from handspan.core.errors import WireError
from handspan.gateway.push.encryption import BrowserKeys, SenderKey, encrypt, read_base64, write_base64
from tests.waiting import WAIT

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "tests/node/node_modules"

# RFC 8291, appendix A.
TEXT = b"When I grow up, I want to be a watermelon"
THEIR_PUBLIC = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
THEIR_PRIVATE = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
OUR_PRIVATE = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
    "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def private_key(text: str) -> object:
    return derive_private_key(int.from_bytes(read_base64(text)), SECP256R1())


def test_the_example_of_the_rfc_comes_out_byte_by_byte() -> None:
    own = derive_private_key(int.from_bytes(read_base64(OUR_PRIVATE)), SECP256R1())
    body = encrypt(TEXT, BrowserKeys.read(THEIR_PUBLIC, AUTH), own=own, salt=read_base64(SALT))
    assert write_base64(body) == BODY


@given(st.binary(max_size=3900))
def test_another_implementation_reads_every_text(text: bytes) -> None:
    body = encrypt(text, BrowserKeys.read(THEIR_PUBLIC, AUTH))
    key = private_key(THEIR_PRIVATE)
    assert http_ece.decrypt(body, private_key=key, auth_secret=read_base64(AUTH), version="aes128gcm") == text
    assert len(body) <= 4096


@pytest.mark.outside
@pytest.mark.skipif(not PARTS.is_dir(), reason="run scripts/node-parts first")
def test_the_library_of_npm_reads_the_text_and_accepts_the_signature() -> None:
    body = encrypt("Grüße 🍉".encode(), BrowserKeys.read(THEIR_PUBLIC, AUTH))
    given = {"private": THEIR_PRIVATE, "auth": AUTH, "body": write_base64(body)}
    given["authorization"] = SenderKey(b"s" * 32).sign("https://push.example", "mailto:a@example.com", 1_800_000_000)
    done = subprocess.run(
        [ROOT / "scripts/node", PARTS.parent / "push.mjs"],
        input=msgspec.json.encode(given),
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert msgspec.json.decode(done.stdout) == {"text": "Grüße 🍉", "isValid": True, "isSame": True}


def test_two_messages_share_nothing_that_can_be_seen() -> None:
    keys = BrowserKeys.read(THEIR_PUBLIC, AUTH)
    first, second = encrypt(TEXT, keys), encrypt(TEXT, keys)
    assert first[:16] != second[:16] and first[21:86] != second[21:86] and first[86:] != second[86:]


def test_a_message_for_one_browser_is_not_readable_for_another_one() -> None:
    body = encrypt(TEXT, BrowserKeys.read(THEIR_PUBLIC, AUTH))
    with pytest.raises(http_ece.ECEException):
        http_ece.decrypt(
            body, private_key=generate_private_key(SECP256R1()), auth_secret=read_base64(AUTH), version="aes128gcm"
        )


def test_another_implementation_accepts_the_signature_and_the_claims_are_those_of_the_service() -> None:
    key = SenderKey(b"s" * 32)
    header = key.sign("https://push.example", "mailto:ann@example.com", 1_800_000_000)
    assert Vapid02.verify(header)
    claims = msgspec.json.decode(read_base64(header.split(".")[1]))
    assert claims == {"aud": "https://push.example", "exp": 1_800_000_000, "sub": "mailto:ann@example.com"}
    assert header.endswith(f",k={key.public}") and len(read_base64(key.public)) == 65


def test_the_same_secret_gives_the_same_key() -> None:
    assert SenderKey(b"s" * 32).public == SenderKey(b"s" * 32).public != SenderKey(b"t" * 32).public


off_curve = write_base64(b"\x04" + bytes(63) + b"\x05")


@pytest.mark.parametrize(
    ("public", "auth"),
    [
        ("", AUTH),
        ("BB", AUTH),
        (off_curve, AUTH),
        ("é" * 87, AUTH),
        (THEIR_PUBLIC[:-4], AUTH),
        (THEIR_PUBLIC, ""),
        (THEIR_PUBLIC, AUTH[:-4]),
        (THEIR_PUBLIC, AUTH * 3),
        (THEIR_PUBLIC, "é"),
    ],
)
def test_keys_that_are_none_are_refused(public: str, auth: str) -> None:
    with pytest.raises(WireError, match=r"key '(p256dh|auth)' is not"):
        BrowserKeys.read(public, auth)
