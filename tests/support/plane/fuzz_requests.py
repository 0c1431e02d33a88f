"""Requests for a server that nobody would send on purpose, as hypothesis strategies.

Three sorts: messages whose header and tensors are random but well formed; calls that would be right, with one thing
about them changed; and bytes of either, damaged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st
from numpy.typing import NDArray

from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.wire import messages as wire

WIDTH = 8
CUT = 7
NUM_DENSE = 100
NUM_WORKERS = 3
JOB = JobSpec(
    num_workers=NUM_WORKERS,
    num_servers=1,
    mode="async",
    tables=(
        TableSpec("ads", WIDTH, rules.Adagrad(lr=0.1), initializers.Uniform(-0.1, 0.1), entries.AlwaysEntry()),
        TableSpec("ads_half", WIDTH, rules.SGD(), initializers.Normal(), entries.CountFilterEntry(2), dtype="float16"),
    ),
    dense=DenseSpec((rules.Adam(),), (("w", (NUM_DENSE,)),), (DenseBlock("w", 0, NUM_DENSE, 0, 0),)),
)

_WORDS = (0, 1, 2, 3, 7, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_ODD_FLOATS = (0.0, -1.0, 0.1, 1e308, -1e-320, float("nan"), float("inf"), float("-inf"))
_ODD_TEXTS = ("", "ads", "ads_half", "\0", "../..", "a" * 500, "鍵", "{}", "[]", "null", '{"name": NaN}', "[" * 1500)
_FOLDERS = ("", "\0", "saved", "missing/saved", "f" * 300, "saved\n")
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    7,
    10**6,
    2**63,
    1e308,
    "",
    "sgd",
    "nothing",
    "async",
    [],
    {},
    [[]],
    {"a": 1},
)


def requests(method: str, caller: ps_pb2.Caller) -> st.SearchStrategy[bytes]:
    """Requests of one method, as bytes; `caller` is one that the server would believe."""
    well_formed = st.one_of(_random(method, caller), _nearly_right(method, caller))
    if method == "Leave":  # damage could make it the last worker's
        return st.one_of(well_formed, st.binary(max_size=300))
    return st.one_of(well_formed, _damaged(well_formed), st.binary(max_size=300))


def right(method: str, caller: ps_pb2.Caller) -> tuple[Any, list[NDArray[Any]]]:
    """The header and the tensors of a call that the server should answer."""
    header = getattr(ps_pb2, f"{method}Request").Header(caller=caller)
    keys = np.array([1, 2, 2**62, -5], np.int64)
    rows = np.ones((len(keys), WIDTH), np.float32)
    dense = np.ones(NUM_DENSE, np.float32)
    tensors: list[NDArray[Any]] = []
    if method == "Declare":
        header.job = JOB.to_json()
    elif method == "Start":
        tensors = [dense]
    elif method == "Pull":
        header.tables.extend([0, 1])
        header.dense = True
        tensors = [keys, keys]
    elif method == "Push":
        header.sequence = 1
        header.tables.extend(ps_pb2.PushRequest.Table(table=table, lr=0.1) for table in (0, 1))
        header.dense_lrs.append(0.1)
        header.want_dense = True
        tensors = [keys, rows, keys, rows, dense]
    elif method == "Assign":
        header.sequence = 1
        tensors = [keys, rows]
    elif method in ("Save", "Load"):
        header.folder = "saved"
    elif method == "Cut":
        header.cut = CUT
    elif method == "Take":
        header.queue, header.total = "files", 100
    if method in ("Join", "Keep", "Leave", "Load", "Shrink"):
        header.sequence = 1
    return header, tensors


def end_of_cut(name: int, caller: ps_pb2.Caller) -> bytes:
    """A request that lets pushes in again, which a cut may have shut out."""
    header = ps_pb2.CutRequest.Header(caller=caller, cut=name, phase=ps_pb2.CutRequest.DROP)
    return wire.encode("CutRequest", header, ())


def _random(method: str, caller: ps_pb2.Caller) -> st.SearchStrategy[bytes]:
    header = _message(getattr(ps_pb2, f"{method}Request").Header.DESCRIPTOR, method, caller)
    tensors = st.lists(_tensors(), max_size=6)
    return st.builds(lambda head, data: wire.encode(f"{method}Request", head, data), header, tensors)


def _tensors() -> st.SearchStrategy[bytes]:
    keys = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20).map(lambda values: np.array(values, np.int64))
    floats = st.integers(0, 20 * WIDTH).map(lambda size: np.linspace(-1, 1, size, dtype=np.float32))
    return st.one_of(
        st.binary(max_size=200), keys.map(lambda array: array.tobytes()), floats.map(lambda a: a.tobytes())
    )


def _message(descriptor: Descriptor, method: str, caller: ps_pb2.Caller) -> st.SearchStrategy[Message]:
    """A message with any fields set to anything that their types allow."""
    kind: type[Message] = getattr(descriptor, "_concrete_class")  # noqa: B009 - what protobuf itself uses
    fields = {field.name: _values(field, method, caller) for field in descriptor.fields}
    return st.fixed_dictionaries({}, optional=fields).map(lambda values: kind(**values))


def _values(field: FieldDescriptor, method: str, caller: ps_pb2.Caller) -> st.SearchStrategy[Any]:
    one = _one_value(field, method, caller)
    return st.lists(one, max_size=5) if field.is_repeated else one


def _one_value(field: FieldDescriptor, method: str, caller: ps_pb2.Caller) -> st.SearchStrategy[Any]:
    special: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        # How long a server may keep a thread for us; more would only make this slow.
        "timeout_ms": lambda: st.integers(0, 20),
        "folder": lambda: st.sampled_from(_FOLDERS),
        "cut": lambda: st.sampled_from([0, CUT]),
        "phase": lambda: st.integers(0, 5),
        "job": _jobs,
        # Worker 2 is the one whose calls shall work: nobody else declares for it, and it never leaves. (When all have
        # left the server ends, as it should.)
        "worker": lambda: st.sampled_from([0, 1, 3, 2**32 - 1, *([] if method in ("Declare", "Leave") else [2])]),
        # A life of a worker that is declared from the far future would make all its later calls those of a dead one.
        "incarnation": lambda: st.sampled_from([caller.incarnation, 0, 1, *([] if method == "Declare" else _WORDS)]),
        "instance": lambda: st.sampled_from([caller.instance, *_WORDS]),
    }
    if field.name in special:
        return special[field.name]()
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        assert field.message_type is not None
        anything = _message(field.message_type, method, caller)
        if field.name != "caller" or method in ("Declare", "Leave"):
            return anything
        return st.one_of(st.just(caller), anything)  # one that is not believed gets no further
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return st.one_of(st.sampled_from(_ODD_FLOATS), st.floats())
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.one_of(st.sampled_from(_ODD_TEXTS), st.text(max_size=20))
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=200)
    if field.type == FieldDescriptor.TYPE_INT64:
        return st.one_of(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]), st.integers(-(2**63), 2**63 - 1))
    most = 2**32 - 1 if field.type == FieldDescriptor.TYPE_UINT32 else 2**64 - 1
    return st.one_of(st.sampled_from([word for word in _WORDS if word <= most]), st.integers(0, most))


def _jobs() -> st.SearchStrategy[str]:
    """Declarations with one value replaced or left out, and texts that are none."""

    def changed(choice: tuple[int, Any, bool]) -> str:
        number, value, is_left_out = choice
        job = json.loads(JOB.to_json())
        holder, key = places(job)[number % len(places(job))]
        if is_left_out:
            del holder[key]
        else:
            holder[key] = value
        if job.get("num_workers") == 1:
            job["num_workers"] = NUM_WORKERS  # else a Leave would end the server
        return json.dumps(job)

    mutations = st.tuples(st.integers(0, 1000), st.sampled_from(ODD_VALUES), st.booleans()).map(changed)
    return st.one_of(mutations, st.just(JOB.to_json()), st.sampled_from(_ODD_TEXTS))


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every value inside some JSON, as the list or object that holds it and its place there."""
    items: Sequence[tuple[Any, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    return [place for key, value in items for place in ((data, key), *places(value))]


@st.composite
def _nearly_right(draw: st.DrawFn, method: str, caller: ps_pb2.Caller) -> bytes:
    """A call that the server should answer, with at most two things changed."""
    header, arrays = right(method, caller)
    if method == "Leave":
        header.caller.worker = draw(st.sampled_from([0, 1]))
    if method == "Push":
        header.sequence = draw(st.integers(1, 1000))
    tensors: list[bytes] = [array.tobytes() for array in arrays]
    for _ in range(draw(st.integers(0, 2))):
        if len(tensors) > 0 and draw(st.booleans()):
            place = draw(st.integers(0, len(tensors) - 1))
            other = draw(st.one_of(_tensors(), st.just(tensors[place][:-1]), st.just(tensors[place] * 2), st.none()))
            tensors[place : place + 1] = [] if other is None else [other]
        else:
            field = draw(st.sampled_from(list(header.DESCRIPTOR.fields)))
            value = draw(_values(field, method, caller))
            header.ClearField(field.name)
            header.MergeFrom(type(header)(**{field.name: value}))
    return wire.encode(f"{method}Request", header, tensors)


@st.composite
def _damaged(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """The bytes of a message, cut, or with some of them replaced."""
    data = draw(messages)
    begin = draw(st.integers(0, len(data)))
    end = draw(st.integers(begin, min(len(data), begin + 8)))
    return data[:begin] if draw(st.booleans()) else data[:begin] + draw(st.binary(max_size=8)) + data[end:]
