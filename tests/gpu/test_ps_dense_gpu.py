"""Dense parameters of a server on a GPU: what goes there and comes back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fleet.ps.held.dense_cuda import DeviceGroup

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")]


def test_a_request_may_go_as_soon_as_it_was_taken() -> None:
    group = DeviceGroup("sgd", {}, [1 << 22], "cuda")
    grads = np.ones(1 << 22, np.float32)
    for _ in range(20):
        grads[:] = 1
        group.apply(grads, 1.0)
        grads[:] = 1e9
    assert (group.read() == -20).all()


def test_what_was_read_stays() -> None:
    group = DeviceGroup("sgd", {}, [1 << 20], "cuda")
    reads = []
    for _ in range(5):
        reads.append(group.read())
        group.apply(np.ones(1 << 20, np.float32), 1.0)
    assert [(read == -step).all() for step, read in enumerate(reads)] == [True] * 5


def test_a_server_without_a_share_of_the_group() -> None:
    group = DeviceGroup("adam", {}, [0], "cuda")
    nothing = np.zeros(0, np.float32)
    group.apply(nothing, 0.1)
    group.restore(nothing, nothing)
    assert group.state().tolist() == [0]
