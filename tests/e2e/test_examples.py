"""What the README and the examples show, run as a reader would run it, with the result pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.jobs import fleetrun, python, script

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parents[2]


def readme_block(language: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 1
    return str(blocks[0])


@pytest.mark.parametrize("num_servers", [0, 2])
def test_the_readme_program_learns_and_saves(tmp_path: Path, num_servers: int) -> None:
    train = script(tmp_path, readme_block("python"))
    if num_servers == 0:
        output = python(train, cwd=tmp_path, warm=True)
    else:
        result = fleetrun("--server_num", num_servers, "--worker_num", 2, train, cwd=tmp_path, warm=True)
        assert result.code == 0, result.err
        output = result.out
    found = re.search(r"mean loss over the workers: ([0-9.]+), saved in (.+)", output)
    assert found is not None, output
    assert float(found[1]) < 0.1
    assert (Path(found[2]) / "manifest.json").exists()


def test_the_readme_program_is_short() -> None:
    lines = [line for line in readme_block("python").splitlines() if line.strip()]
    assert len(lines) <= 35


@pytest.mark.parametrize("folder", ["checkpoint", "model"])
def test_the_readme_serves_what_its_program_saved(tmp_path: Path, folder: str) -> None:
    program = readme_block("python")
    if folder == "model":
        program = program.replace('save_persistables("checkpoint")', 'save_inference_model("model")')
    python(script(tmp_path, program), cwd=tmp_path, warm=True)
    definitions = program.partition("fleet.init()")[0]
    check = "\nids = torch.randint(1000, (256, 3))\n" + (
        "print(((served(ids) > 0) == ((ids % 7).sum(dim=1) > 9)).float().mean().item() > 0.95, scores.shape)"
    )
    serve = definitions + readme_block("py").replace('"checkpoint"', f'"{folder}"') + check
    assert python(script(tmp_path, serve, "serve.py"), cwd=tmp_path, warm=True) == "True torch.Size([1])\n"


def test_the_quickstart_separates_the_spirals(tmp_path: Path) -> None:
    train = ROOT / "examples/quickstart/train.py"
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, "--steps", 600, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert "training  step 600/600" in result.out
    found = re.search(r"2 worker\(s\), loss [0-9.]+, accuracy on unseen points ([0-9.]+)", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.98


def test_the_static_network_learns_collectively(tmp_path: Path) -> None:
    train = ROOT / "examples/static_mlp.py"
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, "--mode", "collective", cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    found = re.search(r"collective, 2 worker\(s\): loss [0-9.]+, accuracy on unseen points ([0-9.]+)", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.92


def test_the_static_click_model_learns_beside_servers(tmp_path: Path) -> None:
    train = ROOT / "examples/static_ctr.py"
    result = fleetrun("--server_num", 2, "--worker_num", 2, train, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    found = re.search(r"2 worker\(s\), 2500 rows, AUC on unseen records ([0-9.]+)", result.out)
    assert found is not None, result.out
    assert float(found[1]) > 0.8
    assert (tmp_path / "build/static-ctr/checkpoint/manifest.json").exists()
