"""Hangs of jobs with servers have names: a watch in every worker that says who waits for whom, and ends the job."""
