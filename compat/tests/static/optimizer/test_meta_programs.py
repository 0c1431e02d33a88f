"""What a strategy makes of a program in a collective job: operators that do what they say, compared with torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fleet
import fleet.runtime.collective_job
import fleet_programs as static
from fleet.errors import NotSupportedError, StrategyError, UsageError
from fleet_programs import layers, optimizer
from fleet_programs.jobs.meta import for_workers

Values = dict[str, NDArray[Any]]


@dataclass
class Trained:
    """A program that was trained for some steps."""

    main: static.Program
    values: Values
    losses: list[float]

    @property
    def types(self) -> list[str]:
        return [op.type for op in self.main.global_block().ops]


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[fleet.Fleet]:
    monkeypatch.setenv("FLEET_DEVICE", "cpu")
    made = fleet.Fleet()
    made.init(is_collective=True)
    yield made
    made.shutdown()


def batches(count: int) -> list[dict[str, NDArray[Any]]]:
    random = np.random.default_rng(1)
    made = [random.normal(size=(4, 6)).astype("float32") for _ in range(count)]
    return [{"x": x, "y": x[:, :1] * 2} for x in made]


def train(
    job: fleet.Fleet,
    by: Callable[[], Any],
    feeds: list[dict[str, NDArray[Any]]],
    change: Callable[..., Any] | None = None,
    **fields: Any,
) -> Trained:
    strategy = fleet.DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup), static.unique_name.guard():
        x, y = static.data("x", [None, 6]), static.data("y", [None, 1])
        hidden = layers.gelu(layers.fc(layers.gelu(layers.fc(x, 8)), 8))
        loss = layers.mean(layers.square_error_cost(layers.fc(layers.dropout(hidden, 0.2), 1), y))
        job.distributed_optimizer(by(), strategy).minimize(loss)
    if change is not None:
        main, startup = change(main, startup, strategy)
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        losses = [float(exe.run(main, feed=feed, fetch_list=[loss.name])[0][0]) for feed in feeds]
        tensors = static.global_scope().tensors
        kept = [one.name for one in main.list_vars() if one.persistable]
        return Trained(main, {name: tensors[name].numpy().copy() for name in kept}, losses)


def undropped(main: static.Program, startup: static.Program, _: Any) -> Any:
    """The programs without chance."""
    for op in main.global_block().ops:
        if op.type == "dropout":
            op.attrs["dropout_prob"] = 0.0
    main.changed()
    return main, startup


def weights(trained: Trained) -> Values:
    return {one.name: trained.values[one.name] for one in trained.main.all_parameters()}


def near(one: Values, other: Values, rtol: float = 1e-5) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("by", [lambda: optimizer.Momentum(0.1, 0.9), lambda: optimizer.Adam(0.05)])
def test_merged_gradients_are_those_of_one_large_batch(job: fleet.Fleet, by: Callable[[], Any]) -> None:
    feeds = batches(6)
    joined = [{name: np.concatenate([one[name] for one in feeds[i : i + 3]]) for name in ("x", "y")} for i in (0, 3)]

    merged = train(job, by, feeds, undropped, gradient_merge=True, gradient_merge_configs={"k_steps": 3})
    large = train(job, by, joined, undropped)
    near(weights(merged), weights(large))
    summed = train(
        job, by, feeds[:2], undropped, gradient_merge=True, gradient_merge_configs={"k_steps": 3, "avg": False}
    )
    near(weights(summed), weights(train(job, by, [], undropped)))  # nothing has happened yet
    kept = [name for name in summed.values if name.endswith("@GradientMerge")]
    assert len(kept) == 6
    assert all(np.abs(summed.values[name]).max() > 0 for name in kept)
    assert merged.types.count("cond") == 1
    assert "momentum" not in merged.types


def test_computing_again_changes_no_bit(job: fleet.Fleet) -> None:
    feeds = batches(5)
    plain = train(job, lambda: optimizer.Momentum(0.1, 0.9), feeds)
    again = train(
        job,
        lambda: optimizer.Momentum(0.1, 0.9),
        feeds,
        recompute=True,
        recompute_configs={"checkpoints": ["fc_0.tmp_1", "fc_1.tmp_1", "dropout_0.tmp_0"]},
    )
    assert plain.losses == again.losses
    assert all(np.array_equal(value, again.values[name]) for name, value in weights(plain).items())
    backward = [op for op in again.main.global_block().ops if op.role == "backward"]
    assert [op.type for op in backward if any(".subprog_" in name for name in op.output_names)] == ["gelu"]
    assert plain.types.count("dropout") == again.types.count("dropout") == 1  # another draw would be another mask
    assert "memory_optimize" in again.main.notes


def test_what_was_made_of_a_replaced_value_is_not_computed_again(job: fleet.Fleet) -> None:
    def gradient(**fields: Any) -> NDArray[Any]:
        strategy = fleet.DistributedStrategy()
        for name, value in fields.items():
            setattr(strategy, name, value)
        main, startup = static.Program(), static.Program()
        main.random_seed = startup.random_seed = 5
        with static.program_guard(main, startup), static.unique_name.guard():
            factor = layers.fill_constant([1], "float32", 2.0)
            factor.stop_gradient = True
            scaled = layers.gelu(static.data("x", [None, 6]) * factor)
            layers.increment(factor, 1.0)
            loss = layers.mean(layers.fc(layers.gelu(scaled), 1))
            job.distributed_optimizer(optimizer.SGD(0.1), strategy).minimize(loss)
        exe = static.Executor()
        with static.scope_guard(static.Scope()):
            exe.run(startup)
            found: NDArray[Any] = exe.run(main, feed={"x": batches(1)[0]["x"]}, fetch_list=["fc_0.w_0@GRAD"])[0]
        return found

    again = gradient(recompute=True, recompute_configs={"checkpoints": ["fc_0.tmp_0"]})
    np.testing.assert_array_equal(again, gradient())


def test_lars_and_lamb_are_other_updates(job: fleet.Fleet) -> None:
    feeds = batches(4)
    lars = train(
        job,
        lambda: optimizer.Momentum(0.1, 0.9),
        feeds,
        lars=True,
        lars_configs={"lars_coeff": 0.02, "exclude_from_weight_decay": ["b_0"]},
    )
    direct = train(
        job, lambda: optimizer.LarsMomentum(0.1, 0.9, lars_coeff=0.02, exclude_from_weight_decay=["b_0"]), feeds
    )
    assert str(lars.main) == str(direct.main)
    assert lars.losses == direct.losses
    lamb = train(job, lambda: optimizer.Adam(0.05), feeds, lamb=True, lamb_configs={"lamb_weight_decay": 0.1})
    assert lamb.types.count("lamb") == 6
    assert "adam" not in lamb.types
    assert lamb.losses == train(job, lambda: optimizer.Lamb(0.05, 0.1, epsilon=1e-8), feeds).losses


def torch_losses(first: Values, feeds: list[dict[str, NDArray[Any]]], dtype: torch.dtype) -> list[float]:
    """The same network without dropout by torch's own mixed precision."""
    given = {name: torch.tensor(value, requires_grad=True) for name, value in first.items()}
    found = []
    for feed in feeds:
        value = torch.from_numpy(feed["x"])
        with torch.autocast("cpu", dtype=dtype):
            for index in range(3):
                value = torch.nn.functional.linear(value, given[f"fc_{index}.w_0"].T, given[f"fc_{index}.b_0"])
                value = torch.nn.functional.gelu(value) if index < 2 else value
        loss = ((value.float() - torch.from_numpy(feed["y"])) ** 2).mean()
        for one, gradient in zip(given.values(), torch.autograd.grad(loss, list(given.values())), strict=True):
            one.data -= 0.1 * gradient
        found.append(loss.item())
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision_is_that_of_torch(job: fleet.Fleet, dtype: str) -> None:
    feeds = batches(6)
    configs = {"dtype": dtype, "custom_black_list": ["elementwise_sub"], "init_loss_scaling": 64.0}
    first = weights(train(job, lambda: optimizer.SGD(0.1), [], undropped))
    mixed = train(job, lambda: optimizer.SGD(0.1), feeds, undropped, amp=True, amp_configs=configs)
    expected = torch_losses(first, feeds, getattr(torch, dtype))
    np.testing.assert_allclose(mixed.losses, expected, rtol=2e-2 if dtype == "bfloat16" else 3e-3)
    exact = train(job, lambda: optimizer.SGD(0.1), feeds, undropped).losses
    assert mixed.losses != exact
    looks = [name for name in mixed.types if name in ("check_finite_and_unscale", "update_loss_scaling")]
    assert looks == (["check_finite_and_unscale", "update_loss_scaling"] if dtype == "float16" else [])
    assert mixed.types.index("cast") < mixed.types.index("mul")
    assert mixed.main.global_block().var("fc_0.tmp_0").dtype == dtype
    assert all(value.dtype == np.float32 for value in weights(mixed).values())


def test_what_blocks_read_keeps_its_precision(job: fleet.Fleet) -> None:
    def losses(**fields: Any) -> list[float]:
        strategy = fleet.DistributedStrategy()
        for name, value in fields.items():
            setattr(strategy, name, value)
        main, startup = static.Program(), static.Program()
        main.random_seed = startup.random_seed = 5
        with static.program_guard(main, startup), static.unique_name.guard():
            x = static.data("x", [None, 6])
            hidden = layers.fc(layers.fc(x, 6), 6)
            chosen = static.cond(layers.mean(x) > 0.0, lambda: hidden * 2.0, lambda: hidden * 3.0)
            loss = layers.mean(layers.square(chosen))
            job.distributed_optimizer(optimizer.SGD(0.01), strategy).minimize(loss)
        exe = static.Executor()
        with static.scope_guard(static.Scope()):
            exe.run(startup)
            return [float(exe.run(main, feed={"x": one["x"]}, fetch_list=[loss])[0][0]) for one in batches(4)]

    mixed, plain = losses(amp=True, amp_configs={"init_loss_scaling": 64.0}), losses()
    assert mixed != plain
    np.testing.assert_allclose(mixed, plain, rtol=1e-2)


def test_a_factor_that_float16_does_not_have_divides_its_gradients() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        gradient, factor = static.data("gradient", [2], "float16"), static.data("factor", [1], "float32")
        block = main.global_block()
        outs = {
            "Out": block.create_var("divided", (2,), "float16"),
            "FoundInfinite": block.create_var("found", (1,), "bool"),
        }
        block.append_op("check_finite_and_unscale", {"X": [gradient], "Scale": factor}, outs)
    feed = {"gradient": np.array([32768, 4], "float16"), "factor": np.array([65536.0], "float32")}
    divided, found = static.Executor().run(main, feed=feed, fetch_list=["divided", "found"])
    assert divided.dtype == np.float16
    np.testing.assert_allclose(divided, [0.5, 4 / 65536], rtol=1e-3)
    assert not found[0]


def test_gradients_that_overflow_change_nothing_and_the_factor_follows(job: fleet.Fleet) -> None:
    feeds = batches(5)
    configs = {"init_loss_scaling": 2.0**60, "decr_every_n_nan_or_inf": 2, "decr_ratio": 0.5}
    before = train(job, lambda: optimizer.SGD(0.1), [])
    stuck = train(job, lambda: optimizer.SGD(0.1), feeds, amp=True, amp_configs=configs)
    assert all(np.array_equal(value, stuck.values[name]) for name, value in weights(before).items())
    assert stuck.values["loss_scaling_0"].tolist() == [2.0**58]
    assert stuck.values["num_bad_steps_0"].tolist() == [1]
    grown = train(
        job,
        lambda: optimizer.SGD(0.1),
        feeds,
        amp=True,
        amp_configs={"init_loss_scaling": 8.0, "incr_every_n_steps": 2, "incr_ratio": 4.0},
    )
    assert grown.values["loss_scaling_0"].tolist() == [128.0]
    assert grown.values["num_good_steps_0"].tolist() == [1]
    fixed = {"init_loss_scaling": 8.0, "use_dynamic_loss_scaling": False}
    still = train(job, lambda: optimizer.SGD(0.1), feeds, amp=True, amp_configs=fixed)
    assert still.values["loss_scaling_0"].tolist() == [8.0]
    assert "update_loss_scaling" not in still.types


def test_parameters_are_averaged_when_it_is_their_turn(job: fleet.Fleet) -> None:
    """Alone, but as one of two: the mean with a worker that has not moved is half the way back."""

    def as_one_of_two(main: static.Program, startup: static.Program, strategy: Any) -> Any:
        strategy.localsgd = True
        strategy.localsgd_configs = {"k_steps": 3, "begin_step": 2}
        made = for_workers((main, startup), strategy, ["127.0.0.1:1", "127.0.0.1:2"], 0)
        ops = made[1].global_block().ops
        made[1].global_block().ops = [op for op in ops if op.type not in ("gen_nccl_id", "c_broadcast")]
        return made

    feeds = batches(9)
    found = [train(job, lambda: optimizer.SGD(0.1), feeds[:n], as_one_of_two) for n in range(10)]
    for step in range(1, 10):
        before, after = found[step - 1], found[step]
        is_turn = step <= 2 or (step - 2) % 3 == 0
        for name, value in weights(after).items():
            snapshot = after.values[f"{name}@SNAPSHOT"]
            assert np.array_equal(snapshot, value if is_turn else before.values[f"{name}@SNAPSHOT"]), (name, step)
    plain = train(job, lambda: optimizer.SGD(0.1), feeds[:1])
    for name, value in weights(found[1]).items():
        half = (found[0].values[name] + plain.values[name]) / 2
        np.testing.assert_allclose(value, half, rtol=1e-5, atol=1e-7)


def test_together(job: fleet.Fleet) -> None:
    feeds = batches(6)
    found = train(
        job,
        lambda: optimizer.Adam(0.05),
        feeds,
        amp=True,
        lamb=True,
        gradient_merge=True,
        gradient_merge_configs={"k_steps": 2},
        recompute=True,
        recompute_configs={"checkpoints": ["fc_0.tmp_1", "fc_1.tmp_1"]},
    )
    assert np.isfinite(found.losses).all()
    assert [name for name in found.types if name in ("update_loss_scaling", "cond")] == ["update_loss_scaling", "cond"]
    assert [op.type for op in found.main.blocks[1].ops].count("lamb") == 6


@pytest.mark.parametrize(
    ("by", "fields", "error", "says"),
    [
        (optimizer.SGD, {"lars": True}, UsageError, "strategy.lars needs Momentum, without use_nesterov, got SGD"),
        (optimizer.SGD, {"lamb": True}, UsageError, "strategy.lamb needs Adam, got SGD"),
        (optimizer.Adam, {"localsgd": True}, UsageError, "averages parameters of SGD or Momentum, got Adam"),
        (optimizer.SGD, {"recompute": True}, StrategyError, "strategy.recompute needs strategy.recompute_configs"),
        (optimizer.SGD, {"localsgd": True, "gradient_merge": True}, StrategyError, "do not go together"),
        (optimizer.SGD, {"dgc": True}, NotSupportedError, "strategy.dgc is not built for programs"),
        (optimizer.SGD, {"sharding": True}, NotSupportedError, "strategy.sharding is not built for programs"),
        (
            optimizer.SGD,
            {"recompute": True, "recompute_configs": {"checkpoints": ["x"]}},
            UsageError,
            "checkpoint 'x' is what no layer makes",
        ),
    ],
)
def test_what_does_not_fit(job: fleet.Fleet, by: Any, fields: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        train(job, lambda: by(0.1), [], **fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [("incr_every_n_steps", 0), ("decr_every_n_nan_or_inf", -1), ("decr_ratio", 1.5), ("incr_ratio", 1.0)],
)
def test_how_a_factor_follows_is_checked(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=rf"decorate.*{name}"):
        static.amp.decorate(optimizer.SGD(0.1), **{name: value})  # type: ignore[arg-type]


def test_sparse_gradients_are_not_merged(job: fleet.Fleet) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.gradient_merge = True
    strategy.gradient_merge_configs = {"k_steps": 2}
    with static.program_guard(static.Program(), static.Program()), static.unique_name.guard():
        ids = static.data("ids", [None, 1], "int64")
        loss = layers.mean(layers.embedding(ids, [9, 2], is_sparse=True))
        with pytest.raises(UsageError, match="gradient merge: the gradient of 'embedding_0.w_0' is sparse"):
            job.distributed_optimizer(optimizer.SGD(0.1), strategy).minimize(loss)
