"""`python -m paddle.distributed.fleet.launch` is fleetrun."""

from fleet.launch.cli import main

if __name__ == "__main__":
    main()
