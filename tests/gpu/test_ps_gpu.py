"""Parameter-server jobs on a machine with a GPU: workers that train on it, servers that keep dense parameters on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from support.jobs import fleetrun, script

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
]

STEPS = 20

TRAIN = """
    import os, sys
    import numpy as np, torch
    from torch import nn
    import fleet

    mode, first, last, load, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = mode == "async"
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.init_server(load or None)
        fleet.run_server()
        sys.exit()
    device = os.environ["FLEET_DEVICE"]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = fleet.nn.Embedding(8, table="ads", rule=fleet.rules.Adagrad(lr=0.1))
            self.layers = nn.Sequential(nn.Linear(26, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

        def forward(self, ids, x):
            return self.layers(torch.cat([self.rows(ids).flatten(1), x], 1)).squeeze(1)

    def batches():
        for step in range(first, last):
            generator = torch.Generator().manual_seed(1000 * step + fleet.worker_index())
            ids = torch.randint(0, 200, (64, 3), generator=generator)
            x = torch.randn(64, 2, generator=generator)
            yield ids.to(device), x.to(device), ((ids % 7).sum(1) > 9).float().to(device)

    torch.manual_seed(fleet.worker_index())
    model = fleet.distributed_model(Net().to(device))
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True, weight_decay=0.01)
    optimizer = fleet.distributed_optimizer(adam)
    fleet.init_worker()
    assert next(model.parameters()).device.type == device
    losses = []
    for ids, x, y in fleet.prefetch(batches(), model, keys=lambda batch: batch[0]):
        loss = nn.functional.binary_cross_entropy_with_logits(model(ids, x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    fleet.flush()
    fleet.barrier_worker()
    with torch.no_grad():
        rows = model.rows(torch.arange(200, device=device)).cpu().numpy()
    if fleet.is_first_worker():
        fleet.save_persistables(out)
    fleet.barrier_worker()
    dense = torch.cat([one.detach().reshape(-1) for one in model.parameters()]).cpu().numpy()
    np.savez(f"{out}.{fleet.worker_index()}.npz", rows=rows, dense=dense, losses=losses)
    fleet.stop_worker()
"""


def train(
    folder: Path,
    name: str,
    *,
    mode: str = "sync",
    device: str = "cpu",
    server_device: str = "cpu",
    steps: tuple[int, int] = (0, STEPS),
    load: str = "",
) -> list[dict[str, np.ndarray]]:
    """What each of two workers has in the end; the checkpoint is in folder/name."""
    arguments = ["--server_num", 2, "--worker_num", 2, "--device", device, "--server_device", server_device]
    arguments += [
        "--log_dir",
        f"log-{name}",
        script(folder, TRAIN),
        mode,
        *steps,
        load and folder / load,
        folder / name,
    ]
    result = fleetrun(*arguments, cwd=folder, limit_s=120)
    logs = [log.read_text() for log in sorted((folder / f"log-{name}").glob("*log.*"))]
    assert result.code == 0, (result.err, *logs)
    return [dict(np.load(f"{folder / name}.{worker}.npz")) for worker in range(2)]


def assert_close(found: list[dict[str, np.ndarray]], expected: list[dict[str, np.ndarray]], tolerance: float) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        for name in ("losses", "dense", "rows"):
            np.testing.assert_allclose(mine[name], theirs[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, np.ndarray]]:
    """The whole training without a GPU."""
    return train(tmp_path_factory.mktemp("cpu"), "whole")


def test_sync_training_on_the_gpu_is_that_on_the_cpu(tmp_path: Path, on_cpu: list[dict[str, np.ndarray]]) -> None:
    found = train(tmp_path, "gpu", device="cuda")
    assert_close(found, on_cpu, 1e-4)
    assert np.array_equal(found[0]["dense"], found[1]["dense"])
    assert np.array_equal(found[0]["rows"], found[1]["rows"])


def test_async_training_on_the_gpu_learns(tmp_path: Path) -> None:
    for worker in train(tmp_path, "async", mode="async", device="cuda", steps=(0, 150)):
        assert worker["losses"][-10:].mean() < 0.8 * worker["losses"][:10].mean()


def test_dense_parameters_on_the_servers_gpu(tmp_path: Path, on_cpu: list[dict[str, np.ndarray]]) -> None:
    assert_close(train(tmp_path, "gpu", server_device="cuda"), on_cpu, 0.0)


def test_everything_on_the_gpu(tmp_path: Path, on_cpu: list[dict[str, np.ndarray]]) -> None:
    assert_close(train(tmp_path, "gpu", device="cuda", server_device="cuda"), on_cpu, 1e-4)


@pytest.mark.parametrize(("before", "after"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_checkpoint_goes_on_on_the_other_device(
    tmp_path: Path, on_cpu: list[dict[str, np.ndarray]], before: str, after: str
) -> None:
    half = STEPS // 2
    train(tmp_path, "first", server_device=before, steps=(0, half))
    found = train(tmp_path, "second", server_device=after, steps=(half, STEPS), load="first")
    expected = [{**worker, "losses": worker["losses"][half:]} for worker in on_cpu]
    assert_close(found, expected, 0.0)
