"""PaddlePaddle's control flow in programs: StaticRNN, DynamicRNN, While, Switch, IfElse, py_func, beside plain ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fleet.errors import UsageError
from program_support.programs import building

RANDOM = np.random.default_rng(3)
T, B, D, H = 4, 3, 2, 5
X = RANDOM.standard_normal((T, B, D)).astype(np.float32)
ROWS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [2, 2]]
paddle: Any = importlib.import_module("paddle")
fluid: Any = importlib.import_module("paddle.fluid")
layers = fluid.layers


def trained(build: Callable[[], Any], feed: dict[str, Any], **start: Any) -> list[Any]:
    """The loss, and all parameters after a step."""
    with building() as built:
        loss = build()
        fluid.optimizer.SGD(0.5).minimize(loss)
    built.start(**start)
    found = built.run(feed, loss)
    return [*found, *(built[var.name] for var in built.main.all_parameters())]


def same(one: list[Any], other: list[Any]) -> None:
    assert len(one) == len(other) > 1
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def cell(word: Any, state: Any) -> Any:
    return layers.fc([word, state], H, act="tanh", param_attr=["w", "u"], bias_attr="b")


def test_static_rnn_equals_the_unrolled_program() -> None:
    def looped() -> Any:
        x = fluid.data("x", [T, None, D])
        rnn = layers.StaticRNN()
        with rnn.step():
            word = rnn.step_input(x)
            prev = rnn.memory(shape=[-1, H], batch_ref=word, init_value=0.5)
            hidden = cell(word, prev)
            rnn.update_memory(prev, hidden)
            rnn.step_output(hidden)
            rnn.output(layers.scale(prev, 2.0))
        out, before = rnn()
        return layers.mean(layers.square(out) + before)

    def plain() -> Any:
        x = fluid.data("x", [T, B, D])
        state, outs = layers.fill_constant([B, H], "float32", 0.5), []
        for word in layers.unstack(x, 0):
            new = cell(word, state)
            outs.append(layers.square(new) + state * 2.0)
            state = new
        return layers.mean(layers.stack(outs))

    same(trained(looped, {"x": X}), trained(plain, {"x": X}))


def test_dynamic_rnn_goes_along_ragged_rows() -> None:
    """Against torch: rows one by one, attention over a ragged static input, memories that begin with each row's own."""
    with building() as built:
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        first = fluid.data("first", [None, H])
        words = layers.embedding(ids, [10, D], param_attr="table")
        rnn = layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(words)
            whole = rnn.static_input(words)
            state = rnn.memory(init=first, need_reorder=True)
            count = rnn.memory(shape=[1], value=1.0)
            hidden = layers.fc([word, layers.sequence_pool(whole, "sum")], H, param_attr=["w", "u"], bias_attr=False)
            hidden = layers.tanh(layers.elementwise_add(hidden, layers.elementwise_mul(state, count, axis=0)))
            rnn.update_memory(state, hidden)
            rnn.update_memory(count, layers.scale(count, 0.5))
            rnn.output(hidden)
        out = rnn()
        last = layers.sequence_last_step(out)
        loss = layers.mean(layers.square(last))
        pairs = fluid.backward.append_backward(loss)
    built.start()
    begin = RANDOM.standard_normal((len(ROWS), H)).astype(np.float32)
    feed = {"ids": [[[i] for i in row] for row in ROWS], "first": begin}
    found = built.run(feed, out, loss, *(gradient for _, gradient in pairs))
    table, w, u = (torch.tensor(built[name], requires_grad=True) for name in ("table", "w", "u"))
    outs, lasts = [], []
    for row, state in zip(ROWS, torch.tensor(begin), strict=True):
        words_of = table[torch.tensor(row)]
        for step, word in enumerate(words_of):
            state = torch.tanh(word @ w + words_of.sum(0) @ u + state * 0.5**step)
            outs.append(state)
        lasts.append(state)
    expected = torch.stack(lasts).square().mean()
    expected.backward()
    np.testing.assert_allclose(found[0], torch.stack(outs).detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1].item(), expected.item(), rtol=1e-5)
    by_name = {parameter.name: value for (parameter, _), value in zip(pairs, found[2:], strict=True)}
    for name, one in (("table", table), ("w", w), ("u", u)):
        assert one.grad is not None
        np.testing.assert_allclose(by_name[name], one.grad, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_switch_sets_the_learning_rate() -> None:
    """As schedules are written by hand: warm up for two steps, then 0.1, then 0.01."""
    with building() as built:
        step = layers.autoincreased_step_counter(begin=0)
        rate = layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
        with layers.Switch() as switch:
            with switch.case(step < layers.fill_constant([1], "int64", 2)):
                layers.assign(layers.cast(step, "float32") * 0.05, rate)
            with switch.case(step < layers.fill_constant([1], "int64", 4)):
                layers.assign(np.array([0.1], np.float32), rate)
            with switch.default():
                layers.assign(layers.fill_constant([1], "float32", 0.01), rate)
        x = fluid.data("x", [None, 1])
        loss = layers.mean(layers.fc(x, 1, param_attr="w", bias_attr=False))
        fluid.optimizer.SGD(rate).minimize(loss)
    built.start(w=np.zeros((1, 1), np.float32))
    found = [0.0]
    for _ in range(6):
        built.run({"x": np.ones((2, 1), np.float32)}, loss)
        found.append(built["w"].item())
    np.testing.assert_allclose(-np.diff(found), [0.0, 0.05, 0.1, 0.1, 0.01, 0.01], atol=1e-7)
    assert not built.main.clone(for_test=True).is_trained


def test_a_while_loop_decodes_until_the_end_word() -> None:
    """The most likely next word again and again; words are collected in an array."""
    chain = np.full((6, 6), -5.0, np.float32)
    for word, after in {0: 3, 3: 1, 1: 4, 4: 5}.items():
        chain[word, after] = 5.0
    with building() as built:
        word = fluid.data("word", [1, 1], "int64")
        now = layers.assign(word)
        i, limit = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 10)
        words = layers.array_write(now, i)
        more = layers.less_than(i, limit)
        loop = layers.While(cond=more)
        with loop.block():
            scores = layers.softmax(layers.embedding(now, [6, 6], param_attr="chain"))
            _, best = layers.topk(scores, 1)
            layers.assign(layers.reshape(best, [1, 1]), now)
            layers.increment(i)
            layers.array_write(now, i, words)
            ended = layers.reduce_all(layers.equal(now, layers.fill_constant([1, 1], "int64", 5)))
            layers.logical_and(layers.less_than(i, limit), layers.logical_not(ended), out=more)
        out, _ = layers.tensor_array_to_tensor(words, axis=0)
        count = layers.array_length(words)
    built.start(chain=chain)
    found, number = built.run({"word": np.array([[0]])}, out, count)
    assert (found.ravel().tolist(), number.item()) == ([0, 3, 1, 4, 5], 5)
    arrays = fluid.Executor().run(built.main, {"word": np.array([[3]])}, [words], scope=built.scope)[0]
    assert [one.item() for one in arrays] == [3, 1, 4, 5]


@pytest.mark.parametrize("limit", [-9.0, 0.1, 9.0])
def test_rows_that_go_one_of_two_ways(limit: float) -> None:
    def split() -> Any:
        x = fluid.data("x", [None, D])
        chosen = layers.IfElse(layers.less_than(x[:, :1], layers.fill_constant([1], "float32", limit)))
        with chosen.true_block():
            chosen.output(layers.fc(chosen.input(x), 2, param_attr="w", bias_attr=False))
        with chosen.false_block():
            chosen.output(layers.fc(chosen.input(x), 2, param_attr="u", bias_attr=False))
        (out,) = chosen()
        return layers.mean(layers.square(out) * layers.data("weight", [1]))

    def both() -> Any:
        x = fluid.data("x", [None, D])
        mask = layers.cast(layers.less_than(x[:, :1], layers.fill_constant([1], "float32", limit)), "float32")
        one, other = (layers.fc(x, 2, param_attr=name, bias_attr=False) for name in ("w", "u"))
        out = layers.elementwise_mul(one, mask) + layers.elementwise_mul(other, 1.0 - mask)
        return layers.mean(layers.square(out) * layers.data("weight", [1]))

    feed = {"x": X.reshape(-1, D), "weight": np.arange(T * B, dtype=np.float32)[:, None]}
    same(trained(split, feed), trained(both, feed))


def test_functions_of_python_in_a_program() -> None:
    seen = []

    def build() -> Any:
        x = fluid.data("x", [None, D])
        hidden = layers.fc(x, 3, param_attr="w", bias_attr=False)
        block = fluid.default_main_program().current_block()
        out = block.create_var(name="out", dtype="float32", shape=[-1, 3])

        def backward(y: Any, dy: Any) -> Any:
            return np.array(dy) * (1 - np.square(np.array(y)))

        layers.py_func(np.tanh, hidden, out, backward, skip_vars_in_backward_input=hidden)
        layers.py_func(lambda y: seen.append(np.array(y).shape), out, None)
        return layers.mean(out)

    def plain() -> Any:
        return layers.mean(layers.fc(fluid.data("x", [None, D]), 3, act="tanh", param_attr="w", bias_attr=False))

    same(trained(build, {"x": X[0]}), trained(plain, {"x": X[0]}))
    assert seen == [(B, 3)]


def test_the_names_of_two_point_o_and_tensors() -> None:
    with building() as built:
        x = paddle.static.data("x", [None, D])
        out = paddle.static.nn.cond(paddle.mean(x) > 0, lambda: x * 2, lambda: x - 1)
        i = layers.fill_constant([1], "int64", 0)
        n, _ = paddle.static.nn.while_loop(lambda i, _: i < 3, lambda i, y: [i + 1, y * 2], [i, x])
    ones = np.ones((2, D), np.float32)
    assert built.run({"x": ones}, out, n)[0].tolist() == (ones * 2).tolist()
    with fluid.dygraph.guard():
        one = fluid.dygraph.to_variable(ones)
        assert float(layers.cond(layers.mean(one) > 0, lambda: one.sum(), lambda: one)) == 2 * D
        i = layers.fill_constant([1], "int64", 0)
        n, y = layers.while_loop(lambda i, _: i < 3, lambda i, y: [i + 1, y * 2], [i, one])
        assert (int(n), float(y[0][0])) == (3, 8)
        array = layers.array_write(one, layers.fill_constant([1], "int64", 1))
        assert int(layers.array_length(array)) == 2


def test_mistakes_are_one_line_each() -> None:
    with building():
        x, p = fluid.data("x", [T, None, D]), fluid.data("p", [1], "bool")
        rnn = layers.StaticRNN()
        with pytest.raises(UsageError, match=r"step_input\(\) belongs inside the step"):
            rnn.step_input(x)
        with pytest.raises(UsageError, match=r"there is no step_input\(\)"), rnn.step():
            rnn.memory(init=x)
        with pytest.raises(UsageError, match="is never updated"), rnn.step():
            rnn.memory(shape=[-1, 2], batch_ref=rnn.step_input(x))
        with pytest.raises(UsageError, match="its outputs are there once the step is built"):
            rnn()
        with pytest.raises(UsageError, match="must be ragged; declare it with"), layers.DynamicRNN().block() as _:
            layers.lod_rank_table(x)
        with pytest.raises(UsageError, match="would never end"), layers.While(p).block():
            layers.scale(x)
        switch = layers.Switch()
        with pytest.raises(UsageError, match=r"default\(\) must come after at least one case"), switch.default():
            pass
        with pytest.raises(UsageError, match="cond 'x' must be bool .rows, 1."):
            layers.IfElse(x)
        with pytest.raises(UsageError, match="both blocks must have as many outputs, got 0 and 0"):
            layers.IfElse(p)()
        with pytest.raises(UsageError, match="func and backward_func must be functions"):
            layers.py_func(3, x, x)


def searched(chain: Any, first: int, beam_size: int, steps: int, end: int) -> list[list[int]]:
    """The best ways through a table of log-probabilities, by trying all of them beam by beam."""
    beams = [(0.0, [first])]
    for _ in range(steps):
        grown = []
        for score, way in beams:
            if way[-1] == end and len(way) > 1:
                grown.append((score, [*way, end]))
            else:
                grown += [(score + float(chain[way[-1], word]), [*way, word]) for word in range(len(chain))]
        beams = sorted(grown, key=lambda one: -one[0])[:beam_size]
        if all(way[-1] == end for _, way in beams):
            break
    return [way[1:] for _, way in beams]


def scored(chain: Any, first: int, way: Any) -> float:
    """The log-probability of a way."""
    return float(sum(chain[a, b] for a, b in zip([first, *way], way, strict=False)))


@pytest.mark.parametrize("is_static", [True, False])
def test_beam_search_finds_the_best_ways(is_static: bool) -> None:
    words, beam_size, end, limit = 6, 3, 1, 4
    chain = RANDOM.standard_normal((words, words)).astype(np.float32) * 2
    chain -= np.log(np.exp(chain).sum(1, keepdims=True))
    begin = np.array([[2.0], [4.0]], np.float32)

    def decoded(states: Any, table: Any) -> Any:
        def cell(ids: Any, states: Any) -> Any:
            """Scores after the word that the state is; the next state is what was chosen, which `step` knows."""
            return layers.gather(table, layers.reshape(layers.cast(states, "int64"), [-1])), states

        class Decoder(paddle.nn.BeamSearchDecoder):  # type: ignore[misc]
            def step(self, time: Any, inputs: Any, states: Any, **more: Any) -> Any:
                outputs, new, following, finished = super().step(time, inputs, states, **more)
                words = layers.unsqueeze(layers.cast(following, "float32"), [2])
                return outputs, new._replace(cell_states=words), following, finished

        decoder = Decoder(cell, start_token=0, end_token=end, beam_size=beam_size)
        return layers.dynamic_decode(decoder, inits=states, max_step_num=limit - 1, return_length=True)

    if is_static:
        with building() as built:
            states, table = fluid.data("states", [None, 1]), fluid.data("table", [words, words])
            ids, _, lengths = decoded(states, table)
        found, sizes = built.run({"states": begin, "table": chain}, ids, lengths)
    else:
        with fluid.dygraph.guard():
            ids, _, lengths = decoded(fluid.dygraph.to_variable(begin), fluid.dygraph.to_variable(chain))
            found, sizes = ids.numpy(), lengths.numpy()
    assert found.shape[0] == 2
    for row, first in enumerate((2, 4)):
        for beam, way in enumerate(searched(chain, first, beam_size, limit, end)):
            size = way.index(end) + 1 if end in way else len(way)
            # Two ways over the same steps in another order are equally good.
            assert scored(chain, first, found[row, :size, beam]) == pytest.approx(scored(chain, first, way[:size]))
            assert sizes[row, beam] == size


def test_a_decoder_of_paddle_nn_over_a_cell() -> None:
    """The example of the documents: a GRU, an embedding and a linear layer; it ends at the limit."""
    with fluid.dygraph.guard():
        paddle.seed(3)
        embed, out = paddle.nn.Embedding(20, 8), paddle.nn.Linear(8, 20)
        decoder = paddle.nn.BeamSearchDecoder(paddle.nn.GRUCell(8, 8), 0, 1, 4, embed, out)
        ids, states = paddle.nn.dynamic_decode(decoder, inits=paddle.zeros([3, 8]), max_step_num=5)
        assert (ids.shape[0], ids.shape[2], list(states.cell_states.shape)) == (3, 4, [3, 4, 8])
        assert ids.shape[1] <= 6


@pytest.mark.parametrize(("kind", "is_reverse"), [("GRUCell", False), ("LSTMCell", True)])
def test_cells_along_sequences(kind: str, is_reverse: bool) -> None:
    """Against the same cell unrolled by Python, row by row: rows of fewer steps keep their states."""
    sizes = [4, 2, 3]

    def looped() -> Any:
        x, count = fluid.data("x", [None, T, D]), fluid.data("count", [None], "int64")
        out, state = layers.rnn(
            getattr(layers, kind)(H, param_attr="w"), x, sequence_length=count, is_reverse=is_reverse
        )
        last = state[0] if isinstance(state, list) else state
        return layers.mean(layers.square(last)) + 0.0 * layers.mean(out)

    def plain() -> Any:
        x, cell = fluid.data("x", [None, T, D]), getattr(layers, kind)(H, param_attr="w")
        fluid.data("count", [None], "int64")
        lasts = []
        for row, size in enumerate(sizes):
            state = cell.get_initial_states(x[row : row + 1])
            for step in reversed(range(size)) if is_reverse else range(size):
                _, state = cell(layers.reshape(x[row : row + 1, step], [1, D]), state)
            lasts.append(state[0] if isinstance(state, list) else state)
        return layers.mean(layers.square(layers.concat(lasts)))

    feed = {"x": X.transpose(1, 0, 2).copy(), "count": np.array(sizes)}
    same(trained(looped, feed), trained(plain, feed))


def test_a_decoder_in_a_program_over_a_cell_of_its_own() -> None:
    """As the books build one: an attention over what was encoded, given to the cell by name."""

    class Attending(fluid.layers.RNNCell):  # type: ignore[misc]
        def __init__(self) -> None:
            self.gru = layers.GRUCell(H)

        def call(self, inputs: Any, states: Any, encoded: Any) -> Any:
            weights = layers.softmax(layers.matmul(layers.unsqueeze(states, [1]), encoded, transpose_y=True))
            context = layers.reshape(layers.matmul(weights, encoded), [-1, H])
            return self.gru(layers.concat([inputs, context], axis=1), states)

    with building() as built:
        encoded, first = fluid.data("encoded", [None, T, H]), fluid.data("first", [None, H])
        decoder = layers.BeamSearchDecoder(
            Attending(),
            start_token=0,
            end_token=1,
            beam_size=2,
            embedding_fn=lambda ids: fluid.embedding(ids, [7, D], param_attr="words"),
            output_fn=lambda out: layers.fc(out, 7, param_attr="out", bias_attr=False),
        )
        tiled = layers.BeamSearchDecoder.tile_beam_merge_with_batch(encoded, 2)
        ids, _ = layers.dynamic_decode(decoder, inits=first, max_step_num=4, encoded=tiled)
    built.start()
    found = built.run({"encoded": np.ones((3, T, H), np.float32), "first": np.ones((3, H), np.float32)}, ids)[0]
    assert (found.shape[0], found.shape[2], found.dtype) == (3, 2, np.int64)
    assert (found[0] == found[1]).all()
    assert found.shape[1] <= 5
