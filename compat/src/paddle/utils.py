"""Whether this machine can train."""

from paddle._alias import alias

alias(
    __name__,
    renamed={"run_check": "fleet.selfcheck:main"},
    refused={
        "deprecated": "use warnings.warn",
        "download": "put the file on the machine; nothing is downloaded here",
        "try_import": "use importlib.import_module",
        "unique_name": "use paddle.fluid.unique_name",
    },
)
