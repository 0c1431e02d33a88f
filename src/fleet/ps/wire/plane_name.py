"""What the data plane of a server is called on its own machine."""


def plane_name(address: str, port: int) -> str:
    """The abstract name of its Unix socket, by the address and the port of its gRPC endpoint.

    Such names are known in one network namespace only, as ports are: another machine's server is never found by it.
    """
    return f"fleet-plane-{address}:{port}"
