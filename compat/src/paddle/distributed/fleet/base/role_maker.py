"""Who a process is."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet.roles": "MPISymetricRoleMaker Role UserDefinedCollectiveRoleMaker UserDefinedRoleMaker"},
    renamed={
        "PaddleCloudRoleMaker": "fleet_paddle.jobs.older_fleet:GeneralRoleMaker",
        "RoleMakerBase": "fleet.roles:RoleMaker",
    },
)
