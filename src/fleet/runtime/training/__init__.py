"""The state of a training run, to a checkpoint and back: `fleet.Checkpoint`.

checkpoint        the class: save, load, wait
runs              what it asks of a run, and the run of a collective job
collective_parts  what belongs to that run, under which names; everything checked, then everything loaded
objects           schedulers, data and extras, of either kind of run
elements          tensors: who has which elements and writes them, and from pieces into tensors again
trees             state_dicts of any object: JSON and tensors
optimizers        state by parameter name
random_states     the streams of random numbers of a worker
writer            the thread that writes
save_store        how the writing threads of all workers agree

served_run        the run of a job with servers: one moment of all of it
served_parts      what the workers of that run write; everything checked, then the servers load, then they
served_writer     the thread of each worker, which also waits for the servers
rejoined          what a worker that is started again goes on with
"""
