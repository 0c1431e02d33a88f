"""Jobs that tests run on a Ray cluster: `python ray_jobs.py ADDRESS JOB CONFIG` writes what came of one into a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, UserCallback

import fleet
from fleet.engines.ray import servers

ASKED = {"CPU": 1.0, "job": 1.0}


def train(config: dict[str, Any]) -> dict[str, Any]:
    """A click model; what comes of it depends on every bit of every step."""
    import hashlib
    import os
    import time

    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits

    class Clicks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1))
            self.layers = nn.Sequential(nn.Linear(3 * 8, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.layers(self.rows(ids).flatten(1)).squeeze(1)
            return out

    fleet.init()
    torch.manual_seed(0)
    model = fleet.distributed_model(Clicks())
    optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.parameters(), lr=1e-2))
    fleet.init_worker()
    me = fleet.worker_index()
    if config.get("data"):
        data = fleet.data.shard(fleet.ray.batches("train", batch_size=20), uneven="drop")
    else:
        ids = torch.randint(1000, (20000, 3), generator=torch.Generator().manual_seed(1))
        data = fleet.data.shard((ids, ((ids % 7).sum(dim=1) > 9).float()), batch_size=20, shuffle=True)
    saved = fleet.Checkpoint(f"{config['folder']}/saved", model=model, optimizer=optimizer, data=data, keep=3)
    with open(f"{config['folder']}/steps-{me}", "a") as note:
        while fleet.steps_done() < config["steps"]:
            for batch in data:
                ids, labels = (batch["ids"], batch["label"]) if isinstance(batch, dict) else batch
                loss = binary_cross_entropy_with_logits(model(ids), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step = fleet.steps_done()
                note.write(f"{time.time()} {os.getpid()} {step}\n")
                note.flush()
                if isinstance(batch, dict):
                    with open(f"{config['folder']}/rows-{me}", "a") as rows:
                        rows.write(f"{step} {' '.join(str(int(row)) for row in batch['row'])}\n")
                time.sleep(config.get("pause", 0.01))
                if step % config.get("save", 1 << 30) == 0:
                    saved.save(step)
                    saved.wait()
                    folder = ray.train.Checkpoint(f"{config['folder']}/saved/step-{step:08d}")
                    ray.train.report({"step": step}, checkpoint=folder if me == 0 else None)
                if step % config.get("report", 1 << 30) == 0:
                    ray.train.report({"loss": loss.item(), "step": step, "worker": me})
                if config.get("until_notice") and (info := ray.train.get_preemption_info()) is not None:
                    return {"ranks": info.preempted_ranks, "has_deadline": info.deadline_ms is not None}
                if step >= config["steps"]:
                    break
    saved.close()
    with torch.no_grad():
        rows = model.rows(torch.arange(1000))
    fleet.stop_worker()
    parts = [rows, *(value for value in model.layers.state_dict().values())]
    digest = hashlib.sha256(b"".join(part.detach().numpy().tobytes() for part in parts)).hexdigest()
    return {"digest": digest, "loss": loss.item(), "workers": fleet.worker_num()}


class Heard(UserCallback):
    """Writes down what Ray tells its callbacks."""

    def __init__(self, path: str) -> None:
        self._path = path

    def after_report(self, run_context: Any, metrics: Any, checkpoint: Any) -> None:  # noqa: ARG002
        with open(self._path, "a") as heard:
            print(json.dumps({"metrics": metrics, "has_checkpoint": checkpoint is not None}), file=heard)


def trainer(config: dict[str, Any], **more: Any) -> fleet.ray.Trainer:
    """The trainer of jobs with servers."""
    run = RunConfig(
        name=config.get("name", "run"),
        storage_path=config["folder"],
        callbacks=[Heard(f"{config['folder']}/heard")],
        checkpoint_config=CheckpointConfig(num_to_keep=2),
    )
    spread = ScalingConfig(num_workers=2, resources_per_worker=ASKED, placement_strategy="SPREAD")
    return fleet.ray.Trainer(
        train,
        servers=2,
        scaling_config=spread,
        resources_per_server=config.get("resources_per_server", ASKED),
        train_loop_config=config,
        run_config=run,
        **more,
    )


def served(config: dict[str, Any]) -> Any:
    """Two servers, two workers."""
    servers.PLACE_S = config.get("patience_s", servers.PLACE_S)
    result = trainer(config).fit()
    checkpoint = None if result.checkpoint is None else result.checkpoint.path
    return {**result.return_value, "metrics": result.metrics, "checkpoint": checkpoint}


def fed(config: dict[str, Any]) -> Any:
    """The same, with a Dataset of blocks that differ in size."""
    import numpy as np

    def rows(first: int, end: int) -> dict[str, Any]:
        ids = np.random.default_rng(first).integers(0, 1000, (end - first, 3))
        label = ((ids % 7).sum(1) > 9).astype(np.float32)
        return {"row": np.arange(first, end), "ids": ids, "label": label}

    parts = [ray.data.from_arrow(_table(rows(*ends))) for ends in [(0, 700), (700, 1300), (1300, 4000)]]
    return trainer({**config, "data": True}, datasets={"train": parts[0].union(*parts[1:])}).fit().return_value


def _table(columns: dict[str, Any]) -> Any:
    import pyarrow

    return pyarrow.table({name: list(values) for name, values in columns.items()})


def tuned(config: dict[str, Any]) -> Any:
    """Two trials, one after the other, each a job with servers of its own."""
    from ray import tune
    from ray.tune.integration.ray_train import TuneReportCallback

    def trial(tried: dict[str, Any]) -> None:
        made = trainer({**config, **tried, "name": f"steps-{tried['steps']}"})
        made.run_config.callbacks.append(TuneReportCallback())
        made.fit()

    tuner = tune.Tuner(
        tune.with_resources(trial, {"CPU": 1}),
        param_space={"steps": tune.grid_search([20, 40])},
        tune_config=tune.TuneConfig(metric="step", mode="max", max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=config["folder"], name="tuned"),
    )
    results = tuner.fit()
    return {"best": results.get_best_result().metrics["step"], "trials": len(results), "errors": results.num_errors}


def together(config: dict[str, Any]) -> Any:
    """A collective job: no servers."""
    run = RunConfig(name="run", storage_path=config["folder"], failure_config=FailureConfig(max_failures=1))
    made = fleet.ray.Trainer(average, workers=2, resources_per_worker=ASKED, train_loop_config=config, run_config=run)
    return made.fit().return_value


def average(config: dict[str, Any]) -> dict[str, Any]:
    """Training by all-reduce, which goes on from its last checkpoint when a worker has died."""
    import os
    import time

    import torch
    from torch import nn

    fleet.init(is_collective=True)
    torch.manual_seed(0)
    model = fleet.distributed_model(nn.Linear(8, 1))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.randn(4000, 8, generator=torch.Generator().manual_seed(1))
    data = fleet.data.shard((x, x.sum(dim=1, keepdim=True)), batch_size=20)
    me = fleet.worker_index()
    folder = f"{config['folder']}/saved"
    with (
        fleet.Checkpoint(folder, model=model, optimizer=optimizer, data=data, resume=True) as saved,
        open(f"{config['folder']}/steps-{me}", "a") as note,
    ):
        step = began = saved.step
        for inputs, wanted in data:
            loss = nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            note.write(f"{time.time()} {os.getpid()} {step}\n")
            note.flush()
            time.sleep(config.get("pause", 0.02))
            if step % 20 == 0:
                saved.save(step)
                ray.train.report({"step": step})
    return {"began": began, "steps": step, "workers": fleet.worker_num(), "loss": loss.item()}


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "served": served,
    "fed": fed,
    "tuned": tuned,
    "together": together,
}

if __name__ == "__main__":
    ray.init(address=sys.argv[1], logging_level="ERROR")
    config = json.loads(sys.argv[3])
    try:
        found = JOBS[sys.argv[2]](config)
    except (fleet.FleetError, ray.train.TrainingFailedError) as error:
        found = {"error": str(error)}
    (Path(config["folder"]) / "result").write_text(json.dumps(found))
    ray.shutdown()
