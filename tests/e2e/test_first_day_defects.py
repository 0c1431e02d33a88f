"""What once came out wrong without a word on a user's first day: a script for each, in calls that existed then."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import fleetrun, python, script

pytestmark = pytest.mark.timeout(120)

HEAD = """
    import sys
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits
    import fleet

    class Clicks(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1))
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.layers = nn.Sequential(nn.BatchNorm1d(24), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

        def forward(self, ids):
            return self.layers(self.frozen(self.rows(ids)).flatten(1)).squeeze(1)

    def start(with_optimizer=True):
        torch.manual_seed(fleet.worker_index() + 10 * with_optimizer)
        model = fleet.distributed_model(Clicks())
        trained = [*model.rows.parameters(), *model.layers.parameters()]
        optimizer = fleet.distributed_optimizer(torch.optim.Adam(trained, lr=1e-2)) if with_optimizer else None
        fleet.init_worker()
        return model, optimizer

    def train(model, optimizer, steps=30):
        generator = torch.Generator().manual_seed(fleet.worker_index())
        for _ in range(steps):
            ids = torch.randint(200, (64, 3), generator=generator)
            loss = binary_cross_entropy_with_logits(model(ids), ((ids % 7).sum(1) > 9).float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def logits(model):
        model.eval()
        with torch.no_grad():
            found = model(torch.arange(150).view(-1, 3))
        model.train()
        return found

    fleet.init()
    if fleet.is_server():
        sys.exit(fleet.run_server())
"""

SERVERS, WORKERS = ("--server_num", 2, "--worker_num", 2), ("--nproc_per_node", 2, "--device", "cpu")

DEFECTS = {
    "1, buffers are not saved and loaded": (
        SERVERS,
        """
        model, optimizer = start()
        train(model, optimizer)
        before = logits(model)
        if fleet.is_first_worker():
            fleet.save_persistables("saved")
        fleet.barrier_worker()
        model.layers[0].reset_running_stats()
        fleet.load_model("saved")
        assert torch.equal(logits(model), before), (logits(model) - before).abs().max()
        """,
    ),
    "1, workers have statistics of their own": (
        SERVERS,
        """
        model, optimizer = start()
        train(model, optimizer)
        first, second = fleet.util.all_gather(model.layers[0].running_mean)
        assert torch.equal(first, second), (first - second).abs().max()
        """,
    ),
    "1, a copy for serving lacks them": (
        (),
        """
        from fleet.checkpoint import read_inference
        model, optimizer = start()
        train(model, optimizer)
        fleet.save_inference_model("model")
        names = {name for name in model.state_dict() if not name.startswith("rows.")}
        assert set(read_inference("model").dense) == names
        """,
    ),
    "2, without an optimizer layers are not loaded": (
        (),
        """
        model, optimizer = start()
        train(model, optimizer)
        before = logits(model)
        fleet.save_persistables("saved")
        fleet.stop_worker()
        fleet.shutdown()
        fleet.init()
        model, _ = start(with_optimizer=False)
        fleet.load_model("saved")
        assert torch.equal(logits(model), before), (logits(model) - before).abs().max()
        """,
    ),
    "3, frozen layers differ between workers": (
        SERVERS,
        """
        model, optimizer = start()
        first, second = fleet.util.all_gather(model.frozen.weight)
        assert torch.equal(first, second)
        """,
    ),
    "3, a second optimizer takes the place of the first": (
        (),
        """
        model = fleet.distributed_model(Clicks())
        parts = model.layers[1], model.layers[3]
        optimizers = [fleet.distributed_optimizer(torch.optim.SGD(part.parameters(), lr=0.1)) for part in parts]
        fleet.init_worker()
        before = [part.weight.clone() for part in parts]
        model(torch.arange(60).view(-1, 3)).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()
        assert not any(torch.equal(part.weight, old) for part, old in zip(parts, before))
        """,
    ),
    "4, a state_dict without rows says nothing": (
        (),
        """
        import logging
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("fleet").addHandler(handler)
        model, optimizer = start()
        train(model, optimizer, 1)
        model.state_dict(), optimizer.state_dict(), model.state_dict(), optimizer.state_dict()
        assert sum("fleet.gather_state_dict" in one for one in said) >= 1, said
        assert len(said) == 2, said
        """,
    ),
    "5, a DataLoader is not divided": (
        SERVERS,
        """
        from torch.utils.data import DataLoader, TensorDataset
        loader = DataLoader(TensorDataset(torch.arange(100)), batch_size=10, shuffle=True)
        seen = torch.cat([batch for (batch,) in fleet.data.shard(loader, uneven="join")])
        every = torch.cat(fleet.util.all_gather(seen))
        assert sorted(every.tolist()) == list(range(100)), len(every)
        """,
    ),
    "5, a NaN trains on": (
        WORKERS,
        """
        fleet.shutdown()
        fleet.init(is_collective=True)
        model = fleet.distributed_model(nn.Linear(4, 1))
        optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        model(torch.full((2, 4), float("nan"))).sum().backward()
        try:
            optimizer.step()
        except fleet.FleetError as error:
            assert "NaN" in str(error), error
        else:
            sys.exit("nobody minds")
        """,
    ),
    "6, ids that were never trained read at random": (
        (),
        """
        model, optimizer = start()
        train(model, optimizer, 1)
        model.eval()
        assert not model.rows(torch.tensor([10**9])).any()
        """,
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_it_is_right_now(defect: str, tmp_path: Path) -> None:
    options, body = DEFECTS[defect]
    end = "" if options == WORKERS else "\n        fleet.stop_worker()\n"
    train = script(tmp_path, HEAD + "\n" + "\n".join(line[4:] for line in (body + end).splitlines()))
    if not options:
        python(train, cwd=tmp_path, warm=True)
        return
    result = fleetrun(*options, train, cwd=tmp_path, warm=True)
    assert result.code == 0, f"{result.out}\n{result.err}"
