"""Loaders, samplers and datasets of the imperative mode; flags and the version of `paddle`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import NotReadyError, NotSupportedError, UsageError, UsageTypeError
from fleet_paddle import flags, mode
from fleet_paddle.batches import io
from fleet_paddle.imperative import Tensor
from fleet_paddle.imperative.state import chosen
from fleet_paddle.tools import version


class Pairs(io.Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, place: int) -> Any:
        return np.full(2, place, np.float32), np.array([place])


class Named(Pairs):
    def __getitem__(self, place: int) -> Any:
        return {"x": super().__getitem__(place)[0], "id": place}


def stacked(samples: list[Any]) -> Any:
    return np.stack([x for x, _ in samples]), {"ids": np.concatenate([y for _, y in samples]), "text": ["a"]}


def test_batches_are_tensors_whatever_collates_them() -> None:
    x, rest = next(iter(io.DataLoader(Pairs(), batch_size=4, collate_fn=stacked)))
    assert (type(x), type(rest["ids"]), rest["text"]) == (Tensor, Tensor, ["a"])
    assert x.shape == [4, 2]
    batch = next(iter(io.DataLoader(Named(), batch_size=4)))
    assert {name: type(one) for name, one in batch.items()} == {"x": Tensor, "id": Tensor}
    (alone,) = next(iter(io.DataLoader(io.Subset(Pairs(), [5]), collate_fn=lambda samples: samples[0][0])))
    assert alone.tolist() == [5, 5]


def test_batches_come_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = torch.device("meta")
    for places in (elsewhere, [elsewhere]):
        x, y = next(iter(io.DataLoader(Pairs(), places=places)))
        assert (x.place, y.place) == (elsewhere, elsewhere)
    with pytest.raises(UsageError, match="place must be CPUPlace"):
        io.DataLoader(Pairs(), places=3)
    loader = io.DataLoader(Named(), batch_size=3)
    monkeypatch.setattr(chosen, "device", elsewhere)
    assert [one.place for one in next(iter(loader)).values()] == [elsewhere, elsewhere]


def test_samplers() -> None:
    class Backwards(io.Sampler):
        def __iter__(self) -> Iterator[int]:
            return iter(range(len(self))[::-1])

    assert list(io.BatchSampler(sampler=Backwards(Pairs()), batch_size=4)) == [[5, 4, 3, 2], [1, 0]]
    every = list(io.WeightedRandomSampler([0.0, 1.0], 3))
    assert every == [1, 1, 1]
    parts = [io.DistributedBatchSampler(Pairs(), 3, num_replicas=2, rank=rank, shuffle=True) for rank in (0, 1)]
    passes = [[place for part in parts for batch in part for place in batch] for _ in range(4)]
    assert [sorted(one) for one in passes] == [list(range(6))] * 4
    assert len({tuple(one) for one in passes}) > 1
    parts[0].set_epoch(0)
    assert [place for batch in parts[0] for place in batch] == passes[0][:3]


def test_datasets() -> None:
    one, other = io.random_split(Pairs(), [4, 2])
    assert (len(one), len(other), len(io.ConcatDataset([one, other]))) == (4, 2, 6)
    sample = io.ComposeDataset([Pairs(), list(range(10, 16))])[2]
    assert [np.ravel(field).tolist() for field in sample] == [[2, 2], [2], [12]]
    arrays = io.TensorDataset([np.ones((3, 2)), torch.zeros(3)])
    assert [tuple(field.shape) for field in arrays[0]] == [(2,), ()]
    assert io.get_worker_info() is None


def test_generators_make_tensors_where_no_program_is_meant() -> None:
    def samples() -> Iterator[Any]:
        for place in range(5):
            yield np.full(3, place, np.float32), place

    with mode.kept():
        mode.disable_static()
        loader = io.DataLoader.from_generator(capacity=2)
        with pytest.raises(NotReadyError, match="has no generator"):
            next(iter(loader))
        loader.set_sample_generator(samples, batch_size=2)
        batches = list(loader())
        assert [[type(one) for one in batch] for batch in batches] == [[Tensor, Tensor]] * 2
        assert [batch[1].tolist() for batch in batches] == [[0, 1], [2, 3]]
        loader.set_batch_generator(lambda: iter([[np.zeros((2, 3))]]), places=["cpu"])
        assert [one.shape for batch in loader for one in batch] == [[2, 3]]
        same = np.zeros(1)

        def reusing() -> Iterator[list[Any]]:
            for number in range(4):
                same[:] = number
                yield [same]

        loader.set_batch_generator(reusing)
        assert [one.tolist() for batch in loader for one in batch] == [[0], [1], [2], [3]]
        with pytest.raises(UsageError, match="capacity must be >= 1, got 0"):
            io.DataLoader.from_generator(capacity=0)
        with pytest.raises(NotSupportedError, match="use_multiprocess is not built"):
            io.DataLoader.from_generator(use_multiprocess=True)
        mode.enable_static()
        with pytest.raises(UsageError, match="feed_list must name the variables"):
            io.DataLoader.from_generator(capacity=2)


def test_flags_are_honoured_or_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    flags.set_flags({"FLAGS_cudnn_deterministic": True, "FLAGS_eager_delete_tensor_gb": 0.0})
    assert torch.backends.cudnn.deterministic
    found = flags.get_flags(["FLAGS_cudnn_deterministic", "FLAGS_eager_delete_tensor_gb"])
    assert found == {"FLAGS_cudnn_deterministic": True, "FLAGS_eager_delete_tensor_gb": 0.0}
    with pytest.raises(NotSupportedError, match="FLAGS_check_nan_inf is not built; use torch.autograd.set_detect"):
        flags.set_flags({"FLAGS_cudnn_deterministic": False, "FLAGS_check_nan_inf": True})
    assert torch.backends.cudnn.deterministic
    with pytest.raises(NotSupportedError, match="the flag FLAGS_x is not built; there are FLAGS_allocator_strategy"):
        flags.get_flags("FLAGS_x")
    with pytest.raises(UsageTypeError, match="must be a dict"):
        flags.set_flags("FLAGS_x")  # type: ignore[arg-type]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    version.show()
    assert capsys.readouterr().out.startswith("full_version: 2.0.0\ncommit: fleet-")
    assert version.mkl() in ("ON", "OFF")


def test_a_batch_for_a_program_is_a_list_of_feeds_of_lod_tensors() -> None:
    fluid: Any = importlib.import_module("paddle.fluid")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, words = fluid.data("x", [None, 2]), fluid.data("words", [None, 1], "int64", lod_level=1)
        total = fluid.layers.reduce_sum(x)
        for made in (fluid.io.DataLoader.from_generator([x, words], 4), fluid.io.PyReader([x, words], 4)):
            made.decorate_sample_list_generator(lambda: iter([[([1.0, 2.0], [3, 4]), ([5.0, 6.0], [7])]]))
            (batch,) = made()
            assert (type(batch), len(batch), sorted(batch[0])) == (list, 1, ["words", "x"])
            assert all(isinstance(one, fluid.LoDTensor) for one in batch[0].values())
            assert (batch[0]["x"].shape(), batch[0]["x"].lod(), batch[0]["words"].lod()) == ([2, 2], [], [[0, 2, 3]])
            assert np.array(batch[0]["x"]).tolist() == [[1, 2], [5, 6]]
            (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=batch, fetch_list=[total])
            assert float(found) == 14.0
