"""Fields about the training step: precision, memory, large-batch optimizers, sparsity, quantization."""

from __future__ import annotations

from fleet.strategy.field import number, switch, whole, wholes, words
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record


class AMP(Group):
    """Automatic mixed precision."""

    init_loss_scaling = number(32768.0, "is the factor the loss is multiplied by at the start.", above=0)
    incr_every_n_steps = whole(1000, "is the number of clean steps after which the factor grows.", least=1)
    decr_every_n_nan_or_inf = whole(2, "is the number of overflowing steps after which the factor shrinks.", least=1)
    incr_ratio = number(2.0, "multiplies the factor when it grows.", above=1)
    decr_ratio = number(
        0.8,
        "multiplies the factor when it shrinks. (The reference's documentation says 0.5, its source 0.8.)",
        above=0,
        below=1,
    )
    use_dynamic_loss_scaling = switch(True, "lets the factor grow and shrink; False keeps it.")
    custom_white_list = words("names operations that always run in half precision.")
    custom_black_list = words("names operations that always run in single precision.")
    custom_black_varnames = words("names variables that stay in single precision.")
    use_pure_fp16 = switch(False, "keeps parameters in float16 as well, with a master copy in the optimizer.")
    use_fp16_guard = switch(True, "limits pure float16 to the marked part of a static program.")
    use_pure_bf16 = switch(False, "runs everything in bfloat16.")
    use_optimizer_fp16 = switch(False, "keeps the optimizer's state in half precision.")


class Recompute(Group):
    """Activations computed twice instead of stored."""

    checkpoints = words("names the activations that are kept; everything between them is computed again.")
    enable_offload = switch(False, "moves the kept activations to host memory until backward needs them.")
    checkpoint_shape = wholes("is the shape of a kept activation, for offloading.", least=-1)


class Lars(Group):
    """Layer-wise adaptive rates for momentum."""

    lars_coeff = number(0.001, "is how far a layer may move relative to its own norm.", above=0)
    lars_weight_decay = number(0.0005, "is the weight decay.", least=0)
    epsilon = number(0.0, "keeps the division of the norms away from zero.", least=0)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.")


class Lamb(Group):
    """Layer-wise adaptive rates for Adam."""

    lamb_weight_decay = number(0.01, "is the weight decay.", least=0)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.")


class TrainingFields(Record):
    """The part of the strategy about the training step."""

    amp = switch(False, "computes in half precision where that is safe.")
    amp_configs = GroupField(AMP, "tunes `amp`.")
    recompute = switch(False, "saves memory by computing activations again during backward.")
    recompute_configs = GroupField(Recompute, "tunes `recompute`; its checkpoints must not be empty.")
    lars = switch(False, "scales each layer's step by its norm, for very large batches. Needs a momentum optimizer.")
    lars_configs = GroupField(Lars, "tunes `lars`.")
    lamb = switch(False, "scales each layer's Adam step by its norm, for very large batches. Needs Adam.")
    lamb_configs = GroupField(Lamb, "tunes `lamb`.")
    asp = switch(False, "trains with 2:4 structured sparsity.")
    qat = switch(False, "trains with simulated quantization.")
    compile = switch(False, "runs the model through torch.compile.")
