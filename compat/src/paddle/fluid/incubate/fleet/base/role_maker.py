"""Who a process is."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.roles": "MPISymetricRoleMaker PaddleCloudRoleMaker Role UserDefinedCollectiveRoleMaker "
        "UserDefinedRoleMaker"
    },
    renamed={
        "GeneralRoleMaker": "fleet_paddle.jobs.older_fleet:GeneralRoleMaker",
        "RoleMakerBase": "fleet.roles:RoleMaker",
    },
)
