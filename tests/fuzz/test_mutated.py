"""A few hundred of the mutated messages of `make fuzz`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fuzz import mutated
from support.plane.fuzz_requests import right
from support.serving.serving import REAL, server_process


def test_a_mutated_message_is_refused_whole_or_does_what_it_says() -> None:
    num_messages = 60 * len(mutated.METHODS)
    outcomes = mutated.fuzz(num_messages, 7)
    assert sum(outcomes.values()) == num_messages
    for method in mutated.METHODS:
        assert sum(count for (name, _), count in outcomes.items() if name == method) == 60
    assert outcomes["Push", "OK"] > 0
    assert outcomes["Push", "ABORTED"] > 0


def test_a_wrong_effect_would_be_seen() -> None:
    with tempfile.TemporaryDirectory() as folder, server_process(REAL, cwd=Path(folder)) as server:
        attack = mutated.Mutated(server, 1)
        try:
            assert attack._differs() is None
            header, tensors = right("Push", attack._callers[0])
            attack._reference.handle("Push", header, tensors)
            assert "version" in (attack._differs() or "")
        finally:
            attack.close()
