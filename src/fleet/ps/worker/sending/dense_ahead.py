"""Dense gradients that leave for the servers while backward still runs, bucket by bucket.

A bucket is a span of what a server gets of one dense group. When backward has left the last gradient of a bucket, a
copy of it goes to the server's connection, and the push that follows says where it belongs. Whether that may be done
is not decided here: what the push holds is compared with what was sent, byte for byte, and sent again where it differs
(`csrc/plane/ahead.h`). So nothing depends on this but speed, whatever is done to gradients between backward and step.

What is decided here is when a gradient is likely to be final. A parameter that gets several gradients before a step is
waited for as often as in the step before. Where most of what was sent turns out to have been changed, as clipping does,
nothing is sent for a while.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch

from fleet.ps.wire.transport import TakesAhead
from fleet.ps.worker.parts.contract import Done, StepPart, Update
from fleet.ps.worker.parts.meters import count
from fleet.ps.worker.sending.flat_layout import Portion

if TYPE_CHECKING:
    from fleet.ps.worker.calling.client import Client
    from fleet.ps.worker.sending.flat import FlatParameters

BUCKET_BYTES = 256 << 10
"""The least size of a bucket, but for the last one of a group: each bucket costs a message."""

MOST_BUCKETS = 128
"""The most buckets of one group on one server: a large group has larger ones."""

LEAST_BYTES = 64 << 10
"""A server that gets less of a group gets it with the push."""

_log = logging.getLogger(__name__)


PATIENCE = 3
"""How many rounds in a row must be wasted before the first rest."""
FIRST_REST = 64
LONGEST_REST = 4096


class Backoff:
    """Rests after some wasted rounds, and twice as long each time that the round after a rest is wasted too."""

    def __init__(self) -> None:
        self.resting = 0
        """For how many more rounds nothing shall be done."""
        self._num_wasted = 0
        self._rest = FIRST_REST

    def note(self, done: int, used: int) -> bool:
        """Note how much was done in a round, and how much of it was of use; True if a rest begins."""
        if self.resting:
            self.resting -= 1
            return False
        if not done:
            return False
        if 2 * used >= done:
            self._num_wasted, self._rest = 0, FIRST_REST
            return False
        self._num_wasted += 1
        if self._num_wasted < PATIENCE:
            return False
        self.resting, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)
        self._num_wasted = PATIENCE - 1  # after a rest, one wasted round is enough
        return True


@dataclass(eq=False)
class AheadBucket:
    """Some of what a server gets of a dense group."""

    server: int
    group: int
    begin: int
    """Its first byte in the tensor of the group."""
    portions: list[Portion]
    size: int
    """In bytes."""
    num_missing: int = 0
    """Parameters that it waits for in this step."""
    number: int = 0
    """What the connection calls the copy that was sent; 0: none was."""
    parameters: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = frozenset(portion.parameter for portion in self.portions)


def buckets_of(flat: FlatParameters) -> list[AheadBucket]:
    """The buckets of all servers and groups, each group from its end: backward begins with what the model uses last."""
    found = []
    for (server, group), portions in flat.portions().items():
        end = sum(portion.size for portion in portions)
        if end < LEAST_BYTES:
            continue
        least = max(BUCKET_BYTES, end // MOST_BUCKETS)
        taken: list[Portion] = []
        for position in reversed(range(len(portions))):
            taken.insert(0, portions[position])
            size = sum(portion.size for portion in taken)
            if size >= least or position == 0:
                found.append(AheadBucket(server, group, end - size, taken, size))
                end, taken = end - size, []
    return found


class DenseAhead(StepPart):
    """Sends one worker's gradients ahead. Used by the thread that trains, and by those of backward."""

    def __init__(self, flat: FlatParameters, buckets: Sequence[AheadBucket], client: Client, done: Done) -> None:
        self._flat = flat
        self._client = client
        self._done = done
        self._buckets = buckets
        self._of: defaultdict[int, list[AheadBucket]] = defaultdict(list)
        for bucket in self._buckets:
            for number in bucket.parameters:
                self._of[number].append(bucket)
        self._num_arrived = dict.fromkeys(self._of, 0)
        self._expected = dict.fromkeys(self._of, 1)
        """How many gradients a parameter gets in a step."""
        self._begun: set[int] = set()
        """Groups of which a gradient has come since their last step."""
        self._sent_bytes: defaultdict[int, int] = defaultdict(int)
        """The bytes sent of each group, in this step."""
        self._backoff = Backoff()
        self._hooks = [
            flat.parameter(number).register_post_accumulate_grad_hook(partial(self._arrived, number))
            for number in self._of
        ]
        self._begin({bucket.group for bucket in buckets})

    def before_push(self, update: Update) -> None:
        """Tell the connections what they have of the tensors of the push that comes: for each server, one per group."""
        dense, groups = update.gradients.dense, list(update.gradients.lrs)
        if not dense:
            return
        for bucket in self._buckets:
            if bucket.number and bucket.group in groups and (way := self._way(bucket.server)) is not None:
                way.claim(dense[bucket.server][groups.index(bucket.group)], bucket.begin, bucket.number)

    def after_push(self, update: Update) -> None:
        """Learn how much of what was sent ahead was of use, and begin the next step."""
        groups = update.gradients.lrs
        ways = {bucket.server: self._way(bucket.server) for bucket in self._buckets}
        joined = sum(way.settle_ahead() for way in ways.values() if way is not None)
        sent = sum(self._sent_bytes.pop(group, 0) for group in groups)
        count("ahead.joined_bytes", joined)
        if self._backoff.note(sent, joined):
            count("ahead.rests", 1)
            _log.info(
                "%d of %d bytes of dense gradients that left ahead of their step were changed before it, as clipping "
                "does: they go along with the next %d steps",
                sent - joined,
                sent,
                self._backoff.resting,
            )
        for number in self._parameters_of(groups):
            self._expected[number] = self._num_arrived[number]
        self._begin(groups)

    def zeroed(self, groups: Collection[int]) -> None:
        """Forget the gradients that have come: they were dropped."""
        if self._begun.intersection(groups):
            self._begin(groups)

    def close(self) -> None:
        """Take the hooks off the parameters."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _parameters_of(self, groups: Collection[int]) -> set[int]:
        return {number for bucket in self._buckets if bucket.group in groups for number in bucket.parameters}

    def _begin(self, groups: Collection[int]) -> None:
        """Begin a step of some groups: none of their gradients has come, and nothing is sent."""
        self._begun.difference_update(groups)
        for number in self._parameters_of(groups):
            self._num_arrived[number] = 0
        for bucket in self._buckets:
            if bucket.group not in groups:
                continue
            if bucket.number and (way := self._way(bucket.server)) is not None:
                way.forget_ahead(bucket.number)
            bucket.number = 0
            bucket.num_missing = sum(self._expected[number] > 0 for number in bucket.parameters)

    def _way(self, server: int) -> TakesAhead | None:
        """The connection to a server; None if it takes nothing ahead, or gets the buffers in other pieces."""
        server_set = self._client.server_set
        transport: object = server_set.transports[server] if server_set.is_declared else None
        return transport if isinstance(transport, TakesAhead) else None

    def _arrived(self, number: int, _: torch.Tensor) -> None:
        """Backward has added to the gradient of a parameter."""
        self._begun.add(self._of[number][0].group)
        self._num_arrived[number] += 1
        if self._num_arrived[number] != self._expected[number] or self._backoff.resting:
            return
        for bucket in self._of[number]:
            bucket.num_missing -= 1
            if bucket.num_missing == 0:
                self._send(bucket)

    def _send(self, bucket: AheadBucket) -> None:
        way = self._way(bucket.server)
        if way is None or not way.takes_ahead or self._done.num_updates < self._client.resumed_updates:
            return
        if bucket.number:  # sent for a step that did not come
            way.forget_ahead(bucket.number)
        pieces = [piece for portion in bucket.portions if (piece := self._flat.gradient_bytes(portion)) is not None]
        bucket.number = way.send_ahead(pieces) if len(pieces) == len(bucket.portions) else 0
        if bucket.number:
            self._sent_bytes[bucket.group] += bucket.size
            count("ahead.sent_bytes", bucket.size)


def make_ahead(flat: FlatParameters | None, client: Client, done: Done) -> StepPart:
    """The part that sends gradients ahead: from CPU memory, in float32, where they fill a bucket; else an idle one."""
    dense = client.job.dense
    if flat is None or not flat.is_on_host or dense.gradient_format != "float32" or dense.topk is not None:
        return StepPart()
    buckets = buckets_of(flat)
    return DenseAhead(flat, buckets, client, done) if buckets else StepPart()
