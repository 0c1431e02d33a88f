"""`paddle.distributed.spawn`: real processes; two of them with `Model.fit` do what one with the whole batch does."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageError
from support.jobs import clean_environ, running

paddle: Any = import_module("paddle")


SCRIPT = Path(__file__).parents[1] / "scripts" / "spawned_fit.py"


def test_two_processes_fit_as_one_does(tmp_path: Path) -> None:
    environ = {**clean_environ(), "FLEET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    with running([sys.executable, SCRIPT], tmp_path, environ, warm=True) as process:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, out + err
    alone = np.load(tmp_path / "0of1.npz")
    for rank in (0, 1):
        found = np.load(tmp_path / f"{rank}of2.npz")
        for name in alone:
            assert np.allclose(found[name], alone[name], atol=1e-5), (rank, name)
    saved = paddle.load(str(tmp_path / "model2.pdparams"))["weight"].numpy()
    assert np.allclose(saved, alone["weight"], atol=1e-5)


def test_options_that_cannot_be_kept_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no option 'ips'; known are gpus and start_method"):
        paddle.distributed.spawn(print, nprocs=2, ips="10.0.0.1")
    with pytest.raises(UsageError, match="nprocs must be -1, or from 1"):
        paddle.distributed.spawn(print, nprocs=0)
    with pytest.raises(UsageError, match="start_method must be one of"):
        paddle.distributed.spawn(print, nprocs=1, start_method="thread")
