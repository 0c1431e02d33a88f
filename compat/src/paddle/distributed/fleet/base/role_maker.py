"""Who a process is."""

from paddle._alias import alias

alias(
    __name__,
    {
        "fleet.roles": "MPISymetricRoleMaker PaddleCloudRoleMaker Role UserDefinedCollectiveRoleMaker "
        "UserDefinedRoleMaker"
    },
    renamed={"RoleMakerBase": "fleet.roles:RoleMaker"},
)
