"""A real Slurm on this machine alone: one node, on loopback, without systemd, cgroups or /etc.

Needs slurmctld, slurmd and munged (Debian, Ubuntu: apt-get install slurm-wlm munge), root or not.
Configuration, state, logs and the munge key lie in FOLDER; its processes end with `stop`.

Two partitions: `main`, and `high`, whose jobs preempt those of `main` (they are put back into the
queue). What one node cannot show: GPUs, several nodes and their shared folder, enforced memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch")
WAIT_SECONDS = 600.0


def missing() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


@dataclass(frozen=True)
class Cluster:
    """cpus: that the node claims to have. grace: seconds between the warning and the end of a
    preempted job. warn: whether such a job gets SIGUSR2 too. bound: whether each task may use the
    cores alone that it asked for; the node then claims those that there are.
    """

    folder: Path
    cpus: int = 4
    grace: int = 5
    warn: bool = True
    bound: bool = False

    @property
    def environment(self) -> dict[str, str]:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> Cluster:
        for name in ("state", "spool", "log", "run", "munge"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o711)
        (self.folder / "log").chmod(0o755)
        port = _free_ports(4)
        self._write_configuration(port)
        self._start_munge()
        self.start_controller()
        self._run("slurmd", "-f", str(self.folder / "slurm.conf"), "-N", "localhost")
        self._wait("the node to be idle", lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"))
        return self

    def stop(self) -> None:
        if self._pid("slurmctld"):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                self.ask("scancel", "--user", str(os.getuid()))
        for name in ("slurmd", "slurmctld", "munged"):
            _end(self._pid(name))
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        shutil.rmtree(self.folder / "spool", ignore_errors=True)

    def start_controller(self) -> None:
        self._run("slurmctld", "-f", str(self.folder / "slurm.conf"))
        self._wait("the controller", lambda: "UP" in self.ask("scontrol", "ping"))

    def restart_controller(self) -> None:
        """It saves its state and finds it again; the jobs run on meanwhile."""
        _end(self._pid("slurmctld"))
        self.start_controller()

    def resume_node(self) -> bool:
        """As an administrator would, where Slurm has drained it (a second copy of a job that it
        still saw running, a task that did not die in time). Whether that was needed."""
        state = self.ask("sinfo", "-h", "-o", "%T")
        if "drain" not in state and "down" not in state:
            return False
        self.ask("scontrol", "update", "NodeName=localhost", "State=RESUME")
        return True

    def ask(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=1500, check=False
        )
        return done.stdout + done.stderr

    def _pid(self, name: str) -> int | None:
        try:
            pid = int((self.folder / "run" / f"{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _alive(pid) else None

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=1500, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr or done.stdout}{self._logs()}")

    def _wait(self, what: str, ready: object) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if ready():  # type: ignore[operator]
                return
            time.sleep(0.1)
        raise RuntimeError(f"waited {WAIT_SECONDS:.0f} s for {what}{self._logs()}")

    def _logs(self) -> str:
        tails = []
        for path in sorted((self.folder / "log").glob("*.log")):
            tails += ["", f"{path.name}:", *path.read_text(errors="replace").splitlines()[-10:]]
        return "\n".join(tails)

    def _start_munge(self) -> None:
        key = self.folder / "munge" / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(128))
            key.chmod(0o600)
        socket_path = self.folder / "munge" / "munge.socket"
        self._run(
            "munged",
            f"--key-file={key}",
            f"--socket={socket_path}",
            f"--pid-file={self.folder / 'run' / 'munged.pid'}",
            f"--log-file={self.folder / 'log' / 'munged.log'}",
            f"--seed-file={self.folder / 'munge' / 'munge.seed'}",
            "--num-threads=2",
            "--force",  # else it minds who else may look into the folders above
        )
        self._wait("munge", lambda: "MUNGE:" in self.ask("munge", "-n", "-S", str(socket_path)))

    def _write_configuration(self, port: int) -> None:
        folder, user = self.folder, _user()
        storage = "AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none"
        task = "task/affinity\nTaskPluginParam=cores" if self.bound else "task/none"
        cpus = os.cpu_count() if self.bound else self.cpus
        warn = "SlurmctldParameters=preempt_send_user_signal" if self.warn else ""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10
        # Ids from the clock: those of an earlier cluster in the same folder never come again.
        # cred_expire: else a job that is put back waits two minutes.
        # config_overrides: the node may claim more cores than there are.
        (folder / "slurm.conf").write_text(f"""\
ClusterName=one
FirstJobId={int(time.time()) % 60_000_000 + 1}
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={port + 1}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin={task}
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MaxJobCount=10000
MinJobAge=300
KillWait=3
OverTimeLimit=0
InactiveLimit=0
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{warn}
{storage}
NodeName=localhost NodeAddr=127.0.0.1 NodeHostname={socket.gethostname().partition(".")[0]} \
CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE DefaultTime=5 State=UP \
PriorityTier=1 OverSubscribe=NO PreemptMode=REQUEUE GraceTime={self.grace}
PartitionName=high Nodes=localhost Default=NO MaxTime=60 DefaultTime=5 State=UP \
PriorityTier=10 OverSubscribe=NO
""")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # read, never used


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _free_ports(number: int) -> int:
    """The first of some ports in a row that nobody listens on.

    Between this look and the cluster's own, nobody else may take them: processes that start
    together, whose numbers are close, look far apart, and below the ports that Linux deals out.
    """
    for first in range(20_000 + os.getpid() * 40 % 12_000, 60_000, number):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + number):
                    one = stack.enter_context(socket.socket())
                    one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")


def _alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _end(pid: int | None) -> None:
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        for _ in range(50):
            if not _alive(pid):
                return
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
