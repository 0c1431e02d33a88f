"""A few runs of `make chaos`, each with every kind of death."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import inside
from chaos.runs import run, undisturbed
from support.sweeps import sweep

EPOCHS = 3
DEATHS = "kill both at 400ms; torn-write at 900ms; kill worker at 1300ms; drop 1% rpc; repeat 2% rpc"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", sweep(["sync", "async", "geo"], sample=lambda mode: mode != "geo"))
def test_nothing_is_lost_and_nothing_counts_twice(mode: str, tmp_path: Path) -> None:
    expected = undisturbed(mode, tmp_path / "undisturbed", EPOCHS) if mode == "sync" else ""
    outcome = run(mode, 1, tmp_path / "struck", expected, chaos=DEATHS, epochs=EPOCHS)
    assert not outcome.problems, f"{outcome.problems}\n{outcome.said}"
    assert outcome.counts["kill server"] == outcome.counts["torn-write"] == 1
    assert 1 <= outcome.counts["kill worker"] <= 2  # the last may come too late


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", sweep(range(18), sample=lambda seed: seed == 14))
def test_a_change_of_both_servers_is_made_once_whoever_dies_inside_it(seed: int, tmp_path: Path) -> None:
    expected = inside.undisturbed(tmp_path / "undisturbed", [inside.plan_of(seed).case], times=1)
    outcome = inside.run(seed, tmp_path / "struck", expected)
    assert not outcome.problems, f"{outcome.problems}\n{outcome.said}"
