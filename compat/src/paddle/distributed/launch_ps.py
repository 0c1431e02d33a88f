"""`python -m paddle.distributed.launch_ps` is fleetrun, with the options that this command had."""

from fleet.launch.entry import end_at_interrupt


def main() -> None:
    """Start the job that the arguments of this process ask for."""
    end_at_interrupt()
    from fleet_paddle.jobs import dialects

    dialects.launch_ps()


if __name__ == "__main__":
    main()
