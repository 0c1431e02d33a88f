"""`python -m paddle.distributed.launch_ps` is fleetrun, with the options that this command had."""

from fleet_paddle.dialects import launch_ps as main

if __name__ == "__main__":
    main()
