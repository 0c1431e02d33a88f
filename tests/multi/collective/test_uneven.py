"""Workers with 7 and 9 batches: a real job ends on both, by each of the three ways, with the same parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)
LENGTHS = (7, 9)

SCRIPT = """
    import json

    import torch
    from torch import nn

    import fleet

    fleet.init(is_collective=True)
    worker = fleet.worker_index()


    def batches():
        generator = torch.Generator().manual_seed(worker)
        for number in range((7, 9)[worker]):
            yield number, torch.randn(4, 3, generator=generator), torch.randn(4, 1, generator=generator)


    torch.manual_seed(1)
    model = fleet.distributed_model(nn.Linear(3, 1))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


    def step(x, y):
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


    def values():
        return [one.flatten().tolist() for one in model.parameters()]


    report = {}
    for way in ("join", "pad", "drop"):
        reader = fleet.data.shard(batches, uneven=way)
        used, ends = [], []
        for _ in range(2):
            for number, x, y in reader:
                step(x, y)
                used.append(number)
            ends.append(values())
        report[way] = {"used": used, "ends": ends}

    # Left early on both workers, the question to the others still open, and taken up again.
    reader = fleet.data.shard(batches, uneven="drop")
    for number, _, _ in reader:
        if number == 2:
            break
    report["left"] = reader.state_dict()["batches_taken"], [number for number, _, _ in reader]

    # Nine samples in batches of four: worker 1 has no part of the last step.
    generator = torch.Generator().manual_seed(2)
    samples = torch.randn(9, 3, generator=generator), torch.randn(9, 1, generator=generator)
    sizes = []
    for x, y in fleet.data.shard(samples, 4, uneven="join"):
        step(x, y)
        sizes.append(len(x))
    report["samples"] = {"sizes": sizes, "end": values()}
    with open(f"{worker}.json", "w") as file:
        json.dump(report, file)
"""

Batch = tuple[torch.Tensor, torch.Tensor]


def batches_of(worker: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(worker)
    shapes = [(4, 3), (4, 1)] * LENGTHS[worker]
    flat = [torch.randn(shape, generator=generator) for shape in shapes]
    return list(zip(flat[::2], flat[1::2], strict=True))


class Reference:
    """One process: at each step the mean of the gradients of those who have a batch."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def train(self, steps: list[list[Batch]]) -> list[list[float]]:
        for present in steps:
            losses = [nn.functional.mse_loss(self.model(x), y) for x, y in present]
            torch.stack(losses).mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
        return [one.detach().flatten().tolist() for one in self.model.parameters()]


USED = {
    "join": [list(range(7)), list(range(9))],
    "pad": [[*range(7), 0, 1], list(range(9))],
    "drop": [list(range(7)), list(range(7))],
}
"""The batches that each worker uses in an epoch."""


def steps_of(used: list[list[int]]) -> list[list[Batch]]:
    data = [batches_of(worker) for worker in range(2)]
    return [
        [data[worker][used[worker][step]] for worker in range(2) if step < len(used[worker])]
        for step in range(max(map(len, used)))
    ]


def assert_close(found: list[list[float]], wanted: list[list[float]]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-5, atol=1e-6)


def test_seven_against_nine_batches_end_on_both_workers(tmp_path: Path) -> None:
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", script(tmp_path, SCRIPT), cwd=tmp_path, warm=True)
    assert result.code == 0, result.out + result.err
    reports: list[dict[str, Any]] = [json.loads((tmp_path / f"{worker}.json").read_text()) for worker in range(2)]
    reference = Reference()
    for way, used in USED.items():
        ends = [reference.train(steps_of(used)) for _ in range(2)]
        for worker, report in enumerate(reports):
            assert report[way]["used"] == used[worker] * 2, (way, worker)
            for found, wanted in zip(report[way]["ends"], ends, strict=True):
                assert_close(found, wanted)
        assert reports[0][way]["ends"] == reports[1][way]["ends"], f"{way}: parameters end equal on both"
    assert [report["left"] for report in reports] == [[3, [3, 4, 5, 6]]] * 2

    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(9, 3, generator=generator), torch.randn(9, 1, generator=generator)
    wanted = reference.train([[(x[:4], y[:4]), (x[4:8], y[4:8])], [(x[8:], y[8:])]])
    assert [report["samples"]["sizes"] for report in reports] == [[4, 1], [4]]
    assert reports[0]["samples"]["end"] == reports[1]["samples"]["end"]
    assert_close(reports[0]["samples"]["end"], wanted)


@pytest.mark.parametrize("first", [0, 1])
def test_a_worker_that_ends_before_the_others_is_named(first: int, tmp_path: Path) -> None:
    """Also worker 0, with which goes the store where it would be asked."""
    train = script(
        tmp_path,
        f"""
        import torch
        from torch import nn
        import fleet
        fleet.init(is_collective=True)
        model = fleet.distributed_model(nn.Linear(3, 1))
        optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in range(2 if fleet.worker_index() == {first} else 4):
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", "--quiet", train, cwd=tmp_path, warm=True)
    assert result.code == 1
    told = (tmp_path / "log" / f"workerlog.{1 - first}").read_text()
    ended = f"worker {first} ended after 2 batches while worker {1 - first} is in batch 3: give every worker the same"
    assert f"CommunicationError: {ended} number" in told
    assert "fleet.data.shard(..., uneven='pad', 'drop' or 'join')" in told
    assert "GLHF" not in told


def test_a_worker_that_fails_has_not_ended_before_the_others(tmp_path: Path) -> None:
    train = script(
        tmp_path,
        """
        import torch
        from torch import nn
        import fleet
        fleet.init(is_collective=True)
        model = fleet.distributed_model(nn.Linear(3, 1))
        for step in range(4):
            assert step < 2 or fleet.worker_index() == 0, "no such record"
            model(torch.ones(4, 3)).sum().backward()
        """,
    )
    result = fleetrun("--nproc_per_node", 2, "--device", "cpu", "--quiet", train, cwd=tmp_path, warm=True)
    assert "worker 1 failed" in result.err
    assert "ended after" not in (tmp_path / "log" / "workerlog.0").read_text()
