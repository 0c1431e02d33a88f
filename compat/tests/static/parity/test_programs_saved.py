"""What servers of a program saved is what they held, and training goes on from it as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleet_programs as static
from fleet.errors import CheckpointError, NotSupportedError, UsageError
from fleet_programs import layers, optimizer
from program_support.programs_cluster import Cluster, Trainer
from program_support.programs_models import Model, by, ctr, fit_a_line, go_on_here, mlp
from support.parity.saved import differences, saved

pytestmark = pytest.mark.timeout(300)
BEFORE, AFTER = range(5), range(5, 10)
TOLERANCE = 1e-5


def save(trainer: Trainer, folder: Path) -> None:
    with static.scope_guard(trainer.scope):
        static.io.save_persistables(trainer.executor, folder, trainer.main)


def load(trainer: Trainer, folder: Path) -> None:
    with static.scope_guard(trainer.scope):
        static.io.load_persistables(trainer.executor, folder, trainer.main)


def load_here(model: Model, folder: Path) -> Trainer:
    """One process with the program that was never cut."""
    here = Trainer(model, 0)
    here.start()
    load(here, folder)
    return here


def normed() -> Model:
    """With running means, a schedule and counts; fed the same in every trainer, whose statistics are its own."""

    def minimize(loss: Any) -> object:
        return optimizer.Adam(layers.exponential_decay(0.02, 3, 0.5, staircase=True)).minimize(loss)

    model = mlp(minimize, hidden=160, has_norm=True)
    return Model(model.main, model.startup, model.loss, lambda step, _: model.batch(step, 0))


def counted() -> Model:
    """Every row has a count of its own."""
    return ctr(by(optimizer.Adam, 0.01, epsilon=1e-3))


@pytest.mark.parametrize("make", [ctr, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in (counted, normed))])
def test_training_goes_on_as_if_never_interrupted(make: Any, tmp_path: Path) -> None:
    model = make()
    folder = tmp_path / "saved"
    with Cluster(model) as cluster:
        cluster.train(BEFORE)
        save(cluster.trainers[0], folder)
        held = cluster.held()
        assert not differences(held, saved(folder)), "what was saved is what the servers held, bit for bit"
        expected = cluster.train(AFTER)
    for num_servers in (1, 3):
        with Cluster(model, num_servers, model_dir=folder) as cluster:
            assert not differences(cluster.held(), held)
            if num_servers == 3:  # trainers have taken their own variables; to ask for them again changes nothing
                for trainer in cluster.trainers:
                    load(trainer, folder)
            np.testing.assert_array_equal(cluster.train(AFTER), expected)
    here = load_here(model, folder)
    num_workers = 1 if make is normed else 2
    losses = go_on_here(model, here.executor, here.scope, AFTER, num_workers)
    np.testing.assert_allclose(losses, expected.mean(1), rtol=TOLERANCE)


def test_one_trainer_lets_running_servers_load(tmp_path: Path) -> None:
    model = normed()
    with Cluster(model, num_trainers=1) as cluster:
        (trainer,) = cluster.trainers
        cluster.train(BEFORE)
        save(trainer, tmp_path / "saved")
        expected = cluster.train(AFTER)
        load(trainer, tmp_path / "saved")
        np.testing.assert_array_equal(cluster.train(AFTER), expected)


def test_a_checkpoint_of_geo_mode_has_values_and_the_trainers_own_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = ctr()
    geo = {"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 3}
    with Cluster(model, config=geo) as cluster:
        cluster.train(BEFORE)
        cluster.all(Trainer.flush)
        save(cluster.trainers[0], tmp_path / "saved")
        assert "each worker keeps the optimizer state of its rows; it is not in" in caplog.text
        held = cluster.held()
        moment = cluster.trainers[0]["fc_0.w_0_moment_0"]
    here = load_here(model, tmp_path / "saved")
    np.testing.assert_array_equal(here["fc_0.w_0"].reshape(-1), held["dense fc_0.w_0, values"])
    keys = held["table slots_w, keys"]
    np.testing.assert_array_equal(here["slots_w"][keys], held["table slots_w, values"])
    np.testing.assert_array_equal(here["fc_0.w_0_moment_0"], moment)
    assert moment.any()
    assert not here["slots_w_moment_0"].any()


def test_a_checkpoint_that_does_not_belong_here(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    with Cluster(fit_a_line(), 1) as cluster:
        cluster.train(BEFORE)
        save(cluster.trainers[0], folder)
        trainer = cluster.trainers[0]
        cluster.train(AFTER)
        with pytest.raises(NotSupportedError, match="other trainers would go on meanwhile; give the folder to"):
            load(trainer, folder)
        with pytest.raises(UsageError, match="filename: a program with servers is saved as a folder of pieces"):
            static.io.save_persistables(trainer.executor, folder, trainer.main, "all")
    before = static.Scope()
    with pytest.raises(CheckpointError, match=r"fc_0.w_0"):
        load_here(mlp(), folder)
    with static.scope_guard(before), pytest.raises(UsageError, match="filename: a program with servers"):
        static.io.load_persistables(static.Executor(), folder, fit_a_line().main, "all")
    assert not before.tensors
