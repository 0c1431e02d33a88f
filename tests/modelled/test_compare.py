"""Services, ledgers, journals, clients and outboxes beside the model, which they must follow in whatever order."""

from __future__ import annotations

import pytest

from modelled.state import Size
from modelled.walks import NUM_WALKS, SHORT, WALKED, sequences, walk


@pytest.mark.timeout(120)
@pytest.mark.parametrize("size", WALKED, ids=str)
def test_the_code_does_what_the_model_says_whatever_a_seed_draws(size: Size) -> None:
    assert sum(walk(size, seed) for seed in range(NUM_WALKS)) > 200


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("size", "length"), [case[:2] for case in SHORT], ids=str)
def test_the_code_does_what_the_model_says_in_every_short_sequence(size: Size, length: int) -> None:
    assert sequences(size, length) > 50
