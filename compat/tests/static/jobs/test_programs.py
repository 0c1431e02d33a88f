"""Programs in real jobs of several processes: collective, and with servers over the fleet API."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleet_programs.jobs.meta import for_workers
from program_support.programs_collective import CASES, LOCAL, STEPS, merging
from program_support.programs_models import MODELS, Model, train_here
from support.collective.collective_job import run_cases
from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)
TOLERANCE = 1e-5


def test_collective_training_equals_one_process(tmp_path: Path) -> None:
    """Five programs, by `fleet.distributed_optimizer` and by nccl2 mode; averages of parameters once by each."""
    got = run_cases("program_support.programs_collective", list(CASES), 2, tmp_path)
    expected = {name: train_here(build(), STEPS) for name, build in MODELS.items()}
    expected["merged"] = train_here(merged_here(), STEPS)
    for case, name in CASES.items():
        assert isinstance(got[case][0], list), got[case]
        np.testing.assert_allclose(np.mean(got[case], 0), expected[name], rtol=TOLERANCE, err_msg=case)


def merged_here() -> Model:
    """The program whose gradients are merged, as one process trains it."""
    model = MODELS[LOCAL]()
    main, startup = for_workers((model.main, model.startup), merging(), [""], 0)
    return replace(model, main=main, startup=startup)


# The first page of the reference, with other names for the packages; a server says in the end what it was sent.
TRAIN = """
import json

import numpy as np
import torch

import fleet
import fleet_programs as static
from fleet.ps.server import service

class Noted(service.Service):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        noted.append(self)

noted = []
service.Service = Noted
torch.set_num_threads(1)
random = np.random.default_rng(1)

def gen_data():
    x = random.standard_normal((128, 32)).astype("float32")
    return {"x": x, "y": (x[:, :1] > 0).astype("int64")}

def mlp(input_x, input_y, hid_dim=128, label_dim=2):
    fc_1 = static.layers.fc(input=input_x, size=hid_dim, act="tanh")
    fc_2 = static.layers.fc(input=fc_1, size=hid_dim, act="tanh")
    prediction = static.layers.fc(input=[fc_2], size=label_dim, act="softmax")
    cost = static.layers.cross_entropy(input=prediction, label=input_y)
    return static.layers.mean(x=cost)

input_x = static.data(name="x", shape=[None, 32], dtype="float32")
input_y = static.data(name="y", shape=[None, 1], dtype="int64")

cost = mlp(input_x, input_y)
optimizer = static.optimizer.SGD(learning_rate=0.01)

role = fleet.PaddleCloudRoleMaker()
fleet.init(role)

strategy = fleet.DistributedStrategy()
strategy.a_sync = True

optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(cost)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    with open(f"server.{fleet.server_index()}", "w") as out:
        out.write(str(noted[0].state.stats.counts()["pushes"]))

elif fleet.is_worker():
    place = static.CPUPlace()
    exe = static.Executor(place)
    exe.run(static.default_startup_program())
    losses = []
    for i in range(200):
        cost_val = exe.run(
            program=static.default_main_program(),
            feed=gen_data(),
            fetch_list=[cost.name])
        losses.append(float(cost_val[0][0]))
        print("worker_index: %d, step%d cost = %f" % (fleet.worker_index(), i, cost_val[0].item()))
    with open(f"worker.{fleet.worker_index()}", "w") as out:
        json.dump(losses, out)
"""


def test_a_job_without_init_worker_and_stop_worker_ends_by_itself(tmp_path: Path) -> None:
    arguments = ["--server_num", 2, "--worker_num", 2, "--quiet", script(tmp_path, TRAIN)]
    result = fleetrun(*arguments, cwd=tmp_path, environ={"OMP_NUM_THREADS": "1"}, warm=True)
    assert result.code == 0, result.err
    for worker in range(2):
        losses = json.loads((tmp_path / f"worker.{worker}").read_text())
        assert len(losses) == 200
        assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:5])
    assert [(tmp_path / f"server.{index}").read_text() for index in range(2)] == ["400", "400"], "nothing was lost"
