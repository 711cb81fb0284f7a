"""Processor time of one reading of a queue of Slurm by `orrery cluster slurm`, without a Slurm.
Stand-ins for squeue and scontrol print one recorded answer: 1,000 nodes, 256 running jobs that fill
8 of them, and 9,744 waiting jobs with leases. Run by `./dev bench slurm [JOBS]`. The rest of a
reading is the time of Slurm's own commands, which tests/chaos/slurm_queue.py measures."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ORRERY_BUILD", ROOT / "build"))
NODES, FULL, GPUS, LEASE_S, RUN_S = 1000, 8, 32, 1800, 20
TOOLS = {
    "squeue": 'exec cat "$(dirname "$0")/jobs"',
    "scontrol": """case "$*" in
*config*) exec cat "$(dirname "$0")/config" ;;
*node*) exec cat "$(dirname "$0")/nodes" ;;
*) cat ;;
esac""",
}


def jobs(count, now):
    """Rows of squeue in the fields of live/slurm/answers."""
    for number in range(1, count + 1):
        runs = number <= FULL * GPUS
        node = f"n{(number - 1) // GPUS + 1}" if runs else ""
        eligible = now if runs else now + LEASE_S
        state, why = ("RUNNING", "None") if runs else ("PENDING", "BeginTime")
        priority = 4294901760 - number
        yield (f"{number}|{now - 60}|{state}|user{number % 40}|ours{number % 4}|orrery|{eligible}|"
               f"30:00|1|{node}|gres:gpu:1|N/A|N/A|1||{priority}|{why}|0|(null)|"
               f"{f'train-{number % 90}':64}|")  # fmt: skip


def nodes(now):
    for number in range(1, NODES + 1):
        full = number <= FULL
        state = "MIXED" if full else "IDLE+DRAIN"
        yield (f"NodeName=n{number} Arch=x86_64 CoresPerSocket=64  CPUAlloc={GPUS * full} "
               f"CPUEfctv=64 CPUTot=64 CPULoad=0.10 AvailableFeatures=(null) "
               f"ActiveFeatures=(null) Gres=gpu:{GPUS} NodeAddr=127.0.0.1 "
               f"NodeHostName=localhost Port={17000 + number} Version=22.05.8 "
               f"OS=Linux 6.1.0 #1 SMP @0  RealMemory=1000 AllocMem=0 FreeMem=900 Sockets=1 "
               f"Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
               f"MCS_label=N/A Partitions=orrery  BootTime={now - 900} "
               f"SlurmdStartTime={now - 900} LastBusyTime={now} "
               f"CfgTRES=cpu=64,mem=1000M,billing=64 AllocTRES= CapWatts=n/a CurrentWatts=0 "
               f"AveWatts=0 ExtSensorsJoules=n/s")  # fmt: skip


def own_cpu_s(process):
    """Processor seconds of a process without its children."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(folder, count, mode):
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    with open(folder / "out", "w+", encoding="utf-8") as out:
        run = subprocess.Popen(
            [BUILD / "bin" / "orrery", "cluster", "slurm", "--policy", "fifo", "--partition",
             "orrery", "--mode", mode, "--every", "1", "--lease", str(LEASE_S), "--keeper-from",
             str(2 * count), "--for", str(RUN_S), "--json"],
            env=environment, stdout=out, stderr=subprocess.STDOUT)  # fmt: skip
        used_s = 0.0
        while run.poll() is None:
            try:
                used_s = own_cpu_s(run)
            except (OSError, IndexError):
                break
            time.sleep(0.2)
        run.wait()
        out.seek(0)
        text = out.read()
    found = json.loads(text[text.rindex("{\n"):])
    return found["readings"], 1e3 * used_s / found["readings"], found["slowest_reading_ms"], text


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    print("| mode | waiting jobs | readings | CPU of Orrery for each, ms | slowest reading, ms |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for tool, body in TOOLS.items():
            (folder / tool).write_text(f"#!/bin/sh\n{body}\n")
            (folder / tool).chmod(0o755)
        now = int(time.time())
        (folder / "nodes").write_text("\n".join(nodes(now)) + "\n")
        (folder / "config").write_text(f"BOOT_TIME               = {now - 900}\n")
        for mode in ("shadow", "drive"):
            (folder / "jobs").write_text("\n".join(jobs(count, int(time.time()))) + "\n")
            readings, own_ms, slowest_ms, _ = measure(folder, count, mode)
            print(f"| {mode} | {count - FULL * GPUS:,} | {readings} | {own_ms:.0f} "
                  f"| {slowest_ms:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
