"""Imperative mode of version 1.8: a convolution tells small pictures apart, stops, and goes on from its files."""

import numpy as np

import paddle.fluid as fluid
from paddle.fluid.dygraph.base import to_variable
from paddle.fluid.dygraph.nn import BatchNorm, Conv2D, Linear, Pool2D


class Net(fluid.dygraph.Layer):
    def __init__(self):
        super().__init__()
        self.conv = Conv2D(num_channels=1, num_filters=4, filter_size=3, padding=1)
        self.norm = BatchNorm(4, act="relu")
        self.pool = Pool2D(pool_size=2, pool_type="max", pool_stride=2)
        self.fc = Linear(
            4 * 4 * 4, 2, act="softmax", param_attr=fluid.ParamAttr(initializer=fluid.initializer.Xavier())
        )

    def forward(self, inputs, label=None):
        x = self.pool(self.norm(self.conv(inputs)))
        x = self.fc(fluid.layers.dropout(fluid.layers.reshape(x, [-1, 4 * 4 * 4]), 0.1))
        return (x, fluid.layers.accuracy(input=x, label=label)) if label is not None else x


def pictures(rng, count=16):
    """Bars that lie or stand."""
    kinds = rng.randint(0, 2, (count, 1))
    made = rng.normal(0, 0.3, (count, 1, 8, 8))
    for index, kind in enumerate(kinds[:, 0]):
        place = rng.randint(0, 8)
        made[index, 0][(place, slice(None)) if kind else (slice(None), place)] += 1.5
    return to_variable(made.astype("float32")), to_variable(kinds.astype("int64"))


def train(first, last):
    rng = np.random.RandomState(first)
    with fluid.dygraph.guard():
        net = Net()
        rates = fluid.dygraph.PiecewiseDecay([20, 30], [0.01, 0.005, 0.001], begin=0)
        adam = fluid.optimizer.Adam(
            learning_rate=rates,
            parameter_list=net.parameters(),
            regularization=fluid.regularizer.L2Decay(1e-4),
            grad_clip=fluid.clip.GradientClipByGlobalNorm(5.0),
        )
        if first:
            values, state = fluid.load_dygraph("shapes")
            net.set_dict(values)
            adam.set_dict(state)
        net.train()
        for step in range(first, last):
            images, labels = pictures(rng)
            probabilities, accuracy = net(images, labels)
            loss = fluid.layers.mean(fluid.layers.cross_entropy(probabilities, labels))
            loss.backward()
            adam.minimize(loss)
            net.clear_gradients()
            if step in (0, 39):
                print(f"step {step} loss {float(loss.numpy()):.6f} accuracy {accuracy.numpy()}")
        assert abs(adam.current_step_lr() - (0.01 if last == 20 else 0.001)) < 1e-9
        fluid.save_dygraph(net.state_dict(), "shapes")
        fluid.save_dygraph(adam.state_dict(), "shapes")


train(0, 20)
train(20, 40)
