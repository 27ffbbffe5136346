"""What each message of another node means: it is decoded, and given to the part that it is for (SPEC K)."""

from typing import Final, Protocol

from msgspec.msgpack import Decoder

from handspan.gateway.nodes.client_rows import ClientRows
from handspan.gateway.nodes.clients_elsewhere import ClientsElsewhere
from handspan.gateway.nodes.forwarded import KINDS
from handspan.gateway.nodes.forwarding import RequestForwarding
from handspan.gateway.nodes.servers import SharedServers, is_server
from handspan.sources.nodes import messages
from handspan.sources.nodes.mirrors import Mirrors

_to_client: Final = Decoder(messages.ToClient)
_from_client: Final = Decoder(messages.FromClient)
_gone: Final = Decoder(messages.ClientLost)
_moved: Final = Decoder(messages.ClientMoved)
_dismissed: Final = Decoder(messages.ClientDismissed)
_turn: Final = Decoder(messages.TurnOffered)
_probe: Final = Decoder(messages.Probe)
_question: Final = Decoder(messages.CallQuestion)
_answer: Final = Decoder(messages.CallAnswer)
_trust: Final = Decoder(messages.TrustServer)


class MessageTargets(Protocol):
    """The parts of this node that get the messages of other nodes."""

    client_rows: ClientRows
    mirrors: Mirrors
    servers: SharedServers
    clients: ClientsElsewhere
    forwarding: RequestForwarding

    def take_over_turn(self, offered: messages.TurnOffered) -> None:
        """Go on with a turn that was offered to this node."""


def take_message(targets: MessageTargets, kind: str, body: bytes) -> bytes | None:
    """Do what a message says. Return the response, if the message is a request. Raises `msgspec.DecodeError`."""
    match kind:
        case messages.TO_CLIENT:
            message = _to_client.decode(body)
            (targets.servers if is_server(message.peer) else targets.client_rows).deliver(message)
        case messages.FROM_CLIENT:
            targets.mirrors.receive(_from_client.decode(body))
        case messages.GONE:
            targets.mirrors.lose(_gone.decode(body))
        case messages.MOVED:
            targets.clients.move(_moved.decode(body))
        case messages.DISMISS:
            targets.clients.dismiss_here(_dismissed.decode(body))
        case messages.TURN:
            targets.take_over_turn(_turn.decode(body))
        case messages.PROBE:
            return messages.encode(_answer_probe(targets, _probe.decode(body)))
        case messages.ASK:
            targets.servers.receive_question(_question.decode(body))
        case messages.ANSWER:
            targets.servers.receive_answer(_answer.decode(body))
        case messages.TRUST:
            return targets.servers.trust(_trust.decode(body))
        case _ if kind in KINDS:
            return targets.forwarding.take(kind, body)
    return None


def _answer_probe(targets: MessageTargets, asked: messages.Probe) -> messages.Probed:
    """Ask the rows of clients and the shared servers for their part of the probe, and join the two answers."""
    servers = tuple(one for one in asked.clients if is_server(one.peer))
    clients = tuple(one for one in asked.clients if not is_server(one.peer))
    first = targets.client_rows.probe(messages.Probe(asked.sender, clients))
    second = targets.servers.probe(messages.Probe(asked.sender, servers))
    return messages.Probed(first.unknown + second.unknown, first.gone + second.gone, first.moving + second.moving)
