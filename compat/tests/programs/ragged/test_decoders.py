"""fluid.contrib's decoders: sentences against a search with lists over the same weights, and training that learns."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageError

fluid: Any = importlib.import_module("paddle.fluid")
contrib: Any = importlib.import_module("paddle.fluid.contrib.decoder.beam_search_decoder")
layers = fluid.layers
END, WORDS, WIDTH, STATE, BEAM, STEPS = 1, 6, 3, 4, 2, 5


def _cell(first: Any) -> Any:
    state = contrib.InitState(init=first, need_reorder=True)
    cell = contrib.StateCell(inputs={"x": None, "c": None}, states={"h": state}, out_state="h")

    def update(cell: Any) -> None:
        given = [cell.get_state("h"), cell.get_input("x"), cell.get_input("c")]
        cell.set_state("h", layers.fc(given, STATE, act="tanh"))

    assert cell.state_updater(update) is update, "scripts write it as a decorator"
    return cell


def _search(first: Any, fixed: Any, weights: list[Any]) -> list[tuple[float, list[int]]]:
    table, of_state, of_word, of_fixed, bias, out, out_bias = weights
    ways = [(0.0, [0], first)]
    for _ in range(STEPS):
        if all(ids[-1] == END for _, ids, _ in ways):
            break
        made: list[tuple[float, list[int], Any]] = []
        for score, ids, state in ways:
            if ids[-1] == END:
                made.append((score, ids, state))
                continue
            new = np.tanh(state @ of_state + table[ids[-1]] @ of_word + fixed @ of_fixed + bias)
            logits = new @ out + out_bias
            shares = logits - np.log(np.exp(logits).sum())
            made += [(score + float(share), [*ids, word], new) for word, share in enumerate(shares)]
        ways = sorted(made, key=lambda one: -one[0])[:BEAM]
    return [(score, ids) for score, ids, _ in ways]


def test_a_search_finds_what_one_with_lists_finds() -> None:
    random = np.random.default_rng(8)
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.core.Scope()
    with fluid.program_guard(main, startup), fluid.scope_guard(scope):
        first, fixed = fluid.data("first", [None, STATE]), fluid.data("fixed", [None, 2])
        ids = fluid.data("ids", [None, 1], "int64", lod_level=2)
        scores = fluid.data("scores", [None, 1], "float32", lod_level=2)
        decoder = contrib.BeamSearchDecoder(
            _cell(first), ids, scores, WORDS, WIDTH, {"c": fixed}, WORDS, max_len=STEPS, beam_size=BEAM, end_id=END
        )
        with pytest.raises(UsageError, match="decode\\(\\) before what it finds is asked for"):
            decoder()
        decoder.decode()
        found, sums = decoder()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        weights = []
        for one in main.all_parameters():
            values = random.normal(size=one.shape).astype("float32")
            scope.find_var(one.name).get_tensor().set(values, fluid.CPUPlace())
            weights.append(values)
        given = [random.normal(size=(3, size)).astype("float32") for size in (STATE, 2)]
        rows = [[1, 1, 1], [1, 1, 1]]
        feed = {"first": given[0], "fixed": given[1], "ids": fluid.create_lod_tensor(np.zeros((3, 1), "int64"), rows)}
        feed["scores"] = fluid.create_lod_tensor(np.zeros((3, 1), "float32"), rows)
        ways, totals = exe.run(main, feed, [found, sums], return_numpy=False)
    groups, offsets = ways.lod()
    for row in range(3):
        wanted = _search(given[0][row], given[1][row], weights)
        places = range(groups[row], groups[row + 1])
        cut = [slice(offsets[place], offsets[place + 1]) for place in places]
        assert [np.array(ways)[one].tolist() for one in cut] == [one for _, one in wanted]
        np.testing.assert_allclose([np.array(totals)[one][-1] for one in cut], [one for one, _ in wanted], rtol=1e-4)


def test_a_decoder_learns_words_that_are_given() -> None:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.core.Scope()):
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        after = fluid.data("after", [None, 1], "int64", lod_level=1)
        first, fixed = fluid.data("first", [None, STATE]), fluid.data("fixed", [None, 2])
        vectors = layers.embedding(words, [WORDS, WIDTH])
        decoder = contrib.TrainingDecoder(_cell(first))
        with decoder.block():
            word = decoder.step_input(vectors)
            decoder.state_cell.compute_state(inputs={"x": word, "c": decoder.static_input(fixed)})
            score = layers.fc(decoder.state_cell.get_state("h"), WORDS, act="softmax")
            decoder.state_cell.update_states()
            decoder.output(score)
        cost = layers.mean(layers.cross_entropy(decoder(), after))
        fluid.optimizer.Adam(0.1).minimize(cost)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        rows = [[0, 3, 2], [0, 4], [0, 5, 3, 2]]
        lengths = [[3, 2, 4]]
        feed = {
            "words": fluid.create_lod_tensor(rows, lengths),
            "after": fluid.create_lod_tensor([[*row[1:], END] for row in rows], lengths),
            "first": np.eye(3, STATE, dtype="float32"),
            "fixed": np.ones((3, 2), "float32"),
        }
        costs = [float(exe.run(main, feed, [cost])[0]) for _ in range(40)]
    assert costs[-1] < 0.1 * costs[0]


def test_what_does_not_fit_is_said() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        first = fluid.data("first", [None, STATE])
        with pytest.raises(UsageError, match="needs init, or init_boot"):
            contrib.InitState(shape=[STATE])
        state = contrib.InitState(init_boot=first, shape=[-1, 2])
        assert state.value.shape == (-1, 2)
        with pytest.raises(UsageError, match="out_state 'c' must be one of states, h"):
            contrib.StateCell({"x": None}, {"h": state}, "c")
        cell = contrib.StateCell({"x": None}, {"h": state}, "h")
        with pytest.raises(UsageError, match="'y' is no input; it has x"):
            cell.compute_state({"y": first})
        with pytest.raises(UsageError, match="@state_cell.state_updater"):
            cell.compute_state({"x": first})
        with pytest.raises(UsageError, match="inside the block of a decoder"):
            cell.get_state("h")
        with pytest.raises(UsageError, match="no state 'z'"):
            cell.set_state("z", first)
        with pytest.raises(UsageError, match="'x' is not there"):
            cell.get_input("x")
