"""`python -m paddle.distributed.launch` is fleetrun, with the options that this command had."""

from fleet_paddle.dialects import launch as main

if __name__ == "__main__":
    main()
