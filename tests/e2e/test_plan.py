"""`fleetrun plan`, run as a user does: on examples, on scripts that never train, and without a trace left behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from support.jobs import LIMIT_S, Result, RunningJob, fleetrun, script
from support.processes import wait_until

pytestmark = pytest.mark.timeout(200)
EXAMPLES = Path(__file__).parents[2] / "examples"


def planned(folder: Path, *arguments: object, warm: bool = True) -> Result:
    environ = {"TMPDIR": str(folder), "FLEET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    result = fleetrun("plan", *arguments, cwd=folder, environ=environ, warm=warm)
    assert not list(folder.glob("fleet-plan-*"))
    return result


def as_json(folder: Path, *arguments: object) -> dict[str, Any]:
    result = planned(folder, "--json", *arguments)
    assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


def test_the_quickstart_has_a_plan_and_trains_no_further(tmp_path: Path) -> None:
    """In new interpreters, as it is."""
    result = planned(tmp_path, EXAMPLES / "quickstart/train.py", "--batch_size", 64, warm=False)
    assert result.code == 0, result.err
    assert "Sequential with Adam, batches of 64\n" in result.out
    assert "median of repeated steps" in result.out
    assert f"    python {EXAMPLES / 'quickstart/train.py'} --batch_size 64\n" in result.out
    assert "accuracy" not in result.out + result.err
    assert not list(tmp_path.iterdir())


def test_the_estimate_of_the_quickstart_is_what_the_step_had(tmp_path: Path) -> None:
    found = as_json(tmp_path, "--num_gpus", 4, "--gpu_memory", "16GiB", EXAMPLES / "quickstart/train.py")
    dense, seen = found["workload"]["dense"], found["workload"]["measured"]
    num_values = 2 * 128 + 128 + 128 * 128 + 128 + 128 * 2 + 2
    assert dense["num_values"] == num_values
    assert dense["parameter_bytes"] == seen["parameter_bytes"] == 4 * num_values
    assert dense["gradient_bytes"] == seen["gradient_bytes"] == 4 * num_values
    assert dense["state_bytes"] == seen["state_bytes"] == 8 * num_values + 6 * 4
    # Inputs, two layers after tanh, and what cross-entropy keeps: its logarithms, the labels, a sum of weights.
    assert seen["activation_bytes"] == 4 * 256 * (2 + 128 + 128 + 2) + 8 * 256 + 4
    assert found["plan"]["command"].startswith("fleetrun --nproc_per_node 4 ")
    assert found["plan"]["times"]["step_s"] is None  # nobody has measured such a GPU


def test_a_click_model_gets_servers_and_is_asked_for_its_rows(tmp_path: Path) -> None:
    options = ["--cores", 16, "--host_memory", "64GiB", "--rows", "rows=26,000,000"]
    found = as_json(tmp_path, *options, EXAMPLES / "ctr/train.py")
    assert found["plan"]["mode"] == "servers, sync"
    assert found["plan"]["command"] == f"fleetrun --server_num 4 --worker_num 4 {EXAMPLES / 'ctr/train.py'}"
    (table,) = found["workload"]["tables"]
    assert (table["width"], table["value_bytes"], table["state_bytes"], table["num_ids"]) == (10, 40, 40, 26_000)
    part = next(one for one in found["plan"]["parts"] if one["what"] == "table rows")
    assert part["estimate"] == 26_000_000 * (40 + 40 + 25)
    assert not found["plan"]["assumed"]


def test_a_recommender_has_a_plan_and_leaves_no_checkpoint(tmp_path: Path) -> None:
    train = EXAMPLES / "recommenders/train.py"
    found = as_json(tmp_path, train, "--model", "deepfm", "--data", "synthetic:2000", "--out", tmp_path / "out")
    assert found["workload"]["model"] == "DeepFM"
    assert found["workload"]["batch_size"] > 1
    assert all("--rows" in one for one in found["plan"]["assumed"])
    assert not list((tmp_path / "out").rglob("step-*"))


BEFORE = """
    import torch
    import fleet

    fleet.init(is_collective=True)
    model = fleet.distributed_model(torch.nn.Linear(4, 1))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
"""


def test_the_script_ends_at_its_first_step_with_its_files_whole(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        BEFORE
        + """
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    log = open("log.txt", "w")
    log.write("header\\n")
    try:
        for step in range(3):
            print("step", step)
            loss = model(torch.ones(2, 4)).sum()
            loss.backward()
            optimizer.step()
            log.write("stepped\\n")
    except BaseException:
        log.write("caught\\n")
    finally:
        open("saved.txt", "w").write("over what was there")
    """,
    )
    result = planned(tmp_path, train)
    assert result.code == 0, result.err
    assert (tmp_path / "log.txt").read_text() == "header\n"
    assert not (tmp_path / "saved.txt").exists()
    assert "step 0\n" in result.err
    assert "step 1" not in result.err


@pytest.mark.parametrize(
    ("rest", "options", "code", "words"),
    [
        (
            "print('no training')",
            [],
            2,
            "ended without an optimizer.step() of what fleet.distributed_optimizer() gives",
        ),
        ("raise ValueError('a mistake')", [], 2, "ended with code 1 before its first step; what it said is above"),
        ("while True: pass", ["--timeout", "1"], 1, "has not come to its first optimizer.step() in 1 s"),
        ("model(torch.ones(2, 4)).sum().backward(); optimizer.step()", ["--rows", "ads=3"], 2, "its tables are: none"),
        ("", ["--rows", "ads"], 2, "--rows 'ads' is not TABLE=NUMBER"),
        ("", ["--num_gpus", "-1"], 2, "--num_gpus must be a whole number >= 0, got -1"),
        ("", ["--gpu_memory", "huge"], 2, "--gpu_memory must be a number of bytes"),
        ("", ["--network", "fast"], 2, "--network 'fast' is not a number of gigabits a second"),
    ],
)
def test_what_has_no_plan_gets_one_line(tmp_path: Path, rest: str, options: list[str], code: int, words: str) -> None:
    result = planned(tmp_path, *options, script(tmp_path, BEFORE + f"    {rest}\n"))
    assert result.code == code
    said = [line for line in result.err.splitlines() if not line.startswith("see docs/errors.md#")]
    assert words in said[-1]
    assert not result.out


def test_what_does_not_fit_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    train = script(tmp_path, BEFORE + "    model(torch.ones(2, 4)).sum().backward()\n    optimizer.step()\n")
    result = planned(tmp_path, "--host_memory", "1MiB", train)
    assert result.code == 3
    assert "does NOT fit" in result.out


def test_half_precision_of_the_script_and_a_second_model_are_seen(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
    import torch
    import fleet

    fleet.init(is_collective=True)
    first = fleet.distributed_model(torch.nn.Linear(4, 1))
    model = fleet.distributed_model(torch.nn.Bilinear(4, 4, 1))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.ones(2, 4), torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
    """,
    )
    found = as_json(tmp_path, train)["workload"]
    assert found["model"] == "Bilinear"
    assert found["switches"] == ["amp"]
    assert found["notes"] == ["the script trains 2 models; this plan is that of the last, a Bilinear"]


TWO_OPTIMIZERS = """
    import torch
    import fleet

    class Clicks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = fleet.nn.Embedding(4, rule=fleet.rules.Adagrad(lr=0.1))
            self.lower, self.upper = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

        def forward(self, ids):
            return self.upper(self.lower(self.rows(ids)))

    fleet.init()
    model = fleet.distributed_model(Clicks())
    first = fleet.distributed_optimizer(torch.optim.SGD(model.lower.parameters(), lr=0.1))
    second = fleet.distributed_optimizer(torch.optim.Adam(model.upper.parameters()))
    fleet.init_worker()
    model(torch.arange(3)).sum().backward()
    first.step()
    second.step()
"""


def test_two_optimizers_are_both_named(tmp_path: Path) -> None:
    found = as_json(tmp_path, script(tmp_path, TWO_OPTIMIZERS))["workload"]
    assert found["optimizer"] == "SGD and Adam"
    assert "this step was that of SGD, the first to be called; Adam would follow" in found["notes"]


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    train = script(tmp_path, "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)\n")
    with RunningJob(["plan", train], cwd=tmp_path, environ={"TMPDIR": str(tmp_path)}) as job:
        wait_until(lambda: (tmp_path / "begun").exists(), LIMIT_S, "the script to begin")
        assert list(tmp_path.glob("fleet-plan-*"))
        job.send(signal.SIGINT)
        result = job.finish()
    assert result.code == 130
    assert not list(tmp_path.glob("fleet-plan-*"))
