"""Calls that mean tensors or programs: what they are given decides, and where nothing tells, the mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet import api
from fleet.errors import NotSupportedError, UsageError, UsageTypeError
from fleet.roles import Role, UserDefinedRoleMaker
from fleet.strategy import Mode
from fleet_paddle import dygraph, imperative, mode, optimizer
from fleet_paddle.batches import io
from fleet_paddle.fluid import layers as fluid_layers
from fleet_paddle.imperative.nn import functional
from fleet_paddle.jobs import metrics, older_fleet
from fleet_paddle.programs import inference_files
from fleet_paddle.programs.networks import composed
from fleet_paddle.strategies.collective_strategy import CollectiveStrategy
from fleet_paddle.strategies.server_modes import StrategyFactory
from fleet_programs import layers

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
LABELS = np.array([[0], [2], [5], [1]])


@pytest.fixture(autouse=True)
def nobody_spoke() -> Iterator[None]:
    programs = static.program_guard(static.Program(), static.Program())
    with mode.kept(), programs, static.scope_guard(static.Scope()):
        yield


def run(*fetches: Any, **feed: Any) -> list[Any]:
    exe = static.Executor(static.CPUPlace())
    exe.run(static.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(fetches))


CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: imperative.add(x, x),
    "subtract": lambda x: imperative.subtract(x, x * 2),
    "multiply": lambda x: imperative.multiply(x, x),
    "divide": lambda x: imperative.divide(x, imperative.exp(x)),
    "pow": lambda x: imperative.pow(x, 2.0),
    "matmul": lambda x: imperative.matmul(x, x, transpose_y=True),
    "maximum": lambda x: imperative.maximum(x, x * -1.0),
    "sum": lambda x: imperative.sum(x, axis=1, keepdim=True),
    "mean": lambda x: imperative.mean(x),
    "mean of rows": lambda x: imperative.mean(x, axis=-1),
    "max": lambda x: imperative.max(x, axis=0),
    "min": lambda x: imperative.min(x, axis=0),
    "argmax": lambda x: imperative.argmax(x, axis=1),
    "topk": lambda x: imperative.topk(x, 2)[0],
    "cumsum": lambda x: imperative.cumsum(x, axis=1),
    "concat": lambda x: imperative.concat([x, x], axis=1),
    "stack": lambda x: imperative.stack([x, x], axis=0),
    "split": lambda x: imperative.split(x, 2, axis=1)[1],
    "reshape": lambda x: imperative.reshape(x, [-1, 3]),
    "transpose": lambda x: imperative.transpose(x, [1, 0]),
    "flatten": lambda x: imperative.flatten(imperative.reshape(x, [4, 2, 3]), 1),
    "unsqueeze": lambda x: imperative.squeeze(imperative.unsqueeze(x, 1), 1),
    "cast": lambda x: imperative.cast(x, "int64"),
    "clip": lambda x: imperative.clip(x, min=0.0),
    "tile": lambda x: imperative.tile(x, [2, 1]),
    "greater_than": lambda x: imperative.greater_than(x, imperative.zeros_like(x)),
    "relu": lambda x: functional.relu(x),
    "gelu": lambda x: functional.gelu(x),
    "leaky_relu": lambda x: functional.leaky_relu(x),
    "hardsigmoid": lambda x: functional.hardsigmoid(x),
    "softmax": lambda x: functional.softmax(x, axis=0),
    "log_softmax": lambda x: functional.log_softmax(x),
    "swish": lambda x: functional.swish(x),
    "softplus": lambda x: functional.softplus(x),
    "linear": lambda x: functional.linear(x, imperative.transpose(x, [1, 0])),
    "mse_loss": lambda x: functional.mse_loss(x, imperative.tanh(x), reduction="sum"),
    "l1_loss": lambda x: functional.l1_loss(x, imperative.tanh(x)),
    "bce": lambda x: functional.binary_cross_entropy_with_logits(x, functional.sigmoid(x)),
    "dropout": lambda x: functional.dropout(x, 0.5, training=False),
}


TIES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5], np.float32)


@pytest.mark.parametrize(
    "call",
    [imperative.round, lambda x: x.round(), fluid_layers.round, lambda x: imperative.round(x + 0.0)],
    ids=["paddle.round", "x.round", "fluid.layers.round", "of a result"],
)
def test_round_is_the_same_everywhere(call: Callable[[Any], Any]) -> None:
    away = [1, 2, 3, -1, -2, -3]
    assert call(imperative.to_tensor(TIES)).tolist() == away
    mode.enable_static()
    assert run(call(static.data("x", [6])), x=TIES)[0].tolist() == away


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_the_same_for_tensors_and_variables(name: str) -> None:
    call = CALLS[name]
    of_tensors = call(imperative.to_tensor(X))
    assert isinstance(of_tensors, torch.Tensor)
    of_variables = call(static.data("x", [None, 6]))
    assert isinstance(of_variables, static.Variable)
    (value,) = run(of_variables, x=X)
    np.testing.assert_allclose(value, of_tensors.numpy(), rtol=1e-5, atol=1e-6)


def test_labels() -> None:
    given: Any = static.data("x", [None, 6])
    wanted: Any = static.data("y", [None, 1], "int64")
    ids: Any = static.data("z", [None], "int64")
    loss, hot = functional.cross_entropy(given, wanted), functional.one_hot(ids, 6)
    values = run(loss, hot, x=X, y=LABELS, z=LABELS[:, 0])
    expected = functional.cross_entropy(imperative.to_tensor(X), imperative.to_tensor(LABELS))
    np.testing.assert_allclose(values[0], expected.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(values[1], np.eye(6)[LABELS[:, 0]])


def test_layers_of_layers() -> None:
    x, y = static.data("x", [None, 6]), static.data("y", [None, 1], "int64")
    hot = layers.one_hot(y, 6)
    made = [composed.label_smooth(hot), composed.label_smooth(hot, hot), layers.hard_swish(x)]
    probabilities = np.eye(6, dtype=np.float32)[LABELS[:, 0]]
    smooth, same, swish, dice = run(*made, composed.dice_loss(hot, y), x=X, y=LABELS)
    np.testing.assert_allclose(smooth, probabilities * 0.9 + 0.1 / 6, rtol=1e-6)
    np.testing.assert_allclose(same, probabilities, rtol=1e-6)
    np.testing.assert_allclose(swish, torch.nn.functional.hardswish(torch.from_numpy(X)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dice, [0.0], atol=1e-4)
    with pytest.raises(UsageError, match="epsilon must be from 0 to 1, got 2"):
        composed.label_smooth(hot, epsilon=2)


def test_the_mode_decides_where_nothing_else_does() -> None:
    assert mode.in_dynamic_mode()
    assert isinstance(imperative.zeros([2]), torch.Tensor)
    mode.enable_static()
    assert not mode.in_dynamic_mode()
    assert isinstance(imperative.full([2], 3.0), static.Variable)
    assert isinstance(imperative.create_parameter([2, 3], "float32"), static.Parameter)
    with mode.guard(static.CPUPlace()):
        assert isinstance(imperative.ones([2]), torch.Tensor)
        assert imperative.state.chosen.device == torch.device("cpu")
    assert mode.is_static()
    assert imperative.state.chosen.device is None
    with pytest.raises(NotSupportedError, match="as_real takes tensors, and is not built for variables"):
        imperative.as_real(static.data("x", [None, 6]))
    with pytest.raises(AttributeError):
        _ = imperative.no_such_name
    mode.seed(7)
    assert static.default_startup_program().random_seed == 7


SAME = {
    "SGD": {"learning_rate": 0.1},
    "Momentum": {"learning_rate": 0.1, "use_nesterov": True},
    "Adadelta": {"learning_rate": 0.1, "epsilon": 1e-3, "rho": 0.8, "weight_decay": 0.01},
    "Adagrad": {"learning_rate": 0.1},
    "Adam": {"learning_rate": 0.1, "weight_decay": 0.01},
    "AdamW": {"learning_rate": 0.1},
    "Adamax": {"learning_rate": 0.1},
    "RMSProp": {"learning_rate": 0.1, "momentum": 0.5},
    "Lamb": {"learning_rate": 0.1},
}


@pytest.mark.parametrize("kind", SAME)
def test_an_optimizer_is_the_same_for_tensors_and_programs(kind: str) -> None:
    first = np.linspace(-1, 1, 6, dtype=np.float32).reshape(6, 1)
    make = getattr(optimizer, kind)
    layer = imperative.nn.Linear(6, 1, imperative.nn.initializer.Assign(first), False)
    of_tensors = make(parameters=layer.parameters(), **SAME[kind])
    attr = static.ParamAttr("w", imperative.nn.initializer.Assign(first))
    loss = layers.mean(layers.square(layers.fc(static.data("x", [None, 6]), 1, param_attr=attr, bias_attr=False)))
    make(**SAME[kind]).minimize(loss)
    exe = static.Executor(static.CPUPlace())
    exe.run(static.default_startup_program())
    for _ in range(3):
        exe.run(feed={"x": X})
        imperative.mean(imperative.square(layer(imperative.to_tensor(X)))).backward()
        of_tensors.step()
        of_tensors.clear_grad()
    trained = static.global_scope().tensors["w"].numpy()
    np.testing.assert_allclose(trained, layer.weight.numpy(), rtol=1e-4, atol=1e-6)


def test_weights_decay_where_a_function_of_their_names_says_so() -> None:
    mode.enable_static()
    one, other = (static.ParamAttr(name, imperative.nn.initializer.Constant(1.0)) for name in ("kept", "faded"))
    out = [layers.fc(static.data("x", [None, 6]), 1, param_attr=attr, bias_attr=False) for attr in (one, other)]
    optimizer.AdamW(0.5, weight_decay=0.1, apply_decay_param_fun=lambda name: name == "faded").minimize(
        layers.mean(layers.concat(out, 1) * 0.0)
    )
    run(out[0], x=X)
    kept, faded = (static.global_scope().tensors[name] for name in ("kept", "faded"))
    np.testing.assert_allclose(kept, 1.0)
    np.testing.assert_allclose(faded, 0.95, rtol=1e-6)


def test_a_schedule_sets_the_rate_of_a_program() -> None:
    schedule = imperative.optimizer.lr.StepDecay(learning_rate=0.5, step_size=1, gamma=0.1)
    sgd = optimizer.SGD(learning_rate=schedule)
    loss = layers.mean(layers.fc(static.data("x", [None, 6]), 1))
    sgd.minimize(loss)
    run(loss, x=X)
    assert sgd.get_lr() == 0.5
    schedule.step()
    assert sgd.get_lr() == pytest.approx(0.05)


def test_optimizers_refuse_what_they_cannot_do() -> None:
    mode.disable_static()
    with pytest.raises(UsageError, match="Adam: parameters must be given after disable_static"):
        optimizer.Adam()
    mode.enable_static()
    with pytest.raises(UsageTypeError, match="SGD: weight_decay must be a number, L1Decay or L2Decay, got 'much'"):
        optimizer.SGD(weight_decay="much")
    with pytest.raises(NotSupportedError, match="lazy_mode is not built for programs"):
        optimizer.AdamW(lazy_mode=True)


def test_strategies_of_version_1() -> None:
    made = [StrategyFactory.create_sync_strategy(), StrategyFactory.create_async_strategy()]
    made += [StrategyFactory.create_half_async_strategy(), StrategyFactory.create_geo_strategy(5)]
    assert [one.mode for one in made] == [Mode.SYNC, Mode.ASYNC, Mode.HALF_ASYNC, Mode.GEO]
    assert made[3].a_sync_configs.k_steps == 5
    with pytest.raises(UsageError, match="update_frequency must be >= 1, got 0"):
        StrategyFactory.create_geo_strategy(0)

    strategy: Any = CollectiveStrategy()
    strategy.mode, strategy.collective_mode = "nccl2", "local_sgd"
    strategy.fuse_all_reduce_ops, strategy.fuse_elewise_add_act_ops = True, True
    strategy.exec_strategy = static.ExecutionStrategy()
    assert strategy.localsgd
    assert strategy.use_local_sgd
    assert strategy.fuse_elewise_add_act_ops
    assert strategy.mode is Mode.OFF
    assert (strategy.use_dist_fc, strategy.dist_fc_config) == (False, None)
    assert [leaf.dotted for leaf in strategy.changed()] == ["localsgd"]
    with pytest.raises(UsageError, match="strategy.mode must be one of 'nccl2', 'collective', got 'ring'"):
        strategy.mode = "ring"
    with pytest.raises(NotSupportedError, match="strategy.use_dist_fc is not built"):
        strategy.use_dist_fc = True
    with pytest.raises(AttributeError, match="no field 'use_locl_sgd'"):
        strategy.use_locl_sgd = True


class FakeUtil:
    """Two workers with the same numbers."""

    def all_reduce(self, value: Any, how: str) -> Any:
        return value * 2 if how == "sum" else value


def test_measures_over_workers() -> None:
    both: Any = FakeUtil()
    static.global_scope().tensors["right"] = torch.tensor([3.0])
    assert metrics.acc("right", np.array([4.0]), util=both) == 0.75
    assert metrics.rmse(np.array(8.0), np.array(2.0), util=both) == 2.0
    assert metrics.mae([1.0, 2.0], 3, util=both) == metrics.mse([1.0, 2.0], 3, util=both) == 1.0
    assert list(metrics.sum([1, 2], util=both)) == [2, 4]
    assert metrics.max(5, util=both) == metrics.min(5, util=both) == 5
    assert metrics.auc(np.array([[0, 1, 3]]), np.array([[3, 1, 0]]), util=both) == 0.96875
    assert metrics.auc(np.array([[0, 1, 3]]), np.zeros((1, 3)), util=both) == 0.5, "no pair to compare"


def test_the_fleet_of_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = api.Fleet()
    monkeypatch.setattr(older_fleet, "shared", shared)
    older_fleet.fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 2, ["127.0.0.1:1"]))
    assert older_fleet.fleet.split_files(["a", "b", "c"]) == ["a", "b"]
    shared.shutdown()
    assert "is_worker" in dir(older_fleet.fleet)
    with pytest.raises(NotSupportedError, match="mode must be 0, got 1"):
        older_fleet.save_persistables(None, "folder", mode=1)
    with pytest.raises(NotSupportedError, match="var_names must be left out"):
        older_fleet.init_server("folder", ["w"])


def test_loaders_and_samplers() -> None:
    data = io.TensorDataset(torch.arange(10), torch.arange(10) * 2)
    batches = list(io.DataLoader(data, batch_size=4, drop_last=True))
    assert [type(one).__name__ for one in batches[0]] == ["Tensor", "Tensor"]
    assert [one[1].numpy().tolist() for one in batches] == [[0, 2, 4, 6], [8, 10, 12, 14]]
    parts = [io.DistributedBatchSampler(data, 2, num_replicas=2, rank=rank) for rank in (0, 1)]
    assert [len(part) for part in parts] == [3, 3]
    assert sorted(place for part in parts for batch in part for place in batch) == list(range(10))
    assert [len(batch) for batch in io.BatchSampler(dataset=data, shuffle=True, batch_size=4)] == [4, 4, 2]
    assert len(list(io.DataLoader(data, batch_sampler=parts[0]))) == 3
    with pytest.raises(UsageError, match="give a dataset or a sampler"):
        io.BatchSampler()
    with pytest.raises(NotSupportedError, match="feed_list and return_list=False are for programs"):
        io.DataLoader(data, return_list=False)


def test_what_prepare_context_gave_stands_for_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "fleet", api.Fleet())
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    assert not api.fleet.is_initialized()
    layer = dygraph.Linear(6, 1)
    model = imperative.DataParallel(layer, dygraph.prepare_context())
    assert api.fleet.is_initialized()
    assert model.parameters() == layer.parameters()
    model.scale_loss(model(imperative.to_tensor(X)).mean()).backward()
    model.apply_collective_grads()
    np.testing.assert_allclose(layer.weight.gradient()[:, 0], X.mean(0), rtol=1e-5)
    api.fleet.shutdown()


def test_an_inference_model_has_two_files_with_one_prefix(tmp_path: Path) -> None:
    x = static.data("x", [None, 6])
    out = layers.fc(x, 2)
    (expected,) = run(out, x=X)
    exe = static.Executor(static.CPUPlace())
    inference_files.save_inference_model(tmp_path / "net", [x], [out], exe)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "fleet-checksums.json",
        "net.pdiparams",
        "net.pdmodel",
    ]
    with static.scope_guard(static.Scope()):
        program, feeds, fetches = inference_files.load_inference_model(tmp_path / "net", exe)
        (value,) = exe.run(program, feed={feeds[0]: X}, fetch_list=fetches)
    np.testing.assert_array_equal(value, expected)
    with pytest.raises(UsageError, match="path_prefix must end in a name"):
        inference_files.load_inference_model(f"{tmp_path}/", exe)


def test_a_loader_may_be_called_and_a_dataset_given_as_a_list() -> None:
    loader = io.DataLoader(io.TensorDataset([torch.arange(6).view(6, 1), torch.arange(6)]), batch_size=4)
    assert [[part.tolist() for part in batch] for batch in loader()] == [
        [[[0], [1], [2], [3]], [0, 1, 2, 3]],
        [[[4], [5]], [4, 5]],
    ]


def test_a_layer_of_tensors_refuses_a_variable() -> None:
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [None, 3])
        with pytest.raises(UsageError, match="Linear was made for tensors and is called with 'x', a variable of a"):
            imperative.nn.Linear(3, 2)(x)
        assert static.default_main_program().global_block().all_parameters() == []


def test_an_optimizer_is_a_class_to_scripts() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    mode.disable_static()
    of_tensors = optimizer.Adam(0.1, parameters=[weight])
    mode.enable_static()
    of_programs = optimizer.Adam(0.1)
    assert isinstance(of_tensors, optimizer.Adam)
    assert isinstance(of_programs, optimizer.Adam)
    assert not isinstance(of_tensors, optimizer.SGD)
    assert isinstance(of_tensors, imperative.optimizer.Optimizer)

    class Halved(optimizer.Adam):  # type: ignore[misc]
        def __init__(self, learning_rate: float, parameters: list[Any]) -> None:
            super().__init__(learning_rate / 2, parameters=parameters)

    derived = Halved(0.1, [weight])
    assert isinstance(derived, optimizer.Adam)
    assert derived.get_lr() == 0.05
    weight.grad = torch.ones(2)
    derived.step()
    assert torch.allclose(weight, torch.full([2], 0.95))
