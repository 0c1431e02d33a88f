"""A program cut by the transpiler; who a process is comes from variables of the environment."""

import os

import numpy as np

import paddle.fluid as fluid

role, endpoints = os.environ["ROLE"], os.environ["ENDPOINTS"]
index, workers = int(os.environ.get("INDEX", "0")), int(os.environ["WORKERS"])

x = fluid.layers.data(name="x", shape=[8], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
hidden = fluid.layers.fc(input=x, size=16, act="relu")
loss = fluid.layers.mean(x=fluid.layers.square_error_cost(input=fluid.layers.fc(input=hidden, size=1), label=y))
optimize_ops, params_grads = fluid.optimizer.Adagrad(learning_rate=0.1).minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
if role == "ALONE":  # trainers that all-reduce
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    cut = fluid.DistributeTranspiler(config=config)
    cut.transpile(index, trainers=endpoints, current_endpoint=endpoints.split(",")[index])
else:
    if role == "WORKER":
        fluid.memory_optimize(fluid.default_main_program(), skip_grads=True)
    cut = fluid.DistributeTranspiler()
    cut.transpile(optimize_ops, params_grads, index, pservers=endpoints, trainers=workers)

if role == "SERVER":
    own = os.environ["OWN"]
    program = cut.get_pserver_program(own)
    exe.run(cut.get_startup_program(own, program))
    exe.run(program)
else:
    exe.run(fluid.default_startup_program())
    if role == "ALONE":
        parallel = fluid.ParallelExecutor(False, loss_name=loss.name, num_trainers=workers, trainer_id=index)
        run = parallel.run
    else:
        program = cut.get_trainer_program()

        def run(fetch_list, feed):
            return exe.run(program, feed=feed, fetch_list=fetch_list)

    rng = np.random.default_rng(index)
    for step in range(60):
        values = rng.standard_normal((32, 8), dtype=np.float32)
        (value,) = run(fetch_list=[loss.name], feed={"x": values, "y": values.sum(1, keepdims=True)})
        if step in (0, 59):
            print(f"worker {index} step {step} loss {float(np.mean(value)):.4f}", flush=True)
    exe.close()
