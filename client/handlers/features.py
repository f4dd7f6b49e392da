"""Questions of a feature's part on the server, answered by its part at the node."""

from __future__ import annotations

from flwr.app import Message, RecordDict

from client.node_feature import features_of
from client.owner.error_disclosure import Withheld, is_private
from client.owner.guards import guarded
from client.owner.owner_refusals import NOT_MEASURED
from client.request import Request
from fedlearn import flower, wire
from fedlearn.core.errors import Refused


def asked(request: Request) -> Message:
    """Return what the feature that a message names answers.

    Raises
    ------
    Withheld
        If the model is private: no budget covers what the answer would say of the examples.
    Refused
        If the node has no such feature.
    """
    with guarded(request):
        if is_private(request.config):
            raise Withheld(NOT_MEASURED)
        name = wire.asked_feature(request.content)
        found = next((each for each in features_of(request.config) if name and each.name == name), None)
        if found is None:
            raise Refused("undecodable", f"this client has no feature {name[:40]!r} that is asked anything")
        records = wire.packed_parcels(found.asked(request))
        answer = Message(flower.filled(RecordDict(), records), reply_to=request.message)
        request.keep_memory()
        return answer
