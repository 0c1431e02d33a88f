"""Hangs have names: a watch in every worker that says who did not come to a collective, and ends the job."""
