"""How long workers wait, and that the user may say so."""

from __future__ import annotations

import pytest

from fleet.errors import VariableError
from fleet.observe.waits.waiting import served_timeout_s
from fleet.ps.job.patience import rpc_timeout_s, step_timeout_s


def test_the_defaults_are_those_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLEET_RPC_TIMEOUT_S", "FLEET_STEP_TIMEOUT_S", "FLEET_STALL_TIMEOUT_S"):
        monkeypatch.delenv(name, raising=False)
    assert (rpc_timeout_s(), step_timeout_s(), served_timeout_s()) == (60.0, 660.0, 600.0)


def test_a_step_outlives_the_watch_unless_it_is_given_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_STEP_TIMEOUT_S", raising=False)
    monkeypatch.setenv("FLEET_STALL_TIMEOUT_S", "1800")
    assert (step_timeout_s(), served_timeout_s()) == (1860.0, 1800.0)
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "3600")
    assert (step_timeout_s(), served_timeout_s()) == (3600.0, 1800.0)
    monkeypatch.delenv("FLEET_STALL_TIMEOUT_S")
    assert (step_timeout_s(), served_timeout_s()) == (3600.0, 3600.0)


def test_the_user_s_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "0.5")
    monkeypatch.setenv("FLEET_STEP_TIMEOUT_S", "7")
    assert (rpc_timeout_s(), step_timeout_s()) == (0.5, 7.0)


def test_a_malformed_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RPC_TIMEOUT_S", "soon")
    with pytest.raises(VariableError, match="FLEET_RPC_TIMEOUT_S must be a number of seconds > 0, got 'soon'"):
        rpc_timeout_s()
