"""The certificates of this system, read once. It takes longer than most tests, and every HTTP client does it."""

import functools
import os
import ssl

import httpcore2


def read_certificates_once() -> None:
    """Let all HTTP clients of this process share what they trust, as long as the environment names the same."""
    read = httpcore2.default_ssl_context

    @functools.cache
    def read_as_named(trust_env: bool, _file: str | None, _folder: str | None) -> ssl.SSLContext:
        return read(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        return read_as_named(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    httpcore2.default_ssl_context = shared
