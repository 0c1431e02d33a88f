"""A model with every kind of tensor, as plain torch and as a job; run as a script it is a process of the job.

fleetrun ... whole_model.py train FOLDER        trains, saves, loads; leaves what each worker has in FOLDER
python whole_model.py evaluate FOLDER           loads the checkpoint without an optimizer
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import fleet
from fleet import _native

NUM_IDS, WIDTH, BATCH, STEPS = 40, 4, 16, 6
TOWERS = ("layer_norm", "batch_norm", "frozen", "second", "tied", "counted", "lazy")
RATES = {"rows": 0.5, "main": 0.1, "second": 1e-2}
FIRST = fleet.initializers.Uniform(-1.0, 1.0)


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back = nn.Linear(2 * WIDTH, 8, bias=False), nn.Linear(2 * WIDTH, 8, bias=False)
        self.back.weight = self.there.weight
        self.out = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(torch.tanh(self.there(x) + self.back(x.flip(1))))
        return result


class Counted(nn.Module):
    """Buffers of many types; some are random, one counts."""

    calls: torch.Tensor
    mask: torch.Tensor
    scale: torch.Tensor
    shift: torch.Tensor
    hidden: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mask", torch.rand(2 * WIDTH) > 0.5)
        self.register_buffer("scale", torch.rand(2 * WIDTH, dtype=torch.float64))
        self.register_buffer("shift", torch.rand(2 * WIDTH).bfloat16())
        self.register_buffer("hidden", torch.rand(2 * WIDTH), persistent=False)
        self.out = nn.Linear(2 * WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.calls += 1
        used = x * self.mask * self.scale.float() + self.shift.float() + self.hidden
        result: torch.Tensor = self.out(used)
        return result


class Whole(nn.Module):
    """Rows, and a tower of each kind."""

    def __init__(self, rows: nn.Module) -> None:
        super().__init__()
        self.rows = rows
        wide = 2 * WIDTH
        self.layer_norm = nn.Sequential(nn.Linear(wide, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
        self.batch_norm = nn.Sequential(nn.Linear(wide, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        self.frozen = nn.Sequential(nn.Linear(wide, 8), nn.Tanh(), nn.Linear(8, 1))
        self.frozen[0].requires_grad_(False)
        self.second = nn.Sequential(nn.Linear(wide, 8), nn.Tanh(), nn.Linear(8, 1))
        self.tied, self.counted = Tied(), Counted()
        self.lazy = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.rows(ids).flatten(1)
        return torch.cat([getattr(self, tower)(x) for tower in TOWERS], dim=1)


def optimizers(model: Whole) -> list[torch.optim.Optimizer]:
    """One for most of it, and one for a tower of its own; the frozen layer is in neither."""
    main = [model.layer_norm, model.batch_norm, model.frozen[2], model.tied, model.counted, model.lazy]
    return [
        torch.optim.SGD([one for part in main for one in part.parameters()], lr=RATES["main"], momentum=0.9),
        torch.optim.Adam(model.second.parameters(), lr=RATES["second"]),
    ]


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What all workers see together: every id, several times."""
    generator = torch.Generator().manual_seed(5)
    order = torch.cat([torch.randperm(NUM_IDS, generator=generator) for _ in range(STEPS)])
    ids = list(order[: STEPS * BATCH * 2].view(STEPS, BATCH, 2))
    return [(one, ((one.sum(1) % 3) > 0).float()) for one in ids]


def train(model: Whole, steppers: list[torch.optim.Optimizer], worker: int = 0, num_workers: int = 1) -> None:
    """One pass; the loss is the sum of the towers' means."""
    for ids, label in batches():
        own, targets = ids[worker::num_workers], label[worker::num_workers]
        logits = model(own)
        loss = binary_cross_entropy_with_logits(logits, targets.unsqueeze(1).expand_as(logits)) * len(TOWERS)
        for stepper in steppers:
            stepper.zero_grad()
        loss.backward()
        for stepper in steppers:
            stepper.step()


def plain() -> Whole:
    """The truth: everything in one process, nothing of Fleet."""
    first = _native.initialize(FIRST.name, dict(FIRST.args), 0, "rows", torch.arange(NUM_IDS), WIDTH)
    rows = nn.Embedding.from_pretrained(torch.from_numpy(first), freeze=False)
    torch.manual_seed(0)
    model = Whole(rows)
    give_shapes(model)
    train(model, [*optimizers(model), torch.optim.SGD(rows.parameters(), lr=RATES["rows"])])
    return model


def give_shapes(model: Whole) -> None:
    """Lazy modules need a batch."""
    with torch.no_grad():
        model.eval()(torch.zeros(1, 2, dtype=torch.int64))
        model.train()


def values_of(model: Whole) -> dict[str, torch.Tensor]:
    """All tensors but the rows, and what the model computes for every id."""
    model.eval()
    with torch.no_grad():
        ids = torch.arange(NUM_IDS).view(-1, 2)
        outputs = {"logits": model(ids), "all rows": model.rows(torch.arange(NUM_IDS))}
    model.train()
    tensors = {name: one for name, one in model.state_dict().items() if not name.startswith("rows.")}
    hidden = {"counted.hidden": model.counted.hidden}
    return {name: one.detach().clone() for name, one in (tensors | hidden | outputs).items()}


def main(what: str, folder: Path) -> None:
    """Runs in every process of the job."""
    strategy = fleet.DistributedStrategy()
    strategy.sync_batch_norm = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        fleet.run_server()
        return
    worker = fleet.worker_index()
    torch.manual_seed(worker if what == "train" else 99)
    rule = fleet.rules.SGD(lr=RATES["rows"]) if what == "train" else None
    model = fleet.distributed_model(Whole(fleet.nn.Embedding(WIDTH, rule=rule, initializer=FIRST)))
    give_shapes(model)
    if what == "evaluate":
        fleet.init_worker()
        print(fleet.load_model(folder / "checkpoint"))
        torch.save(values_of(model), folder / "evaluated.pt")
        fleet.stop_worker()
        return
    steppers = [fleet.distributed_optimizer(one) for one in optimizers(model)]
    fleet.init_worker()
    train(model, steppers, worker, fleet.worker_num())
    torch.save(values_of(model), folder / f"trained-{worker}.pt")
    fleet.barrier_worker()
    if worker == 0:
        fleet.save_persistables(folder / "checkpoint")
        fleet.save_inference_model(folder / "model")
    fleet.barrier_worker()
    train(model, steppers, worker, fleet.worker_num())
    model.counted.mask.logical_not_()
    fleet.load_model(folder / "checkpoint")
    torch.save(values_of(model), folder / f"loaded-{worker}.pt")
    train(model, steppers, worker, fleet.worker_num())
    fleet.stop_worker()
    torch.save(values_of_layers(model), folder / f"resumed-{worker}.pt")


def values_of_layers(model: Whole) -> dict[str, torch.Tensor]:
    """All tensors but the rows, which are gone."""
    return {name: one.clone() for name, one in model.state_dict().items() if not name.startswith("rows.")}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
