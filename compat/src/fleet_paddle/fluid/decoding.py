"""Decoders: `dynamic_decode` repeats a decoder's step until all is finished; `BeamSearchDecoder` is one over any cell.

In programs it is a loop of the program, on tensors one of Python; the layers that they are made of take both.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch

from fleet.errors import UsageError
from fleet_paddle.fluid import layers as fl
from fleet_paddle.mode import on_tensors
from fleet_programs.layers.building.nested import flat, packed
from fleet_programs.program.program import default_main_program

LOWEST = -1e9
"""The score of what must not be chosen."""


class Decoder:
    """What `dynamic_decode` asks for: `initialize`, `step`, and `finalize` if it has one."""

    tracks_own_finished = False
    """Whether `step` keeps what has finished as it is; else `dynamic_decode` remembers it."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        """(inputs, states, what has finished) before the first step."""
        raise NotImplementedError

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[Any, Any, Any, Any]:
        """(outputs, states, inputs, what has finished) after a step."""
        raise NotImplementedError


class BeamOutputs(NamedTuple):
    """What a step of a beam search gives, each [batch, beam]."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class BeamStates(NamedTuple):
    """What goes from step to step: states of the cell, [batch, beam, ...], and of every beam [batch, beam]."""

    cell_states: Any
    log_probs: Any
    finished: Any
    lengths: Any


class BeamSearchDecoder(Decoder):
    """The `beam_size` best ways at every step. `cell(inputs, states)` gives (outputs, states) of [batch * beam, ...].

    `embedding_fn` makes inputs of ids [batch, beam], `output_fn` logits of the cell's outputs.
    """

    tracks_own_finished = True

    def __init__(
        self,
        cell: Callable[..., Any],
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[[Any], Any] | None = None,
        output_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        if beam_size < 1:
            raise UsageError(f"BeamSearchDecoder: beam_size must be at least 1, got {beam_size}")
        self.cell, self.beam_size = cell, int(beam_size)
        self.start_token, self.end_token = int(start_token), int(end_token)
        self.embedding_fn, self.output_fn = embedding_fn, output_fn

    @staticmethod
    def tile_beam_merge_with_batch(x: Any, beam_size: int) -> Any:
        """[batch, ...] as [batch * beam_size, ...], every row so often."""
        return _merged(_tiled(x, beam_size))

    def initialize(self, inits: Any) -> tuple[Any, BeamStates, Any]:
        """Inputs of the start token, and one beam that counts."""
        first = flat(inits)[0]
        states = packed(inits, [_tiled(one, self.beam_size) for one in flat(inits)])
        ids = _filled(first, self.beam_size, "int64", self.start_token)
        alone = np.full((1, self.beam_size), LOWEST, np.float32)
        alone[0, 0] = 0.0
        log_probs = fl.elementwise_add(_filled(first, self.beam_size, "float32", 0.0), _row(alone, first))
        finished = fl.cast(_filled(first, self.beam_size, "int64", 0), "bool")
        lengths = _filled(first, self.beam_size, "int64", 0)
        return self._inputs(ids), BeamStates(states, log_probs, finished, lengths), finished

    def _inputs(self, ids: Any) -> Any:
        return ids if self.embedding_fn is None else self.embedding_fn(ids)

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> tuple[BeamOutputs, BeamStates, Any, Any]:  # noqa: ARG002
        """One more id for each beam."""
        states = BeamStates(*states)
        merged = packed(states.cell_states, [_merged(one) for one in flat(states.cell_states)])
        given = packed(inputs, [_merged(one) for one in flat(inputs)])
        made, new = self.cell(given, merged, **kwargs)
        logits = made if self.output_fn is None else self.output_fn(made)
        size = int(logits.shape[-1])
        scores = self._scores(fl.reshape(logits, [-1, self.beam_size, size]), states, size)
        best, places = fl.topk(fl.reshape(scores, [-1, self.beam_size * size]), self.beam_size)
        parents, ids = places // size, places % size
        chosen = _Chosen(parents, self.beam_size)
        cells = packed(new, [chosen(_split(one, self.beam_size)) for one in flat(new)])
        had_ended = chosen(fl.cast(states.finished, "int64"))
        ended = fl.equal(ids, _filled(ids, self.beam_size, "int64", self.end_token))
        finished = fl.logical_or(fl.cast(had_ended, "bool"), ended)
        lengths = chosen(states.lengths) + (1 - had_ended)
        return BeamOutputs(best, ids, parents), BeamStates(cells, best, finished, lengths), self._inputs(ids), finished

    def _scores(self, logits: Any, states: BeamStates, size: int) -> Any:
        """Of every id after every beam; a beam that has ended only goes on with the end token, at no cost."""
        lower = fl.elementwise_sub(logits, fl.reduce_max(logits, dim=[-1], keep_dim=True))
        own = fl.elementwise_sub(lower, fl.log(fl.reduce_sum(fl.exp(lower), dim=[-1], keep_dim=True)))
        only_end = np.full((1, 1, size), LOWEST, np.float32)
        only_end[0, 0, self.end_token] = 0.0
        ended = fl.unsqueeze(fl.cast(states.finished, "float32"), [2])
        own = fl.elementwise_add(
            fl.elementwise_mul(own, 1.0 - ended), fl.elementwise_mul(ended, _row(only_end, logits))
        )
        return fl.elementwise_add(own, fl.unsqueeze(states.log_probs, [2]))

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """The ids of whole ways, [time, batch, beam], the best first."""
        return fl.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states


def dynamic_decode(
    decoder: Any,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,  # noqa: ARG001 - nothing is kept that nobody needs
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """(outputs of all steps, [batch, time, ...]; states; with `return_length` also how long each way is).

    Steps end when all is finished, or after the one of number `max_step_num`, the first of which is 0.
    """
    given = decoder.initialize(inits)
    with on_tensors() if isinstance(given[2], torch.Tensor) else nullcontext():
        final, states, lengths = _decoded(decoder, given, max_step_num, impute_finished, kwargs)
        if not output_time_major:
            final = packed(final, [_batch_first(one) for one in flat(final)])
    return (final, states, lengths) if return_length else (final, states)


def _decoded(
    decoder: Any, given: Any, max_step_num: int | None, impute_finished: bool, kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    inputs, states, finished = given
    lengths = fl.cast(finished, "int64") * 0
    i = fl.fill_constant([1], "int64", 0)
    form: list[Any] = []
    outs: list[Any] = []
    around = default_main_program().current_block()

    def collect(made: Any, i: Any) -> None:
        """Outputs of a step, each into an array of its own, which is made before the loop."""
        if not outs:
            with around.program.inside(around):
                outs.extend(fl.create_array(str(one.dtype)) for one in flat(made))
        for place, one in enumerate(flat(made)):
            outs[place] = fl.array_write(one, i, outs[place])

    def more(i: Any, inputs: Any, states: Any, finished: Any, lengths: Any) -> Any:  # noqa: ARG001
        going = fl.logical_not(fl.reshape(fl.reduce_all(finished), [1]))
        return going if max_step_num is None else fl.logical_and(going, fl.less_equal(i, _number(max_step_num)))

    def body(i: Any, inputs: Any, states: Any, finished: Any, lengths: Any) -> list[Any]:
        made, new, following, ended = decoder.step(i, inputs, states, **kwargs)
        if not decoder.tracks_own_finished:
            ended = fl.logical_or(ended, finished)
            if impute_finished:
                new = packed(new, [_kept(*pair, finished) for pair in zip(flat(states), flat(new), strict=True)])
            lengths = lengths + (1 - fl.cast(finished, "int64"))
        else:
            lengths = getattr(new, "lengths", lengths)
        form[:] = [made]
        collect(made, i)
        return [i + 1, following, new, ended, lengths]

    _, _, states, finished, lengths = fl.while_loop(more, body, [i, inputs, states, finished, lengths])
    final = packed(form[0], [_stacked(one) for one in outs])
    if hasattr(decoder, "finalize"):
        final, states = decoder.finalize(final, states, lengths)
    return final, states, lengths


class _Chosen:
    """The rows [batch, beam] that were chosen, of anything that has one for each beam."""

    def __init__(self, parents: Any, beam_size: int) -> None:
        ones = _filled(parents, 1, "int64", 1)
        begins = (fl.cumsum(ones, axis=0) - 1) * beam_size
        self._rows = fl.reshape(fl.elementwise_add(parents, begins), [-1])
        self._beam_size = beam_size

    def __call__(self, x: Any) -> Any:
        return _split(fl.gather(_merged(x), self._rows), self._beam_size)


def _filled(like: Any, width: int, dtype: str, value: float) -> Any:
    return fl.fill_constant_batch_size_like(like, [-1, width], dtype, value)


def _row(array: Any, like: Any) -> Any:
    return torch.as_tensor(array).to(like.device) if isinstance(like, torch.Tensor) else fl.assign(array)


def _number(value: int) -> Any:
    return fl.fill_constant([1], "int64", value)


def _tiled(x: Any, beam_size: int) -> Any:
    return fl.expand(fl.unsqueeze(x, [1]), [1, beam_size, *[1] * (len(x.shape) - 1)])


def _merged(x: Any) -> Any:
    return fl.reshape(x, [-1, *(int(size) for size in x.shape[2:])])


def _split(x: Any, beam_size: int) -> Any:
    return fl.reshape(x, [-1, beam_size, *(int(size) for size in x.shape[1:])])


def _stacked(array: Any) -> Any:
    if isinstance(array, list):
        return torch.stack(array)
    return fl.tensor_array_to_tensor(array, axis=0, use_stack=True)[0]


def _batch_first(x: Any) -> Any:
    return fl.transpose(x, [1, 0, *range(2, len(x.shape))])


def _kept(before: Any, after: Any, finished: Any) -> Any:
    """States of what has finished stay."""
    ended = fl.cast(finished, after.dtype)
    return fl.elementwise_add(fl.elementwise_mul(before, ended, axis=0), fl.elementwise_mul(after, 1 - ended, axis=0))
