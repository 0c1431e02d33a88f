"""What a new user gets wrong, one row each, and the line that must come of it."""

from __future__ import annotations

from dataclasses import dataclass

from support.first_day import (
    ADAM,
    BATCH,
    BESIDE_SERVERS,
    COLLECTIVE,
    EMBEDDING,
    IDS,
    INIT,
    INIT_WORKER,
    MODEL,
    OPTIMIZER,
    SERVE,
    SERVERS,
    STEP,
    STOP_WORKER,
    WORKERS,
)


@dataclass(frozen=True)
class Mistake:
    """Changes to a script that is right, how it is started, and what must be said about it."""

    says: str
    """A pattern that one line of the output matches: the cause and the remedy."""
    changes: tuple[tuple[str, str], ...] = ()
    script: str = BESIDE_SERVERS
    options: tuple[str, ...] = ()
    """Of fleetrun; without any the script runs by itself."""
    arguments: tuple[str, ...] = ("train.py",)
    """What follows the options: usually the script."""
    fails: bool = True
    """Whether it is an error; else a warning, and the job goes on."""
    leaves: tuple[str, ...] = ()
    """What the script itself wrote into its folder."""
    after_a_save: bool = False
    """Whether the right script has saved into `saved` before."""
    awaits: str = ""
    """What has yet to be built for it."""


ORDER = {
    "fleet.init forgotten": Mistake(
        r"fleet is not initialised; call fleet\.init\(\) first$",
        ((INIT, ""),),
    ),
    "init_worker forgotten": Mistake(
        r"Embedding has no table yet; pass the model to fleet\.distributed_model\(\), then call fleet\.init_worker\(\)",
        ((INIT_WORKER, ""),),
    ),
    "init_worker before distributed_optimizer": Mistake(
        r"table 'rows' has no rule: .* fleet\.distributed_optimizer\(\) before fleet\.init_worker\(\)",
        ((INIT_WORKER, ""), (OPTIMIZER, INIT_WORKER + OPTIMIZER)),
    ),
    "init_worker before distributed_model": Mistake(
        r"pass the model to fleet\.distributed_model\(\), then call fleet\.init_worker\(\)",
        ((INIT_WORKER, ""), (MODEL, INIT_WORKER + MODEL)),
    ),
    "is_server branch forgotten": Mistake(
        r"server 0 is no worker; .* before it: if fleet\.is_server\(\): sys\.exit\(fleet\.run_server\(\)\)",
        ((SERVE, ""),),
        options=SERVERS,
    ),
    "run_server everywhere": Mistake(
        r"worker 0 is no server; call fleet\.run_server\(\) where fleet\.is_server\(\)",
        ((SERVE, "fleet.run_server()\n"),),
    ),
    "a worker ends early without stop_worker": Mistake(
        r"worker 1 .*fleet\.stop_worker\(\)",
        ((BATCH, "    if step == 2 and fleet.worker_index() == 1:\n        sys.exit()\n" + BATCH),),
        options=SERVERS,
        awaits="the end of a worker that others wait for",
    ),
    "a batch after stop_worker": Mistake(
        r"fleet\.stop_worker\(\)",
        ((STOP_WORKER, STOP_WORKER + "model(ids)\n"),),
        awaits="messages after stop_worker",
    ),
    "a save after stop_worker": Mistake(
        r"fleet\.save_persistables\(\).*fleet\.stop_worker\(\)",
        ((STOP_WORKER, STOP_WORKER + "fleet.save_persistables('saved')\n"),),
        awaits="messages after stop_worker",
    ),
    "two models": Mistake(
        r"distributed_model\(\)",
        ((MODEL, MODEL + MODEL),),
        awaits="a message for the second model",
    ),
}

EMBEDDINGS = {
    "ids of int32": Mistake(
        r"ids must be int64, got torch\.int32; call \.long\(\)",
        ((IDS, IDS + ".int()"),),
    ),
    "ids of float": Mistake(
        r"ids must be int64, got torch\.float32; call \.long\(\)",
        ((IDS, IDS + ".float()"),),
    ),
    "a vocabulary": Mistake(
        r"fleet\.nn\.Embedding\(1000, 8\): it has no vocabulary, .*: fleet\.nn\.Embedding\(8\)",
        ((EMBEDDING, "fleet.nn.Embedding(1000, 8)"),),
    ),
    "unknown pooling": Mistake(
        r"pooling must be one of none, sum, mean, got 'max'",
        ((EMBEDDING, "fleet.nn.Embedding(8, pooling='max')"),),
    ),
    "offsets missing": Mistake(
        r"offsets are missing.*2-D",
        ((EMBEDDING, "fleet.nn.Embedding(8, pooling='sum')"), (IDS, "torch.randint(1000, (16,))")),
    ),
    "model moved after init_worker": Mistake(
        r"Embedding was moved from cpu to meta after fleet\.init_worker\(\); move the model before that",
        ((INIT_WORKER, INIT_WORKER + "model.to('meta')\n"),),
    ),
}

OPTIMIZERS = {
    "an optimizer that servers do not know": Mistake(
        r"optimizer LBFGS cannot run on the servers; use one of torch\.optim's SGD, Adagrad, Adam",
        ((ADAM, "torch.optim.LBFGS(model.parameters())"),),
    ),
    "parameters instead of an optimizer": Mistake(
        r"optimizer must be a torch\.optim\.Optimizer, got generator; .*torch\.optim\.Adam\(model\.parameters\(\)\)",
        ((ADAM, "model.parameters()"),),
    ),
    "an optimizer that has made steps": Mistake(
        r"optimizer Adam has already made steps, .*; give a new optimizer and load a saved model",
        (
            (MODEL, MODEL + f"plain = {ADAM}\nmodel.layers(torch.ones(1, 8)).sum().backward()\nplain.step()\n"),
            (f"distributed_optimizer({ADAM})", "distributed_optimizer(plain)"),
        ),
    ),
    "another momentum while training": Mistake(
        r"changed its momentum from 0\.9 to 0\.5 after training began; the servers follow changes of lr only",
        (
            (ADAM, "torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)"),
            (STEP, "    optimizer.param_groups[0]['momentum'] = 0.5\n" + STEP),
        ),
    ),
    "a learning rate in quotes": Mistake(
        r"rule adagrad: lr must be a number, got '0\.1'",
        ((EMBEDDING, "fleet.nn.Embedding(8, rule=fleet.rules.Adagrad(lr='0.1'))"),),
    ),
    "a learning rate in quotes while training": Mistake(
        r"lr of parameter group 0 must be a number, got '0\.1'",
        ((STEP, "    optimizer.param_groups[0]['lr'] = '0.1'\n" + STEP),),
    ),
    "a loss that is NaN": Mistake(
        r"gradients of worker 0, step 0 hold a NaN or an Inf; .*strategy\.nonfinite_gradients = 'skip'",
        ((".mean()\n    optimizer", ".mean() * float('nan')\n    optimizer"),),
    ),
}

SAVING = {
    "save into a file": Mistake(
        r"cannot save into .*taken: it is a file; name a folder",
        ((STOP_WORKER, "open('taken', 'w').close()\nfleet.save_persistables('taken')\n" + STOP_WORKER),),
        leaves=("taken",),
    ),
    "load what is not there": Mistake(
        r"no checkpoint in .*nowhere: there is no such folder",
        ((INIT_WORKER, INIT_WORKER + "fleet.load_model('nowhere')\n"),),
    ),
    "load another model": Mistake(
        r"'layers\.weight' does not fit .*saved: .* is 16 here and 8 in the checkpoint; give it the shape",
        (
            (EMBEDDING, "fleet.nn.Embedding(16)"),
            ("nn.Linear(8", "nn.Linear(16"),
            (INIT_WORKER, INIT_WORKER + "fleet.load_model('saved')\n"),
        ),
        after_a_save=True,
    ),
    "load a model for serving": Mistake(
        r"fleet\.save_inference_model.*fleet\.save_persistables",
        ((STOP_WORKER, "fleet.save_inference_model('served')\nfleet.load_model('served')\n" + STOP_WORKER),),
        leaves=("served",),
        awaits="a message for a folder of the other kind",
    ),
    "state_dict of a model with tables": Mistake(
        r"state_dict.*rows.*fleet\.(gather_state_dict|save_persistables)",
        ((STOP_WORKER, "torch.save(model.state_dict(), 'model.pt')\n" + STOP_WORKER),),
        fails=False,
        leaves=("model.pt",),
        awaits="a warning about rows that are not in a state_dict",
    ),
    "fleet.Checkpoint on one worker alone": Mistake(
        r"every worker",
        (
            (
                "for step",
                "if fleet.is_first_worker():\n"
                "    fleet.Checkpoint('saved', model=model, optimizer=optimizer).save()\nfor step",
            ),
        ),
        COLLECTIVE,
        WORKERS,
        awaits="a message for a save on one worker",
    ),
}

COLLECTIVE_JOBS = {
    "uneven steps": Mistake(
        r"worker 1 .*worker 0 .*fleet\.data\.shard",
        (("range(4)", "range(4 + fleet.worker_index())"),),
        COLLECTIVE,
        WORKERS,
        awaits="a message for uneven steps",
    ),
    "unused parameters": Mistake(
        r"first\.weight.*strategy\.find_unused_parameters",
        (("self.second(torch.tanh(self.first(x)))", "self.second(torch.cat([x, x], dim=1))"),),
        COLLECTIVE,
        WORKERS,
        awaits="a message for unused parameters",
    ),
    "a loss that is NaN, collectively": Mistake(
        r"NaN.*strategy\.nonfinite_gradients",
        ((".mean()\n", ".mean() * float('nan')\n"),),
        COLLECTIVE,
        WORKERS,
        awaits="strategy.nonfinite_gradients in collective jobs",
    ),
    "is_collective beside servers": Mistake(
        r"a collective job has none; start it without servers, or leave out is_collective=True",
        ((INIT, "fleet.init(is_collective=True)\n"),),
        options=SERVERS,
    ),
    "neither servers nor is_collective": Mistake(
        r"2 workers and no servers; call fleet\.init\(is_collective=True\) .*: fleetrun --server_num",
        (("is_collective=True", ""),),
        COLLECTIVE,
        WORKERS,
    ),
    "a DataLoader for shard": Mistake(
        r"DataLoader",
        (
            (
                "for step",
                "loader = torch.utils.data.DataLoader(torch.randn(64, 4), batch_size=8)\n"
                "for batch in fleet.data.shard(loader):\n    pass\nfor step",
            ),
        ),
        COLLECTIVE,
        WORKERS,
        fails=False,
        awaits="a word about loaders that nothing divides",
    ),
}

STRATEGIES = {
    "a field misspelt": Mistake(
        r"strategy has no field 'a_synk'; did you mean 'a_sync'\?",
        ((INIT, "strategy = fleet.DistributedStrategy()\nstrategy.a_synk = True\n" + INIT),),
    ),
    "a field of another type": Mistake(
        r"strategy\.a_sync must be True or False, got 'yes'",
        ((INIT, "strategy = fleet.DistributedStrategy()\nstrategy.a_sync = 'yes'\n" + INIT),),
    ),
    "a dict for a strategy": Mistake(
        r"strategy must be a DistributedStrategy, got dict; .*fleet\.DistributedStrategy\(\)",
        ((INIT, "fleet.init(strategy={'a_sync': True})\n"),),
    ),
    "a strategy for a role": Mistake(
        r"role_maker must be a RoleMaker, got DistributedStrategy; write fleet\.init\(strategy=",
        ((INIT, "fleet.init(fleet.DistributedStrategy())\n"),),
    ),
}

COMMANDS = {
    "options after the script": Mistake(
        r"--server_num.*before the script|--server_num.*train\.py",
        arguments=("train.py", "--server_num", "1", "--worker_num", "2"),
        awaits="a word about options of fleetrun behind the script",
    ),
    "a number for addresses": Mistake(
        r"--servers '?1'?.*--server_num 1",
        options=("--servers", "1", "--workers", "2"),
        awaits="a word about numbers where addresses stand",
    ),
    "a script that is not there": Mistake(
        r"training script trian\.py does not exist; it comes after fleetrun's own options",
        options=SERVERS,
        arguments=("trian.py",),
    ),
    "no script": Mistake(
        r"no training script; write it after the options, for example: fleetrun",
        options=SERVERS,
        arguments=(),
    ),
    "servers without workers": Mistake(
        r"--server_num 1 needs --worker_num too; a parameter-server job has servers and workers",
        options=("--server_num", "1"),
    ),
    "a word for a number": Mistake(
        r"--server_num must be a whole number >= 1, got two",
        options=("--server_num", "two", "--worker_num", "2"),
    ),
    "options of both kinds of job": Mistake(
        r"--nproc_per_node belongs to a collective job; with servers use --worker_num",
        options=("--server_num", "1", "--nproc_per_node", "2"),
    ),
    "an option misspelt": Mistake(
        r"No such option '--server_nums'.*Did you mean.*--server_num",
        options=("--server_nums", "1", "--worker_num", "2"),
    ),
    "GPUs where there are none": Mistake(
        r"this machine has no GPU that may be used; add --device cpu to train on the CPU",
        script=COLLECTIVE,
        options=("--gpus", "0,1"),
    ),
}

CRASHES = {
    "a syntax error": Mistake(
        r"SyntaxError: expected ':'",
        (("range(4):", "range(4)"),),
        options=SERVERS,
    ),
    "an import that fails": Mistake(
        r"ModuleNotFoundError: No module named 'pandsa'",
        (("import fleet\n", "import fleet\nimport pandsa\n"),),
        options=SERVERS,
    ),
    "an exception in worker 1 alone": Mistake(
        r"AssertionError: no such record",
        ((BATCH, "    assert fleet.worker_index() != 1, 'no such record'\n" + BATCH),),
        options=SERVERS,
    ),
}

MISTAKES = ORDER | EMBEDDINGS | OPTIMIZERS | SAVING | COLLECTIVE_JOBS | STRATEGIES | COMMANDS | CRASHES
