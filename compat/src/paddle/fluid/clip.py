"""Clips of gradients."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet_programs.backward.clip": "GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue "
        "set_gradient_clip",
        "fleet_paddle.programs.optimizers.clips": "append_gradient_clip_ops",
    },
    refused={"ErrorClipByValue": "clip gradients: GradientClipByValue"},
)
