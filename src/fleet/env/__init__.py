"""Every environment variable Fleet reads, as one typed table; nothing outside this room touches os.environ.

A variable is read through its entry, from the process environment or from any mapping given instead:

    env.PADDLE_TRAINER_ID.get()                     # None when unset
    env.PADDLE_TRAINER_ID.get({"PADDLE_TRAINER_ID": "3"})

An empty string counts as unset, except for `is_set`. docs/environment.md lists the same table; a test compares the two.
"""

from __future__ import annotations

from fleet.env.variable import Environ as Environ
from fleet.env.variable import EnvVariable as EnvVariable
from fleet.env.variable import become as become
from fleet.env.variable import choice, count, folders, seconds, secret, size, text
from fleet.env.variable import inherited as inherited
from fleet.env.variable import misspelt as misspelt
from fleet.env.variable import prefer as prefer
from fleet.env.variable import variables as variables

# Fleet's own, set by fleetrun for its children.
FLEET_JOB_ID = text("FLEET_JOB_ID", "Unique name of the job; marks every process that `fleetrun` started.")
FLEET_JOB_TOKEN = secret(
    "FLEET_JOB_TOKEN", "Secret that the processes of one job share; made by `fleetrun` when unset, and never shown."
)
FLEET_JOB_TOKEN_FILE = text(
    "FLEET_JOB_TOKEN_FILE", "File whose text is that secret, as a mounted Secret is; FLEET_JOB_TOKEN beats it."
)
FLEET_DEVICE = choice(
    "FLEET_DEVICE",
    ("CPU", "CUDA"),
    "The device of this process, CUDAPlace included; for `fleetrun` what `--device` is when left out.",
)
FLEET_RESTART = count("FLEET_RESTART", "How often `fleetrun` has restarted the job so far.")
FLEET_LIFE = count("FLEET_LIFE", "How often `fleetrun` has started this process again in its place.")
FLEET_LAYOUT = count(
    "FLEET_LAYOUT", "Which layout of servers this process was started for; grows when `fleet.reshard()` changes it."
)
FLEET_NOTE_FILE = text(
    "FLEET_NOTE_FILE", "Where a child notes the moment it begins to end, so that the report names the cause."
)
FLEET_TRACE = text("FLEET_TRACE", "Which steps this process records for `fleetrun --trace`, for example 20:40.")
FLEET_TERMINAL_WIDTH = count(
    "FLEET_TERMINAL_WIDTH", "Columns of the terminal that follows this child; unset when nobody looks."
)
FLEET_PLAN = text(
    "FLEET_PLAN", "Where the script writes what its first step shows, and then ends; `fleetrun plan` sets it."
)
FLEET_INIT_TIMEOUT_S = seconds(
    "FLEET_INIT_TIMEOUT_S",
    "How long `fleet.init()` waits for the other processes, and `init_worker()` for servers that load; 300 when unset.",
)
FLEET_RPC_TIMEOUT_S = seconds(
    "FLEET_RPC_TIMEOUT_S",
    "How long a worker keeps trying to reach a server, and `fleetrun` another machine, before it gives up; 60 when "
    "unset.",
)
FLEET_DURABLE = text(
    "FLEET_DURABLE", "Folder in which servers keep a journal, and workers what they send; `fleetrun --durable` sets it."
)
FLEET_JOURNAL = choice(
    "FLEET_JOURNAL",
    ("OFF", "OS", "INTERVAL", "ALWAYS"),
    "When a server's journal reaches the disk; OS, where there is a FLEET_DURABLE, when unset.",
)
FLEET_STANDBY = choice(
    "FLEET_STANDBY",
    ("SYNC", "ASYNC"),
    "Whether every server has a copy on another machine, and whether a push is acknowledged after its copy has it "
    "(SYNC) or before; `fleetrun --standby` sets it.",
)
FLEET_ELASTIC = choice(
    "FLEET_ELASTIC",
    ("0", "1"),
    "1 where workers come and go, and their number is the most there may be; `fleetrun --worker_num A:B` sets it.",
)
FLEET_COPY_OF = count("FLEET_COPY_OF", "Which server this process was started as a copy of; `fleetrun` sets it.")
FLEET_MACHINE_TIMEOUT_S = seconds(
    "FLEET_MACHINE_TIMEOUT_S",
    "How long `fleetrun --standby` tries to reach a machine before the copies of its servers take over; 10 when unset.",
)
FLEET_SCRUB_RATE = count(
    "FLEET_SCRUB_RATE",
    "Megabytes a second that a server of a durable job reads of what it has on its disk, to find damage; 0 reads "
    "nothing, but where its copy cannot be filled; 8 when unset.",
)
FLEET_LOCAL_TRANSPORT = choice(
    "FLEET_LOCAL_TRANSPORT",
    ("SHM", "UNIX", "TCP", "GRPC"),
    "How a worker's pulls and pushes reach a server: SHM is shared memory on one machine, UNIX a socket there, TCP a "
    "socket to any, with TLS if the job has it, GRPC as all other calls; when unset, the first of these that can be "
    "had. Where a way cannot be had, it is GRPC.",
)
FLEET_RECOVERY_TIMEOUT_S = seconds(
    "FLEET_RECOVERY_TIMEOUT_S",
    "How long workers of a durable job wait for a server that is being started again, and `fleetrun` for a machine; "
    "300 when unset.",
)
FLEET_GRACE_S = seconds(
    "FLEET_GRACE_S",
    "How long workers may take to save and stop when they are told to, by SIGUSR1 or, where this is set, by SIGTERM; "
    "60 for SIGUSR1 when unset.",
)
FLEET_CHAOS = text(
    "FLEET_CHAOS", "Faults that this process does to its own calls and files, as `fleetrun --chaos` has them."
)
FLEET_CHAOS_SEED = text("FLEET_CHAOS_SEED", "What decides which calls those are; the same text, the same choices.")
FLEET_CHAOS_BEGAN = seconds("FLEET_CHAOS_BEGAN", "When the job under chaos began, in seconds since 1970.")
FLEET_TLS_CERT = text(
    "FLEET_TLS_CERT",
    "PEM file with this process's certificate for TLS between workers and servers; minted by `fleetrun` when unset.",
)
FLEET_TLS_KEY = text("FLEET_TLS_KEY", "PEM file with the key of FLEET_TLS_CERT.")
FLEET_TLS_CA = text("FLEET_TLS_CA", "PEM file with the authority that has signed the certificates of the others.")
FLEET_TLS_NAME = text(
    "FLEET_TLS_NAME", "Name that the certificate of every server must carry; the host of its endpoint when unset."
)
FLEET_ROOTS = folders(
    "FLEET_ROOTS", "Folders of a server; workers can have it save and load inside them alone. Anywhere when unset."
)
FLEET_MEMORY_BUDGET = size(
    "FLEET_MEMORY_BUDGET",
    "Memory of one server for what workers declare, a quarter of it for messages under way; 80% of the machine or "
    "container when unset.",
)
FLEET_TABLE_DIR = text(
    "FLEET_TABLE_DIR",
    "Folder on a local disk for the rows of tables with memory=... that their servers' memory has no room for; the "
    "folder of FLEET_DURABLE when unset.",
)
FLEET_STEP_TIMEOUT_S = seconds(
    "FLEET_STEP_TIMEOUT_S",
    "How long a synchronous step waits for the other workers before it raises an error; a minute more than "
    "FLEET_STALL_TIMEOUT_S when unset.",
)
FLEET_STALL_TIMEOUT_S = seconds(
    "FLEET_STALL_TIMEOUT_S",
    "How long a collective, or with servers any wait for others, may take before the job ends with a report; 600 when "
    "unset, with servers FLEET_STEP_TIMEOUT_S if that is more.",
)
FLEET_WAIT_NOTICE_S = seconds(
    "FLEET_WAIT_NOTICE_S",
    "How long a worker waits for others before this is said, and again after twice as long; 10 when unset.",
)
FLEET_METRICS = choice(
    "FLEET_METRICS", ("0", "1"), "0 lets no process of a job count what it does; `fleetrun` has nothing to show then."
)
FLEET_METRICS_TOKEN = secret(
    "FLEET_METRICS_TOKEN",
    "Word by which others may read the figures and the page of `fleetrun`, from other machines too; without it, only "
    "programs of this machine.",
)
FLEET_DATA_HOME = text(
    "FLEET_DATA_HOME",
    "Where tutorials' datasets find their original files, a folder for each; ~/.cache/fleet/datasets when unset.",
)
FLEET_VERIFY_PROGRAMS = choice(
    "FLEET_VERIFY_PROGRAMS", ("0", "1"), "1 lets every pass of the transpiler verify the program that it makes."
)

# Roles as an engine says them that starts Fleet's processes itself.
FLEET_ROLE = choice(
    "FLEET_ROLE",
    ("SERVER", "WORKER"),
    "What this process is; what Slurm, MPI, torchrun and PADDLE_* say is not asked then.",
)
FLEET_INDEX = count("FLEET_INDEX", "Index of this process among those of its role, from 0.")
FLEET_SERVERS = text(
    "FLEET_SERVERS",
    "Comma list of every server's HOST:PORT, by index; or file:FOLDER, a folder in which each server says where it is.",
)
FLEET_SERVER_NUM = count("FLEET_SERVER_NUM", "Number of servers, where FLEET_SERVERS does not list them.")
FLEET_WORKERS = count("FLEET_WORKERS", "Number of workers in the job.")
FLEET_WORKER_ENDPOINTS = text(
    "FLEET_WORKER_ENDPOINTS",
    "Comma list of every worker's HOST:PORT, by index; needed by jobs without servers, and for fleet.util in jobs that "
    "are not durable. MASTER_ADDR and MASTER_PORT will do instead.",
)

# Roles as PaddlePaddle's launchers and documents write them.
TRAINING_ROLE = choice(
    "TRAINING_ROLE", ("TRAINER", "PSERVER"), "Worker (TRAINER) or server (PSERVER).", also=("HETER_TRAINER",)
)
PADDLE_TRAINING_ROLE = choice(
    "PADDLE_TRAINING_ROLE", ("TRAINER", "PSERVER"), "The same, older name.", also=("HETER_TRAINER",)
)
PADDLE_TRAINER_ID = count("PADDLE_TRAINER_ID", "Index of this worker, from 0.")
PADDLE_TRAINERS_NUM = count("PADDLE_TRAINERS_NUM", "Number of workers in the job.")
PADDLE_NUM_TRAINERS = count("PADDLE_NUM_TRAINERS", "The same, as the cluster guide spells it.")
PADDLE_TRAINERS = count("PADDLE_TRAINERS", "The same, as the Fluid guide spells it.")
PADDLE_TRAINER_ENDPOINTS = text("PADDLE_TRAINER_ENDPOINTS", "Comma list of every worker's HOST:PORT, by index.")
PADDLE_CURRENT_ENDPOINT = text("PADDLE_CURRENT_ENDPOINT", "HOST:PORT of this worker.")
PADDLE_PSERVERS_IP_PORT_LIST = text("PADDLE_PSERVERS_IP_PORT_LIST", "Comma list of every server's HOST:PORT, by index.")
PADDLE_PSERVERS = text("PADDLE_PSERVERS", "Comma list of the servers' hosts; goes with PADDLE_PORT.")
PADDLE_PORT = text("PADDLE_PORT", "Port of this server, or of all servers, or a comma list with one for each.")
POD_IP = text("POD_IP", "Address of this machine; with PADDLE_PORT it finds this server in the list.")
PADDLE_PSERVER_IPS = text("PADDLE_PSERVER_IPS", "Comma list of the servers' hosts, as the Fluid guide spells it.")
PADDLE_PSERVER_PORT = text("PADDLE_PSERVER_PORT", "The one port of all servers in PADDLE_PSERVER_IPS.")
PADDLE_CURRENT_IP = text("PADDLE_CURRENT_IP", "Address of this machine, as the Fluid guide spells it.")
PADDLE_PSERVER_ID = count("PADDLE_PSERVER_ID", "Index of this server, where its address alone does not tell.")
PADDLE_RANK_IN_NODE = count("PADDLE_RANK_IN_NODE", "Index of this worker among those of its machine.")
PADDLE_GLOO_HTTP_ENDPOINT = text("PADDLE_GLOO_HTTP_ENDPOINT", "HOST:PORT where the workers of a server job meet.")
FLAGS_START_PORT = count("FLAGS_START_PORT", "First port of a job, also on one machine; `--start_port` beats it.")

# torchrun, and anything that speaks torch's env:// language.
RANK = count("RANK", "Index of this worker.")
WORLD_SIZE = count("WORLD_SIZE", "Number of workers in the job.")
LOCAL_RANK = count("LOCAL_RANK", "Index of this worker among those of its machine.")
LOCAL_WORLD_SIZE = count("LOCAL_WORLD_SIZE", "Number of workers on this machine.")
GROUP_RANK = count("GROUP_RANK", "Index of this machine.")
GROUP_WORLD_SIZE = count("GROUP_WORLD_SIZE", "Number of machines.")
MASTER_ADDR = text("MASTER_ADDR", "Host where the workers meet.")
MASTER_PORT = count("MASTER_PORT", "Port where the workers meet.")
TORCHELASTIC_RUN_ID = text("TORCHELASTIC_RUN_ID", "Set by torchrun; tells that it started this process.")
TORCHELASTIC_USE_AGENT_STORE = choice(
    "TORCHELASTIC_USE_AGENT_STORE", ("TRUE", "FALSE"), "Set by torchrun; TRUE when it hosts the meeting point itself."
)
TORCHELASTIC_RESTART_COUNT = count(
    "TORCHELASTIC_RESTART_COUNT", "Set by torchrun; how often it has restarted the job so far."
)

# Slurm: set by srun for each task.
SLURM_PROCID = count("SLURM_PROCID", "Index of this task.")
SLURM_STEP_NUM_TASKS = count(
    "SLURM_STEP_NUM_TASKS", "Number of tasks of this srun; without it a process is not a Slurm task."
)
SLURM_LOCALID = count("SLURM_LOCALID", "Index of this task among those of its machine.")
SLURM_NODEID = count("SLURM_NODEID", "Index of this machine.")
SLURM_STEP_NUM_NODES = count("SLURM_STEP_NUM_NODES", "Number of machines of this srun.")
SLURM_STEP_NODELIST = text(
    "SLURM_STEP_NODELIST", "Machines of this srun, for example node[01-04]; the first is where workers meet."
)
SLURM_STEP_TASKS_PER_NODE = text("SLURM_STEP_TASKS_PER_NODE", "Tasks on each machine, for example 4(x2),3.")
SLURM_CPUS_PER_TASK = count("SLURM_CPUS_PER_TASK", "Cores of each task, if that was asked for.")
SLURM_JOB_ID = count("SLURM_JOB_ID", "The job; the meeting port is derived from it.")
SLURM_STEP_ID = count("SLURM_STEP_ID", "The srun inside the job; the meeting port is derived from it.")
SLURM_GTIDS = text("SLURM_GTIDS", "Indexes of the tasks on this machine; tells left-over variables of another srun.")
SLURMD_NODENAME = text("SLURMD_NODENAME", "Slurm's name of this machine; tells left-over variables of another srun.")

# MPI launchers.
OMPI_COMM_WORLD_RANK = count("OMPI_COMM_WORLD_RANK", "Index of this process (Open MPI).")
OMPI_COMM_WORLD_SIZE = count("OMPI_COMM_WORLD_SIZE", "Number of processes (Open MPI).")
OMPI_COMM_WORLD_LOCAL_RANK = count("OMPI_COMM_WORLD_LOCAL_RANK", "Index among those of this machine (Open MPI).")
OMPI_COMM_WORLD_LOCAL_SIZE = count("OMPI_COMM_WORLD_LOCAL_SIZE", "Processes on this machine (Open MPI).")
PMI_RANK = count("PMI_RANK", "Index of this process (MPICH, Intel MPI).")
PMI_SIZE = count("PMI_SIZE", "Number of processes (MPICH, Intel MPI).")
MPI_LOCALRANKID = count("MPI_LOCALRANKID", "Index among those of this machine (MPICH, Intel MPI).")
MPI_LOCALNRANKS = count("MPI_LOCALNRANKS", "Processes on this machine (MPICH, Intel MPI).")

# Devices, network and threads.
CUDA_VISIBLE_DEVICES = text(
    "CUDA_VISIBLE_DEVICES", "GPUs a job may use; `--gpus` chooses among them. Set but empty: none."
)
GLOO_SOCKET_IFNAME = text("GLOO_SOCKET_IFNAME", "Network interface of Gloo; chosen when unset, and told.")
NCCL_SOCKET_IFNAME = text("NCCL_SOCKET_IFNAME", "Network interface of NCCL; chosen when unset, and told.")
THP_MEM_ALLOC_ENABLE = text(
    "THP_MEM_ALLOC_ENABLE", "1 keeps torch's large tensors in large pages; `fleetrun` sets it on CPUs when unset."
)
OTEL_EXPORTER_OTLP_ENDPOINT = text(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "Collector of OpenTelemetry to which `fleetrun --trace` also sends its spans, if the exporter is installed.",
)
OMP_NUM_THREADS = count(
    "OMP_NUM_THREADS",
    "Threads of each process; when unset, the cores that it may use, which `fleetrun` divides among its processes.",
)
OMP_WAIT_POLICY = text(
    "OMP_WAIT_POLICY", "How torch's threads wait for each other; PASSIVE, which is asleep, when unset."
)
GOMP_SPINCOUNT = text(
    "GOMP_SPINCOUNT", "How often they look before they sleep; where it is set, OMP_WAIT_POLICY is left alone."
)
FLEET_NATIVE_THREADS = count(
    "FLEET_NATIVE_THREADS",
    "Threads of one call of the C++ core; `fleetrun` divides the cores when unset, others take OMP_NUM_THREADS.",
    least=1,
)
FLEET_STEP_THREADS = count(
    "FLEET_STEP_THREADS",
    "The same for a server of a synchronous job, whose workers wait while it applies a step; `fleetrun` divides the "
    "cores by the servers of the machine when unset.",
    least=1,
)
CPU_NUM = count("CPU_NUM", "How many places `cpu_places()` lists; a process computes on all its cores anyway.")


def is_under_fleetrun() -> bool:
    """Whether fleetrun started this process: it holds its port, and starts it again. An engine says FLEET_ROLE too."""
    return FLEET_JOB_ID.text() is not None and FLEET_ROLE.text() is None


def without_roles(environ: Environ) -> dict[str, str]:
    """What is left when nothing tells a process its role any more.

    Slurm's and MPI's variables stay: they describe the launcher, and `roles.discover` knows that.
    """
    known = {variable.name for variable in variables()}
    return {
        name: value
        for name, value in environ.items()
        if not (name in _ROLE_NAMES or (name in known and name.startswith(_ROLE_PREFIXES)))
    }


_ROLE_PREFIXES = ("PADDLE_", "TORCHELASTIC_")
_ROLE_NAMES = (
    *("FLEET_ROLE", "FLEET_INDEX", "FLEET_SERVERS", "FLEET_SERVER_NUM", "FLEET_WORKERS", "FLEET_WORKER_ENDPOINTS"),
    *("TRAINING_ROLE", "POD_IP", "FLAGS_selected_gpus"),
    *(
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    ),
    *("FLEET_DEVICE", "FLEET_RESTART", "FLEET_NOTE_FILE", "FLEET_TERMINAL_WIDTH"),
    *("FLEET_JOB_TOKEN", "FLEET_JOB_TOKEN_FILE", "FLEET_METRICS_TOKEN", "FLEET_PLAN", "FLEET_TRACE"),
    *("FLEET_CHAOS", "FLEET_CHAOS_SEED", "FLEET_CHAOS_BEGAN"),
    *(
        "FLEET_DURABLE",
        "FLEET_JOURNAL",
        "FLEET_LIFE",
        "FLEET_LAYOUT",
        "FLEET_STANDBY",
        "FLEET_COPY_OF",
        "FLEET_ELASTIC",
    ),
)
