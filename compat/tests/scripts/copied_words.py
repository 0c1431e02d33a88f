"""Sentences copied word by word: encoder and decoder by DynamicRNN, a schedule by Switch, greedy decoding by While."""

import numpy as np

import paddle.fluid as fluid
import paddle.fluid.layers as pd

WORDS, DIM, START, END, LONGEST = 8, 24, 0, 1, 5
rng = np.random.default_rng(2)


def embedded(words):
    return pd.embedding(input=words, size=[WORDS, DIM], param_attr=fluid.ParamAttr(name="words"))


def encoder():
    source = fluid.data(name="source", shape=[None, 1], dtype="int64", lod_level=1)
    rows = embedded(source)
    rnn = pd.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(rows)
        state = rnn.memory(shape=[DIM], value=0.0)
        new = pd.fc(input=[word, state], size=DIM, act="tanh", param_attr=["e.w", "e.u"], bias_attr="e.b")
        rnn.update_memory(state, new)
        rnn.output(new)
    return pd.sequence_last_step(rnn())


def one_step(word, state):
    new = pd.fc(input=[word, state], size=DIM, act="tanh", param_attr=["d.w", "d.u"], bias_attr="d.b")
    return new, pd.fc(input=new, size=WORDS, act="softmax", param_attr="o.w", bias_attr="o.b")


def train_network():
    context = encoder()
    target = fluid.data(name="target", shape=[None, 1], dtype="int64", lod_level=1)
    rows = embedded(target)
    rnn = pd.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(rows)
        state = rnn.memory(init=context, need_reorder=True)
        new, scores = one_step(word, state)
        rnn.update_memory(state, new)
        rnn.output(scores)
    following = fluid.data(name="following", shape=[None, 1], dtype="int64", lod_level=1)
    return pd.mean(pd.cross_entropy(input=rnn(), label=following))


def rate():
    step = pd.autoincreased_step_counter(counter_name="steps", begin=0)
    found = pd.create_global_var(shape=[1], value=0.0, dtype="float32", persistable=True, name="rate")
    with pd.Switch() as switch:
        with switch.case(step < pd.fill_constant([1], "int64", 100)):
            pd.assign(pd.fill_constant([1], "float32", 0.03), found)
        with switch.default():
            pd.assign(pd.fill_constant([1], "float32", 0.01), found)
    return found


def decode_network():
    state = pd.assign(encoder())
    i, limit = pd.fill_constant([1], "int64", 0), pd.fill_constant([1], "int64", LONGEST + 1)
    word = pd.fill_constant_batch_size_like(state, [-1, 1], "int64", START)
    words = pd.create_array("int64")
    more = pd.less_than(x=i, y=limit)
    loop = pd.While(cond=more)
    with loop.block():
        new, scores = one_step(pd.reshape(embedded(word), [-1, DIM]), state)
        _, best = pd.topk(scores, k=1)
        pd.assign(new, state)
        pd.assign(best, word)
        pd.array_write(best, array=words, i=i)
        pd.increment(x=i, value=1, in_place=True)
        pd.less_than(x=i, y=limit, cond=more)
    return pd.tensor_array_to_tensor(words, axis=1)[0]


def ragged(rows):
    return fluid.create_lod_tensor(np.concatenate(rows)[:, None], [[len(row) for row in rows]], fluid.CPUPlace())


def sentences(size=16):
    return [rng.integers(2, WORDS, rng.integers(1, LONGEST)) for _ in range(size)]


main, startup, decoding = fluid.Program(), fluid.Program(), fluid.Program()
with fluid.program_guard(main, startup):
    loss = train_network()
    fluid.optimizer.Adam(learning_rate=rate()).minimize(loss)
with fluid.program_guard(decoding, fluid.Program()):
    found = decode_network()

exe = fluid.Executor(fluid.CPUPlace())
startup.random_seed = 1
exe.run(startup)
for number in range(150):
    rows = sentences()
    feed = {
        "source": ragged(rows),
        "target": ragged([np.append(START, row) for row in rows]),
        "following": ragged([np.append(row, END) for row in rows]),
    }
    (value,) = exe.run(main, feed=feed, fetch_list=[loss])
    if number in (0, 149):
        print("loss", float(np.ravel(value)[0]))
rows = sentences(40)
(words,) = exe.run(decoding, feed={"source": ragged(rows)}, fetch_list=[found])
right = [list(row) == list(line[: len(row)]) for row, line in zip(rows, words, strict=True)]
print("copied", sum(right), "of", len(right))
assert sum(right) > 20, words
