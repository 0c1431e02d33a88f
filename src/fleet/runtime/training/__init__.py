"""The state of a training run, to a checkpoint and back: `fleet.Checkpoint`.

checkpoint      the class: save, load, wait
run_parts       what belongs to a run, and under which names
write_share     tensors: who has which elements, and who writes them
trees           state_dicts of any object: JSON and tensors
optimizers      state by parameter name
random_states   the streams of random numbers of a worker
writer          the thread that writes
save_store      how the writing threads of all workers agree
reading         elements from pieces into tensors
restore         everything checked, then everything loaded
"""
