"""One contract for every way in which a push comes to a server: the same bits, and the same words where it is refused.

The ways are those of `support.plane.plane`, and a journal that is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire
from fleet.ps.wire.formats import encoded_rows
from fleet.ps.wire.status import TOKEN_KEY
from fleet.ps.wire.transport import Transport
from fleet.strategy.parameter_server import FORMATS
from support.plane import raw_plane
from support.plane.plane import KINDS, Served, served
from support.plane.plane_worker import said
from support.plane.replayed import ReplayTransport
from support.serving.serving import TOKEN, status_of

LIMIT_S = 60.0
KEYS = np.array([1, 2, -7], np.int64)
BLOCKS = (("a", 4, 0), ("b", 2, 0), ("c", 5, 1))
JOB = JobSpec(
    num_workers=1,
    num_servers=1,
    mode="async",
    tables=(
        TableSpec("ads", 3, rules.Adagrad(lr=0.1), initializers.Uniform(-1, 1), entries.CountFilterEntry(2)),
        TableSpec("seen", 2, rules.SGD(), initializers.Constant(2.0), entries.ShowClickEntry("show", "click")),
    ),
    dense=DenseSpec(
        (rules.Adam(), rules.SGD()),
        tuple((name, (size,)) for name, size, _ in BLOCKS),
        tuple(DenseBlock(name, 0, size, 0, group) for name, size, group in BLOCKS),
    ),
)
K0, G0, C0, K1, G1, S1, L1, D0, D1 = range(9)
"""Where the tensors of `Push` stand: keys, gradients and counts; keys, gradients, shows and clicks; dense groups."""
Values = list[bytes]
Form: Any = ps_pb2.PushRequest.Dense


def ramp(*shape: int) -> NDArray[np.float32]:
    return ((np.arange(np.prod(shape)).reshape(shape) - 2) / 7).astype(np.float32)


@dataclass
class Push:
    """One that every server takes, for a test to change."""

    header: Any = field(
        default_factory=lambda: ps_pb2.PushRequest.Header(
            tables=[
                ps_pb2.PushRequest.Table(table=0, lr=0.5, has_counts=True),
                ps_pb2.PushRequest.Table(table=1, lr=0.25, has_clicks=True),
            ],
            dense_lrs=[0.1, 0.2],
        )
    )
    tensors: list[Any] = field(
        default_factory=lambda: [
            *(KEYS, ramp(3, 3), np.array([2, 1, 3], np.uint32)),
            *(KEYS, ramp(3, 2), ramp(3), ramp(3)),
            *(ramp(6), ramp(5)),
        ]
    )


class Worker:
    """Makes its calls by hand."""

    def __init__(self, transport: Transport) -> None:
        self.transport, self.sequence = transport, 0
        self.caller = ps_pb2.Caller(incarnation=1)
        declared = self.ask("Declare", ps_pb2.DeclareRequest.Header(caller=self.caller, job=JOB.to_json()))[0]
        self.caller.instance = declared.instance
        self.ask("Start", ps_pb2.StartRequest.Header(caller=self.caller), ramp(6), ramp(5))

    def ask(self, method: str, header: Any, *tensors: Any) -> tuple[Any, Values]:
        reply, found = self.transport.call(method, header, tensors, LIMIT_S).result(LIMIT_S)
        return reply, [bytes(np.frombuffer(one, np.uint8)) for one in found]

    def push(self, one: Push) -> Any:
        self.sequence += 1
        one.header.caller.CopyFrom(self.caller)
        one.header.sequence = self.sequence
        return self.ask("Push", one.header, *one.tensors)[0]

    def values(self) -> Values:
        header = ps_pb2.PullRequest.Header(caller=self.caller, tables=[0, 1], dense=True)
        return self.ask("Pull", header, KEYS, KEYS)[1]


def transport_of(place: Served, kind: str) -> Transport:
    return ReplayTransport(place.service) if kind == "REPLAY" else place.transport()


@pytest.fixture(params=(*KINDS, "REPLAY"))
def way(request: pytest.FixtureRequest) -> Iterator[tuple[str, Worker]]:
    kind = request.param
    with served("LOCAL" if kind == "REPLAY" else kind) as place:
        yield kind, Worker(transport_of(place, kind))


# What is taken.


def with_formats(number: Any) -> Callable[[Push], None]:
    def change(one: Push) -> None:
        for entry, place in zip(one.header.tables, (G0, G1), strict=True):
            entry.format = number
            one.tensors[place] = encoded_rows(one.tensors[place], number)
        one.header.dense.extend([Form(format=number), Form(format=number, is_sparse=True)])
        values = [_native.encode_vector(array, None, number) for array in (ramp(6), ramp(2))]
        one.tensors[D0:] = [values[0], np.array([1, 4], np.int32), values[1]]

    return change


def unaligned(one: Push) -> None:
    """As another program may have them."""
    one.tensors = [memoryview(b"x" + np.ascontiguousarray(array).tobytes())[1:] for array in one.tensors]


def absent(one: Push) -> None:
    one.header.absent.extend([1, 2])


def of_one_group(one: Push) -> None:
    one.header.dense_groups.append(1)
    del one.header.dense_lrs[0], one.tensors[D0]


def without_keys(one: Push) -> None:
    one.tensors[:D0] = [array[:0] for array in one.tensors[:D0]]


def nothing(one: Push) -> None:
    one.header.ClearField("tables")
    one.header.ClearField("dense_lrs")
    one.tensors.clear()


GOOD = [*map(with_formats, range(len(FORMATS))), unaligned, absent, of_one_group, without_keys, nothing]


def test_every_way_has_the_same_bits(way: tuple[str, Worker]) -> None:
    kind, _ = way
    finals = []
    for one in (kind, "LOCAL"):
        with served("LOCAL" if one == "REPLAY" else one) as place:
            worker, steps = Worker(transport_of(place, one)), []
            for change in GOOD:
                change(push := Push())
                assert worker.push(push).version == worker.sequence
                steps.append(worker.values())
            finals.append(steps)
    assert finals[0] == finals[1]
    assert all(before != after for before, after in zip(finals[1][:-3], finals[1][1:-2], strict=True))
    assert finals[1][-1] == finals[1][-2]


# What is refused. `WHO` is how it begins.

WHO = "push of worker 0, step 0"
ADS, SEEN = f"{WHO}, table 'ads'", f"{WHO}, table 'seen'"


def tensor(place: int, value: Any) -> Callable[[Push], None]:
    def change(one: Push) -> None:
        one.tensors[place] = value

    return change


def cut(place: int, num_bytes: int) -> Callable[[Push], None]:
    def change(one: Push) -> None:
        one.tensors[place] = one.tensors[place].tobytes()[:-num_bytes]

    return change


def header(**fields: Any) -> Callable[[Push], None]:
    def change(one: Push) -> None:
        for name, value in fields.items():
            one.header.ClearField(name)
            one.header.MergeFrom(ps_pb2.PushRequest.Header(**{name: value}))

    return change


def entry(place: int, **fields: Any) -> Callable[[Push], None]:
    def change(one: Push) -> None:
        for name, value in fields.items():
            setattr(one.header.tables[place], name, value)

    return change


def tensors(*changed: Any, **fields: Any) -> Callable[[Push], None]:
    """Others in place of those of the dense groups."""

    def change(one: Push) -> None:
        one.tensors[D0:] = changed
        header(**fields)(one)

    return change


def fewer(one: Push) -> None:
    del one.tensors[2:]


def more(one: Push) -> None:
    one.header.ClearField("dense_lrs")


def places(*values: int) -> Any:
    return np.array(values, np.int32)


SPARSE: list[Any] = [Form(), Form(is_sparse=True)]
NAN3 = np.array([1, np.nan, 1], np.float32)
AT_1 = np.where(np.arange(9).reshape(3, 3) == 3, np.nan, ramp(3, 3)).astype(np.float32)
BAD: list[tuple[Callable[[Push], None], str]] = [
    # Tables.
    (entry(0, table=7), f"{WHO}: there is no table 7; the job declared 'ads', 'seen'"),
    (entry(0, table=2**32 - 1), f"{WHO}: there is no table 4294967295; the job declared 'ads', 'seen'"),
    (entry(0, table=1), f"{SEEN}, gradients: 36 bytes do not hold 3 x 2 values of float32"),
    (cut(K0, 3), f"{ADS}, keys: 21 bytes do not hold whole values of int64"),
    (tensor(K0, KEYS[:2]), f"{ADS}, gradients: 36 bytes do not hold 2 x 3 values of float32"),
    (tensor(G0, ramp(3, 4)), f"{ADS}, gradients: 48 bytes do not hold 3 x 3 values of float32"),
    (cut(G1, 1), f"{SEEN}, gradients: 23 bytes do not hold 3 x 2 values of float32"),
    (tensor(G0, b""), f"{ADS}, gradients: 0 bytes do not hold 3 x 3 values of float32"),
    (entry(0, format=1), f"{ADS}, gradients: 36 bytes do not hold 3 x 3 values of bfloat16"),
    (entry(1, format=3), f"{SEEN}, gradients: 24 bytes do not hold 3 x 2 values of int8"),
    (entry(0, format=9), f"{ADS}: there is no format 9; there are 0 to 3"),
    (entry(1, row_format=4), f"{SEEN}: there is no format 4; there are 0 to 3"),
    (cut(C0, 4), f"{ADS}, counts: 8 bytes do not hold 3 values of uint32"),
    (tensor(S1, ramp(4)), f"{SEEN}, clicks: 16 bytes do not hold 3 values of float32"),
    (cut(L1, 2), f"{SEEN}, clicks: 10 bytes do not hold 3 values of float32"),
    (entry(0, lr=-1.0), f"{ADS}: the learning rate must be a number >= 0, got -1.0"),
    (entry(1, lr=float("nan")), f"{SEEN}: the learning rate must be a number >= 0, got nan"),
    (fewer, f"{ADS}: 3 tensors are needed, 2 are left"),
    (more, f"{WHO}: 2 tensors belong to nothing"),
    # Dense groups.
    (cut(D0, 4), f"{WHO}, dense group 0: 20 bytes do not hold 6 values of float32"),
    (tensor(D1, ramp(6)), f"{WHO}, dense group 1: 24 bytes do not hold 5 values of float32"),
    (tensors(ramp(6)), f"{WHO}: 1 dense tensors, but the dense groups that are pushed have 2"),
    (tensors(*[ramp(5)] * 3), f"{WHO}: 3 dense tensors, but the dense groups that are pushed have 2"),
    (header(dense_groups=[1, 0]), f"{WHO}: dense groups with 0, but the job has 2, to be named in order"),
    (header(dense_groups=[0, 5]), f"{WHO}: dense groups with 5, but the job has 2, to be named in order"),
    (header(dense_lrs=[0.1]), f"{WHO}: 1 learning rates for 2 dense groups"),
    (header(dense_lrs=[0.1, float("inf")]), f"{WHO}: the learning rate must be a number >= 0, got inf"),
    (header(dense=[Form()]), f"{WHO}: 1 forms for 2 dense groups"),
    (header(dense=[Form(), Form(format=7)]), f"{WHO}: there is no format 7; there are 0 to 3"),
    (header(dense=[Form(format=2), Form()]), f"{WHO}, dense group 0: 24 bytes do not hold 6 values of float16"),
    (header(dense=SPARSE), f"{WHO}: 2 dense tensors, but the dense groups that are pushed have 3"),
    *(
        (
            tensors(ramp(6), at, ramp(2), dense=SPARSE),
            f"{WHO}, dense group 1: {size} bytes are not places of int32 that ascend and stay below 5",
        )
        for at, size in ((places(1, 5), 8), (places(2, 2), 8), (places(-1, 2), 8), (b"12345", 5))
    ),
    (
        tensors(ramp(6), places(1, 2), ramp(3), dense=SPARSE),
        f"{WHO}, dense group 1: 12 bytes do not hold 2 values of float32",
    ),
    (header(absent=[1, 3]), f"{WHO}: parameter 3 is absent; the job has 3"),
    # The rest.
    (header(is_delta=True), "a job in async mode takes gradients only"),
    (header(is_pass=True), f"{WHO}: a push that is a pass belongs to a synchronous step, and has no gradients"),
    (header(pull_tables=[0] * 20), f"{WHO}: 9 tensors, too few for rows of 20 tables"),
    (tensors(*[KEYS] * 3, pull_tables=[7]), f"{WHO}: there is no table 7; the job declared 'ads', 'seen'"),
    (tensors(b"1234567", pull_tables=[1]), f"{SEEN}, keys: 7 bytes do not hold whole values of int64"),
    (tensors(KEYS, pull_tables=[0], pull_only_read=[True] * 2), f"{WHO}: 2 flags of reading for 1 tables"),
    (tensors(KEYS, pull_tables=[0], pull_formats=[1, 1, 1]), f"{WHO}: 3 formats of rows for 1 tables"),
    (tensors(KEYS, pull_tables=[0], pull_formats=[5]), f"{ADS}: there is no format 5; there are 0 to 3"),
    (header(dense_format=4, want_dense=True), f"{WHO}: there is no format 4; there are 0 to 3"),
]
LATER = "the gradients of worker 0, step 0 hold a NaN or an Inf"
NONFINITE: list[tuple[Callable[[Push], None], str]] = [
    (tensor(G0, AT_1), f"table 'ads': {LATER}, for example of key 2; nothing was applied. Set strategy.nonfinite_"),
    (
        tensor(G1, np.full((3, 2), np.inf, np.float32)),
        f"table 'seen': {LATER}, for example of key 1; nothing was applied. Set strat",
    ),
    (tensor(S1, NAN3), "table 'seen': shows or clicks of worker 0, step 0 hold a NaN or an Inf"),
    (tensor(D1, np.nan * ramp(5)), f"dense parameters, group 1: {LATER}; nothing was applied. Set strategy.nonfini"),
]


def refused(worker: Worker, change: Callable[[Push], None]) -> str:
    """What is said; nothing has changed, and what is right is taken all the same."""
    change(push := Push())
    before = worker.values()
    with pytest.raises(UsageError) as found:
        worker.push(push)
    assert worker.values() == before
    worker.push(Push())
    assert worker.values() != before
    return said(found.value)


def test_every_way_refuses_in_the_same_words(way: tuple[str, Worker]) -> None:
    assert [refused(way[1], change) for change, _ in BAD] == [text for _, text in BAD]


def test_what_is_no_number_is_refused_in_every_format(way: tuple[str, Worker]) -> None:
    """A journal has nothing of the kind: it was refused before it was written."""
    kind, worker = way

    def encoded(number: Any) -> Callable[[Push], None]:
        def change(one: Push) -> None:
            one.header.tables[0].format = number
            one.tensors[G0] = encoded_rows(AT_1, number)

        return change

    cases = [*NONFINITE, *((encoded(number), NONFINITE[0][1]) for number in range(1, len(FORMATS)))]
    for change, text in () if kind == "REPLAY" else cases:
        assert refused(worker, change).startswith(text)


# Bytes.


def damaged(data: bytes) -> list[bytes]:
    """A message cut short, continued, and with bytes that are no fields."""
    ends = [data[:-1], data[: len(data) // 2], data[:1], data + b"\x12", data + b"\x12\x7f"]
    return [*ends, b"\x00" + data, b"\x0b" + data, b"\xff" * 40, data + b"\x12\x00" * wire.MAX_FIELDS]


@pytest.mark.parametrize("kind", ["SHM", "TCP"])
def test_bytes_that_are_no_message_are_refused_in_the_same_words(kind: str) -> None:
    with served(kind) as place:
        worker = Worker(place.transport())
        good = Push()
        good.header.caller.CopyFrom(worker.caller)
        good.header.sequence = 1
        assert place.grpc is not None
        assert place.plane is not None
        texts = []
        port = place.plane._server.port if kind == "TCP" else 0
        with (
            grpc.insecure_channel(str(place.grpc.endpoint)) as channel,
            raw_plane.connection(place.grpc.address, port, is_welcome=True) as raw,
        ):
            call = cast("Any", channel.unary_unary(f"/{wire.SERVICE}/Push"))
            for data in damaged(wire.encode("PushRequest", good.header, good.tensors)):
                error = call.future(data, timeout=LIMIT_S, metadata=((TOKEN_KEY, TOKEN),)).exception(LIMIT_S)
                raw.sendall(raw_plane.head(raw_plane.REQUEST, len(data), method=raw_plane.PUSH) + data)
                sort, code, text = raw_plane.read(raw)
                texts.append(text.decode())
                by_grpc, details = status_of(error)
                assert (sort, code, texts[-1]) == (raw_plane.ERROR, by_grpc.value[0], details)
        assert all(text.startswith("not a PushRequest: ") for text in texts), texts
        assert worker.push(Push()).version == 1
