"""Jobs as 1.x and 2.x spell them: `fleet`, communicators, measures of all workers, command lines of launchers."""
