"""Four models in one program: a line, a network, a table of which each batch trains some rows, and a loop over words.

Alone it trains on both halves of each batch; with two workers each takes one half. The losses go to a JSON file.
"""

import json
import sys
from pathlib import Path

import numpy as np

import paddle
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker
import paddle.fluid as fluid

STEPS, HALF, WORDS = 12, 8, 40


def build():
    """The losses; what is trained is their sum."""
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    y = fluid.layers.data(name="y", shape=[1], dtype="float32")
    kind = fluid.layers.data(name="kind", shape=[1], dtype="int64")
    word = fluid.layers.data(name="word", shape=[1], dtype="int64")
    line = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(input=x, size=1), y))
    hidden = fluid.layers.fc(input=x, size=700, act="tanh")
    probability = paddle.static.nn.fc(x=hidden, size=2, activation="softmax")
    network = fluid.layers.mean(fluid.layers.cross_entropy(input=probability, label=kind))
    row = fluid.layers.embedding(input=word, size=[WORDS, 6], is_sparse=True)
    table = fluid.layers.mean(
        fluid.layers.cross_entropy(input=fluid.layers.fc(input=row, size=2, act="softmax"), label=kind)
    )
    loop = over_words(word)
    return [line, network, table, loop], line + network + table + loop


def over_words(word):
    """A recurrent layer over the steps of a StaticRNN, whose rows are looked up before it."""
    words = fluid.layers.concat([(word + shift) % WORDS for shift in (0, 1, 5)], axis=1)
    rows = fluid.layers.transpose(fluid.embedding(words, size=[WORDS, 6], is_sparse=True), [1, 0, 2])
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        state = rnn.memory(shape=[-1, 6], batch_ref=row)
        new = fluid.layers.fc(input=[row, state], size=6, act="tanh")
        rnn.update_memory(state, new)
        rnn.step_output(new)
    wanted = fluid.layers.cast(word % 2, "float32")
    return fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(rnn()[-1], size=1), wanted))


def batch(step):
    rng = np.random.default_rng(step)
    x = rng.standard_normal((2 * HALF, 13), dtype=np.float32)
    word = rng.integers(0, WORDS, (2 * HALF, 1))
    return {"x": x, "y": x[:, :1] * 2 + 1, "kind": word % 2, "word": word}


def train(exe, main, startup, losses, part):
    exe.run(startup)
    found = []
    for step in range(STEPS):
        feed = {name: values[part] for name, values in batch(step).items()}
        found.append([float(value[0]) for value in exe.run(main, feed=feed, fetch_list=losses)])
    return found


def work():
    fleet.init(role_maker.PaddleCloudRoleMaker())
    losses, total = build()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = False
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.05), strategy).minimize(total)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    own = fleet.worker_index()
    part = slice(own * HALF, (own + 1) * HALF)
    exe = fluid.Executor(fluid.CPUPlace())
    found = train(exe, fluid.default_main_program(), fluid.default_startup_program(), losses, part)
    Path(sys.argv[1], f"losses.{own}").write_text(json.dumps(found))
    fleet.stop_worker()


if __name__ == "__main__":
    work()
