"""Mistakes of docs/mistakes.md that were chosen with nothing but the README and docs/ in hand: alone, and in jobs."""

from __future__ import annotations

from support.first_days.first_day import BATCH, EMBEDDING, INIT, INIT_WORKER, MODEL, OPTIMIZER, STEP, STOP_WORKER
from support.first_days.mistakes_alone import after_init_worker, at_the_end, mistake
from support.first_days.mistakes_in_jobs import CHECKPOINT, WORKER_1, beside_servers, collective, command
from support.first_days.mistakes_in_jobs import after_init_worker as after_init_worker_of_all


def read(text: str, schema: str) -> str:
    """Write this text as a file, and read it by the schema."""
    return (
        f"import pathlib\npathlib.Path('shop.csv').write_text({text!r})\n"
        f"schema = fleet.data.Schema(label='bought', categories=['user'], {schema})\n"
        "list(fleet.data.files('shop.csv', schema, batch_size=4))\n"
    )


COMMA, HEADER = "delimiter=','", "header=True"
A_STRATEGY = "strategy = fleet.DistributedStrategy()\nstrategy.a_sync = True\n"
LISTED = (EMBEDDING, "[fleet.nn.Embedding(8)]"), ("self.rows(ids)", "self.rows[0](ids)")
TIED = (
    ("nn.Linear(8, 1)", "nn.Linear(8, 1)\n        self.layers.weight = self.rows.weight"),
    (EMBEDDING, "fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1))"),
)
ONLY_LAYERS = OPTIMIZER.replace("model.parameters()", "model.layers.parameters()")
HASHED = (
    "ids = torch.tensor(fleet.data.hash_ids('user', range(300))).view(-1, 3)\n"
    "fleet.save_inference_model('saved')\n"
    "fleet.load_inference_model('saved', Clicks())(torch.arange(10**6, 10**6 + 300).view(-1, 3))\n"
)
TWICE = (
    "import pathlib\n"
    "for number in (0, 1):\n"
    "    part = pathlib.Path(f'{number}.{fleet.worker_index()}')\n"
    "    part.write_text('\\t'.join(['1'] * 40) + '\\n')\n"
    "    part.rename(f'{number}.tsv')\n"
    "fleet.barrier_worker()\n"
    "mine = fleet.util.get_file_shard(['0.tsv', '1.tsv'])\n"
    "list(fleet.data.files(mine, fleet.data.criteo(), batch_size=4))\n"
)
FORKED = "import os\nif not os.fork():\n    fleet.stop_worker()\nassert os.wait()[1]\n"
CLIPPED = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
SKIPPED = "    if step == 1 and fleet.worker_index() == 1:\n        continue\n"
BACKWARD, ZERO_GRAD = "    loss.backward()\n", "    optimizer.zero_grad()\n"
HOOKED = "model.rows.weight.register_hook(print)\n"
MILLISECONDS = "derived=[fleet.data.Derived.hour('user', 'time')], delimiter=',', header=True"
FLAT_TARGETS = "fleet.metrics.Accuracy().update(torch.zeros(4, 1), torch.zeros(4))\n"
COLLECTIVE_BATCH = "    loss = "
COLLECTIVE_MODEL = "model = fleet.distributed_model(Tower())\n"
DDP = "torch.nn.parallel.DistributedDataParallel"

IN_ONE_PROCESS = {
    "labels that are words": after_init_worker(read("bought,user\nyes,ann\nno,bob\n", f"{COMMA}, {HEADER}")),
    "a CSV file without `delimiter=`": after_init_worker(read("bought,user\n1,ann\n", HEADER)),
    "`columns=` for a file that has a header": after_init_worker(
        read("bought,user\n1,ann\n", f"{COMMA}, columns=['bought', 'user']")
    ),
    "a file without a line": after_init_worker(read("", f"{COMMA}, {HEADER}")),
    "ids that pandas made floats": mistake(
        (BATCH, "    ids = torch.rand(16, 3)\n    loss = model(ids).mean()\n" + BATCH)
    ),
    "a label of NaN": mistake((".square().mean()", ".sub(float('nan')).square().mean()")),
    "an optimizer for the layers, and rows without a rule": mistake((OPTIMIZER, ONLY_LAYERS)),
    "embeddings in a Python list": mistake(*LISTED),
    "a layer tied to the rows": mistake(*TIED),
    "a layer that is thawed in the middle": mistake(
        (MODEL, MODEL + "model.layers.requires_grad_(False)\n"),
        (STEP, STEP + "    model.layers.requires_grad_(True)\n"),
    ),
    "a strategy that `fleet.init` was not given": mistake((INIT, A_STRATEGY + INIT), fails=False),
    "a strategy that is set after `fleet.init_worker`": mistake(
        (INIT, "strategy = fleet.DistributedStrategy()\nfleet.init(strategy=strategy)\n"),
        (INIT_WORKER, INIT_WORKER + "strategy.a_sync = True\n"),
    ),
    "`fleet.stop_worker` inside the loop": mistake((STEP, STEP + "    fleet.stop_worker()\n")),
    "the model made anew behind `fleet.init_worker`": after_init_worker(MODEL),
    "a second optimizer behind `fleet.init_worker`": after_init_worker(OPTIMIZER),
    "served with numbers, trained on hashes": at_the_end(HASHED, fails=False),
    "a loop without `optimizer.zero_grad()`": mistake((ZERO_GRAD, ""), fails=False),
    "a loop without `loss.backward()`": mistake((BACKWARD, ""), fails=False),
    "`zero_grad()` between `backward()` and `step()`": mistake(
        (ZERO_GRAD + BACKWARD, BACKWARD + ZERO_GRAD), fails=False
    ),
    "a loop without `optimizer.step()`": mistake((STEP, ""), fails=False),
    "`optimizer.step()` twice after one `backward()`": mistake((STEP, 2 * STEP), fails=False),
    "a hook on the `weight` of rows": after_init_worker(HOOKED),
    "the label among the numbers": after_init_worker(read("", "numbers=['bought']")),
    "a number that stands twice": after_init_worker(read("", "numbers=['price', 'price']")),
    "milliseconds read as seconds": after_init_worker(read("bought,time\n1,1700000000000\n", MILLISECONDS)),
    "`Accuracy` of scores [B, 1] and labels [B]": after_init_worker(FLAT_TARGETS),
}

IN_JOBS_OF_TWO = {
    "files that `get_file_shard` has divided, for `fleet.data.files`": after_init_worker_of_all(TWICE),
    "`torch.nn.utils.clip_grad_norm_` in sync mode": beside_servers((STEP, CLIPPED + STEP)),
    "`fleet.Checkpoint` on the first worker alone": beside_servers(
        (STOP_WORKER, f"if fleet.is_first_worker():\n    {CHECKPOINT}{STOP_WORKER}")
    ),
    "`break` on one worker of a collective job": collective(
        (COLLECTIVE_BATCH, WORKER_1.format("break") + COLLECTIVE_BATCH)
    ),
    "a batch that one worker of a collective job skips": collective((COLLECTIVE_BATCH, SKIPPED + COLLECTIVE_BATCH)),
    "DDP around what `fleet.distributed_model` returned": collective(
        (COLLECTIVE_MODEL, COLLECTIVE_MODEL + f"model = {DDP}(model)\n")
    ),
    "DDP inside it": collective((COLLECTIVE_MODEL, f"model = fleet.distributed_model({DDP}(Tower()))\n")),
    "`--servers 1 --workers 2`, meant as numbers": command("--servers", "1", "--workers", "2"),
    "a shell script": beside_servers(("import sys\n", "#!/bin/sh\nexec python train.py\n")),
    "`optimizer.step()` on one worker alone": beside_servers(
        (STEP, f"    if not fleet.is_first_worker():\n    {STEP}"), fails=False
    ),
    "`loss.backward()` on one worker alone": beside_servers(
        (BACKWARD, f"    if not fleet.is_first_worker():\n    {BACKWARD}"), fails=False
    ),
    "`fleet.run_server()` without `sys.exit`": beside_servers(("sys.exit(fleet.run_server())", "fleet.run_server()")),
    "`fleet.stop_worker()` in a process that `os.fork()` made": beside_servers(
        (INIT_WORKER, INIT_WORKER + FORKED), fails=False
    ),
    "options behind the script": command(arguments=("train.py", "--server_num", "1", "--worker_num", "2")),
}
