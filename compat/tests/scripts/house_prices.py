"""Prices from 13 numbers, as scripts of the Fluid era have it: v2's readers, a feeder, files after every pass."""

import sys

import paddle.fluid as fluid
import paddle.v2 as paddle

numbers = fluid.layers.data(name="numbers", shape=[13], dtype="float32")
price = fluid.layers.data(name="price", shape=[1], dtype="float32")
guess = fluid.layers.fc(input=numbers, size=1, act=None)
loss = fluid.layers.mean(x=fluid.layers.square_error_cost(input=guess, label=price))
fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)

batches = paddle.batch(paddle.reader.shuffle(paddle.dataset.uci_housing.train(), buf_size=200), batch_size=50)
place = fluid.CPUPlace()
feeder = fluid.DataFeeder(place=place, feed_list=[numbers, price])
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())

found = []
for _ in range(12):
    fluid.io.save_persistables(exe, "./prices.model/")
    fluid.io.load_persistables(exe, "./prices.model/")
    for batch in batches():
        (value,) = exe.run(fluid.default_main_program(), feed=feeder.feed(batch), fetch_list=[loss])
        assert value.shape == (1,)
        found.append(float(value[0]))
if not found[-1] < found[0] / 4:
    sys.exit(f"loss went from {found[0]} to {found[-1]}")
