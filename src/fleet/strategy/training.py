"""Fields about the training step: precision, memory, large-batch optimizers, sparsity, quantization."""

from fleet.strategy.field import maybe_number, number, switch, text, whole, words
from fleet.strategy.record import Group, GroupField, StrategyRecord


class AMPConfigs(Group):
    """Automatic mixed precision."""

    dtype = text(
        "float16",
        "is the half precision: float16 needs the loss scaled (`model.scale_loss`), bfloat16 does not.",
        "float16",
        "bfloat16",
    )
    init_loss_scaling = number(32768.0, "is the factor the loss is multiplied by at the start.", above=0)
    incr_every_n_steps = whole(1000, "is the number of clean steps after which the factor grows.", least=1)
    decr_every_n_nan_or_inf = whole(2, "is the number of overflowing steps after which the factor shrinks.", least=1)
    incr_ratio = number(2.0, "multiplies the factor when it grows.", above=1)
    decr_ratio = number(
        0.8,
        "multiplies the factor when it shrinks. (PaddlePaddle's documentation says 0.5, its source 0.8.)",
        above=0,
        below=1,
    )
    use_dynamic_loss_scaling = switch(True, "lets the factor grow and shrink; False keeps it.")
    custom_white_list = words("names functions of torch (such as linear) that always run in half precision.")
    custom_black_list = words("names functions of torch (such as softmax) that always run in single precision.")
    custom_black_varnames = words(
        "names parts of names of parameters whose modules run in single precision; of a program, whole names."
    )
    use_pure_bf16 = switch(False, "runs everything in bfloat16, parameters too.")


class RecomputeConfigs(Group):
    """Activations computed twice instead of stored."""

    checkpoints = words(
        "names submodules, exactly or with wildcards (`layers.*`). Their inputs are kept, everything inside them is "
        "computed again."
    )
    enable_offload = switch(False, "moves the kept activations to host memory until backward needs them.")


class LarsConfigs(Group):
    """Layer-wise adaptive rates for momentum."""

    lars_coeff = number(0.001, "is how far a layer may move relative to its own norm.", above=0)
    lars_weight_decay = number(0.0005, "is the weight decay.", least=0)
    epsilon = number(0.0, "keeps the division of the norms away from zero.", least=0)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.")


class LambConfigs(Group):
    """Layer-wise adaptive rates for Adam."""

    lamb_weight_decay = number(0.01, "is the weight decay.", least=0)
    exclude_from_weight_decay = words("lists parts of names of parameters without weight decay.")


_COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class CompileConfigs(Group):
    """torch.compile."""

    mode = text("default", "is what torch.compile spends its time on.", *_COMPILE_MODES)
    dynamic = switch(False, "compiles once for all shapes instead of once for each.")
    kernel_search = text(
        "none",
        'is how long to look for faster kernels than torch would choose by rule. "wide" compiles more candidates side '
        'by side and measures them; "long" changes the best one step by step, which can take minutes.',
        "none",
        "wide",
        "long",
    )


class TrainingFields(StrategyRecord):
    """The part of the strategy about the training step."""

    amp = switch(False, "computes in half precision where that is safe.")
    amp_configs = GroupField(AMPConfigs, "tunes `amp`.")
    recompute = switch(False, "saves memory by computing activations again during backward.")
    recompute_configs = GroupField(RecomputeConfigs, "tunes `recompute`; its checkpoints must not be empty.")
    lars = switch(False, "scales each layer's step by its norm, for very large batches. Needs a momentum optimizer.")
    lars_configs = GroupField(LarsConfigs, "tunes `lars`.")
    lamb = switch(False, "scales each layer's Adam step by its norm, for very large batches. Needs Adam.")
    lamb_configs = GroupField(LambConfigs, "tunes `lamb`.")
    clip_value = maybe_number("is the largest value of a gradient; larger ones are cut.", above=0)
    compile = switch(False, "runs the model through torch.compile.")
    compile_configs = GroupField(CompileConfigs, "tunes `compile`.")
    channels_last = switch(False, "keeps images and convolutions in the order that GPUs prefer.")
    fused_optimizer = switch(False, "lets torch.optim update all parameters in one kernel.")
    cudnn_exhaustive_search = switch(
        False,
        "measures convolution kernels and keeps the fastest. "
        "(PaddlePaddle: True in 2.0, False in 2.6; False is also what PyTorch does.)",
    )
