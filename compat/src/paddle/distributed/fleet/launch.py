"""`python -m paddle.distributed.fleet.launch` is fleetrun, with the banner that its guide shows."""

from fleet.launch import entry


def main() -> None:
    """Start the job that the arguments of this process ask for."""
    entry.main("--banner")


if __name__ == "__main__":
    main()
