"""One server and one worker of an MPI job."""

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet

fleet.init(role_maker.MPISymetricRoleMaker())
x = fluid.layers.data(name="x", shape=[4], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(input=x, size=1), y))
fleet.distributed_optimizer(fluid.optimizer.SGD(learning_rate=0.1)).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    rng = np.random.default_rng(0)
    for step in range(40):
        values = rng.standard_normal((32, 4), dtype=np.float32)
        feed = {"x": values, "y": values.sum(1, keepdims=True)}
        (value,) = exe.run(fleet.main_program, feed=feed, fetch_list=[loss.name])
        if step in (0, 39):
            print(f"step {step} loss {value[0]:.4f}", flush=True)
    fleet.stop_worker()
