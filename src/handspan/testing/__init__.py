"""DOUBLES AS PRODUCT: test your tools and devices the way that we test ours.

Holds:   a gateway in this process (`gateway.py`: `running_gateway`, read it first) or in a process of its own that can
         be killed (`process.py`: `GatewayProcess`); devices under full control (`device.py`: `FakeDevice`, frame by
         frame; `device_logic.py`: `DeviceLogic`, which answers by a function); a provider of CETP that fails in every
         way (`provider.py`: `FakeProvider`); a proxy that breaks connections
         (`proxy.py`: `FaultProxy`; `proxy_link.py` is one connection of it). Models: `spoken.py`: `Spoken` does what
         the person's message says (`python -m handspan.testing` serves it); `handspan.models.scripted.Scripted` plays
         a script.
Imports: gateway, models, config, core.
To add:  one file for each double, with tests of its own; it must work for a person who has only the wheel.
"""

from handspan.testing.device import FakeDevice, NotSaid, offer
from handspan.testing.device_logic import DeviceLogic, DeviceMemory, DeviceRequest, Repeated, Silence
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.process import GatewayProcess
from handspan.testing.provider import FakeProvider
from handspan.testing.proxy import FaultProxy
from handspan.testing.spoken import Spoken

__all__ = [
    "DeviceLogic",
    "DeviceMemory",
    "DeviceRequest",
    "FakeDevice",
    "FakeProvider",
    "FaultProxy",
    "GatewayProcess",
    "NotSaid",
    "Repeated",
    "RunningGateway",
    "Silence",
    "Spoken",
    "offer",
    "running_gateway",
]
