"""What workers do together outside of programs."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.jobs.older_fleet": "UtilFactory"},
    renamed={"UtilBase": "fleet.collective.world.util:Util", "fleet_util": "fleet:util"},
    live="fleet_util",
)
