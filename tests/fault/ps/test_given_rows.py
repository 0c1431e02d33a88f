"""Rows by value in a durable job: whoever dies meanwhile, they are written once in effect, and trained rows stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import fleetrun, script

pytestmark = pytest.mark.timeout(300)

# Worker 0 dies while first rows are written, while others are, right after that, and once between steps; server 1 when
# rows have been written.
TRAIN = """
    import os, signal, sys
    from pathlib import Path
    import torch
    import fleet
    from fleet.ps.worker.asking import given_rows
    from fleet.ps.worker.calling.client import Client

    is_calm = len(sys.argv) > 1
    life = int(os.environ.get("FLEET_LIFE", 0))
    given_rows.BYTES_AT_ONCE = 100
    assign, count = Client.assign, 0

    def die(*when):
        if not is_calm and when == (fleet.worker_index(), life):
            os.kill(os.getpid(), signal.SIGKILL)

    def assign_or_die(self, table, keys, values):
        global count
        count += 1
        if count == 3:
            die(0, 0)
        if loading and count == 2:
            die(0, 1)
        return assign(self, table, keys, values)

    Client.assign, loading = assign_or_die, False
    fleet.init()
    if fleet.is_server():
        Path(f"server-{fleet.server_index()}.{life}").write_text(str(os.getpid()))
        sys.exit(fleet.run_server())
    wide = torch.arange(80.0).view(20, 4) / 8
    rows = fleet.nn.Embedding.from_pretrained(wide, freeze=False, rule=fleet.rules.Adagrad(lr=0.5))
    more = fleet.nn.Embedding(2, table="more", rule=fleet.rules.Adam(lr=0.5))
    model = fleet.distributed_model(torch.nn.ModuleList([rows, more, torch.nn.Linear(6, 1)]))
    torch.nn.init.constant_(model[2].weight, 0.5)
    torch.nn.init.constant_(model[2].bias, 0.5)
    optimizer = fleet.distributed_optimizer(torch.optim.SGD(model[2].parameters(), lr=0.1))
    fleet.init_worker()
    loading, count = True, 0
    fleet.load_rows("more", torch.arange(0, 40, 2), torch.ones(20, 2) + fleet.worker_index())
    die(0, 2)
    if not is_calm and fleet.worker_index() == 1 and not os.path.exists("server-1.1"):
        os.kill(int(Path("server-1.0").read_text()), signal.SIGKILL)
    for step in range(fleet.steps_done(), 6):
        ids = torch.arange(step, 20, 2 + fleet.worker_index())
        optimizer.zero_grad()
        model[2](torch.cat([rows(ids), more(ids)], 1)).square().mean().backward()
        optimizer.step()
        if step == 3:
            die(0, 3)
    state = fleet.gather_state_dict(model)
    if fleet.worker_index() == 0:
        both = sorted(zip(state["1.keys"].tolist(), state["1.weight"].tolist()))
        print([value.hex() for value in state["0.weight"].flatten().tolist()], both, state["2.weight"].tolist(), life)
    fleet.util.barrier()
    fleet.stop_worker()
"""


def test_rows_are_written_once_whoever_dies(tmp_path: Path) -> None:
    script(tmp_path, TRAIN)
    job = ["--server_num", 2, "--worker_num", 2, "train.py"]
    calm = fleetrun(*job, "calm", cwd=tmp_path, warm=True)
    assert calm.code == 0, calm.err
    stormy = fleetrun("--durable", "kept", *job, cwd=tmp_path, warm=True)
    assert stormy.code == 0, stormy.err + stormy.out
    assert stormy.out.rpartition(" ")[0] == calm.out.rpartition(" ")[0]
    assert stormy.out.split()[-1] == "4"
    assert (tmp_path / "server-1.1").exists()
