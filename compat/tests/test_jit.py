"""`paddle.jit`: Python stays Python; what is saved runs without its class, and can be trained further."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import CheckpointError, UsageError
from fleet_paddle.imperative.nn.base.layer import Layer

paddle: Any = import_module("paddle")
jit, nn = paddle.jit, paddle.nn
InputSpec = paddle.static.InputSpec


class Net(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1D(3)

    @jit.to_static(input_spec=[InputSpec([None, 4], "float32")])  # type: ignore[untyped-decorator]
    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x)) * 2


def test_branches_and_loops_over_values_are_pythons() -> None:
    @jit.to_static  # type: ignore[untyped-decorator]
    def halved(x: Any) -> Any:
        while x.sum() > 1:
            x = x / 2
        return x if x.mean() > 0.1 else -x

    assert halved(paddle.to_tensor([8.0])).numpy() == 1.0
    assert halved(paddle.to_tensor([0.05])).numpy() == pytest.approx(-0.05)
    assert halved.__name__ == "halved"


def test_a_saved_layer_runs_without_its_class(tmp_path: Path) -> None:
    net = Net()
    net.train()
    net(paddle.randn([16, 4]))
    jit.save(net, str(tmp_path / "sub" / "net"))
    assert net.training
    assert {one.name for one in (tmp_path / "sub").iterdir()} == {"net.pdmodel", "net.pdiparams"}
    loaded = jit.load(str(tmp_path / "sub" / "net"))
    x = paddle.randn([7, 4])
    net.eval()
    loaded.eval()
    assert isinstance(loaded(x), paddle.Tensor)
    assert np.array_equal(loaded(x).numpy(), net(x).numpy())
    assert set(loaded.state_dict()) == set(net.state_dict())
    assert np.array_equal(paddle.load(str(tmp_path / "sub" / "net.pdiparams"))["linear.weight"], net.linear.weight)


def test_a_loaded_layer_is_trained_as_the_one_that_was_saved(tmp_path: Path) -> None:
    net = Net()
    jit.save(net, tmp_path / "net")
    loaded = jit.load(tmp_path / "net")
    x, goal = paddle.randn([8, 4]), paddle.randn([8, 3])
    for one in (net, loaded):
        one.train()
        sgd = paddle.optimizer.SGD(0.1, parameters=one.parameters())
        for _ in range(3):
            ((one(x) - goal) ** 2).mean().backward()
            sgd.step()
            sgd.clear_grad()
    for name, value in net.state_dict().items():
        assert torch.allclose(loaded.state_dict()[name], value, atol=1e-5), name


def test_functions_and_layers_that_were_called_need_no_description(tmp_path: Path) -> None:
    doubled = jit.to_static(lambda x: x * 2)
    doubled(paddle.ones([2, 3]))
    jit.save(doubled, tmp_path / "doubled")
    assert jit.load(tmp_path / "doubled")(paddle.ones([2, 3])).numpy().sum() == 12
    net = jit.to_static(nn.Linear(2, 2))
    with pytest.raises(UsageError, match="give input_spec, a list of paddle.static.InputSpec"):
        jit.save(net, tmp_path / "net")
    jit.save(net, tmp_path / "net", [InputSpec([-1, 2])])
    assert jit.load(tmp_path / "net")(paddle.ones([5, 2])).shape == [5, 2]


def test_a_batch_size_that_would_be_frozen_is_refused(tmp_path: Path) -> None:
    def rows(x: Any) -> Any:
        return x.reshape([int(x.shape[0]), 2, 2]) + paddle.zeros([int(x.shape[0]), 1, 1])

    with pytest.raises(UsageError, match="uses the number of samples or another size"):
        jit.save(rows, tmp_path / "rows", [InputSpec([None, 4])])
    jit.save(rows, tmp_path / "rows", [InputSpec([6, 4])])
    assert jit.load(tmp_path / "rows")(paddle.ones([6, 4])).shape == [6, 2, 2]


def test_what_is_no_saved_layer_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no file .*net.pdmodel"):
        jit.load(tmp_path / "net")
    (tmp_path / "net.pdmodel").write_bytes(b"\x80\x04nonsense")
    with pytest.raises(CheckpointError, match="is no layer that jit.save wrote here"):
        jit.load(tmp_path / "net")


def test_traced_layers_and_older_names(tmp_path: Path) -> None:
    layer = nn.Linear(2, 1)
    out, traced = paddle.fluid.dygraph.TracedLayer.trace(layer, [paddle.ones([3, 2])])
    assert np.array_equal(traced([paddle.ones([3, 2])])[0].numpy(), out.numpy())
    traced.save_inference_model(str(tmp_path / "line"))
    assert jit.load(tmp_path / "line")(paddle.ones([9, 2])).shape == [9, 1]
    assert paddle.fluid.dygraph.declarative is jit.to_static
    jit.ProgramTranslator().enable(False)
    assert not jit.ProgramTranslator.get_instance().enable_to_static
    jit.ProgramTranslator().enable(True)


def test_saving_leaves_each_part_in_its_state(tmp_path: Path) -> None:
    net = Net()
    net.train()
    net.norm.eval()  # frozen
    jit.save(net, str(tmp_path / "net"))
    assert (net.training, net.linear.training, net.norm.training) == (True, True, False)


def test_saving_draws_no_random_numbers(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    paddle.seed(3)
    expected = paddle.rand([4])
    paddle.seed(3)
    jit.save(net, str(tmp_path / "net"), [InputSpec([None, 4])])
    assert torch.equal(paddle.rand([4]), expected)


@pytest.mark.parametrize(("place", "shape"), [(0, [None, 4]), (1, [2, None])])
def test_a_size_that_would_be_frozen_in_a_value_is_refused(place: int, shape: list[Any], tmp_path: Path) -> None:
    def frozen(x: Any) -> Any:
        return x.sum(place) / int(x.shape[place])

    def right(x: Any) -> Any:
        return x.sum(place) / x.shape[place]

    with pytest.raises(UsageError, match="or another size that may be any as a number"):
        jit.save(frozen, tmp_path / "mean", [InputSpec(shape)])
    jit.save(right, tmp_path / "mean", [InputSpec(shape)])
    x = paddle.randn([7 if one is None else one for one in shape])
    np.testing.assert_allclose(jit.load(tmp_path / "mean")(x).numpy(), x.numpy().mean(place), rtol=1e-5, atol=1e-6)


def test_a_loaded_layer_evaluates_until_it_is_told_to_train(tmp_path: Path) -> None:
    net = nn.Dropout(0.5)
    jit.save(net, tmp_path / "net", [InputSpec([None, 50])])
    loaded = jit.load(tmp_path / "net")
    x = paddle.ones([2, 50])
    assert torch.equal(loaded(x), x)
    assert torch.equal(loaded(np.ones((2, 50), "float32")), x)
    loaded.train()
    assert not torch.equal(loaded(x), x)
