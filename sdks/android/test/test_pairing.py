"""Pairing over https with a gateway that has a root of its own: by the fingerprint in the link (SPEC S5)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sdks.android.test.conftest import classpath_of
from sdks.android.test.kotlin_client import Jvm
from tests.bridge.desk import offered, value

from handspan.core.principals import OPERATOR
from handspan.gateway.entry.pairing import pairing_url
from handspan.gateway.serving.lan_certificates import LanCertificates
from handspan.gateway.serving.listening import TLS_FOLDER
from handspan.testing import RunningGateway, running_gateway

pytestmark = pytest.mark.anyio


@pytest.fixture
def certificates(tmp_path: Path) -> LanCertificates:
    made = LanCertificates(tmp_path / "state" / TLS_FOLDER)
    made.renew()
    return made


@pytest.fixture
async def gateway(tmp_path: Path, certificates: LanCertificates) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path, gateway={"tls_cert": certificates.certificate}) as running:
        yield running


@pytest.fixture
async def phone() -> AsyncIterator[Jvm]:
    running = await Jvm.start(classpath_of("client"), "org.handspan.test.PairMainKt")
    yield running
    await running.close()


async def link_of(gateway: RunningGateway, pin: str | None) -> str:
    made = await gateway.gateway.parts.pairing.new_code(OPERATOR, ("device", "admin"))
    return pairing_url(gateway.url, made.code, pin)


async def told(phone: Jvm, event: str) -> str:
    while (found := await phone.event())["event"] != event:
        assert found["event"] != "refused", found
    return str(found["text"])


async def test_the_link_s_fingerprint_is_the_only_thing_that_is_trusted(
    gateway: RunningGateway, certificates: LanCertificates, phone: Jvm
) -> None:
    assert gateway.url.startswith("https://")
    pin = certificates.pin_for(gateway.url)
    assert pin is not None
    phone.tell(link=await link_of(gateway, pin[:-1] + ("A" if pin[-1] != "A" else "B")))
    assert "another certificate than the link names" in (await phone.event())["text"]
    phone.tell(link=await link_of(gateway, None))
    assert (await phone.event())["event"] == "refused", "the phone does not trust it by itself"
    phone.tell(link=await link_of(gateway, pin))
    assert await told(phone, "paired") == certificates.fingerprint()
    assert (await told(phone, "sign_in")).startswith(f"{gateway.url}/signin?code=")
    await offered(gateway, "phone__ping")
    assert await value(gateway, "phone__ping") == "pong"
