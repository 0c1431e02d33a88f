"""A small network as version 2.0 declares it, in old spellings, for a GPU that the machine may not have."""

import numpy as np

import paddle

paddle.enable_static()
x = paddle.static.data(name="x", shape=[None, 16], dtype="float32")
y = paddle.static.data(name="y", shape=[None, 1], dtype="int64")
hidden = paddle.static.nn.fc(input=x, size=32, act="tanh")
hidden = paddle.static.nn.fc(x=hidden, size=32, activation="relu")
probability = paddle.static.nn.fc(input=[hidden], size=2, act="softmax")
loss = paddle.static.nn.mean(x=paddle.static.nn.cross_entropy(input=probability, label=y))
paddle.optimizer.SGD(learning_rate=0.2).minimize(loss)

exe = paddle.static.Executor(paddle.CUDAPlace(0))
exe.run(paddle.static.default_startup_program())
rng = np.random.default_rng(5)
for step in range(100):
    values = rng.standard_normal((64, 16), dtype=np.float32)
    feed = {"x": values, "y": (values.sum(1, keepdims=True) > 0).astype("int64")}
    (value,) = exe.run(feed=feed, fetch_list=[loss.name])
    assert value.shape == (1,)
    if step in (0, 99):
        print("step %d loss %f" % (step, value))  # noqa: UP031 - as scripts of that time print it
