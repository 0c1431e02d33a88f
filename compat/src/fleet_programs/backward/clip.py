"""Gradient clips: limits on gradients, put between backward and the updates.

An optimizer takes one as `grad_clip`; `set_gradient_clip` gives one to some parameters. The limits are those of
`torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`; equal rows of a sparse gradient are added before they are
measured. A clipped `x@GRAD` is the variable `x@GRAD@CLIP`. Parameters with `need_clip=False` keep their gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fleet.errors import UsageError, UsageTypeError
from fleet_programs.backward.backward import ParamsGrads
from fleet_programs.definition.operator import OPTIMIZE
from fleet_programs.parameters.settings import number
from fleet_programs.program.block import Block
from fleet_programs.program.notes import CLIP_NOTE
from fleet_programs.program.program import Program, default_main_program
from fleet_programs.program.variable import Parameter, Variable

NeedClip = Callable[[Parameter], bool]


class GradientClip(ABC):
    """A limit on gradients. `need_clip` is a second say, besides a parameter's own, on whether it is clipped."""

    kind: ClassVar[str]

    def __init__(self, need_clip: NeedClip | None) -> None:
        if need_clip is not None and not callable(need_clip):
            raise UsageTypeError(f"{type(self).__name__}: need_clip must be a function, got {need_clip!r}")
        self._need_clip = need_clip

    def concerns(self, parameter: Parameter) -> bool:
        """Whether a parameter's gradient is clipped."""
        return parameter.need_clip and (self._need_clip is None or bool(self._need_clip(parameter)))

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Everything but `need_clip`, as plain values."""

    @abstractmethod
    def add(self, block: Block, gradients: Sequence[Variable], outs: Sequence[str]) -> None:
        """Add the operators."""

    def __call__(self, params_grads: ParamsGrads) -> ParamsGrads:
        """Add the operators for those pairs that it concerns; the pairs with the gradients that updates should read."""
        if not params_grads:
            return []
        block = params_grads[0][0].block
        with block.program.adding(OPTIMIZE):
            return _replaced(params_grads, block, self, {p.name for p, _ in params_grads if self.concerns(p)})


class GradientClipByValue(GradientClip):
    """Every element between `min` and `max`; without `min`, between -max and max."""

    kind = "value"

    def __init__(self, max: float, min: float | None = None, need_clip: NeedClip | None = None) -> None:
        super().__init__(need_clip)
        self.max = number("GradientClipByValue", "max", max)
        self.min = -self.max if min is None else number("GradientClipByValue", "min", min)
        if self.min > self.max:
            raise UsageError(f"GradientClipByValue: min must not be above max, got {self.min} and {self.max}")

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "max": self.max, "min": self.min}

    def add(self, block: Block, gradients: Sequence[Variable], outs: Sequence[str]) -> None:
        for gradient, out in zip(gradients, outs, strict=True):
            block.append_op("clip", {"X": gradient}, {"Out": out}, {"min": self.min, "max": self.max})


class GradientClipByNorm(GradientClip):
    """The norm of each gradient at most `clip_norm`."""

    kind = "norm"

    def __init__(self, clip_norm: float, need_clip: NeedClip | None = None) -> None:
        super().__init__(need_clip)
        self.clip_norm = number("GradientClipByNorm", "clip_norm", clip_norm, above=0)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "clip_norm": self.clip_norm}

    def add(self, block: Block, gradients: Sequence[Variable], outs: Sequence[str]) -> None:
        for gradient, out in zip(gradients, outs, strict=True):
            block.append_op("clip_by_norm", {"X": gradient}, {"Out": out}, {"max_norm": self.clip_norm})


class GradientClipByGlobalNorm(GradientClip):
    """The norm of all gradients together at most `clip_norm`; `set_gradient_clip` keeps groups of parameters apart."""

    kind = "global_norm"

    def __init__(self, clip_norm: float, group_name: str = "default_group", need_clip: NeedClip | None = None) -> None:
        super().__init__(need_clip)
        self.clip_norm = number("GradientClipByGlobalNorm", "clip_norm", clip_norm, above=0)
        if not isinstance(group_name, str):
            raise UsageTypeError(f"GradientClipByGlobalNorm: group_name must be text, got {group_name!r}")
        self.group_name = group_name

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "clip_norm": self.clip_norm, "group_name": self.group_name}

    def add(self, block: Block, gradients: Sequence[Variable], outs: Sequence[str]) -> None:
        attrs = {"max_global_norm": self.clip_norm}
        block.append_op("clip_by_global_norm", {"X": list(gradients)}, {"Out": list(outs)}, attrs)


_KINDS: dict[str, type[GradientClip]] = {
    one.kind: one for one in (GradientClipByValue, GradientClipByNorm, GradientClipByGlobalNorm)
}


def set_gradient_clip(
    clip: GradientClip, param_list: Sequence[Parameter | str] | None = None, program: Program | None = None
) -> None:
    """Clip the gradients of some parameters, or of all that a program has now; called before `minimize`.

    An optimizer with a `grad_clip` of its own does not look at this.
    """
    if not isinstance(clip, GradientClip):
        raise UsageTypeError(f"clip must be a GradientClipBy..., got {type(clip).__name__}")
    program = default_main_program() if program is None else program
    block = program.global_block()
    chosen = program.all_parameters() if param_list is None else [_parameter(block, one) for one in param_list]
    if not chosen:
        raise UsageError("set_gradient_clip: there are no parameters; call it after the layers and before minimize()")
    records = program.notes.get(CLIP_NOTE, {})
    record = clip.record()
    for name, other in records.items():
        if other.get("group_name") == record.get("group_name", ...) and other["clip_norm"] != record["clip_norm"]:
            raise UsageError(
                f"group {record['group_name']!r} has clip_norm {other['clip_norm']} for {name!r}, and now "
                f"gets {record['clip_norm']}; give one of them another group_name"
            )
    program.notes[CLIP_NOTE] = {**records, **{one.name: record for one in chosen if clip.concerns(one)}}
    program.changed()


def clipped(pairs: ParamsGrads, block: Block, clip: GradientClip | None) -> ParamsGrads:
    """The pairs with the gradients that updates should read: clipped by `clip`, or as `set_gradient_clip` has noted."""
    if clip is not None:
        return clip(pairs)
    records = block.program.notes.get(CLIP_NOTE, {})
    groups: list[tuple[dict[str, Any], set[str]]] = []
    for parameter, _ in pairs:
        record = records.get(parameter.name)
        if record is None:
            continue
        for known, members in groups:
            if known == record:
                members.add(parameter.name)
                break
        else:
            groups.append((record, {parameter.name}))
    for record, members in groups:
        args = {name: value for name, value in record.items() if name != "kind"}
        pairs = _replaced(pairs, block, _KINDS[record["kind"]](**args), members)
    left = {name: record for name, record in records.items() if name not in {parameter.name for parameter, _ in pairs}}
    block.program.notes.pop(CLIP_NOTE, None)
    if left:
        block.program.notes[CLIP_NOTE] = left
    return pairs


def _replaced(pairs: ParamsGrads, block: Block, clip: GradientClip, chosen: set[str]) -> ParamsGrads:
    raw = [gradient for parameter, gradient in pairs if parameter.name in chosen]
    if not raw:
        return list(pairs)
    made = {gradient.name: f"{gradient.name}@CLIP" for gradient in raw}
    clip.add(block, raw, list(made.values()))
    return [(parameter, block.var(made.get(gradient.name, gradient.name))) for parameter, gradient in pairs]


def _parameter(block: Block, one: Parameter | str) -> Parameter:
    var = block.var(one) if isinstance(one, str) else one
    if not isinstance(var, Parameter):
        raise UsageTypeError(f"param_list must hold parameters or their names, got {one!r}")
    return var
