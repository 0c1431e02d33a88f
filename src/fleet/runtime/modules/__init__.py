"""A job of torch modules beside servers: the model is declared, joined, trained, evaluated and left.

`module_job` is the job; `declare` says where each tensor of the model lives, `start_worker` tells the servers. Ask for
`module_job.ModuleJob`.
"""
