"""The generator of the CTR example: the bytes every system of the benchmark is given."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[3]
PEERS = ROOT.parent / "shared" / "peers" / "ctr_data.py"


def load(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load(ROOT / "examples" / "ctr" / "data.py", monkeypatch)


def crc(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.numpy().tobytes())


@pytest.mark.parametrize(
    ("worker", "ids", "dense", "label"),
    [
        (0, 0x1CB676C, 0x510C01A0, 0xE72FA18E),
        (1, 0xD3ABB72D, 0x4EF005EA, 0x1DF31523),
        (7, 0xD18A653C, 0x769954C4, 0x92DD97A7),
    ],
)
def test_the_bytes_never_change(data: ModuleType, worker: int, ids: int, dense: int, label: int) -> None:
    batch = list(data.batches(3, worker=worker))[2]
    assert (crc(batch.ids), crc(batch.dense), crc(batch.label)) == (ids, dense, label)


@pytest.mark.skipif(not PEERS.exists(), reason="the scripts of the other systems are not here")
@pytest.mark.parametrize("worker", [0, 1, 7])
def test_other_systems_train_on_the_same_bytes(data: ModuleType, monkeypatch: pytest.MonkeyPatch, worker: int) -> None:
    theirs: list[tuple[Any, list[Any], Any]] = load(PEERS, monkeypatch).batches(4, 500, worker=worker)
    for ours, (dense, slots, label) in zip(data.batches(4, 500, worker=worker), theirs, strict=True):
        assert np.array_equal(ours.ids.numpy(), np.concatenate(slots, axis=1))
        assert ours.dense.numpy().tobytes() == dense.tobytes()
        assert np.array_equal(ours.label.numpy(), label[:, 0])


def test_a_batch(data: ModuleType) -> None:
    stream = data.batches(10**9, 64)
    assert isinstance(stream, Iterator), "batches are made when they are asked for"
    ids, dense, label = next(stream)
    assert (ids.shape, ids.dtype) == ((64, 26), torch.int64)
    assert (dense.shape, dense.dtype) == ((64, 13), torch.float32)
    assert (label.shape, label.dtype) == ((64,), torch.int64)
    assert ids.is_contiguous()
    assert torch.equal(ids // data.VOCAB, torch.arange(26).expand(64, 26)), "slots share no id"
    assert set(label.tolist()) == {0, 1}


def test_a_signal_moves_labels_and_nothing_else(data: ModuleType) -> None:
    plain, strong = (next(data.batches(1, 20_000, signal=signal)) for signal in (0.0, 3.0))
    assert torch.equal(plain.ids, strong.ids)
    assert torch.equal(plain.dense, strong.dense)
    # Those who have the likeliest id of a telling slot click all alike, more or less than the others.
    likeliest = strong.ids[:, 1] == data.VOCAB
    gaps = [
        abs(float(batch.label[likeliest].float().mean() - batch.label[~likeliest].float().mean()))
        for batch in (plain, strong)
    ]
    assert gaps[0] < 0.05 < 0.2 < gaps[1]
