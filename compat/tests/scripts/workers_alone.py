"""Workers without servers: a program by all-reduce, then imperative layers, in one job."""

import numpy as np

import paddle
import paddle.fluid as fluid
from paddle import nn
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.collective import fleet

fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))

x = fluid.layers.data(name="x", shape=[8], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(input=x, size=1), y))
fleet.distributed_optimizer(fluid.optimizer.SGD(learning_rate=0.1)).minimize(loss)
exe = fluid.Executor(fluid.CUDAPlace(0))
exe.run(fluid.default_startup_program())
rng = np.random.default_rng(fleet.worker_index())
for step in range(40):
    values = rng.standard_normal((32, 8), dtype=np.float32)
    (value,) = exe.run(fleet.main_program, feed={"x": values, "y": values.sum(1, keepdims=True)}, fetch_list=[loss])
    if step in (0, 39):
        print(f"program step {step} loss {value[0]:.4f}", flush=True)

paddle.disable_static()
layer = nn.Linear(8, 1)
sgd = fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1, parameters=layer.parameters()))
together = fleet.distributed_model(layer)
for step in range(40):
    values = paddle.to_tensor(rng.standard_normal((32, 8), dtype=np.float32))
    error = nn.MSELoss()(together(values), paddle.sum(values, axis=1, keepdim=True))
    if step in (0, 39):
        print(f"layer step {step} loss {float(error.numpy()[0]):.4f}", flush=True)
    error = together.scale_loss(error)
    error.backward()
    together.apply_collective_grads()
    sgd.step()
    sgd.clear_grad()
