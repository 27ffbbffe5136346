"""Three nodes as one while their parts fail: real gateways, real engines, devices of both SDKs, chats and pages.

Holds:   `fleet.py`, the nodes and what they stand on; `child.py`, a gateway process that fails where a test wants it;
         `load.py`, what works meanwhile; `promises.py`, what has to be true afterwards. The other files are scenarios.
To add:  a scenario is a function that disturbs a fleet; `drill.py` runs it under load and holds it to the promises.
"""
