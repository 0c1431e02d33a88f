"""`fleetrun --chaos`: faults on purpose, and a report of what they did to the job."""
