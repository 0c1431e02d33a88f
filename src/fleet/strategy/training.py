"""Fields about the training step: precision, memory, large-batch optimizers, sparsity, quantization."""

from __future__ import annotations

from fleet.strategy.field import maybe_number, number, switch, text, whole, wholes, words
from fleet.strategy.group import Group, GroupField
from fleet.strategy.record import Record


class AMP(Group):
    """Automatic mixed precision."""

    dtype = text(
        "float16",
        "is the half precision: float16 needs the loss scaled (`model.scale_loss`), bfloat16 does not.",
        "float16",
        "bfloat16",
        built=True,
    )
    init_loss_scaling = number(32768.0, "is the factor the loss is multiplied by at the start.", above=0, built=True)
    incr_every_n_steps = whole(1000, "is the number of clean steps after which the factor grows.", least=1, built=True)
    decr_every_n_nan_or_inf = whole(
        2, "is the number of overflowing steps after which the factor shrinks.", least=1, built=True
    )
    incr_ratio = number(2.0, "multiplies the factor when it grows.", above=1, built=True)
    decr_ratio = number(
        0.8,
        "multiplies the factor when it shrinks. (The reference's documentation says 0.5, its source 0.8.)",
        above=0,
        below=1,
        built=True,
    )
    use_dynamic_loss_scaling = switch(True, "lets the factor grow and shrink; False keeps it.", built=True)
    custom_white_list = words(
        "names functions of torch (such as linear) that always run in half precision.", built=True
    )
    custom_black_list = words(
        "names functions of torch (such as softmax) that always run in single precision.", built=True
    )
    custom_black_varnames = words(
        "names parts of names of parameters whose modules run in single precision.", built=True
    )
    use_pure_fp16 = switch(False, "keeps parameters in float16 as well, with a master copy in the optimizer.")
    use_fp16_guard = switch(True, "limits pure float16 to the marked part of a static program.")
    use_pure_bf16 = switch(False, "runs everything in bfloat16, parameters too.", built=True)
    use_optimizer_fp16 = switch(False, "keeps the optimizer's state in half precision.")


class Recompute(Group):
    """Activations computed twice instead of stored."""

    checkpoints = words(
        "names submodules, exactly or with wildcards (`layers.*`). Their inputs are kept, everything inside them is "
        "computed again.",
        built=True,
    )
    enable_offload = switch(False, "moves the kept activations to host memory until backward needs them.", built=True)
    checkpoint_shape = wholes("is the shape of a kept activation, for offloading.", least=-1)


class Lars(Group):
    """Layer-wise adaptive rates for momentum."""

    lars_coeff = number(0.001, "is how far a layer may move relative to its own norm.", above=0, built=True)
    lars_weight_decay = number(0.0005, "is the weight decay.", least=0, built=True)
    epsilon = number(0.0, "keeps the division of the norms away from zero.", least=0, built=True)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.", built=True)


class Lamb(Group):
    """Layer-wise adaptive rates for Adam."""

    lamb_weight_decay = number(0.01, "is the weight decay.", least=0, built=True)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.", built=True)


class Compile(Group):
    """torch.compile."""

    mode = text(
        "default",
        "is what torch.compile spends its time on.",
        "default",
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
        built=True,
    )
    dynamic = switch(False, "compiles once for all shapes instead of once for each.", built=True)


class TrainingFields(Record):
    """The part of the strategy about the training step."""

    amp = switch(False, "computes in half precision where that is safe.", built=True)
    amp_configs = GroupField(AMP, "tunes `amp`.")
    recompute = switch(False, "saves memory by computing activations again during backward.", built=True)
    recompute_configs = GroupField(Recompute, "tunes `recompute`; its checkpoints must not be empty.")
    lars = switch(
        False, "scales each layer's step by its norm, for very large batches. Needs a momentum optimizer.", built=True
    )
    lars_configs = GroupField(Lars, "tunes `lars`.")
    lamb = switch(False, "scales each layer's Adam step by its norm, for very large batches. Needs Adam.", built=True)
    lamb_configs = GroupField(Lamb, "tunes `lamb`.")
    asp = switch(False, "trains with 2:4 structured sparsity.")
    qat = switch(False, "trains with simulated quantization.")
    gradient_clip_norm = maybe_number(
        "is the largest norm of all gradients together; longer ones are scaled down.", above=0, built=True
    )
    gradient_clip_value = maybe_number("is the largest value of a gradient; larger ones are cut.", above=0, built=True)
    compile = switch(False, "runs the model through torch.compile.", built=True)
    compile_configs = GroupField(Compile, "tunes `compile`.")
    channels_last = switch(False, "keeps images and convolutions in the order that GPUs prefer.", built=True)
    fused_optimizer = switch(False, "lets torch.optim update all parameters in one kernel.", built=True)
