"""`python -m fleet.job COMMAND ...`: one process of a job, started again when it dies."""

import sys

from fleet.job.keeper import main

sys.exit(main(sys.argv[1:]))
