"""What is on servers comes home: inference models and parameters of trainers' programs; and the way back to servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from fleet.errors import CheckpointError, NotReadyError, NotSupportedError, UsageError
from fleet_programs import io
from program_support.programs_alone import HEIGHT, Alone, feed, geo


def served(folder: Path, executor: static.Executor) -> Any:
    with static.scope_guard(static.Scope()):
        program, names, targets = io.load_inference_model(folder, executor)
        assert not program.notes.keys() & {"servers", "traffic"}
        return executor.run(program, {name: feed(50)[name] for name in names}, targets)[0]


@pytest.mark.parametrize("how", [(), geo(100)], ids=["sync", "geo"])
def test_every_program_of_the_job_makes_the_same_inference_model(tmp_path: Path, how: Any) -> None:
    alone = Alone(how).start()
    alone.train(range(4))
    want = alone.scores()
    programs = [None, alone.main, alone.main.clone(for_test=True), alone.evaluation]
    for number, program in enumerate(programs):
        folder = tmp_path / f"fleet{number}"
        alone.fleet.save_inference_model(alone.executor, folder, ["ids"], [alone.guess], program)
        np.testing.assert_allclose(served(folder, alone.executor), want, rtol=1e-6)
    with static.scope_guard(alone.scope):
        for number, program in enumerate(programs[1:]):
            folder = tmp_path / f"io{number}"
            io.save_inference_model(folder, ["ids"], [alone.guess], alone.executor, program)
            np.testing.assert_allclose(served(folder, alone.executor), want, rtol=1e-6)
    alone.fleet.stop_worker()
    with pytest.raises(NotReadyError, match="the rows of 'rows' are on servers, and this worker has left them; save"):
        alone.fleet.save_inference_model(alone.executor, tmp_path / "late", ["ids"], [alone.guess])
    alone.fleet.shutdown()


def test_training_in_geo_mode_does_not_notice_that_a_model_was_saved(tmp_path: Path) -> None:
    losses = []
    for is_saved in (True, False):
        alone = Alone(geo(3)).start()
        begin = alone.train(range(4))
        worker = alone.trainer.worker
        known = len(worker.policy._copies[0])  # type: ignore[attr-defined]
        if is_saved:
            alone.fleet.save_inference_model(alone.executor, tmp_path / "served", ["ids"], [alone.guess])
            assert len(worker.policy._copies[0]) == known, "rows of others stay where they are"  # type: ignore[attr-defined]
        losses.append([*begin, *alone.train(range(4, 10))])
        alone.end()
    assert losses[0] == losses[1]


def test_a_distributed_table_is_saved_as_keys_and_rows(tmp_path: Path) -> None:
    alone = Alone(is_distributed=True).start()
    alone.train(range(3))
    want = alone.scores()
    for number, program in enumerate((alone.main, alone.evaluation)):
        folder = tmp_path / str(number)
        (folder / "tables-1").mkdir(parents=True)
        alone.fleet.save_inference_model(alone.executor, folder, ["ids"], [alone.guess], program)
        np.testing.assert_allclose(served(folder, alone.executor), want, rtol=1e-6)
        assert {"rows.npy", "rows.keys.npy"} < {path.name for path in folder.iterdir()}
        assert [one.name for one in folder.glob("tables*")] == ["tables-1"], "only another worker's is left"
    with static.scope_guard(alone.scope), pytest.raises(NotSupportedError, match="parameter 'rows' is distributed"):
        io.save_params(alone.executor, tmp_path / "b", alone.main)
    alone.fleet.stop_worker()
    with pytest.raises(NotReadyError, match="the rows of 'rows' are on servers, and this worker has left them; save"):
        alone.fleet.save_inference_model(alone.executor, tmp_path / "late", ["ids"], [alone.guess])
    alone.fleet.shutdown()


def test_parameters_are_saved_with_the_rows_of_tables(tmp_path: Path) -> None:
    alone = Alone().start()
    alone.train(range(3))
    want = alone.scores()
    with static.scope_guard(alone.scope):
        io.save_params(alone.executor, tmp_path / "all", alone.main)
        io.save(alone.main, tmp_path / "whole")
        io.save_vars(alone.executor, tmp_path / "some", alone.main, vars=["rows"])
        with pytest.raises(NotSupportedError, match="is on servers; use save_persistables"):
            io.save_vars(alone.executor, tmp_path / "none", alone.main, predicate=io.is_persistable)
    alone.end()
    assert {path.name for path in (tmp_path / "some").iterdir()} == {"rows.npy", "fleet-checksums.json"}
    loads: list[Callable[[Any], None]] = [
        lambda here: io.load_params(here.executor, tmp_path / "all", here.main),
        lambda here: io.load(here.main.clone(for_test=True), tmp_path / "whole"),
        lambda here: io.set_program_state(here.main, io.load_program_state(tmp_path / "all")),
    ]
    for load in loads:
        here = Alone(None)
        here.start()
        with static.scope_guard(here.scope):
            load(here)
        np.testing.assert_allclose(here.scores(), want, rtol=1e-6)
        assert here.scope.tensors["rows"].shape == (HEIGHT, 4)


def test_a_program_that_trains_nothing_takes_the_values_of_a_checkpoint(tmp_path: Path) -> None:
    alone = Alone().start()
    alone.train(range(3))
    want, folder = alone.scores(), tmp_path / "saved"
    alone.fleet.save_persistables(alone.executor, folder)
    alone.end()
    trained = Alone(None)
    with trained.building():
        trained.by.minimize(trained.loss)
    for program in (Alone(None).main, trained.main.clone(for_test=True)):
        here = Alone(None)
        with static.scope_guard(here.scope):
            with pytest.raises(CheckpointError, match="'rows' has no first values; run the startup program"):
                io.load_persistables(here.executor, folder, program)
            here.start()
            io.load_persistables(here.executor, folder, program)
            with pytest.raises(CheckpointError, match="was written by servers; load it with load_persistables"):
                io.load_params(here.executor, folder, program)
        np.testing.assert_allclose(here.scores(), want, rtol=1e-6)
        assert "rows_velocity_0" not in here.scope


def test_values_of_one_process_are_refused_where_servers_would_replace_them(tmp_path: Path) -> None:
    here = Alone(None)
    here.start()
    with static.scope_guard(here.scope):
        io.save_persistables(here.executor, tmp_path, here.main)
    alone = Alone().start()
    with static.scope_guard(alone.scope):
        with pytest.raises(UsageError, match="parameter 'fc_0.w_0' is on servers, whose values .* load_persistables"):
            io.load_params(alone.executor, tmp_path, alone.main)
        with pytest.raises(CheckpointError, match="has variables of a program without servers, and parameters of this"):
            io.load_persistables(alone.executor, tmp_path, alone.main)
        io.save_vars(alone.executor, tmp_path / "own", alone.main, vars=["learning_rate_0"])
        io.load_vars(alone.executor, tmp_path / "own", alone.main, vars=["learning_rate_0"])
    alone.end()


def test_what_does_not_fit_is_found_before_servers_load(tmp_path: Path) -> None:
    alone = Alone().start()
    alone.step()
    alone.fleet.save_persistables(alone.executor, tmp_path / "saved")
    later = alone.train(range(1, 3))
    alone.main.global_block().vars["learning_rate_0"].shape = (2,)
    for load in (
        lambda: alone.fleet.load_model(tmp_path / "saved"),
        lambda: io.load_persistables(alone.executor, tmp_path / "saved", alone.main),
    ):
        with (
            static.scope_guard(alone.scope),
            pytest.raises(CheckpointError, match=r"'learning_rate_0' has shape \[2\], and \[1\]"),
        ):
            load()
    assert alone.trainer.worker.num_steps == 3, "the servers have not gone back"
    alone.main.global_block().vars["learning_rate_0"].shape = (1,)
    alone.scope.tensors["learning_rate_0"].copy_(torch.zeros(1))
    alone.fleet.load_model(tmp_path / "saved")
    assert alone.train(range(1, 3)) == later
    alone.end()
