"""Click prediction as version 1.6 wrote it: a py_reader, a ParallelExecutor, an end that is an exception, inference."""

import numpy as np

import paddle
import paddle.fluid as fluid
from paddle.fluid.layers.tensor import concat

fluid.require_version("1.6.0")


def clicks():
    """(dense numbers, ids of a slot, clicked or not); the ids alone decide."""
    rng = np.random.RandomState(3)
    for _ in range(256):
        ids = rng.randint(0, 20, rng.randint(1, 4))
        yield rng.rand(4).astype("float32"), ids.tolist(), [int(ids.sum() % 20 < 10)]


def net(dense, ids, label):
    rows = fluid.layers.embedding(input=ids, size=[20, 8], is_sparse=True, param_attr=fluid.ParamAttr(name="rows"))
    joined = concat([dense, fluid.layers.sequence_pool(rows, "sum")], axis=1)
    probability = fluid.layers.fc(fluid.layers.fc(joined, 16, act="relu"), 2, act="softmax")
    loss = fluid.layers.reduce_mean(fluid.layers.cross_entropy(input=probability, label=label))
    return loss, fluid.layers.auc(input=probability, label=label)[0], probability


reader = fluid.layers.py_reader(
    capacity=8, shapes=[(-1, 4), (-1, 1), (-1, 1)], dtypes=["float32", "int64", "int64"], lod_levels=[0, 1, 0]
)
dense, ids, label = fluid.layers.read_file(reader)
loss, auc, probability = net(dense, ids, label)
fluid.optimizer.Adam(learning_rate=0.02).minimize(loss)
reader.decorate_paddle_reader(paddle.batch(paddle.reader.shuffle(clicks, 256), batch_size=64))

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
execution, build = fluid.ExecutionStrategy(), fluid.BuildStrategy()
execution.num_threads, build.async_mode = 2, False
build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, build_strategy=build, exec_strategy=execution)
for epoch in range(12):
    reader.start()
    try:
        while True:
            value, area = parallel.run(fetch_list=[loss.name, auc.name])
    except fluid.core.EOFException:
        reader.reset()
    if epoch in (0, 11):
        print("loss %.4f, auc %.3f" % (value, area))  # noqa: UP031 - as such scripts print

for name in ("_generated_var_2", "_generated_var_3"):
    counts = fluid.global_scope().var(name).get_tensor()
    counts.set(np.zeros(counts._get_dims()).astype("int64"), fluid.CPUPlace())
fluid.io.save_inference_model("clicks.model", [dense.name, ids.name], [probability], exe)
program, names, targets = fluid.io.load_inference_model("clicks.model", exe)
words = fluid.create_random_int_lodtensor([[2, 1]], base_shape=[1], place=fluid.CPUPlace(), low=0, high=19)
(found,) = exe.run(program, feed={names[0]: np.ones((2, 4), "float32"), names[1]: words}, fetch_list=targets)
assert found.shape == (2, 2)
