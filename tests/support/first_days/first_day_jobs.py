"""What a new user gets wrong about a job: its kind, its strategy, its command line, and scripts that fail."""

from __future__ import annotations

from support.first_days.first_day import BATCH, COLLECTIVE, INIT, SERVERS, WORKERS, Mistake

COLLECTIVE_JOBS = {
    "more steps than worker 0": Mistake(
        r"worker 0 ended after 4 batches while worker 1 is in batch 5: .*fleet\.data\.shard",
        (("range(4)", "range(4 + fleet.worker_index())"),),
        COLLECTIVE,
        WORKERS,
    ),
    "fewer steps than worker 0": Mistake(
        r"worker 1 ended after 3 batches while worker 0 is in batch 4: .*fleet\.data\.shard",
        (("range(4)", "range(4 - fleet.worker_index())"),),
        COLLECTIVE,
        WORKERS,
    ),
    "unused parameters": Mistake(
        r"no gradient for 'first\.weight', 'first\.bias', .*set strategy\.find_unused_parameters = True",
        (("self.second(torch.tanh(self.first(x)))", "self.second(torch.cat([x, x], dim=1))"),),
        COLLECTIVE,
        WORKERS,
    ),
    "a loss that is NaN, collectively": Mistake(
        r"step 1 on worker \d: the gradient of 'first\.weight' .* a NaN .*strategy\.nonfinite_gradients = 'skip'",
        ((".mean()\n", ".mean() * float('nan')\n"),),
        COLLECTIVE,
        WORKERS,
    ),
    "the same model twice": Mistake(
        r"this model was given to fleet\.distributed_model\(\) before; call it once",
        (("model = fleet.distributed_model(Tower())", "model = Tower()\n" + "fleet.distributed_model(model)\n" * 2),),
        COLLECTIVE,
        WORKERS,
    ),
    "a lazy model": Mistake(
        r"'first\.weight' of this model is lazy and has no shape yet.*run a batch through the model",
        (("nn.Linear(4, 8)", "nn.LazyLinear(8)"),),
        COLLECTIVE,
        WORKERS,
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
    "a stream that nobody divides": Mistake(
        r"fleet\.data\.shard does not divide this DataLoader .*fleet\.worker_index\(\) of fleet\.worker_num\(\)",
        (
            (
                "for step",
                "class Lines(torch.utils.data.IterableDataset):\n"
                "    def __iter__(self):\n        return iter(torch.randn(64, 4))\n\n\n"
                "loader = torch.utils.data.DataLoader(Lines(), batch_size=8)\n"
                "for batch in fleet.data.shard(loader):\n    pass\nfor step",
            ),
        ),
        COLLECTIVE,
        WORKERS,
        fails=False,
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
    ),
    "a number for addresses": Mistake(
        r"--servers '?1'?.*--server_num 1",
        options=("--servers", "1", "--workers", "2"),
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

IN_JOBS = COLLECTIVE_JOBS | STRATEGIES | COMMANDS | CRASHES
