"""Files of a URL that are on this machine already; nothing is downloaded."""

from paddle._alias import alias

alias(
    __name__,
    {"fleet_paddle.tools.helpers": "get_path_from_url get_weights_path_from_url"},
    renamed={"_get_unique_endpoints": "fleet_paddle.tools.helpers:one_endpoint_a_machine"},
)
