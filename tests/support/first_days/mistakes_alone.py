"""Mistakes of docs/mistakes.md that one process shows: what was done, as the page has it, and the script for it."""

from __future__ import annotations

from support.first_days.first_day import (
    ADAM,
    BATCH,
    BESIDE_SERVERS,
    EMBEDDING,
    INIT,
    INIT_WORKER,
    MODEL,
    OPTIMIZER,
    STEP,
    STOP_WORKER,
    Mistake,
)

SAID_BY_THE_PAGE = ""


def mistake(*changes: tuple[str, str], script: str = BESIDE_SERVERS, fails: bool = True) -> Mistake:
    return Mistake(SAID_BY_THE_PAGE, changes, script, fails=fails)


def after_init_worker(text: str, fails: bool = True) -> Mistake:
    return mistake((INIT_WORKER, INIT_WORKER + text), fails=fails)


def at_the_end(text: str, fails: bool = True) -> Mistake:
    return mistake((STOP_WORKER, text + STOP_WORKER), fails=fails)


def in_the_loop(text: str, fails: bool = True) -> Mistake:
    return mistake((STEP, STEP + text), fails=fails)


def embedding(text: str) -> Mistake:
    return mistake((EMBEDDING, text))


def shared(first: str, second: str) -> Mistake:
    return mistake((EMBEDDING, first), ("self.layers =", f"self.more = {second}\n        self.layers ="))


def measured(labels: str, auc: str) -> Mistake:
    step = "step=lambda model, batch: (model(batch[0]).flatten() * 100, batch[1])"
    return at_the_end(f"fleet.evaluate(model, [(ids, {labels})], {{'auc': fleet.metrics.{auc}}}, {step})\n")


def strategy(text: str) -> Mistake:
    return mistake((INIT, f"strategy = fleet.DistributedStrategy()\n{text}\nfleet.init(strategy=strategy)\n"))


TORCHS_STEP = f"optimizer = {ADAM}\nfleet.distributed_optimizer(optimizer)\n"
NOT_A_SAVE = "import os\nos.mkdir('folder')\nopen('folder/notes.txt', 'w').close()\n"
SAVED = "fleet.save_persistables('saved')\n"
CHECKPOINT = "checkpoint = fleet.Checkpoint('run', model=model, optimizer=optimizer)\n"
OTHER_CLASS = """\
class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = fleet.nn.Embedding(8)


fleet.load_inference_model('saved', Other())
"""
SLOTS = "fleet.nn.EmbeddingCollection([fleet.nn.Slot('user', 8), fleet.nn.Slot('item', 8)])"
HELD = "held = ((one, torch.ones(16, 1)) for one in [ids])\n"

OPTIMIZERS = {
    "`step()` on the torch optimizer, not on what `fleet.distributed_optimizer` returned": mistake(
        (OPTIMIZER, TORCHS_STEP)
    ),
    "an optimizer over the parameters of another model": mistake(
        (ADAM, "torch.optim.Adam(Clicks().parameters(), lr=0.01)")
    ),
    "`scaler.unscale_(optimizer)`": mistake(
        (INIT_WORKER, INIT_WORKER + "scaler = torch.amp.GradScaler('cpu')\n"),
        ("    loss.backward()\n", "    scaler.scale(loss).backward()\n    scaler.unscale_(optimizer)\n"),
        (STEP, "    scaler.step(optimizer)\n"),
    ),
    "`optimizer.add_param_group` after `fleet.init_worker`": after_init_worker(
        "optimizer.add_param_group({'params': nn.Linear(1, 1).parameters()})\n"
    ),
    "layers loaded after `fleet.init_worker`": after_init_worker(
        "model.layers.load_state_dict(nn.Linear(8, 1).state_dict())\n"
    ),
    "`copy.deepcopy(optimizer)`": at_the_end("import copy\ncopy.deepcopy(optimizer)\n"),
    "`torch.save(optimizer, ...)`": at_the_end("torch.save(optimizer, 'optimizer.pt')\n"),
    "a model of float64": mistake((MODEL, "model = fleet.distributed_model(Clicks().double())\n")),
    "`fleet.steps_done()` before `fleet.init_worker`": mistake((INIT_WORKER, "fleet.steps_done()\n" + INIT_WORKER)),
    "`fleet.shutdown()` in the middle": in_the_loop("    fleet.shutdown()\n"),
}

TABLES = {
    "modules with one `table` and different widths": shared(EMBEDDING, "fleet.nn.Embedding(16, table='rows')"),
    "modules with one `table` and different rules": shared(
        "fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr=0.1))",
        "fleet.nn.Embedding(8, table='rows', rule=fleet.rules.Adagrad(lr=0.2))",
    ),
    '`dtype="bf16"`': embedding("fleet.nn.Embedding(8, dtype='bf16')"),
    "`bounds=(1.0, -1.0)`": embedding("fleet.nn.Embedding(8, bounds=(1.0, -1.0))"),
    "`max_bytes=8`, meant in gigabytes": embedding("fleet.nn.Embedding(8, max_bytes=8)"),
    '`per_sample_weights` with `pooling="mean"`': mistake(
        (EMBEDDING, "fleet.nn.Embedding(8, pooling='mean')"),
        ("self.rows(ids).mean(dim=1)", "self.rows(ids, per_sample_weights=torch.ones(16, 3))"),
    ),
    "a batch without one of the slots": mistake(
        (EMBEDDING, SLOTS), ("self.rows(ids).mean(dim=1)", "self.rows({'user': ids[:, 0]})['user']")
    ),
    "an entry policy in geo mode": mistake(
        (
            INIT,
            "strategy = fleet.DistributedStrategy()\nstrategy.a_sync = True\n"
            "strategy.a_sync_configs.k_steps = 10\nfleet.init(strategy=strategy)\n",
        ),
        (EMBEDDING, "fleet.nn.Embedding(8, entry=fleet.CountFilterEntry(3))"),
    ),
    "`cache_rows` in sync mode": strategy("strategy.a_sync = False\nstrategy.a_sync_configs.cache_rows = 100"),
    "`strategy.amp` beside servers": strategy("strategy.amp = True"),
    "training while the model evaluates": mistake((BATCH, "    model.eval()\n" + BATCH), fails=False),
    "`keys` of `fleet.prefetch` that copies the ids": mistake(
        (
            "for step in range(4):\n    ids = torch.randint(1000, (16, 3))\n",
            "data = [torch.randint(1000, (16, 3)) for _ in range(4)]\n"
            "for ids in fleet.prefetch(data, model, keys=lambda ids: ids.clone()):\n",
        ),
        fails=False,
    ),
}

MEASURING = {
    "labels with NaN": measured("torch.full((16,), float('nan'))", "AUC(from_logits=True)"),
    "labels 1 and 2": measured("torch.full((16,), 2.0)", "AUC(from_logits=True)"),
    "logits where scores are expected": measured("torch.ones(16)", "AUC()"),
    "metrics in a list": at_the_end("fleet.evaluate(model, [(ids, torch.ones(16, 1))], [fleet.metrics.AUC()])\n"),
    "a generator that was read before": at_the_end(
        HELD + "list(held)\nfleet.evaluate(model, held, {'loss': nn.functional.mse_loss})\n", fails=False
    ),
    "a folder of files that is not there": after_init_worker(
        "list(fleet.data.files('nowhere', fleet.data.criteo(), batch_size=4))\n"
    ),
    "no samples at all": after_init_worker("list(fleet.data.shard((torch.ones(0),), batch_size=4))\n"),
}

SAVING = {
    "`fleet.load_model` of an empty folder": after_init_worker(
        "import os\nos.mkdir('folder')\nfleet.load_model('folder')\n"
    ),
    "`fleet.load_model` of another folder": after_init_worker(NOT_A_SAVE + "fleet.load_model('folder')\n"),
    "`fleet.load_inference_model` of another folder": mistake(
        (INIT, NOT_A_SAVE + "fleet.load_inference_model('folder', Clicks())\n" + INIT)
    ),
    "`fleet.load_inference_model` for another class": at_the_end(SAVED + OTHER_CLASS),
    "`fleet.Checkpoint` before `fleet.init_worker`": mistake((INIT_WORKER, CHECKPOINT + INIT_WORKER)),
    "`fleet.Checkpoint` in a folder of `fleet.save_persistables`": at_the_end(
        SAVED + CHECKPOINT.replace("'run', ", "'saved', resume=True, ")
    ),
    "`fleet.Checkpoint` in a file": at_the_end(
        "open('run', 'w').close()\n" + CHECKPOINT.replace("'run', ", "'run', resume=True, ")
    ),
    "a save of an older step": at_the_end(CHECKPOINT + "checkpoint.save(4)\ncheckpoint.save(2)\ncheckpoint.close()\n"),
    "`save(metric=...)` without `best=`": at_the_end(CHECKPOINT + "checkpoint.save(4, metric=0.8)\n"),
    "rows from `fleet.gather_state_dict` loaded into a job": at_the_end(
        "model.load_state_dict(fleet.gather_state_dict(model))\n"
    ),
}

VARIABLES = {
    "`FLEET_STALL_TIMEOUT`, without `_S`": mistake(
        (INIT, "import os\nos.environ['FLEET_STALL_TIMEOUT'] = '5'\n" + INIT), fails=False
    ),
    "`FLEET_DEVICE=gpu`": mistake((INIT, "import os\nos.environ['FLEET_DEVICE'] = 'gpu'\n" + INIT + "fleet.device\n")),
    "`TRAINING_ROLE=WORKER`": mistake((INIT, "import os\nos.environ['TRAINING_ROLE'] = 'WORKER'\n" + INIT)),
}

ALONE = OPTIMIZERS | TABLES | MEASURING | SAVING | VARIABLES
