"""Five programs, trained by one process and by servers and trainers: together, at their own pace, and apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import NotReadyError, UsageError
from fleet_programs import layers, optimizer
from fleet_programs.backward import clip
from fleet_programs.expressions import names
from fleet_programs.parameters import regularizer
from fleet_programs.program.program import Program, program_guard
from program_support.programs_cluster import Cluster, Trainer
from program_support.programs_models import MODELS, SEED, Feed, Minimize, Model, by, ctr, fit_a_line, mlp, train_here
from support.sweeps import sweep

pytestmark = pytest.mark.timeout(300)
STEPS = range(12)
TOLERANCE = 1e-5
EPSILON = 1e-3  # the rounding of a gradient of almost 0 must not become a step of full length
MODES: dict[str, dict[str, Any]] = {
    "async": {"sync_mode": False},
    "half_async": {"sync_mode": False, "half_async": True},
    "geo": {"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 3},
}


def assert_learns(losses: Any) -> None:
    """Clearly: the last losses are well below the first."""
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < 0.75 * np.mean(losses[:2]), losses


@pytest.mark.parametrize("name", MODELS)
def test_trainers_in_step_equal_one_process(name: str) -> None:
    model = MODELS[name]()
    expected = train_here(model, STEPS)
    assert_learns(expected)
    with Cluster(model) as cluster:
        losses = cluster.train(STEPS)
        np.testing.assert_allclose(losses.mean(1), expected, rtol=TOLERANCE)
        one, other = cluster.trainers
        for parameter in cluster.plan.dense:
            np.testing.assert_array_equal(one[parameter], other[parameter])


@pytest.mark.parametrize(
    ("mode", "name"), sweep(MODES, MODELS, sample=lambda mode, name: mode == "async" or name == "ctr")
)
def test_trainers_out_of_step_learn(mode: str, name: str) -> None:
    # Gradients are late, and no mean is taken: steps must be smaller.
    gentle = {
        "fit_a_line": by(optimizer.SGD, 0.02),
        "mlp": by(optimizer.SGD, 0.05),
        "ctr": by(optimizer.Adagrad, 0.01),
        "word2vec": by(optimizer.SGD, 0.15),
        "conv": by(optimizer.Adam, 0.002),
    }
    with Cluster(MODELS[name](gentle[name]), config=MODES[mode]) as cluster:
        assert_learns(cluster.train(range(30)))


@pytest.mark.parametrize("mode", MODES)
def test_no_gradient_is_lost(mode: str) -> None:
    """With plain descent the servers end where all gradients together lead, whenever each of them came."""
    rate, weight = 0.02, "fc_0.w_0"
    model = fit_a_line(by(optimizer.SGD, rate))

    def train(trainer: Trainer) -> Any:
        given = [model.batch(step, trainer.index) for step in range(40)]
        made = [trainer.executor.run(trainer.main, feed, [f"{weight}@GRAD"], trainer.scope)[0].copy() for feed in given]
        return np.sum(made, 0)

    # In geo mode each of two would keep back half of what it has learned, for its next exchange.
    with Cluster(model, num_trainers=1 if mode == "geo" else 2, config=MODES[mode]) as cluster:
        begin = cluster.trainers[0][weight]
        total = np.sum(cluster.all(train), 0)
        cluster.all(Trainer.flush)
        end = cluster.held()[f"dense {weight}, values"]
    assert abs(end[:3] - 1).max() < 0.5, "what the data say"
    np.testing.assert_allclose(end, (begin - rate * total).reshape(-1), rtol=1e-5, atol=1e-6)


def schedule(loss: Any) -> object:
    return optimizer.Adam(layers.exponential_decay(0.05, 3, 0.5, staircase=True)).minimize(loss)


OPTIMIZERS: dict[str, Minimize] = {
    "sgd": by(optimizer.SGD, 0.3),
    "momentum": by(optimizer.Momentum, 0.1, 0.9),
    "nesterov": by(optimizer.Momentum, 0.1, 0.9, True),
    "adam": by(optimizer.Adam, 0.01, epsilon=EPSILON),
    "adamw": by(optimizer.AdamW, 0.01, epsilon=EPSILON, weight_decay=0.1),
    "adamax": by(optimizer.Adamax, 0.02, epsilon=EPSILON),
    "adagrad": by(optimizer.Adagrad, 0.1, initial_accumulator_value=0.1),
    "decayed_adagrad": by(optimizer.DecayedAdagrad, 0.05, epsilon=EPSILON),
    "rmsprop": by(optimizer.RMSProp, 0.01, epsilon=EPSILON),
    "rmsprop_centered": by(optimizer.RMSProp, 0.01, epsilon=EPSILON, momentum=0.5, centered=True),
    "ftrl": by(optimizer.Ftrl, 0.3, 0.001, 0.001),
    "lars": by(optimizer.LarsMomentum, 1.0, 0.9, 0.01),
    "lamb": by(optimizer.Lamb, 0.05, epsilon=EPSILON),
    "l2_decay": by(optimizer.Momentum, 0.1, 0.9, regularization=regularizer.L2Decay(0.1)),
    "schedule": schedule,
}


def side_by_side(kinds: dict[str, Minimize], *, is_sparse: bool) -> tuple[Model, list[str]]:
    """One program of a small network for each optimizer, and the names of their losses."""
    main, startup = Program(), Program()
    main.random_seed = startup.random_seed = SEED
    losses = []
    with names.guard(), program_guard(main, startup):
        x = static.data("x", [None, 4], "int64") if is_sparse else static.data("x", [None, 32])
        y = static.data("y", [None, 1], "int64")
        for name, minimize in kinds.items():
            hidden = (
                layers.embedding(x, [40, 8], is_sparse=True, param_attr=name)
                if is_sparse
                else layers.fc(x, 16, act="tanh", name=name)
            )
            loss = layers.mean(layers.cross_entropy(layers.fc(hidden, 2, act="softmax"), y))
            minimize(loss)
            losses.append(loss.name)

    def batch(step: int, worker: int) -> Feed:
        x = np.random.default_rng([step, worker]).integers(0, 40, (6, 4))
        return {"x": x, "y": (x.sum(1, keepdims=True) > 78).astype("int64")}

    return Model(main, startup, losses[0], batch if is_sparse else mlp().batch), losses


@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "rows"])
def test_every_optimizer_does_on_a_server_what_it_does_here(is_sparse: bool, tmp_path: Path) -> None:
    """And one process goes on with what a cluster has saved, as another does that was alone from the beginning."""
    model, names_of_losses = side_by_side(OPTIMIZERS, is_sparse=is_sparse)

    def losses(one: Any, program: Program, feed: Feed) -> list[float]:
        return [float(loss[0]) for loss in one.executor.run(program, feed, names_of_losses, one.scope)]

    def wrong(found: Any, expected: Any) -> dict[str, float]:
        worst = np.max(np.abs(np.asarray(found) - expected) / expected, 0)
        return {name: error for name, error in zip(OPTIMIZERS, worst, strict=True) if error > TOLERANCE}

    here, later = Trainer(model, 0), Trainer(model, 0)
    here.start()
    expected = np.array([losses(here, model.main, model.joined(step)) for step in range(12)])
    with Cluster(model, 1) as cluster:
        found = cluster.all(lambda one: [losses(one, one.main, model.batch(step, one.index)) for step in range(8)])
        assert not wrong(np.mean(found, 0), expected[:8])
        one = cluster.trainers[0]
        with static.scope_guard(one.scope):
            static.io.save_persistables(one.executor, tmp_path, one.main)
    later.start()
    with static.scope_guard(later.scope):
        static.io.load_persistables(later.executor, tmp_path, model.main)
    assert not wrong([losses(later, model.main, model.joined(step)) for step in range(8, 12)], expected[8:])
    assert expected[-1].mean() < expected[0].mean()


def test_clipped_gradients_need_one_trainer() -> None:
    model = mlp(by(optimizer.Momentum, 0.3, 0.9, grad_clip=clip.GradientClipByGlobalNorm(0.5)))
    with Cluster(model, num_trainers=1) as cluster:
        losses = cluster.train(STEPS)[:, 0]
    np.testing.assert_allclose(losses, train_here(model, STEPS, 1), rtol=TOLERANCE)
    assert losses.tolist() != train_here(mlp(by(optimizer.Momentum, 0.3, 0.9)), STEPS, 1)
    with pytest.raises(UsageError, match="a mean of clipped gradients is not the clipped mean"), Cluster(model):
        pass


def test_a_trainer_may_start_twice_and_leave_and_come_back() -> None:
    model = mlp()

    def train(trainer: Trainer) -> list[float]:
        losses = trainer.train(range(3))
        trainer.start()  # takes the servers' parameters, not the first ones
        losses += trainer.train(range(3, 6))
        if trainer.index:
            trainer.stop()
            with pytest.raises(NotReadyError, match="this worker has stopped; run the startup program to join"):
                trainer.train([6])
            trainer.start()
        return losses

    with Cluster(model) as cluster:
        losses = [*np.mean(cluster.all(train), 0), *cluster.train(range(6, 9)).mean(1)]
        cluster.all(lambda trainer: trainer.executor.close())  # takes leave
        assert not any(trainer.joined.has_joined for trainer in cluster.trainers)
    np.testing.assert_allclose(losses, train_here(model, range(9)), rtol=TOLERANCE)


def test_a_program_cloned_for_evaluation_reads_the_rows_of_the_servers() -> None:
    """Before the program was cut, or after."""
    model = ctr()
    before = model.main.clone(for_test=True)
    feed = model.batch(100, 0)

    def loss(trainer: Trainer, program: Program) -> float:
        return float(trainer.executor.run(program, feed, [model.loss], trainer.scope)[0][0])

    with Cluster(model, num_trainers=1) as cluster:
        cluster.train(STEPS)
        (trainer,) = cluster.trainers
        losses = {loss(trainer, before), loss(trainer, trainer.main.clone(for_test=True)), trainer.step(feed)}
        assert len(losses) == 1, losses
