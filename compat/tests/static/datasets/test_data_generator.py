"""fleet.data's generators: what they write is what a dataset reads, and what they refuse to write."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet import _native
from fleet.errors import NotSupportedError, UsageError
from fleet_programs import DataGenerator, MultiSlotDataGenerator, MultiSlotStringDataGenerator


class Words(MultiSlotDataGenerator):
    """Two samples of each line, and none of an empty one."""

    def generate_sample(self, line: str | None) -> Callable[[], Iterator[Any]]:
        def samples() -> Iterator[Any]:
            words = "7 8" if line is None else line
            numbers = [int(word) for word in words.split()]
            for times in (1, 2):
                yield [("ids", numbers * times), ("label", [0.5])] if numbers else None

        return samples


def run(generator: DataGenerator, text: str, monkeypatch: pytest.MonkeyPatch, memory: bool = False) -> str:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    monkeypatch.setattr(sys, "stdout", out)
    generator.run_from_memory() if memory else generator.run_from_stdin()
    return out.getvalue()


def test_lines_become_samples_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = "1 3 1 0.5\n2 3 3 1 0.5\n2 4 5 1 0.5\n4 4 5 4 5 1 0.5\n"
    assert run(Words(), "3\n\n4 5\n", monkeypatch) == wanted
    assert run(Words(), "", monkeypatch, memory=True) == "2 7 8 1 0.5\n4 7 8 7 8 1 0.5\n"


def test_a_batch_can_be_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    class Backwards(Words):
        def generate_batch(self, samples: list[Any]) -> Any:
            sizes.append(len(samples))
            return lambda: reversed(samples)

    generator = Backwards()
    generator.set_batch(3)
    assert run(generator, "1\n2\n", monkeypatch) == "1 2 1 0.5\n2 1 1 1 0.5\n1 1 1 0.5\n2 2 2 1 0.5\n"
    assert sizes == [3, 1]
    with pytest.raises(UsageError, match="batch_size must be at least 1, got 0"):
        generator.set_batch(0)


def test_text_is_written_as_it_is() -> None:
    assert MultiSlotStringDataGenerator()._gen_str([("a", ["1", "x"]), ("b", ["0.50"])]) == "2 1 x 1 0.50\n"
    with pytest.raises(UsageError, match="slot 'a' has no values; pad it"):
        MultiSlotStringDataGenerator()._gen_str([("a", [])])


numbers = st.one_of(
    st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32), min_size=1, max_size=5),
    st.lists(st.integers(-5, 5).map(np.int64), min_size=1, max_size=5),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4))
def test_what_is_written_is_read_back(samples: list[Any]) -> None:
    generator = MultiSlotDataGenerator()
    text = "".join(generator._gen_str([("a", a), ("b", b)]) for a, b in samples)
    slots = [("a", "d", 0), ("b", "d", 0)]
    *_, columns, problem = _native.parse_multislot(np.frombuffer(text.encode(), np.uint8), True, slots)
    assert problem is None
    for place in range(2):
        assert columns[place][0].tolist() == [float(x) for sample in samples for x in sample[place]]


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        ([("a", [])], "slot 'a' has no values; pad it"),
        ([("a", [True])], "slot 'a' has True; its values must be ints or floats"),
        ([("a", ["1"])], "slot 'a' has '1'; its values must be ints or floats"),
        ([("a", [1, float("nan")])], "slot 'a' has nan; write ints of 64 bits and finite floats"),
        ([("a", [2**64])], "slot 'a' has 18446744073709551616; write ints"),
        ([("a", 1)], "a slot must be"),
        ([("a", [1]), ("b", [1])], "samples must have the same slots: .'a'. before, .'a', 'b'. now"),
        ([("b", [1])], "samples must have the same slots"),
        ([], "a sample must be a list"),
        ("a", "a sample must be a list"),
    ],
)
def test_a_sample_that_cannot_be_written_is_refused(sample: Any, says: str) -> None:
    generator = MultiSlotDataGenerator()
    assert generator._gen_str([("a", [1, 2.5])]) == "2 1 2.5\n"
    with pytest.raises(UsageError, match=says):
        generator._gen_str(sample)


def test_a_generator_must_say_what_it_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="the name of a slot must be text, got 7"):
        MultiSlotDataGenerator()._gen_str([(7, [1])])
    with pytest.raises(NotSupportedError, match="MultiSlotDataGenerator must override generate_sample"):
        run(MultiSlotDataGenerator(), "1\n", monkeypatch)
    with pytest.raises(NotSupportedError, match="DataGenerator has no text form"):
        DataGenerator()._gen_str([("a", [1])])

    class Odd(MultiSlotDataGenerator):
        def generate_sample(self, line: str | None) -> Any:  # noqa: ARG002
            return 5

    with pytest.raises(UsageError, match="must give samples, got 5"):
        run(Odd(), "1\n", monkeypatch)
