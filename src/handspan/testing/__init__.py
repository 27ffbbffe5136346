"""DOUBLES AS PRODUCT: test your tools and devices the way that we test ours.

Holds:   a gateway in this process (`running_gateway`) or in one of its own that can be killed (`GatewayProcess`);
         devices under full control (`FakeDevice`, `DeviceLogic`); a proxy that breaks connections (`FaultProxy`).
         Models: `Spoken` does what the person's message says (`python -m handspan.testing` serves it);
         `handspan.models.scripted.Scripted` plays a script.
Imports: everything but the command line.
To add:  one file a double, with tests of its own; it must be usable by somebody who has only the wheel.
"""

from handspan.testing.device import FakeDevice, NotSaid, offer
from handspan.testing.device_logic import DeviceLogic, DeviceMemory, DeviceRequest, Repeated, Silence
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.process import GatewayProcess
from handspan.testing.proxy import FaultProxy
from handspan.testing.spoken import Spoken

__all__ = [
    "DeviceLogic",
    "DeviceMemory",
    "DeviceRequest",
    "FakeDevice",
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
