"""Beam search over ragged rows: steps and whole sentences, against a search written out in Python."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest

from fleet.errors import UsageError

fluid: Any = importlib.import_module("paddle.fluid")
END = 0
WORDS = 5


def _lod(values: Any, lengths: list[list[int]]) -> Any:
    return fluid.create_lod_tensor(np.asarray(values), lengths, fluid.CPUPlace())


def _step(pre_ids: Any, pre_scores: Any, ids: Any, scores: Any, lengths: list[list[int]], **more: Any) -> Any:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        before = fluid.data("before", [None, 1], "int64", lod_level=2)
        sums = fluid.data("sums", [None, 1], "float32", lod_level=2)
        choice = fluid.data("choice", [None, 2], "int64")
        given = fluid.layers.lod_reset(fluid.data("given", [None, 2], "float32"), before)
        found = fluid.layers.beam_search(before, sums, choice, given, 2, END, return_parent_idx=True, **more)
    feed = {"before": _lod(pre_ids, lengths), "sums": _lod(pre_scores, lengths), "choice": ids, "given": scores}
    return fluid.Executor(fluid.CPUPlace()).run(main, feed, list(found), return_numpy=False)


def test_a_step_keeps_the_best_of_each_sentence() -> None:
    ids = np.array([[3, 4], [1, 2], [4, 3]])
    scores = np.array([[0.5, 0.1], [0.4, 0.3], [-1.0, -2.0]], "float32")
    selected, sums, parents = _step([[1], [2], [3]], np.zeros((3, 1), "float32"), ids, scores, [[2, 1], [1, 1, 1]])
    assert np.array(selected).ravel().tolist() == [3, 1, 4, 3]
    np.testing.assert_allclose(np.array(sums).ravel(), [0.5, 0.4, -1.0, -2.0])
    assert np.array(parents).tolist() == [0, 1, 2, 2]
    assert selected.lod() == sums.lod() == [[0, 2, 3], [0, 1, 2, 4]]


def test_a_prefix_that_ended_stays_and_a_sentence_that_ended_goes() -> None:
    scores = np.array([[9.0, 8.0], [0.4, 0.3], [7.0, 7.0], [7.0, 7.0]], "float32")
    before = np.array([[END], [2], [END], [END]])
    sums = np.array([[0.35], [0.0], [1.0], [2.0]], "float32")
    selected, sums, _ = _step(before, sums, np.array([[3, 4]] * 4), scores, [[2, 2], [1, 1, 1, 1]])
    assert np.array(selected).ravel().tolist() == [END, 3]
    np.testing.assert_allclose(np.array(sums).ravel(), [0.35, 0.4])
    assert selected.lod() == [[0, 2, 4], [0, 1, 2, 2, 2]]


def test_probabilities_are_added_as_logarithms() -> None:
    scores = np.array([[0.5, 0.25]], "float32")
    _, sums, _ = _step([[1]], [[np.float32(-1)]], np.array([[3, 4]]), scores, [[1], [1]], is_accumulated=False)
    np.testing.assert_allclose(np.array(sums).ravel(), [-1 + math.log(0.5), -1 + math.log(0.25)], rtol=1e-6)


def _search(first: int, table: np.ndarray[Any, Any], beam: int, steps: int) -> list[tuple[float, list[int]]]:
    """The same search with lists: (score, ids) of the best ways, the best first."""
    ways = [(0.0, [first])]
    for _ in range(steps):
        if all(ids[-1] == END for _, ids in ways):
            break
        made = []
        for score, ids in ways:
            if ids[-1] == END:
                made.append((score, ids))
                continue
            made += [(score + math.log(share), [*ids, word]) for word, share in enumerate(table[ids[-1]])]
        ways = sorted(made, key=lambda one: -one[0])[:beam]
    return ways


def test_a_loop_finds_what_a_search_with_lists_finds() -> None:
    """The state of a beam is its first word, so that rows which went to another beam would show."""
    random = np.random.default_rng(5)
    table = random.dirichlet(np.full(WORDS, 0.7), WORDS).astype("float32")
    layers, beam, steps = fluid.layers, 2, 4
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        first = fluid.data("first", [None, 1], "int64", lod_level=2)
        zeros = fluid.data("zeros", [None, 1], "float32", lod_level=2)
        fed = fluid.data("encoded", [None, 1], "float32", lod_level=1)
        encoded, beside = layers.scale(fed, 1.0), layers.scale(fed, 2.0)
        counter = layers.zeros([1], "int64")
        limit = layers.fill_constant([1], "int64", steps)
        ids, scores = layers.array_write(first, counter), layers.array_write(zeros, counter)
        more = layers.less_than(counter, limit)
        with layers.While(more).block():
            before, so_far = layers.array_read(ids, counter), layers.array_read(scores, counter)
            attr = fluid.ParamAttr("table", initializer=fluid.initializer.NumpyArrayInitializer(table))
            shares = layers.embedding(before, [WORDS, WORDS], param_attr=attr)
            own = layers.sequence_pool(encoded, "sum")  # 1 for each beam of every sentence
            shares = layers.elementwise_mul(shares, layers.reshape(own, [-1]), axis=0)
            best, words = layers.topk(shares, WORDS)
            sums = layers.elementwise_add(layers.log(best), layers.reshape(so_far, [-1]), axis=0)
            sums = layers.lod_reset(sums, before)
            chosen, totals = layers.beam_search(before, so_far, words, sums, beam, END)
            layers.increment(counter)
            layers.array_write(chosen, counter, ids)
            layers.array_write(totals, counter, scores)
            layers.assign(layers.sequence_expand(encoded, chosen), encoded)
            layers.assign(layers.sequence_expand(beside, chosen), beside)
            layers.logical_and(layers.less_than(counter, limit), layers.logical_not(layers.is_empty(chosen)), out=more)
        found, sums = layers.beam_search_decode(ids, scores, beam, END)
        own_rows, fed_rows = layers.sequence_pool(encoded, "sum"), layers.sequence_pool(fed, "sum")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    begin = [[3], [2], [4]]
    feed = {
        "first": _lod(np.array(begin), [[1, 1, 1], [1, 1, 1]]),
        "zeros": _lod(np.zeros((3, 1), "float32"), [[1, 1, 1], [1, 1, 1]]),
        "encoded": _lod(np.array([[0.5], [0.5], [1.0], [0.2], [0.8]], "float32"), [[2, 1, 2]]),
    }
    fetches = [found.name, sums.name, own_rows.name, fed_rows.name]
    for program in (main, fluid.Program.parse_from_string(main.to_string()), fluid.Program.from_json(main.to_json())):
        way, total, rows, unchanged = exe.run(program, feed, fetches, return_numpy=False)
        groups, offsets = way.lod()
        assert total.lod() == [groups, offsets]
        for number, (word,) in enumerate(begin):
            wanted = _search(word, table, beam, steps)
            places = range(groups[number], groups[number + 1])
            assert [np.array(way)[offsets[place] : offsets[place + 1]].tolist() for place in places] == [
                one for _, one in wanted
            ]
            ends = [np.array(total)[offsets[place + 1] - 1] for place in places]
            np.testing.assert_allclose(ends, [score for score, _ in wanted], rtol=1e-5)
        np.testing.assert_allclose(np.array(rows), 1.0, rtol=1e-6)
        np.testing.assert_allclose(np.array(unchanged), np.ones((3, 1)), rtol=1e-6)


def test_what_does_not_fit_is_said() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        flat = fluid.data("flat", [None, 1], "int64")
        scores = fluid.data("scores", [None, 2])
        with pytest.raises(UsageError, match="must have the rows of its sentences"):
            fluid.layers.beam_search(flat, scores, None, scores, 2, END)
        counter = fluid.layers.zeros([1], "int64")
        array = fluid.layers.array_write(flat, counter)
        with pytest.raises(UsageError, match="two levels of rows, got 0"):
            fluid.layers.beam_search_decode(array, array, 2, END)
        ragged = fluid.layers.array_write(fluid.data("rows", [None, 1], "int64", lod_level=1), counter)
        with pytest.raises(UsageError, match="holds ragged values"):
            fluid.layers.array_write(flat, counter, ragged)
        rows = fluid.default_main_program().global_block().var("rows")
        more = fluid.layers.less_than(counter, counter)
        with pytest.raises(UsageError, match="'rows' is fed, and cannot get other rows in a loop"):
            with fluid.layers.While(more).block():
                fluid.layers.assign(fluid.layers.sequence_expand(rows, rows), rows)
                fluid.layers.less_than(counter, counter, cond=more)


def test_rows_are_expanded_by_either_level() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y = fluid.data("x", [None, 1]), fluid.data("y", [None, 1], lod_level=2)
        by_groups = fluid.layers.sequence_expand(x, y, ref_level=0)
        by_rows = [fluid.layers.sequence_expand(fluid.data("z", [None, 1]), y, level) for level in (-1, 1)]
        with pytest.raises(UsageError, match="ref_level must be from -1 to 1, the levels of 'y', got 2"):
            fluid.layers.sequence_expand(x, y, 2)
        feed = {
            "x": np.array([[1], [2]], "float32"),
            "z": np.array([[1], [2], [3]], "float32"),
            "y": _lod(np.zeros((6, 1), "float32"), [[2, 1], [3, 1, 2]]),
        }
        found = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[by_groups, *by_rows])
    assert [one.ravel().tolist() for one in found] == [[1, 1, 2], [1, 1, 1, 2, 3, 3], [1, 1, 1, 2, 3, 3]]
