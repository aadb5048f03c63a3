"""A Slurm cluster of this machine alone, with fake GPUs, in a folder: for scripts/slurm_check.

munged, slurmctld and slurmd run as the current user on free ports, from Debian's slurm-wlm and munge, without
systemd or an accounting database. Nothing outside the folder is written.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
NODE = "check"
GPUS = ("/dev/null", "/dev/zero")  # with `Count=2` and no files Slurm calls the node invalid
_MARK = "SNN_SLURM_CHECK"
_SBIN = "/usr/sbin:/sbin"

# More CPUs and memory than the machine may have (config_overrides), so that two jobs run side by side.
_CONF = """\
ClusterName=check
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,bf_interval=1
MinJobAge=300
KillWait=5
ReturnToService=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes={node} MaxTime=INFINITE State=UP PriorityTier=2
"""


class ClusterError(Exception):
    """A daemon did not start; the message has the end of its log."""


def missing() -> list[str]:
    """The programs that are not installed."""
    path = f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


class Cluster:
    """The daemons, requests to them, and the environment in which Slurm's commands reach them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        path = f"{folder}/bin:{os.environ.get('PATH', os.defpath)}:{_SBIN}"
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))}
        self.environment: Mapping[str, str] = kept | {
            "PATH": path,
            "SLURM_CONF": f"{folder}/slurm.conf",
            _MARK: str(folder),
        }
        self._write()

    def _write(self) -> None:
        for name in ("bin", "state", "spool"):
            (self.folder / name).mkdir()
        host, (ctld_port, d_port) = socket.gethostname().split(".")[0], _free_ports(2)
        user = psutil.Process().username()
        (self.folder / "slurm.conf").write_text(
            _CONF.format(
                folder=self.folder,
                host=host,
                user=user,
                node=NODE,
                gpus=len(GPUS),
                ctld_port=ctld_port,
                d_port=d_port,
            )
        )
        (self.folder / "gres.conf").write_text(
            "".join(f"NodeName={NODE} Name=gpu File={file}\n" for file in GPUS)
        )
        # The executor removes SLURM_* from the environment of a step, and with it the path of this file.
        srun = shutil.which("srun", path=os.environ.get("PATH"))
        wrapper = self.folder / "bin/srun"
        wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {srun} "$@"\n')
        wrapper.chmod(0o755)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def start(self) -> None:
        """Start the daemons and wait until the node is idle. Raises ClusterError."""
        socket_file, files = self.folder / "munge.socket", self.folder / "munged"
        self._start(
            "munged",
            # --force: a socket in a folder that only this user can reach.
            *("--foreground", "--force", f"--socket={socket_file}", f"--key-file={self.folder}/munge.key"),
            *(f"--pid-file={files}.pid", f"--seed-file={files}.seed", f"--log-file={files}-own.log"),
        )
        self._await("munged", socket_file.exists)
        self._start("slurmctld", "-D")
        self._await("slurmctld", lambda: "UP" in self.ask("scontrol", "ping"))
        self.start_slurmd()

    def start_slurmd(self) -> None:
        """Start slurmd and wait until its node can be used. Raises ClusterError."""
        self._start("slurmd", "-D", "-N", NODE)
        usable = ("idle", "mixed", "allocated", "completing", "planned")
        # A minus says that a waiting job is planned for the node, an asterisk that the node does not answer.
        self._await("slurmd", lambda: self.ask("sinfo", "-h", "-o", "%T").strip().rstrip("-") in usable)

    def kill_slurmd(self) -> None:
        """kill -9: jobs go on, but are not reported."""
        self._daemons["slurmd"].kill()
        self._daemons["slurmd"].wait()

    def fail_node(self) -> None:
        """Lose a node, as Slurm would: its jobs end with NODE_FAIL."""
        self.ask("scontrol", "update", f"NodeName={NODE}", "State=DOWN", "Reason=check")

    def resume_node(self) -> None:
        """Take the node back into service."""
        self.ask("scontrol", "update", f"NodeName={NODE}", "State=RESUME")

    def hold(self, number: str) -> None:
        """Let a job wait until it is cancelled."""
        self.ask("scontrol", "hold", number)

    def take_node(self) -> str:
        """Submit a job of higher priority that needs the whole node; its number. Jobs there are preempted."""
        wanted = ("--parsable", "--partition=urgent", "--exclusive", "--output=/dev/null")
        return self.ask("sbatch", *wanted, "--wrap=sleep 600").strip()

    def ask(self, *command: str) -> str:
        """Output of one of Slurm's commands, including errors."""
        done = subprocess.run(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.stdout

    def completed(self) -> dict[str, dict[str, str]]:
        """Slurm's own list of the jobs that have ended, by job number: their state and the rest."""
        try:
            lines = (self.folder / "jobcomp").read_text().splitlines()
        except FileNotFoundError:
            return {}
        jobs = (dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines)
        return {job["JobId"]: job for job in jobs}

    def processes(self) -> list[psutil.Process]:
        """Everything that was started in this cluster, daemons included."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error, OSError):
            # slurmstepd writes its title over its environment, but works where slurmd does.
            stepd = process.name() == "slurmstepd" and Path(process.cwd()) == self.folder
            return stepd or process.environ().get(_MARK) == str(self.folder)
        return False

    def stop(self) -> None:
        """Cancel what runs and end every process, those that have lost their parent as well."""
        if self._is_up("slurmctld"):
            with suppress(OSError, subprocess.SubprocessError):
                self.ask("scancel", "--me")
        for name in ("slurmd", "slurmctld", "munged"):
            if self._is_up(name):
                self._daemons[name].terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._daemons[name].wait(timeout=5)
        while processes := self.processes():
            for process in processes:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(processes, timeout=1)

    def _is_up(self, name: str) -> bool:
        return name in self._daemons and self._daemons[name].poll() is None

    def _start(self, name: str, *options: str) -> None:
        program = shutil.which(name, path=self.environment["PATH"])
        assert program is not None
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [program, *options],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def _await(self, name: str, ready: Callable[[], bool], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end or not self._is_up(name):
                log = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
                nodes = (
                    self.ask("sinfo", "-h", "-o", "%n %T %E").strip() if self._is_up("slurmctld") else "none"
                )
                raise ClusterError(
                    "\n".join([f"{name} does not start; nodes: {nodes}; its log ends with", *log[-15:]])
                )
            time.sleep(0.1)


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster in a folder, stopped on every way out. Raises ClusterError."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
