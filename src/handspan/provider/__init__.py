"""THE CETP PROVIDER KIT: an app's data as read-only tools for any consumer of CETP (`protocol/cetp.md`).

Holds:   `provider.py` (`Provider`: tools by a decorator, and the answer to each request); read it first. `access.py`:
         which programs may read, `answers.py`: how often, and answers that are given again. `server.py` serves a
         provider on a Unix socket, `peer.py` knows the program at the other end, `command.py` is the
         provider's own command line. For consumers: `manifests.py` finds providers, `connection.py` calls one,
         `launch.py` starts one.
Imports: wire, core. Beside what these need, `h11`: a parser of HTTP, for both ends.
To add:  a rule for consumers in `access.py`; a method of the protocol in `Provider.answer`, after its clause.
"""

from handspan.provider.access import Access
from handspan.provider.peer import Consumer
from handspan.provider.provider import Provider
from handspan.wire.cetp import ProviderError

__all__ = ["Access", "Consumer", "Provider", "ProviderError"]
