"""fleet.collective.parts.topk: what is sent, what waits, and what a checkpoint keeps of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD

from fleet.collective.parts.topk import Ramp, TopK
from fleet.collective.parts.unsent import Correction, Unsent, share
from fleet.errors import CheckpointError, NotReadyError
from support.collective.slow_dgc import SlowWorker, send_all

SHAPES = {"first": (130, 140), "bias": (130,), "second": (2, 100, 9, 10)}
LARGE = ("first", "second")


@pytest.fixture(scope="module")
def one_worker() -> Iterator[None]:
    """A group of one. For the whole file: Gloo opens a port with the first and keeps it."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model() -> dict[str, Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = {name: Parameter(torch.randn(shape, generator=generator)) for name, shape in SHAPES.items()}
    params["second"] = Parameter(params["second"].detach().to(memory_format=torch.channels_last))
    return params


def gradient(name: str, step: int) -> Tensor:
    seed = 100 * step + list(SHAPES).index(name)
    return torch.randn(SHAPES[name], generator=torch.Generator().manual_seed(seed))


class Training:
    """One worker's model under DGC."""

    def __init__(self, ramp: Ramp, **options: Any) -> None:
        self.params = model()
        self.sgd = SGD(self.params.values(), lr=0.1, momentum=0.9, **options)
        self.topk = TopK({param: name for name, param in self.params.items()}, ramp)
        self.optimizer = self.topk.take(self.sgd)

    def step(self) -> None:
        # DDP lays out its buckets anew after the first step.
        names = list(self.params) if self.topk.step == 0 else list(reversed(self.params))
        for name in names:
            self.params[name].grad = gradient(name, self.topk.step)
        self.topk.reduce_now(self.params[name] for name in names)
        self.optimizer.step()
        self.topk.advance()


def test_the_ramp_walks_through_the_list() -> None:
    ramp = Ramp([0.5, 0.75, 0.9], begin_step=4, num_steps=6)
    assert [ramp.at(step) for step in range(12)] == [None] * 4 + [0.5, 0.5, 0.75, 0.75, 0.9, 0.9, 0.9, 0.9]
    assert Ramp().at(0) == 0.999


@pytest.mark.parametrize(
    "correction",
    [
        Correction(0.9),
        Correction(0.9, weight_decay=0.01),
        Correction(0.5, weight_decay=0.01, dampening=0.25, nesterov=True),
        Correction(0.9, weight_decay=0.01, max_norm=3.0),
    ],
)
@pytest.mark.parametrize("share_sent", [0.001, 0.1, 1.0])
def test_the_native_core_takes_what_torch_takes(correction: Correction, share_sent: float) -> None:
    n = 20_000
    weight = torch.randn(n, generator=torch.Generator().manual_seed(1))
    fast, plain = Unsent(weight), Unsent(weight)
    count = round(n * share_sent)
    for step in range(3):
        grad = torch.randn(n, generator=torch.Generator().manual_seed(step))
        dense = []
        for unsent, native in ((fast, True), (plain, False)):
            index, value, copy = torch.empty(count, dtype=torch.int32), torch.empty(count), grad.clone()
            unsent.take(copy, correction, index, value, seed=step, native=native)
            assert not copy.any()
            dense.append(torch.zeros(n).index_add_(0, index, value))
        assert torch.equal(dense[0], dense[1])
        assert torch.equal(fast.sum, plain.sum)
        assert torch.equal(fast.momentum, plain.momentum)


def test_a_gradient_is_clipped_to_its_norm() -> None:
    unsent, index, value = Unsent(torch.zeros(4)), torch.empty(4, dtype=torch.int32), torch.empty(4)
    unsent.take(torch.tensor([3.0, 0, 4.0, 0]), Correction(0.9, max_norm=0.5), index, value)
    assert index.tolist()[:2] == [0, 2]
    assert value.tolist() == pytest.approx([0.3, 0.4, 0, 0])


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.01, "nesterov": True}])
def test_steps_equal_a_slow_compression(one_worker: None, options: dict[str, Any]) -> None:
    training = Training(Ramp([0.75, 0.99], begin_step=3, num_steps=4), **options)
    slow_params = model()
    slow_sgd = SGD(slow_params.values(), lr=0.1, momentum=0.9, **options)
    workers = {name: SlowWorker(0.9, **options) for name in LARGE}
    for step in range(8):
        sparsity = [None, None, None, 0.75, 0.75, 0.99, 0.99, 0.99][step]
        for name, param in slow_params.items():
            param.grad = gradient(name, step)
            if sparsity is None or name not in LARGE:
                continue
            if step == 3:  # the momentum so far is this worker's
                workers[name].u = slow_sgd.state[param]["momentum_buffer"].clone()
            sent = send_all([workers[name]], [param.grad], param.detach(), sparsity)
            param.data.sub_(0.1 * sent)
            param.grad = None
        slow_sgd.step()
        before = training.topk.bytes_sent
        training.step()
        for name, param in training.params.items():
            torch.testing.assert_close(param, slow_params[name], rtol=1e-5, atol=1e-6, msg=f"{name}, step {step}")
        sent_bytes = training.topk.bytes_sent - before
        values = sum(param.numel() for param in training.params.values())
        if sparsity is None:
            assert sent_bytes == 4 * values
        else:
            counts = sum(round(training.params[name].numel() * (1 - sparsity)) for name in LARGE)
            assert sent_bytes == 8 * counts + 4 * 130
    assert "momentum_buffer" not in training.sgd.state[training.params["first"]]
    assert "momentum_buffer" in training.sgd.state[training.params["bias"]]


def test_who_sends_everything_has_no_momentum_left(one_worker: None) -> None:
    training = Training(Ramp([0.0]))
    plain = model()
    sgd = SGD([plain[name] for name in LARGE], lr=0.1)
    for step in range(3):
        training.step()
        for name in LARGE:
            plain[name].grad = gradient(name, step)
        sgd.step()
    for name in LARGE:
        torch.testing.assert_close(training.params[name], plain[name])


def test_a_checkpoint_goes_on_where_it_was(one_worker: None) -> None:
    ramp = Ramp([0.9], begin_step=1)
    training = Training(ramp)
    for _ in range(3):
        training.step()
    saved = {name: value.clone() for name, value in training.topk.state_dict().items()}
    assert sorted(saved) == ["momentum.first", "momentum.second", "step", "sum.first", "sum.second"]
    again = Training(ramp)
    again.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
    again.topk.load_state_dict([saved], 0)
    for name, param in training.params.items():
        again.params[name].data.copy_(param.data)
    for _ in range(3):
        training.step()
        again.step()
    assert all(torch.equal(param, again.params[name]) for name, param in training.params.items())

    with pytest.raises(CheckpointError, match="gradients of third, which this model does not have"):
        again.topk.load_state_dict([{**saved, "sum.third": torch.zeros(1), "momentum.third": torch.zeros(1)}], 0)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_another_number_of_workers_keeps_the_mean_of_what_is_unsent(num_workers: int) -> None:
    states = [{"step": torch.tensor(7), "sum.a": torch.randn(10), "momentum.a": torch.randn(10)} for _ in range(3)]
    shares = [share(states, num_workers, index) for index in range(num_workers)]
    for key in ("sum.a", "momentum.a"):
        before = torch.stack([state[key] for state in states]).sum(0) / 3
        after = torch.stack([state[key] for state in shares]).sum(0) / num_workers
        torch.testing.assert_close(after, before)
    assert all(int(state["step"]) == 7 for state in shares)
    if num_workers == 3:
        assert all(torch.equal(state["sum.a"], own["sum.a"]) for state, own in zip(states, shares, strict=True))


def test_workers_that_saved_different_things_are_named() -> None:
    with pytest.raises(CheckpointError, match="sum.a is not in the state of both worker 0 and worker 1; load another"):
        share([{"sum.a": torch.zeros(1)}, {}], 1, 0)


def test_other_types_and_parameters_of_no_optimizer_go_whole(one_worker: None) -> None:
    training = Training(Ramp([0.9]))
    stranger, double = Parameter(torch.zeros(20000)), Parameter(torch.zeros(20000, dtype=torch.float64))
    training.sgd.add_param_group({"params": [double]})
    for param in (stranger, double):
        param.grad = torch.full_like(param, 0.5)
        training.topk.reduce_now([param])
        assert param.grad.eq(0.5).all()
    assert not training.optimizer.compressed


def test_it_needs_the_optimizer(one_worker: None) -> None:
    param = Parameter(torch.zeros(20000))
    param.grad = torch.zeros(20000)
    with pytest.raises(NotReadyError, match="pass the optimizer through fleet.distributed_optimizer"):
        TopK({param: "w"}, Ramp()).reduce_now([param])
