"""A server where a change fails half-way, after its journal has it, is started again and makes it from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(120)

TRAIN = """
    import json, os, pathlib, sys
    import torch
    import fleet

    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.init(strategy=strategy)
    if fleet.is_server():
        if fleet.server_index() == 1 and os.environ["FLEET_LIFE"] == "0":
            from fleet.ps.held.holdings import Holdings
            shrink = Holdings.shrink

            def fails_half_way(held, *more):
                shrink(held, *more)
                raise OSError(28, "No space left on device")

            Holdings.shrink = fails_half_way
        fleet.run_server()
        sys.exit()
    entry = fleet.entries.ShowClickEntry("show", "click", threshold=0.0)
    model = fleet.distributed_model(fleet.nn.Embedding(2, entry=entry))
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    fleet.init_worker()
    ids = torch.arange(100)
    for step in range(fleet.steps_done(), 2):
        model(ids, show=torch.full((100,), 4.0), click=torch.zeros(100)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    fleet.flush()
    assert fleet.shrink(decay=0.5) == 0
    kept = [fleet.shrink(score_below=score) for score in (0.39, 0.41)]  # 0.1 * 8 * 0.5, on both servers
    pathlib.Path("out").write_text(json.dumps(kept))
    fleet.stop_worker()
"""


def test_a_shrink_that_fails_half_way_is_made_by_the_next_life(tmp_path: Path) -> None:
    program = script(tmp_path, TRAIN)
    options = ["--server_num", 2, "--worker_num", 1, "--durable", "kept", "--log_dir", "log", program]
    done = fleetrun(*options, cwd=tmp_path, warm=True)
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "out").read_text()) == [0, 100]
    assert "worker 0" not in done.err, "it waits for the server"
    assert (
        "a change that is in the journal failed half-way; this server starts again"
        in (tmp_path / "log" / "serverlog.1").read_text()
    )
