"""Other engines run the job: what each of them has to be given, made from the command line of fleetrun.

`asked.EngineJob` is what a command line asks for, and `refused` says what an engine cannot carry over. Each engine is a
file with a function from that job to text; those with pods share `pods`, and `render` has the list of all. Nothing is
started here, and nothing of this machine is looked at.
"""
