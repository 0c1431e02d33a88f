"""What a new user gets wrong in a script, one row each, and the line that must come of it."""

from __future__ import annotations

from support.first_days.first_day import (
    ADAM,
    BATCH,
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
    Mistake,
)

CHECKPOINT = "fleet.Checkpoint('saved', model=model, optimizer=optimizer).save(4)"

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
        r"fleet\.distributed_optimizer\(\) must come before fleet\.init_worker\(\)",
        ((INIT_WORKER, ""), (OPTIMIZER, INIT_WORKER + OPTIMIZER)),
    ),
    "init_worker before distributed_model": Mistake(
        r"fleet\.distributed_\w+\(\) must come before fleet\.init_worker\(\)",
        ((INIT_WORKER, ""), (MODEL, INIT_WORKER + MODEL)),
    ),
    "is_server branch forgotten": Mistake(
        r"server 0 is no worker; .* before it: if fleet\.is_server\(\): sys\.exit\(fleet\.run_server\(\)\)",
        ((SERVE, ""),),
        options=SERVERS,
    ),
    "distributed_optimizer forgotten": Mistake(
        r"no optimizer would send their gradients; call fleet\.distributed_optimizer\(\) before fleet\.init_worker\(\)",
        ((OPTIMIZER, f"optimizer = {ADAM}\n"),),
    ),
    "run_server everywhere": Mistake(
        r"worker 0 is no server; call fleet\.run_server\(\) where fleet\.is_server\(\)",
        ((SERVE, "fleet.run_server()\n"),),
    ),
    "a worker ends early without stop_worker": Mistake(
        r"worker 1 ended without fleet\.stop_worker\(\); call it at the end of the script",
        ((BATCH, "    if step == 2 and fleet.worker_index() == 1:\n        sys.exit()\n" + BATCH),),
        options=SERVERS,
    ),
    "a batch after stop_worker": Mistake(
        r"Embedding: this worker has left the servers; move the call before fleet\.stop_worker\(\)",
        ((STOP_WORKER, STOP_WORKER + "model(ids)\n"),),
    ),
    "a save after stop_worker": Mistake(
        r"fleet\.save_persistables\(\): .* left the servers; move the call before fleet\.stop_worker\(\)",
        ((STOP_WORKER, STOP_WORKER + "fleet.save_persistables('saved')\n"),),
    ),
    "two models": Mistake(
        r"fleet\.distributed_model\(\) was given a Clicks before, .*; put both into one, nn\.ModuleList",
        ((MODEL, MODEL + MODEL),),
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
        r"no checkpoint in .*served: it holds an inference copy, which fleet\.",
        ((STOP_WORKER, "fleet.save_inference_model('served')\nfleet.load_model('served')\n" + STOP_WORKER),),
        leaves=("served",),
    ),
    "state_dict of a model with tables": Mistake(
        r"model\.state_dict\(\) has no rows of tables, .*fleet\.gather_state_dict\(model\)",
        ((STOP_WORKER, "torch.save(model.state_dict(), 'model.pt')\n" + STOP_WORKER),),
        fails=False,
        leaves=("model.pt",),
    ),
    "load a file of torch.save": Mistake(
        r"no checkpoint in .*model\.pt: it is a file; give the folder that was saved",
        (
            (
                INIT_WORKER,
                INIT_WORKER + "torch.save(model.layers.state_dict(), 'model.pt')\nfleet.load_model('model.pt')\n",
            ),
        ),
        leaves=("model.pt",),
    ),
    "save_persistables on worker 1 alone": Mistake(
        r"worker 0 went on, or left, without fleet\.save_persistables\(\); every worker calls it, at the same step",
        ((STOP_WORKER, "if fleet.worker_index() == 1:\n    fleet.save_persistables('saved')\n" + STOP_WORKER),),
        options=SERVERS,
    ),
    "fleet.Checkpoint on worker 0 alone": Mistake(
        r"worker 1 went on, or left, without fleet\.Checkpoint\(\.\.\.\); every worker calls it, at the same step",
        ((STOP_WORKER, f"if fleet.is_first_worker():\n    {CHECKPOINT}\n" + STOP_WORKER),),
        options=SERVERS,
    ),
    "fleet.Checkpoint on worker 0 alone, collectively": Mistake(
        r"worker 1 ended after 4 batches while worker 0 still waits .*such as a save, all of them must call",
        ((STEP, STEP + f"if fleet.is_first_worker():\n    {CHECKPOINT}\n"),),
        COLLECTIVE,
        WORKERS,
    ),
}

IN_SCRIPTS = ORDER | EMBEDDINGS | OPTIMIZERS | SAVING
