"""A network of imperative layers in one process."""

import paddle
import paddle.nn as nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 12)
        self.second = nn.Linear(12, 1)

    def forward(self, x):
        return self.second(nn.functional.tanh(self.first(x)))


paddle.disable_static()
paddle.seed(3)
net = Net()
measure = nn.MSELoss()
adam = paddle.optimizer.Adam(learning_rate=0.05, parameters=net.parameters())
for step in range(60):
    inputs = paddle.randn([32, 6], "float32")
    loss = measure(net(inputs), paddle.sum(inputs, axis=1, keepdim=True))
    if step in (0, 59):
        print(f"step {step} loss {loss.numpy()}")
    loss.backward()
    adam.step()
    adam.clear_grad()
