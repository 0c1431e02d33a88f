"""`python -m fleet.launch` is `fleetrun`."""

from fleet.launch.entry import main

if __name__ == "__main__":
    main()
