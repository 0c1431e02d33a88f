"""fleet.ps.worker.sending.flat: parameters as views of flat buffers, and the spans that travel."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from fleet.errors import CommunicationError, UsageError
from fleet.ps.job.dense_spec import DenseBlock
from fleet.ps.job.from_torch import distinct_parameters
from fleet.ps.job.placement import HashName, place
from fleet.ps.worker.sending.flat import FlatParameters
from fleet.ps.worker.sending.flat_layout import ALIGNMENT


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3, bias=False), nn.BatchNorm1d(3))


def blocks_of(
    named: Sequence[tuple[str, torch.Tensor, int]], num_servers: int = 2, **how: Any
) -> tuple[DenseBlock, ...]:
    return place([(name, tuple(one.shape), group) for name, one, group in named], num_servers, min_block=4, **how)


def flatten(net: nn.Module, num_servers: int = 2) -> FlatParameters:
    named = [(name, one, index % 2) for index, (name, one) in enumerate(net.named_parameters())]
    return FlatParameters(named, blocks_of(named, num_servers))


def gradients_of(flat: FlatParameters, server: int) -> list[memoryview]:
    """What a server is sent of both groups."""
    return [piece for group in range(2) for piece in flat.pieces(server, group)]


def train(net: nn.Module, optimizer: torch.optim.Optimizer, clear: Callable[[], None]) -> None:
    batches = torch.Generator().manual_seed(1)
    for _ in range(4):
        clear()
        net(torch.randn(6, 5, generator=batches)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("clear", ["buffer", "none", "zero"])
def test_training_is_bit_for_bit_that_of_torch(clear: str) -> None:
    plain, ours = model(), model()
    flat = flatten(ours)
    torch_adam, adam = (torch.optim.Adam(net.parameters(), 0.1) for net in (plain, ours))
    how: dict[str, Callable[[], None]] = {
        "buffer": flat.zero_grad,
        "none": adam.zero_grad,
        "zero": lambda: adam.zero_grad(set_to_none=False),
    }
    train(plain, torch_adam, torch_adam.zero_grad)
    train(ours, adam, how[clear])
    flat.collect_gradients()
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
        assert torch.equal(gradient(mine), gradient(theirs))


def gradient(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_values_and_gradients_are_kept_and_become_views() -> None:
    net = model()
    net(torch.randn(6, 5)).square().sum().backward()
    before = copy.deepcopy(net)
    kept = [gradient(one).clone() for one in net.parameters()]
    flat = flatten(net)
    for mine, theirs, grad in zip(net.parameters(), before.parameters(), kept, strict=True):
        assert torch.equal(mine, theirs)
        assert torch.equal(gradient(mine), grad)
        assert mine.untyped_storage().data_ptr() == flat.value_buffer.data_ptr()
        assert gradient(mine).untyped_storage().data_ptr() == flat.gradient_buffer.data_ptr()
        assert mine.data_ptr() % (4 * ALIGNMENT) == gradient(mine).data_ptr() % (4 * ALIGNMENT) == 0
    flat.zero_grad(set_to_none=False)
    assert all(not gradient(one).any() for one in net.parameters())
    flat.zero_grad()
    assert all(one.grad is None for one in net.parameters())


def joined(flat: FlatParameters, server: int, group: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(b"".join(flat.pieces(server, group))), dtype=torch.float32)


# The last parameter begins on the server before the one that has its rest, whose own parameter lies behind it.
@example([(6,), (), (2,), (5, 0, 0), (4, 2, 2)], 3, None)
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 6), max_size=3).map(tuple), min_size=1, max_size=8),
    st.integers(1, 4),
    st.sampled_from([None, HashName()]),
)
def test_pieces_are_the_blocks_in_order(shapes: list[tuple[int, ...]], num_servers: int, how: Any) -> None:
    net = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in shapes)
    named = [(f"p{index}", one, index % 3) for index, one in enumerate(net) if one.numel()]
    if not named:
        return
    blocks = blocks_of(named, num_servers, dispatcher=how)
    flat = FlatParameters(named, blocks)
    for _, one, _ in named:
        one.grad = torch.randn_like(one)
    flat.collect_gradients()
    lookup = {name: one for name, one, _ in named}
    wanted: dict[tuple[int, int], list[torch.Tensor]] = {}
    grads: dict[tuple[int, int], list[torch.Tensor]] = {}
    for block in blocks:
        place_ = (block.server, block.group)
        wanted.setdefault(place_, []).append(lookup[block.parameter].detach().flatten()[block.begin : block.end])
        grads.setdefault(place_, []).append(gradient(lookup[block.parameter]).flatten()[block.begin : block.end])
    for place_, values in wanted.items():
        assert torch.equal(joined(flat, *place_), torch.cat(grads[place_]))
        assert bytes(flat.values(*place_)) == torch.cat(values).numpy().tobytes()
        assert flat.size(*place_) == sum(map(len, values))
        assert all(begin < end for begin, end in flat.spans(*place_))
        spans = flat.spans(*place_)
        assert all(end != begin for (_, end), (begin, _) in pairwise(spans))  # or they would be one
    before = {place_: torch.cat(values) for place_, values in wanted.items()}
    for place_, old in before.items():
        flat.load_values(*place_, (2 * old).numpy().tobytes())
    for place_, values in wanted.items():  # views of the parameters
        assert torch.equal(torch.cat(values), 2 * before[place_])


def test_values_that_come_from_a_server_are_in_the_model() -> None:
    net = model()
    before = copy.deepcopy(net)
    flat = flatten(net)
    for server in range(2):
        for group in range(2):
            own = np.frombuffer(flat.values(server, group), np.float32)
            unaligned = memoryview(b"x" + (own + 1).tobytes())[1:]
            flat.load_values(server, group, unaligned)
    for mine, theirs in zip(net.parameters(), before.parameters(), strict=True):
        assert torch.equal(mine, theirs + 1)


def test_few_spans() -> None:
    net = nn.ParameterList(nn.Parameter(torch.ones(16)) for _ in range(30))
    named = [(f"p{index}", one, index // 15) for index, one in enumerate(net)]
    flat = FlatParameters(named, place([(name, (16,), group) for name, _, group in named], 3))
    assert all(len(flat.pieces(server, group)) == 1 for server in range(3) for group in range(2))
    assert sum(piece.nbytes for server in range(3) for piece in gradients_of(flat, server)) == 30 * 16 * 4


def test_nothing_for_a_server_without_blocks() -> None:
    flat = flatten(model())
    assert (flat.pieces(9, 0), bytes(flat.values(9, 0)), flat.size(9, 0)) == ((), b"", 0)
    flat.load_values(9, 0, b"")
    nothing = FlatParameters([], [])
    nothing.collect_gradients()
    nothing.zero_grad()
    assert nothing.pieces(0, 0) == ()


def test_an_answer_of_the_wrong_size() -> None:
    flat = flatten(model())
    with pytest.raises(CommunicationError, match="server 1 sent 3 bytes of dense group 0, expected"):
        flat.load_values(1, 0, b"abc")


def replaced(parameter: torch.Tensor) -> torch.Tensor:
    parameter.grad = torch.full_like(parameter, 3.0)
    return torch.full_like(parameter, 3.0)


def transposed(parameter: torch.Tensor) -> torch.Tensor:
    gradient(parameter).copy_(torch.arange(9.0).view(3, 3))
    parameter.grad = gradient(parameter).t()
    return torch.arange(9.0).view(3, 3).t()


def swapped(parameter: torch.Tensor) -> torch.Tensor:
    gradient(parameter).data = torch.full((3, 3), 5.0)
    return torch.full((3, 3), 5.0)


def absent(parameter: torch.Tensor) -> torch.Tensor:
    gradient(parameter).fill_(1)
    parameter.grad = None
    return torch.zeros(3, 3)


def sparse(parameter: torch.Tensor) -> torch.Tensor:
    parameter.grad = None
    nn.functional.embedding(torch.tensor([1, 1]), parameter, sparse=True).sum().backward()
    assert gradient(parameter).is_sparse
    return torch.tensor([[0.0] * 3, [2.0] * 3, [0.0] * 3])


def graph(parameter: torch.Tensor) -> torch.Tensor:
    gradient(parameter).zero_()
    parameter.pow(3).sum().backward(create_graph=True)
    return 3 * parameter.detach() ** 2


@pytest.mark.parametrize("change", [replaced, transposed, swapped, absent, sparse, graph])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_come_back_into_the_buffer(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    parameter = nn.Parameter(torch.randn(3, 3))
    parameter.grad = torch.full((3, 3), 7.0)
    flat = FlatParameters([("p", parameter, 0)], [DenseBlock("p", 0, 9, 0, 0)])
    wanted = change(parameter)
    flat.collect_gradients()
    assert torch.equal(joined(flat, 0, 0).view(3, 3), wanted)
    assert flat.absent([0]) == (["p"] if change is absent else [])
    if change is absent:
        assert parameter.grad is None
        parameter.sum().backward()
        flat.collect_gradients()
    assert not gradient(parameter).requires_grad
    gradient(parameter).fill_(9)
    assert (joined(flat, 0, 0) == 9).all()
    change(parameter)
    flat.zero_grad()
    parameter.sum().backward()
    flat.collect_gradients()
    assert (joined(flat, 0, 0) == 1).all()
    assert not flat.absent([0])


def test_a_sparse_gradient_goes_into_the_view() -> None:
    parameter = nn.Parameter(torch.randn(3, 3))
    flat = FlatParameters([("p", parameter, 0)], [DenseBlock("p", 0, 9, 0, 0)])
    nn.functional.embedding(torch.tensor([1, 1]), parameter, sparse=True).sum().backward()
    flat.collect_gradients()
    assert joined(flat, 0, 0).tolist() == [0, 0, 0, 2, 2, 2, 0, 0, 0]


def test_clipping_and_schedules_work() -> None:
    net = model()
    flat = flatten(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    net(torch.randn(6, 5)).square().sum().backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
    optimizer.step()
    schedule.step()
    flat.collect_gradients()
    total = sum(np.square(np.frombuffer(piece, np.float32)).sum() for s in range(2) for piece in gradients_of(flat, s))
    assert np.sqrt(total) == pytest.approx(1e-3, rel=1e-3)


def test_tied_weights_count_once() -> None:
    one = nn.Linear(4, 4)
    other = nn.Linear(4, 4)
    other.weight = one.weight
    named = [(f"{index}.{name}", p, 0) for index, net in enumerate((one, other)) for name, p in net.named_parameters()]
    assert [name for name, _, _ in distinct_parameters(named)] == ["0.weight", "0.bias", "1.bias"]
    flat = FlatParameters(named, blocks_of(distinct_parameters(named)))
    other(one(torch.ones(4))).sum().backward()
    flat.collect_gradients()
    assert one.weight is other.weight
    assert sum(flat.size(server, 0) for server in range(2)) == 16 + 4 + 4
    with pytest.raises(UsageError, match="a block names the parameter '1.weight', which is not among those declared"):
        FlatParameters(named, blocks_of(named))


def test_parameters_without_elements_have_no_place() -> None:
    named = [("none", nn.Parameter(torch.ones(0, 3)), 0), ("one", nn.Parameter(torch.ones(3)), 0)]
    flat = FlatParameters(named, blocks_of(named))
    assert flat.names == ["one"]


def test_other_strides_become_contiguous() -> None:
    parameter = nn.Parameter(torch.arange(6.0).view(2, 3).t())
    flat = FlatParameters([("p", parameter, 0)], [DenseBlock("p", 0, 6, 0, 0)])
    assert np.frombuffer(flat.values(0, 0), np.float32).tolist() == [0, 3, 1, 4, 2, 5]
    (parameter * torch.arange(6.0).view(3, 2)).sum().backward()
    flat.collect_gradients()
    assert joined(flat, 0, 0).tolist() == [0, 1, 2, 3, 4, 5]


def test_state_dict_and_copies(tmp_path: Path) -> None:
    net, other = model(), model()
    flat = flatten(net)
    with torch.no_grad():
        for one in other.parameters():
            one.add_(1)
    net.load_state_dict(other.state_dict())
    flat.collect_gradients()
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters(), strict=True))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    for state in (torch.load(file), copy.deepcopy(net).state_dict()):
        assert all(torch.equal(state[name], value) for name, value in other.state_dict().items())
    save_file(net.state_dict(), tmp_path / "model.safetensors")
    saved = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(saved[name], value) for name, value in other.state_dict().items())
    twin = copy.deepcopy(net)
    flat.value_buffer.zero_()
    assert all(one.any() for one in list(twin.parameters())[:2])


def reborn(net: nn.Module) -> None:
    for one in net.parameters():
        one.data = one.data.clone()


@pytest.mark.parametrize("move", [lambda net: net.double(), reborn])
def test_a_model_that_moves_away_is_noticed(move: Callable[[nn.Module], object]) -> None:
    net = model()
    flat = flatten(net)
    move(net)
    with pytest.raises(UsageError, match=r"was moved or converted after Fleet took it over"):
        flat.collect_gradients()


def parameter(**how: Any) -> nn.Parameter:
    return nn.Parameter(torch.ones(3, **how))


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ([("a", parameter(dtype=torch.float16), 0)], "'a' must be float32 to live on servers, got torch.float16"),
        ([("a", parameter(), 0), ("b", parameter(dtype=torch.float64), 0)], "'b' must be float32 .* got torch.float64"),
        ([("a", parameter(device="meta"), 0)], "'a' lies on the meta device and has no values"),
        ([("a", nn.UninitializedParameter(), 0)], "'a' has no shape yet"),
        ([("a", parameter(), 1)], "'a' is in group 1, but its blocks in group 0"),
        ([("a", nn.Parameter(torch.ones(4)), 0)], "'a' has 4 elements, but its blocks end at 3"),
    ],
)
def test_parameters_that_cannot_live_on_servers(named: Any, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        FlatParameters(named, [DenseBlock("a", 0, 3, 0, 0)])


def test_two_parameters_over_one_memory() -> None:
    first = parameter()
    with pytest.raises(UsageError, match="'a' and 'b' are two objects over the same memory; make them one object"):
        distinct_parameters([("a", first, 0), ("b", nn.Parameter(first.data), 0)])
