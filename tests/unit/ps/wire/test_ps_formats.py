"""Floats in fewer bytes: there and back, and what a server refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fleet import _native
from fleet.errors import UsageError
from fleet.ps.job import entries, initializers, rules
from fleet.ps.job.dense_spec import DenseBlock, DenseSpec
from fleet.ps.job.spec import JobSpec, TableSpec
from fleet.ps.proto import ps_pb2
from fleet.ps.server.service import Service
from fleet.ps.wire import formats
from fleet.strategy.parameter_server import FORMATS

ANY_FLOATS = st.lists(st.floats(width=32), min_size=1, max_size=200)
NUMBERS = range(1, len(FORMATS))
WIDTH, NUM_DENSE = 2, 3
KEYS = np.array([1, 2, -7], np.int64)
ONES = np.ones((3, WIDTH), np.float32)
DENSE = np.ones(NUM_DENSE, np.float32)
SGD = rules.SGD(lr=1.0)
JOB = JobSpec(
    num_workers=1,
    num_servers=1,
    mode="async",
    tables=(TableSpec("ads", WIDTH, SGD, initializers.Constant(0.0), entries.AlwaysEntry()),),
    dense=DenseSpec((SGD,), (("w", (NUM_DENSE,)),), (DenseBlock("w", 0, NUM_DENSE, 0, 0),)),
)


class Peer:
    """A worker as a server sees it."""

    def __init__(self) -> None:
        self.service, self.sequence = Service(), 0
        self.caller = ps_pb2.Caller(incarnation=1)
        declared: Any = self.ask("Declare", ps_pb2.DeclareRequest.Header(caller=self.caller, job=JOB.to_json()))[0]
        self.caller.instance = declared.instance
        self.ask("Start", ps_pb2.StartRequest.Header(caller=self.caller), 0 * DENSE)

    def ask(self, method: str, header: Any, *tensors: Any) -> tuple[Any, Any]:
        return self.service.handle(method, header, tensors)

    def push(self, tensors: list[Any], format: int = 0, dense: Sequence[ps_pb2.PushRequest.Dense] = ()) -> None:
        self.sequence += 1
        header = ps_pb2.PushRequest.Header(
            caller=self.caller,
            sequence=self.sequence,
            tables=[ps_pb2.PushRequest.Table(table=0, lr=1.0, format=format)],  # type: ignore[arg-type]
            dense_lrs=[1.0],
            dense=dense,
        )
        self.ask("Push", header, *tensors)

    def pull(self, **fields: Any) -> Any:
        return self.ask("Pull", ps_pb2.PullRequest.Header(caller=self.caller, tables=[0], dense=True, **fields), KEYS)[
            1
        ]


def test_numbers_are_those_of_the_wire() -> None:
    assert [name.lower() for name in ps_pb2.Format.keys()] == list(FORMATS)  # noqa: SIM118 - no mapping
    assert [formats.number_of(name) for name in (None, *FORMATS)] == [0, 0, 1, 2, 3]
    for number in range(4):
        for width in (1, 3, 64, 65):
            rows = np.ones((2, width), np.float32)
            assert _native.encode_rows(rows, number).nbytes == 2 * formats.row_bytes(number, width)


@settings(max_examples=200, deadline=None)
@given(ANY_FLOATS, st.sampled_from(NUMBERS), st.integers(1, 70))
def test_rows_there_and_back(values: list[float], number: int, width: int) -> None:
    rows = np.resize(np.array(values, np.float32), (len(values) // width + 1, width))
    data = formats.encoded_rows(rows, number)
    found = formats.decoded_rows(data.tobytes(), number, (len(rows), width), "rows")
    check_rounded(rows, found, number)
    if number != 3:  # what can be sent as it is stays as it is
        again = formats.decoded_rows(formats.encoded_rows(found, number), number, (len(rows), width), "rows")
        np.testing.assert_array_equal(again, found)


@settings(max_examples=100, deadline=None)
@given(ANY_FLOATS, st.sampled_from(NUMBERS))
def test_vectors_there_and_back(values: list[float], number: int) -> None:
    vector = np.array(values, np.float32)
    residual = np.zeros_like(vector)
    data = _native.encode_vector(vector, residual, number)
    found = formats.decoded_vector(data.tobytes(), number, len(vector), "values")
    for begin in range(0, len(vector), 64):
        check_rounded(vector[None, begin : begin + 64], found[None, begin : begin + 64], number)
    is_finite = np.isfinite(found)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(residual[is_finite], (vector - found)[is_finite])
    assert not residual[~is_finite].any()


def check_rounded(rows: NDArray[np.float32], found: NDArray[np.float32], number: int) -> None:
    """As near as the format allows; finite values stay finite, others what they are, or in int8 a row of NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        is_finite = np.isfinite(rows)
        if number == 3:
            whole = is_finite.all(axis=1)
            assert np.isnan(found[~whole]).all()
            step = (
                np.abs(rows[whole]).max(axis=1, initial=0, keepdims=True).astype(np.float64) / 127 * 1.008 + 2.0**-132
            )
            assert (np.abs(found[whole].astype(np.float64) - rows[whole]) <= 0.5001 * step).all()
            return
        np.testing.assert_array_equal(found[~is_finite], rows[~is_finite])
        assert np.isfinite(found[is_finite]).all()
        bits, least, most = (8, 2.0**-133, 3.3895e38) if number == 1 else (11, 2.0**-24, 65504.0)
        exact = np.clip(rows[is_finite].astype(np.float64), -most, most)
        error = np.abs(found[is_finite] - exact)
        assert (error <= np.maximum(np.abs(exact) * 2.0**-bits, least / 2)).all()


def form(number: int, is_sparse: bool = False) -> ps_pb2.PushRequest.Dense:
    return ps_pb2.PushRequest.Dense(format=number, is_sparse=is_sparse)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_server_reads_every_format(number: int) -> None:
    one = Peer()
    places = np.array([2], np.int32)
    grads = _native.encode_rows(ONES, number)
    one.push([KEYS, grads, _native.encode_vector(DENSE, None, number)], format=number, dense=[form(number)])
    two = _native.encode_vector(2 * DENSE[:1], None, number)
    one.push([KEYS, grads, places, two], format=number, dense=[form(number, is_sparse=True)])
    rows, dense = one.pull()
    tolerance = 0.01 if number == 3 else 0
    np.testing.assert_allclose(rows, -2 * ONES, rtol=tolerance)
    np.testing.assert_allclose(dense, [-1, -1, -3], rtol=tolerance)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_server_answers_in_the_format_that_is_asked_for(number: int) -> None:
    one = Peer()
    one.push([KEYS, ONES / 3, DENSE / 3])
    rows, dense = one.pull(formats=[number], dense_format=number)
    assert rows.nbytes == 3 * formats.row_bytes(number, WIDTH)
    exact_rows, exact_dense = one.pull()
    found = formats.decoded_rows(rows, number, (3, WIDTH), "rows")
    np.testing.assert_array_equal(
        found, formats.decoded_rows(_native.encode_rows(exact_rows, number), number, (3, 2), "")
    )
    np.testing.assert_allclose(formats.decoded_vector(dense, number, NUM_DENSE, ""), exact_dense, rtol=0.01)
    assert (found != exact_rows).any()


def test_formats_that_nobody_knows_in_an_answer() -> None:
    one = Peer()
    cases: dict[str, dict[str, Any]] = {
        ", table 'ads': there is no format 5": {"formats": [5]},
        ": 2 formats of rows for 1 tables": {"formats": [1, 1]},
        ": there is no format 4; there are 0 to 3": {"dense_format": 4},
    }
    for line, fields in cases.items():
        with pytest.raises(UsageError, match=f"pull of worker 0{line}"):
            one.pull(**fields)
