"""fluid.contrib's decoders over a StateCell: `TrainingDecoder` follows given words, `BeamSearchDecoder` finds some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fleet.errors import UsageError
from fleet_paddle.programs.layers.flow import While
from fleet_paddle.programs.layers.ragged.beams import beam_search, beam_search_decode
from fleet_paddle.programs.layers.ragged.sequence import sequence_expand
from fleet_paddle.programs.layers.ragged.sequence_rows import lod_reset
from fleet_paddle.programs.layers.recurrent.dynamic_rnn import DynamicRNN
from fleet_paddle.programs.networks.state_cells import InitState, StateCell
from fleet_programs import layers
from fleet_programs.program.variable import Variable

__all__ = ["BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder"]


class TrainingDecoder:
    """Steps along the words of ragged inputs: `with decoder.block():` says what happens with one."""

    def __init__(self, state_cell: StateCell, name: str | None = None) -> None:
        self.state_cell = state_cell
        self._rnn = DynamicRNN(name)
        self._memories: dict[str, Variable] = {}

    @property
    def dynamic_rnn(self) -> DynamicRNN:
        """The recurrent layer that it is made of."""
        return self._rnn

    @contextmanager
    def block(self) -> Iterator[None]:
        """Inside, layers add to one step."""
        with self._rnn.block():
            self.state_cell.held_by(self)
            yield
        self.state_cell.held_by(None)

    def read(self, name: str, first: InitState) -> Variable:
        """A state as the step before has left it."""
        if name not in self._memories:
            self._memories[name] = self._rnn.memory(init=first.value, need_reorder=first.need_reorder)
        return self._memories[name]

    def write(self, name: str, value: Variable) -> None:
        """What the next step begins with."""
        self._rnn.update_memory(self._memories[name], value)

    def step_input(self, x: Variable) -> Variable:
        """This step's word of each row."""
        return self._rnn.step_input(x)

    def static_input(self, x: Variable) -> Variable:
        """The rows of `x` that belong to the rows that go on."""
        return self._rnn.static_input(x)

    def output(self, *outputs: Variable) -> None:
        """Outputs of this step."""
        self._rnn.output(*outputs)

    def __call__(self) -> Any:
        """The outputs of all steps."""
        return self._rnn()


class BeamSearchDecoder:
    """Finds the best sentences of at most `max_len` words: `decode()` builds the search, a call gives what it finds.

    Words are looked up in a table of [target_dict_dim, word_dim]; their scores are made of the cell's `out_state`.
    `input_var_dict` has inputs of the cell that stay the same, one row for each sentence.
    """

    def __init__(
        self,
        state_cell: StateCell,
        init_ids: Variable,
        init_scores: Variable,
        target_dict_dim: int,
        word_dim: int,
        input_var_dict: Mapping[str, Variable] | None = None,
        topk_size: int = 50,
        sparse_emb: bool = True,
        max_len: int = 100,
        beam_size: int = 1,
        end_id: int = 1,
        name: str | None = None,  # noqa: ARG002 - its layers have names of their own
    ) -> None:
        self.state_cell = state_cell
        self._init_ids, self._init_scores = init_ids, init_scores
        self._dict_size, self._word_dim = target_dict_dim, word_dim
        self._given = dict(input_var_dict or {})
        if unknown := [name for name in self._given if name not in state_cell.input_names]:
            raise UsageError(f"BeamSearchDecoder: {unknown[0]!r} of input_var_dict is no input of the StateCell")
        self._topk_size, self._sparse, self._max_len = topk_size, sparse_emb, max_len
        self._beam_size, self._end_id = beam_size, end_id
        self._counter = layers.fill_constant([1], "int64", 0)
        self._arrays: dict[str, Variable] = {}
        self._next: dict[str, Variable] = {}
        self._found: tuple[Variable, Variable] | None = None

    def read(self, name: str, first: InitState) -> Variable:
        """A state of the step before."""
        del first
        return layers.array_read(self._arrays[name], self._counter)

    def write(self, name: str, value: Variable) -> None:
        """What the next step begins with; it is written when this one ends."""
        self._next[name] = value

    def decode(self) -> None:
        """Build the search."""
        cell, counter = self.state_cell, self._counter
        firsts = {name: state.value for name, state in cell.first.items()} | self._given
        self._arrays = {name: layers.array_write(first, counter) for name, first in firsts.items()}
        ids, scores = (layers.array_write(one, counter) for one in (self._init_ids, self._init_scores))
        limit = layers.fill_constant([1], "int64", self._max_len)
        more = layers.less_than(counter, limit)
        with While(more).block():
            before, so_far = layers.array_read(ids, counter), layers.array_read(scores, counter)
            word = layers.embedding(before, [self._dict_size, self._word_dim], self._sparse)
            same = {
                name: sequence_expand(layers.array_read(self._arrays[name], counter), so_far) for name in self._given
            }
            cell.held_by(self)
            for name in cell.first:
                cell.set_state(name, sequence_expand(cell.get_state(name), so_far))
            cell.compute_state({name: same.get(name, word) for name in cell.input_names})
            chosen, sums = self._step(before, so_far)
            cell.update_states()
            cell.held_by(None)
            layers.increment(counter)
            for name, value in (self._next | same).items():
                layers.array_write(value, counter, self._arrays[name])
            layers.array_write(chosen, counter, ids)
            layers.array_write(sums, counter, scores)
            goes_on = layers.logical_not(layers.is_empty(chosen))
            layers.logical_and(layers.less_than(counter, limit), goes_on, out=more)
        self._found = beam_search_decode(ids, scores, self._beam_size, self._end_id)

    def _step(self, before: Variable, so_far: Variable) -> tuple[Variable, Variable]:
        """(ids, scores) of the best continuations."""
        state = lod_reset(self.state_cell.out_state(), so_far)
        best, words = layers.topk(layers.fc(state, self._dict_size, act="softmax"), self._topk_size)
        sums = layers.elementwise_add(layers.log(best), layers.reshape(so_far, [-1]), axis=0)
        chosen, totals = beam_search(before, so_far, words, sums, self._beam_size, self._end_id)[:2]
        return chosen, totals

    def __call__(self) -> tuple[Variable, Variable]:
        """(ids, scores) of the sentences, as `beam_search_decode` gives them."""
        if self._found is None:
            raise UsageError("BeamSearchDecoder: decode() before what it finds is asked for")
        return self._found
