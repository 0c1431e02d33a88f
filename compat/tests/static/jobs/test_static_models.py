"""ResNet and BERT as static programs: the losses of the same models in torch, from the same weights."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fleet_programs as static
from support.jobs import fleetrun

pytestmark = pytest.mark.timeout(300)
ROOT = Path(__file__).parents[4]
STEPS = 5


@pytest.fixture(autouse=True)
def _beside(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("examples", "benchmarks/scripts"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def losses_of_program(example: Any, optimizer: Any, batch: dict[str, Any], values: dict[str, Any]) -> list[float]:
    """Of some steps on one batch, from these weights."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.unique_name.guard(), static.scope_guard(static.Scope()):
        loss, _ = example.network(example.TINY)
        optimizer.minimize(loss)
        exe = static.Executor(static.CPUPlace())
        exe.run(startup)
        static.io.set_program_state(main, values)
        return [float(exe.run(main, feed=batch, fetch_list=[loss])[0][0]) for _ in range(STEPS)]


def losses_of_torch(module: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, Any]) -> list[float]:
    from static_twins import step_of

    x, y = (torch.from_numpy(batch[name]) for name in "xy")
    return [float(step_of(module, optimizer, x, y)) for _ in range(STEPS)]


def test_resnet_is_that_of_torch() -> None:
    import static_resnet50 as example
    from static_twins import ResNet, values

    torch.manual_seed(0)
    size = example.TINY
    module = ResNet(size.blocks, size.width, size.num_classes)
    batch = example.images(8, size, seed=1)
    found = losses_of_program(example, static.optimizer.Momentum(0.02, 0.9), batch, values(module))
    expected = losses_of_torch(module, torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9), batch)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[-1] < 0.9 * found[0]


def test_bert_is_that_of_torch() -> None:
    import static_bert as example
    from static_twins import Bert, values

    torch.manual_seed(0)
    module = Bert(*astuple(example.TINY))
    batch = example.sentences(8, example.TINY, seed=1)
    found = losses_of_program(example, static.optimizer.AdamW(1e-3), batch, values(module))
    expected = losses_of_torch(module, torch.optim.AdamW(module.parameters(), lr=1e-3), batch)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[-1] < 0.99 * found[0]


def test_resnet_50_has_as_many_parameters_as_torchvisions() -> None:
    import static_resnet50 as example

    with static.program_guard(main := static.Program(), static.Program()), static.unique_name.guard():
        example.network(example.Size())
    assert sum(int(np.prod(one.shape)) for one in main.all_parameters() if one.trainable) == 25_557_032


@pytest.mark.parametrize(("name", "words"), [("resnet50", "accuracy"), ("bert", "hidden words that it names")])
def test_the_example_trains_on_two_workers(tmp_path: Path, name: str, words: str) -> None:
    train = ROOT / f"examples/static_{name}.py"
    options = ["--tiny", "--steps", 3, "--batch-size", 4]
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", train, *options, cwd=tmp_path, warm=True)
    assert result.code == 0, result.err
    assert "2 worker(s): loss " in result.out
    assert words in result.out
