"""Mistakes of docs/mistakes.md that a job shows: what was done, as the page has it, and the script and command."""

from __future__ import annotations

from support.first_days.first_day import (
    BATCH,
    BESIDE_SERVERS,
    COLLECTIVE,
    EMBEDDING,
    INIT_WORKER,
    MODEL,
    OPTIMIZER,
    SERVE,
    SERVERS,
    STEP,
    STOP_WORKER,
    WORKERS,
    Mistake,
)


def beside_servers(*changes: tuple[str, str], fails: bool = True) -> Mistake:
    return Mistake("", changes, BESIDE_SERVERS, SERVERS, fails=fails)


def collective(*changes: tuple[str, str]) -> Mistake:
    return Mistake("", changes, COLLECTIVE, WORKERS)


def after_init_worker(text: str) -> Mistake:
    return beside_servers((INIT_WORKER, INIT_WORKER + text))


def at_the_end(text: str) -> Mistake:
    return beside_servers((STOP_WORKER, text + STOP_WORKER))


def on_first(call: str) -> str:
    return f"    if step == 1 and fleet.is_first_worker():\n        {call}\n"


def command(*options: str, arguments: tuple[str, ...] = ("train.py",)) -> Mistake:
    return Mistake("", options=options, arguments=arguments)


EVALUATE = "fleet.evaluate(model, [({}, torch.ones({}, 1))], {{'loss': nn.functional.mse_loss}})"
EVALUATE_IDS, EVALUATE_X = EVALUATE.format("ids", 16), EVALUATE.format("torch.ones(8, 4)", 8)
CHECKPOINT = "checkpoint = fleet.Checkpoint('run', model=model, optimizer=optimizer)\n"
TWO = (
    "rows = fleet.distributed_optimizer(torch.optim.Adam(model.rows.parameters()))\n"
    "layers = fleet.distributed_optimizer(torch.optim.Adam(model.layers.parameters()))\n"
)
IN_ANOTHER_ORDER = "    for one in (rows, layers) if fleet.is_first_worker() else (layers, rows):\n        one.step()\n"
MIXED = (
    "plain = torch.optim.Adam(model.layers.parameters())\n"
    "optimizer = fleet.distributed_optimizer(torch.optim.Adam(model.rows.parameters()))\n"
)
ANOTHER_WIDTH = "nn.Sequential(nn.Linear(8, 4 + fleet.worker_index()), nn.Linear(4 + fleet.worker_index(), 1))"
WORKER_1 = "    if step == 1 and fleet.worker_index() == 1:\n        {}\n"
DDP = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
"""
SCHEDULER = "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
FIRST_FILE = (
    "import pathlib\npathlib.Path(str(fleet.worker_index())).mkdir()\n"
    "pathlib.Path('0/part.tsv').write_text('\\t'.join(['1'] * 40) + '\\n')\n"
    "list(fleet.data.files(str(fleet.worker_index()), fleet.data.criteo(), batch_size=4))\n"
)

ONE_ALONE = {
    "`fleet.evaluate` on the first worker alone, behind the loop": at_the_end(
        f"if fleet.is_first_worker():\n    {EVALUATE_IDS}\n"
    ),
    "`fleet.evaluate` on the first worker alone, inside the loop": beside_servers(
        (STEP, STEP + on_first(EVALUATE_IDS))
    ),
    "the same in a collective job (after 16 s)": collective((STEP, STEP + on_first(EVALUATE_X))),
    "`break` on one worker, and `fleet.evaluate` behind the loop": beside_servers(
        (BATCH, WORKER_1.format("break") + BATCH), (STOP_WORKER, EVALUATE_IDS + "\n" + STOP_WORKER)
    ),
    "`fleet.barrier_worker` on one worker": beside_servers((STEP, STEP + on_first("fleet.barrier_worker()"))),
    "`fleet.util.all_reduce` on one worker": beside_servers((STEP, STEP + on_first("fleet.util.all_reduce(1)"))),
    "`fleet.metrics.gather` on one worker": at_the_end(
        "if fleet.is_first_worker():\n    fleet.metrics.gather({'auc': fleet.metrics.AUC()}, fleet.util)\n"
    ),
    "a barrier on one worker where the other adds up": at_the_end(
        "fleet.barrier_worker() if fleet.is_first_worker() else fleet.util.all_reduce(1)\n"
    ),
    "`fleet.load_model` on one worker": after_init_worker(
        "fleet.save_persistables('saved')\nif fleet.is_first_worker():\n    fleet.load_model('saved')\n"
    ),
    "a loop over `fleet.data.shard` on one worker": after_init_worker(
        "if fleet.is_first_worker():\n    list(fleet.data.shard((torch.ones(8),), batch_size=2))\n"
    ),
    "a learning-rate schedule stepped on one worker": beside_servers(
        (OPTIMIZER, OPTIMIZER + SCHEDULER), (STEP, STEP + "    if fleet.is_first_worker():\n        schedule.step()\n")
    ),
    "two optimizers that workers step in another order": beside_servers(
        (OPTIMIZER, TWO), ("    optimizer.zero_grad()\n", "    model.zero_grad()\n"), (STEP, IN_ANOTHER_ORDER)
    ),
    "a plain torch optimizer for the layers, Fleet's for the rows": beside_servers(
        (OPTIMIZER, MIXED), (STEP, STEP + "    plain.step()\n")
    ),
}

DIFFERENT = {
    "models of different widths": beside_servers(("nn.Linear(8, 1)", ANOTHER_WIDTH)),
    "models of different widths, collectively": collective(
        ("nn.Linear(4, 8), nn.Linear(8, 1)", ANOTHER_WIDTH.replace("nn.Sequential(", "").replace("8, 4", "4, 4")[:-1])
    ),
    "tables with different rules": beside_servers(
        (EMBEDDING, "fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1 + fleet.worker_index()))")
    ),
    "workers in different modes": beside_servers(
        (MODEL, "strategy = fleet.DistributedStrategy()\nstrategy.a_sync = fleet.worker_index() == 1\n" + MODEL),
        ("lr=0.01))", "lr=0.01), strategy)"),
    ),
    "`all_reduce` of different shapes": at_the_end("fleet.util.all_reduce(torch.ones(1 + fleet.worker_index()))\n"),
    "data of different lengths": after_init_worker(
        "list(fleet.data.shard((torch.ones(9 + fleet.worker_index()),), batch_size=4))\n"
    ),
    'fewer samples than a step takes, with `uneven="drop"`': after_init_worker(
        "list(fleet.data.shard((torch.ones(1),), batch_size=4, uneven='drop'))\n"
    ),
    "data files that one worker does not have": after_init_worker(FIRST_FILE),
    "checkpoints in different folders": at_the_end(CHECKPOINT.replace("'run'", "f'run-{fleet.worker_index()}'")),
    "checkpoints of different steps": at_the_end(
        CHECKPOINT + "checkpoint.save(4 + fleet.worker_index())\ncheckpoint.close()\n"
    ),
    "`fleet.stop_worker` on one worker": beside_servers(
        (STOP_WORKER, "if fleet.is_first_worker():\n    " + STOP_WORKER), fails=False
    ),
}

KINDS = {
    "a script with DDP beside servers": Mistake("", script=DDP, options=SERVERS),
    "a `DistributedSampler` beside servers": after_init_worker(
        "torch.utils.data.distributed.DistributedSampler(range(10))\n"
    ),
    "`fleet.distributed_model(model)` whose result is thrown away, collectively": collective(
        ("model = fleet.distributed_model(Tower())", "model = Tower()\nfleet.distributed_model(model)")
    ),
    "`model.module(...)` in a collective job": collective(("loss = model(", "loss = model.module(")),
    "an optimizer over another model, collectively": collective(("SGD(model.", "SGD(Tower().")),
    "`fleet.init_worker` in a collective job": collective(("for step", INIT_WORKER + "for step")),
    "`fleet.save_persistables` in a collective job": collective((STEP, STEP + "fleet.save_persistables('saved')\n")),
    "tables in a collective job": collective(
        ("nn.Linear(4, 8), nn.Linear(8, 1)", "fleet.nn.Embedding(8), nn.Linear(8, 1)"),
        ("torch.tanh(self.first(x))", "self.first(x.long()).mean(1)"),
    ),
    "`fleet.init_server` of a folder that is no checkpoint": beside_servers(
        (SERVE, SERVE.replace("    ", "    fleet.init_server('log')\n    ", 1))
    ),
    "`fleet.reshard` without `--durable`": at_the_end("fleet.reshard(servers=2)\n"),
}

PROCESSES = {
    "a server's branch without `fleet.run_server` (after 10 s)": beside_servers(
        (SERVE, "if fleet.is_server():\n    sys.exit()\n")
    ),
    "an error before `fleet.run_server`": beside_servers((SERVE, "if fleet.is_server():\n    1 / 0\n")),
    "a worker that is killed, as for want of memory": beside_servers(
        (BATCH, WORKER_1.format("import os; os.kill(os.getpid(), 9)") + BATCH)
    ),
    "a worker that leaves by `os._exit(0)` (after 10 s)": beside_servers(
        (BATCH, WORKER_1.format("import os; os._exit(0)") + BATCH)
    ),
    "a worker that ignores SIGTERM while another fails (after 5 s)": beside_servers(
        (
            BATCH,
            "    import signal, time\n    if fleet.is_first_worker():\n"
            "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n        time.sleep(60)\n    1 / 0\n" + BATCH,
        )
    ),
    "`fleetrun python train.py`": command(*SERVERS, arguments=("python", "train.py")),
    "`--worker_num 0`": command("--server_num", "1", "--worker_num", "0"),
    "`--durable` without a folder": command("--server_num", "1", "--worker_num", "1", "--durable"),
}

IN_JOBS = ONE_ALONE | DIFFERENT | KINDS | PROCESSES
