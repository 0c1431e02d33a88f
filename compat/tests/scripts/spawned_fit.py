"""Two processes that fit a Model, and one that does so alone with batches of twice the size: the same comes out."""

import numpy as np

import paddle
from paddle import nn


class Numbers(paddle.io.Dataset):
    def __init__(self):
        self.x = np.random.default_rng(5).standard_normal((18, 3)).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, place):
        return self.x[place], np.array([self.x[place].sum() > 0], np.int64)


def fitted(batch_size):
    paddle.seed(3)
    model = paddle.Model(nn.Linear(3, 2))
    sgd = paddle.optimizer.SGD(0.5, parameters=model.parameters())
    model.prepare(sgd, nn.CrossEntropyLoss(), paddle.metric.Accuracy())
    data = Numbers()
    model.fit(data, batch_size=batch_size, epochs=2, shuffle=False, verbose=0, drop_last=True)
    result = model.evaluate(data, batch_size=batch_size, verbose=0)
    rows = model.predict(data, batch_size=batch_size, stack_outputs=True, verbose=0)[0]
    env = paddle.distributed.ParallelEnv()
    np.savez(f"{env.rank}of{env.world_size}", weight=model.network.weight.numpy(), acc=result["acc"], rows=rows)
    model.save(f"model{env.world_size}")


if __name__ == "__main__":
    paddle.distributed.spawn(fitted, (4,), nprocs=2, start_method="fork")
    fitted(8)
