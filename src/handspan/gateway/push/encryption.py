"""Web Push as bytes: a message that only one browser can read (RFC 8291), and who sends it (VAPID, RFC 8292)."""

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    derive_private_key,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

from handspan.core.errors import WireError

_RECORD_BYTES: Final = 4096
"""RFC 8291 4: push services take messages of this size, and one record is all of it."""
_AUTH_BYTES: Final = 16
_LAST_RECORD: Final = b"\x02"
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the curve P-256: a private key is a number from 1 to one less than this."""
_HEADER: Final = b'{"typ":"JWT","alg":"ES256"}'


class BrowserKeys(Struct, frozen=True):
    """The keys of one browser's subscription, with which a message for it is encrypted."""

    public: EllipticCurvePublicKey
    auth: bytes

    @classmethod
    def read(cls, p256dh: str, auth: str) -> "BrowserKeys":
        """Return the keys as the browser names them, in base64url. Raises `WireError` for others."""
        try:
            public = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), read_base64(p256dh))
        except ValueError:
            raise WireError("The key 'p256dh' is not a point of P-256 in base64url.") from None
        try:
            keys = cls(public, read_base64(auth))
        except ValueError:
            keys = cls(public, b"")
        if len(keys.auth) != _AUTH_BYTES:
            raise WireError(f"The key 'auth' is not {_AUTH_BYTES} bytes in base64url.")
        return keys


def encrypt(text: bytes, keys: BrowserKeys, *, own: EllipticCurvePrivateKey | None = None, salt: bytes = b"") -> bytes:
    """Return the body of a push message. `own` and `salt` are new for each message; tests name those of the RFC."""
    own, salt = own or generate_private_key(SECP256R1()), salt or os.urandom(16)
    ours, theirs = _point(own.public_key()), _point(keys.public)
    shared = own.exchange(ECDH(), keys.public)
    secret = _derive(keys.auth, shared, b"WebPush: info\0" + theirs + ours, 32)  # RFC 8291 3.4
    key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)  # RFC 8188 2.2
    nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)
    head = salt + _RECORD_BYTES.to_bytes(4) + bytes([len(ours)]) + ours
    return head + AESGCM(key).encrypt(nonce, text + _LAST_RECORD, None)


class SenderKey:
    """The key with which this gateway shows a push service that it may send (VAPID)."""

    def __init__(self, secret: bytes) -> None:
        """The same secret gives the same key. Browsers bind their subscriptions to it."""
        number = int.from_bytes(hashlib.sha512(secret).digest()) % (_ORDER - 1) + 1
        self._key = derive_private_key(number, SECP256R1())
        self.public = write_base64(_point(self._key.public_key()))
        """`applicationServerKey` of browsers."""

    def sign(self, origin: str, contact: str, expires: int) -> str:
        """Return the header `Authorization` for a push service at this origin, valid until then (a time of day)."""
        claims = msgspec.json.encode({"aud": origin, "exp": expires, "sub": contact})
        text = f"{write_base64(_HEADER)}.{write_base64(claims)}"
        r, s = decode_dss_signature(self._key.sign(text.encode(), ECDSA(SHA256())))
        return f"vapid t={text}.{write_base64(r.to_bytes(32) + s.to_bytes(32))},k={self.public}"


def read_base64(text: str) -> bytes:
    """Return the bytes that are written in base64url, with or without its padding. Raises `ValueError`."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def write_base64(data: bytes) -> str:
    """Return the bytes in base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _point(key: EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """Return a key of at most 32 bytes, by HKDF with SHA-256 (RFC 5869): for so few bytes it is one round."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:length]
