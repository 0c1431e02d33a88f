"""Seeds, and the states of generators."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.mode": "seed"},
    renamed={
        "_manual_program_seed": "fleet_paddle.mode:seed",
        "get_cuda_rng_state": "torch.cuda:get_rng_state_all",
        "manual_seed": "fleet_paddle.mode:seed",
        "set_cuda_rng_state": "torch.cuda:set_rng_state_all",
    },
)
