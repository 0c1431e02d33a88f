"""The state of a training run, to a checkpoint and back: `fleet.Checkpoint`.

checkpoint      the class: save, load, wait
runs            what it asks of a run, and the run of a collective job
run_parts       what belongs to that run, and under which names
objects         schedulers, data and extras, of either kind of run
write_share     tensors: who has which elements, and who writes them
trees           state_dicts of any object: JSON and tensors
optimizers      state by parameter name
random_states   the streams of random numbers of a worker
writer          the thread that writes
save_store      how the writing threads of all workers agree
reading         elements from pieces into tensors
restore         everything checked, then everything loaded

served_run      the run of a job with servers: one moment of all of it
served_parts    what the workers of that run write
served_writer   the thread of each worker, which also waits for the servers
rejoined        what a worker that is started again goes on with
served_restore  everything checked, then the servers load, then the workers
"""
