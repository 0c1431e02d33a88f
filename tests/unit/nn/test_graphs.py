"""Parts of a model that are recorded and replayed; here a recording runs its work again, so that a CPU will do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import fleet
from fleet.errors import UsageError
from fleet.nn import recording
from fleet.nn.graphs import BEFORE, MOST, Recorded, parts_of, record_parts


class Clicks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = fleet.nn.Embedding(4, rule=fleet.rules.SGD(lr=0.1))
        self.deep = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
        self.wide = nn.Linear(8, 2)
        self.towers = nn.ModuleList([nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), nn.Identity()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.towers[0](self.deep(x) + self.wide(x))
        return result


@pytest.fixture
def num_replays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Recordings that run on a CPU; how often one was replayed."""
    counted = [0]

    def record(work: Callable[[], Sequence[Any]], device: torch.device, pool: Any) -> tuple[Any, Any, Any]:
        found = work()

        def replay() -> None:
            counted[0] += 1
            with torch.enable_grad():
                again = work()
            for own, new in zip(found, again, strict=True):
                if own is not None:
                    own.detach().copy_(new)

        return found, replay, pool

    def warm_up(work: Callable[[], None], device: torch.device) -> None:
        work()

    monkeypatch.setattr(recording, "record", record)
    monkeypatch.setattr(recording, "warm_up", warm_up)
    return counted


def pair() -> tuple[Clicks, Clicks]:
    """Two models with the same values, of which the second has its parts recorded."""
    torch.manual_seed(3)
    model = Clicks()
    other = copy.deepcopy(model)
    record_parts(other)
    return model, other


def train(model: nn.Module, sizes: Sequence[int], calls: int = 1) -> None:
    """SGD on the same batches whenever it is called; with `calls` batches to a step."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in sizes:
        for _ in range(calls):
            model(torch.randn(size, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def assert_equal(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_parts_are_the_largest_modules_without_tables_that_are_worth_it() -> None:
    model = Clicks()
    assert [name for name, _ in parts_of(model)] == ["deep", "towers.0"]
    assert [name for name, _ in parts_of(model.deep)] == [""]


@pytest.mark.parametrize("calls", [1, 2])
def test_training_is_the_same_bit_by_bit(num_replays: list[int], calls: int) -> None:
    model, other = pair()
    sizes = [5] * 6 + [3, 5, 3, 3, 3, 5]
    train(model, sizes, calls)
    train(other, sizes, calls)
    assert_equal(model, other)
    # Two parts, forward and backward; of each shape the first calls run.
    assert num_replays[0] == 2 * 2 * (len(sizes) * calls - 2 * BEFORE)


def test_a_part_called_again_before_its_backward_runs_as_ever(num_replays: list[int]) -> None:
    model, other = pair()
    train(other, [4] * 4)
    train(model, [4] * 4)
    before = num_replays[0]
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    for one in (model, other):
        (one(x).sum() + one(y).square().sum()).backward()
    assert num_replays[0] - before == 4
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)  # type: ignore[arg-type]


def test_a_call_without_a_backward_hinders_nobody(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [4] * 4)
    other(torch.randn(4, 8))
    before = num_replays[0]
    train(other, [4])
    assert num_replays[0] - before == 4


def test_what_came_out_stays_as_it_is(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [4] * 4)
    first = other(torch.randn(4, 8))
    first.sum().backward()
    before = first.detach().clone()
    other(torch.randn(4, 8))
    assert torch.equal(first, before)


def test_a_second_backward_that_comes_too_late_is_an_error(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [4] * 4)
    loss = other(torch.randn(4, 8)).sum()
    loss.backward(retain_graph=True)
    other(torch.randn(4, 8)).sum().backward()
    with pytest.raises(UsageError, match="backward.. comes a second time"):
        loss.backward()


def test_two_losses_may_go_through_one_call(num_replays: list[int]) -> None:
    model, other = pair()
    x = torch.randn(4, 8)
    for one in (model, other):
        train(one, [4] * 4)
        scores = one(x)
        scores.sum().backward(retain_graph=True)
        scores.square().sum().backward()
    for a, b in zip(model.deep.parameters(), other.deep.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert torch.equal(a.grad, b.grad)


def test_activations_stay_for_a_second_backward(num_replays: list[int]) -> None:
    """What backward frees while it is recorded, later steps of it overwrite in every replay."""
    kept = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            kept.append(ctx)
            return x * x

        @staticmethod
        def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = 2 * ctx.saved_tensors[0] * grads[0]
            return found

    class Squares(nn.Sequential):
        def forward(self, x: torch.Tensor) -> Any:
            return Square.apply(super().forward(x))  # type: ignore[no-untyped-call]

    part = Squares(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
    record_parts(part)
    for _ in range(BEFORE + 1):
        part(torch.randn(4, 8)).sum().backward()
    assert len(kept[-1].saved_tensors) == 1


def test_gradients_that_were_asked_for_stay_as_they_are(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [4] * 4)
    x = torch.randn(4, 8, requires_grad=True)
    before: Any = None
    found: Any = None
    for _ in range(BEFORE + 2):
        before = found
        found = torch.autograd.grad(other.deep(x).square().sum(), [x, *other.deep.parameters()])
    values = [one.clone() for one in before]
    torch.autograd.grad(other.deep(3 * x).sum(), [x])
    assert all(torch.equal(one, value) for one, value in zip(before, values, strict=True))
    assert not {one.data_ptr() for one in before} & {one.data_ptr() for one in found}


def test_backward_is_recorded_without_autocast(num_replays: list[int]) -> None:
    seen: list[bool] = []

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return grads[0]

    class Looked(nn.Sequential):
        def forward(self, x: torch.Tensor) -> Any:
            return Looks.apply(super().forward(x))  # type: ignore[no-untyped-call]

    part = Looked(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
    record_parts(part)
    for _ in range(BEFORE + 2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = part(torch.randn(2, 8)).float().sum()
        loss.backward()
    assert num_replays[0] == 4
    assert not any(seen)


def test_evaluation_and_other_arguments_run_as_ever(num_replays: list[int]) -> None:
    model, other = pair()
    train(model, [4] * 4)
    train(other, [4] * 4)
    before, x = num_replays[0], torch.randn(4, 8)
    with torch.no_grad():
        assert torch.equal(model(x), other(x))
    assert torch.equal(model.eval()(x), other.eval()(x))
    assert torch.equal(other.deep(input=x), model.deep(x))
    assert num_replays[0] == before


def test_parameters_that_were_moved_or_frozen_are_recorded_anew(num_replays: list[int]) -> None:
    model, other = pair()
    for one in (model, other):
        train(one, [4] * 4)
        first, last = one.deep[0], one.deep[3]
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        first.weight.data = first.weight.data.clone()
        last.bias.requires_grad_(False)
        train(one, [4] * 4)
    assert_equal(model, other)


def _put_another_parameter(deep: nn.Sequential) -> None:
    deep[0].weight = nn.Parameter(torch.ones(6, 8))


def _put_another_buffer(deep: nn.Sequential) -> None:
    deep[1].running_mean = torch.full((6,), 3.0)


def _put_another_module(deep: nn.Sequential) -> None:
    deep[2] = nn.Tanh()


def _freeze_statistics(deep: nn.Sequential) -> None:
    deep[1].eval()


@pytest.mark.parametrize(
    "change", [_put_another_parameter, _put_another_buffer, _put_another_module, _freeze_statistics]
)
def test_a_part_that_was_changed_is_recorded_anew(
    num_replays: list[int], change: Callable[[nn.Sequential], None]
) -> None:
    model, other = pair()
    for one in (model, other):
        train(one, [4] * 4)
        change(one.deep)
        num_replays[0] = 0
        train(one, [4] * 5)
    assert_equal(model, other)
    assert num_replays[0] == 2 * 5 + 2 * (5 - BEFORE)


def test_other_parameters_for_one_call_are_used(num_replays: list[int]) -> None:
    model, other = pair()
    x = torch.randn(4, 8)
    for one in (model, other):
        train(one, [4] * 4)
    given = {name: 2 * one.detach() for name, one in model.named_parameters()}
    found = [torch.func.functional_call(one, given, x) for one in (model, other)]
    assert torch.equal(*found)


def test_parameters_that_move_in_every_step_are_never_recorded(num_replays: list[int]) -> None:
    _, other = pair()
    for _ in range(3 * BEFORE):
        train(other, [4])
        for one in other.deep.parameters():
            one.data = one.data.clone()
    forward = other.deep.forward
    assert isinstance(forward, Recorded)
    assert not forward._graphs


def test_a_list_stays_a_list(num_replays: list[int]) -> None:
    class Both(nn.Sequential):
        def forward(self, x: torch.Tensor) -> Any:
            y = super().forward(x)  # type: ignore[no-untyped-call]
            return [y, 2 * y]

    part = Both(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
    record_parts(part)
    for _ in range(BEFORE + 2):
        found = part(torch.randn(2, 8))
        assert isinstance(found, list)
        torch.cat(found).sum().backward()
    assert num_replays[0] == 4


def test_copies_run_as_their_class_says(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [4] * 4)
    for copied in (copy.deepcopy(other.deep), pickle.loads(pickle.dumps(other.deep))):
        assert not isinstance(copied.forward, Recorded)
        assert torch.equal(copied.eval()(x := torch.randn(4, 8)), other.deep.eval()(x))


def test_undone_it_is_as_before() -> None:
    model = Clicks()
    undo = record_parts(model)
    assert isinstance(model.deep.forward, Recorded)
    undo()
    assert "forward" not in model.deep.__dict__


def test_hooks_inside_keep_a_part_from_being_recorded(num_replays: list[int], caplog: pytest.LogCaptureFixture) -> None:
    _, other = pair()
    seen: list[int] = []
    other.deep[0].register_forward_hook(lambda *_: seen.append(1))
    train(other, [4] * 5)
    assert len(seen) == 5
    assert "part 'deep' is not recorded, it runs as ever: '0' in it has hooks" in caplog.text


def test_hooks_that_come_later_are_called(num_replays: list[int], caplog: pytest.LogCaptureFixture) -> None:
    _, other = pair()
    train(other, [4] * 4)
    seen: list[int] = []
    handle = other.deep[0].register_forward_hook(lambda *_: seen.append(1))
    train(other, [4] * 3)
    assert len(seen) == 3
    assert caplog.text.count("has hooks") == 1
    handle.remove()
    before = num_replays[0]
    train(other, [4])
    assert num_replays[0] - before == 4


def test_layers_that_talk_to_other_workers_run_as_ever(
    num_replays: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    _, other = pair()
    other.deep[1] = nn.SyncBatchNorm(6)
    forward = other.deep.forward
    assert isinstance(forward, Recorded)
    forward._look_at(list(other.deep.modules()))
    assert forward._recorded((torch.randn(4, 8),)) is None
    assert "SyncBatchNorm talks to other workers" in caplog.text


def test_a_part_that_gives_no_tensors_runs_as_ever(num_replays: list[int], caplog: pytest.LogCaptureFixture) -> None:
    class Pair(nn.Sequential):
        def forward(self, x: torch.Tensor) -> Any:
            return {"y": super().forward(x)}  # type: ignore[no-untyped-call]

    model = Pair(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
    record_parts(model)
    for _ in range(4):
        model(torch.randn(2, 8))["y"].sum().backward()
    assert num_replays[0] == 0
    assert caplog.text.count("it returns a dict, not a tensor, or a tuple or list of tensors") == 1


def test_no_more_than_some_shapes_are_recorded(num_replays: list[int]) -> None:
    _, other = pair()
    train(other, [2 + size for size in range(MOST + 2) for _ in range(BEFORE + 1)])
    assert num_replays[0] == 2 * 2 * MOST


def test_without_a_gpu_a_job_says_that_nothing_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    here = fleet.Fleet()
    strategy = fleet.DistributedStrategy()
    strategy.cuda_graphs = True
    here.init(strategy=strategy)
    model = here.distributed_model(Clicks())
    here.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    here.init_worker()
    try:
        assert "strategy.cuda_graphs: the model is on the cpu; nothing is recorded" in caplog.text
        assert "forward" not in model.deep.__dict__
    finally:
        here.stop_worker()
