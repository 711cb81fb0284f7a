"""Rights and accounts on a real Slurm with slurmdbd and munge (root only).

python3 tests/chaos/slurm_rights.py [--level operator|admin] [--record FILE]
    [--mutant no-starts]

Four drivers, one after the other, on jobs of three users:

- as an operator (--level) who is not SlurmUser, under srtf: starts, leases and one requeue of jobs
  of others;
- as a user without rights: Slurm refuses its commands, which are counted, and starts the jobs when
  their leases end;
- as an operator with --account ours: no command names a job of the account theirs;
- as an operator with --keeper-from 3: the operator's keeper instead of leases.

Counted as wrong: a job that does not complete or begins more often than expected, a refused command
of an operator, none of the user without rights, a command for a job of the other account, no keeper
of the operator.
"""

import os
import re
import sys
import time

from slurm_target import (
    USERS,
    Book,
    Driver,
    Job,
    arguments,
    cluster,
    has_ended,
    keep_logs,
    lines_of,
    missing,
    read_rows,
)

LEASE, PATIENCE_S = 6, 120
OPERATOR, WITHOUT_RIGHTS, *OWNERS = USERS


def drive(slurm, jobs_of, user, policy, options, *words):
    """Runs a driver as `user` until the jobs of `jobs_of` have ended: driver, jobs, seconds."""
    driver = Driver(slurm, policy, "--mode", "drive", "--lease", LEASE, "--every", "0.5", *words,
                    user=user, partition=None if words else "orrery",
                    mutant=options.mutant)  # fmt: skip
    (slurm.folder / "acts").write_text("")
    driver.start()
    try:
        begin, jobs = time.monotonic(), jobs_of()
        while time.monotonic() - begin < PATIENCE_S and not has_ended(slurm):
            time.sleep(0.5)
        return driver, jobs, time.monotonic() - begin
    finally:
        driver.end()


def check_jobs(slurm, jobs, starts, wrong):
    rows = read_rows(slurm)
    for job, expected in zip(jobs, starts):
        if rows[job.name].state != "COMPLETED" or len(job.marks("start")) != expected:
            wrong.append(f"job {job.id} is {rows[job.name].state}, began at {job.marks('start')}, "
                         f"expected {expected} starts")  # fmt: skip


def complaints(driver):
    return int(re.findall(r"(\d+) complaints", driver.text())[-1])


def as_operator(slurm, options, wrong):
    def jobs():
        long_job = Job(slurm, "long", 2, 8, 6, "-t", "50", "-A", "ours", user=OWNERS[0])
        end = time.monotonic() + 20
        while time.monotonic() < end and slurm.jobs()[long_job.id] == "PENDING":
            time.sleep(0.2)
        return [long_job, *(Job(slurm, f"short-{n}", 2, 8, 1, "-t", "1", "-A", "ours",
                                user=OWNERS[n % 2]) for n in range(4))]  # fmt: skip

    driver, made, _ = drive(slurm, jobs, OPERATOR, "srtf", options)
    check_jobs(slurm, made, [2, 1, 1, 1, 1], wrong)
    orders = sum(len(lines_of(driver.acts(), job.id)) > 0 for job in made)
    if complaints(driver) or orders != len(made):
        wrong.append(f"operator: {complaints(driver)} complaints, {orders} of {len(made)} ordered")
    return {"jobs of an operator": len(made), "its refused commands": complaints(driver)}


def without_rights(slurm, options, wrong):
    def jobs():
        return [Job(slurm, f"free-{n}", 1, 4, 1, "-A", "ours", user=OWNERS[0]) for n in range(3)]

    driver, made, seconds = drive(slurm, jobs, WITHOUT_RIGHTS, "fifo", options)
    check_jobs(slurm, made, [1, 1, 1], wrong)
    if complaints(driver) == 0 or "scontrol: " not in driver.text() or seconds < LEASE - 2:
        wrong.append(f"without rights: {complaints(driver)} complaints, {seconds:.0f} s")
    return {"commands refused to a user": complaints(driver)}


def by_account(slurm, options, wrong):
    def jobs():
        return [Job(slurm, f"account-{n}", 1, 4, 2, "-A", ("ours", "theirs")[n % 2],
                    user=OWNERS[n // 2]) for n in range(4)]  # fmt: skip

    driver, made, _ = drive(slurm, jobs, OPERATOR, "fifo", options, "--account", "ours")
    check_jobs(slurm, made, [1] * 4, wrong)
    text = "\n".join(line for _, line in driver.acts())
    for number, job in enumerate(made):
        is_named = re.search(rf"\b{job.id}\b", text.replace("StartTime=now+", "")) is not None
        if is_named != (number % 2 == 0):
            wrong.append(f"job {job.id} of {('ours', 'theirs')[number % 2]}: {is_named=}")
    return {"jobs by account": len(made)}


def with_keeper(slurm, options, wrong):
    def jobs():
        return [Job(slurm, f"kept-{n}", 2, 8, 1, "-A", "ours", user=OWNERS[n % 2])
                for n in range(9)]  # fmt: skip

    driver, made, _ = drive(slurm, jobs, OPERATOR, "fifo", options, "--partition", "orrery",
                            "--keeper-from", 3)  # fmt: skip
    check_jobs(slurm, made, [1] * len(made), wrong)
    owners = slurm.run("squeue", "-h", "-t", "all", "-n", "orrery-keeper", "-o", "%u").split()
    kept = sum("afterany:" in line for _, line in driver.acts())
    if complaints(driver) or set(owners) != {OPERATOR} or kept == 0:
        wrong.append(f"keeper: {complaints(driver)} complaints, keepers of {owners}, "
                     f"{kept} dependencies sent")  # fmt: skip
    return {"jobs beside a keeper": len(made), "keepers of the operator": len(owners)}


def main():
    options = arguments(__doc__, level="operator")
    if os.geteuid() != 0 or missing(database=True):
        sys.exit(f"expected root and Debian's slurmdbd, munge and mariadb-server, found no "
                 f"{', '.join(missing(database=True)) or 'root'}")  # fmt: skip
    book = Book(options.record)
    if options.seed not in book.seeds():
        begin, wrong = time.monotonic(), []
        with cluster(nodes=2, gpus=8, lease=LEASE, users=USERS, database=True) as slurm:
            case = {"seed": options.seed, "level": options.level,
                    "seconds to start": round(time.monotonic() - begin, 1)}  # fmt: skip
            slurm.run("sacctmgr", "-i", "modify", "user", OPERATOR, "set",
                      f"adminlevel={options.level}", check=False)  # 1: nothing to modify
            for part in (as_operator, without_rights, by_account, with_keeper):
                case |= part(slurm, options, wrong)
            book.add(case | {"seconds": round(time.monotonic() - begin), "wrong": wrong})
            if wrong:
                keep_logs(slurm, options, options.seed)
    case = book.cases[-1]
    print(f"Rights and accounts ({case['level']}): {case['its refused commands']} of its commands "
          f"refused, {case['commands refused to a user']} of a user without rights; "
          f"{case['jobs beside a keeper']} jobs beside {case['keepers of the operator']} keepers; "
          f"{book.wrong()} faults")  # fmt: skip
    return 1 if book.wrong() else 0


if __name__ == "__main__":
    sys.exit(main())
