"""Report of a rehearsal: JSON for programs, a few lines for people."""

import collections
import json
import resource
import statistics
from typing import TYPE_CHECKING, Any, Optional

from .record import Collective, Kernel, Step
from .roles import pipeline_ranks
from .steps import nodes_of, ranks_of_a_replica

if TYPE_CHECKING:
    from .session import Session

GIB = 1 << 30
#: Operators and stand-ins that the text shows.
SHOWN = 8
#: Sources of prices, see kernels.py.
SOURCES = {
    "table": "kernel tables",
    "stream": "bytes as a plain stream",
    "flops": "operations as a product",
    "copy": "PCIe",
    "registered": "--prices",
    "unpriced": "bytes, a guess",
}


def _kernels(step: Step) -> "list[Kernel]":
    return [row for row in step.rows if isinstance(row, Kernel)]


def _collectives(step: Step) -> "list[Collective]":
    return [row for row in step.rows if isinstance(row, Collective)]


def _shares(kernels: "list[Kernel]", key: str) -> "dict[str, float]":
    """Return the share of kernel time by an attribute of the kernels, largest first."""
    total = sum(each.seconds for each in kernels)
    sums: "collections.Counter[str]" = collections.Counter()
    for each in kernels:
        sums[getattr(each, key)] += each.seconds  # type: ignore[assignment]
    return {name: value / total for name, value in sums.most_common() if total > 0}


def _of_kind(collectives: "list[Collective]") -> "list[dict[str, Any]]":
    """Return the collectives of a step by kind and number of ranks, longest first."""
    sums: "dict[tuple[str, int], list[float]]" = {}
    for each in collectives:
        entry = sums.setdefault((each.kind, len(each.members)), [0, 0, 0])
        entry[0] += 1
        entry[1] += each.size
        entry[2] += each.seconds
    rows = [
        {"kind": kind, "ranks": ranks, "count": int(count), "bytes": int(size), "time_s": seconds}
        for (kind, ranks), (count, size, seconds) in sums.items()
    ]
    return sorted(rows, key=lambda row: -float(row["time_s"]))


def _host(session: "Session") -> "dict[str, Any]":
    used = resource.getrusage(resource.RUSAGE_SELF)
    begin, end = session.first_lookup_cpu_s, session.record.first_end_cpu_s
    return {
        "wall_s": session.clock.real_counter() - session.started,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_rss_bytes": used.ru_maxrss * 1024,
        "first_step_cpu_s": None if begin is None or end is None else end - begin,
        "step_cpu_s": session.record.least_cpu_s,
    }


def _tokens_per_s(
    session: "Session", step: Step, duration: "Optional[float]"
) -> "Optional[float]":
    """Return the tokens of all replicas in a second; None if the program embeds no tokens."""
    if not duration or not session.tokens:
        return None
    nodes, micro_batches = nodes_of(step)
    stages = pipeline_ranks(session, step.rows)
    if stages > 1:  # passes of several micro-batches follow each other
        micro_batches = session.passes
    replicas = session.settings.ranks / ranks_of_a_replica(nodes)
    return session.tokens * micro_batches * replicas / stages / duration


def _stand_ins(session: "Session") -> "list[dict[str, Any]]":
    return [
        {"name": name, "use": use, "place": place, "count": count}
        for (name, use, place), count in session.ledger.reads.items()
    ]


def make_summary(session: "Session") -> "dict[str, Any]":
    """Return the part of the report that is given for each running rank."""
    record, storages = session.record, session.storages
    step = record.last or Step(record.rows, 0.0, 0.0, record.operators, 0.0)
    kernels, collectives = _kernels(step), _collectives(step)
    messages = [each for each in collectives if each.kind in ("send", "receive")]
    return {
        "rank": session.settings.rank,
        "step_time_s": statistics.median(record.durations) if record.durations else None,
        "memory_bytes": storages.peak if storages is not None else None,
        "reserved_bytes": storages.allocator.peak_reserved if storages is not None else None,
        "kernels": len(kernels),
        "kernel_time_s": sum(each.seconds for each in kernels),
        "collectives": len(collectives) - len(messages),
        "messages": len(messages),
        "message_sequence": [[each.kind, each.size] for each in messages],
        "stand_ins": _stand_ins(session),
        "notes": dict(session.notes),
    }


def _add_roles(report: "dict[str, Any]", roles: "list[dict[str, Any]]") -> None:
    """Adds the other running ranks to the report of rank 0.

    Step time and memory become the largest of all roles.
    """
    for each in roles[1:]:
        report["stand_ins"].extend(each.pop("stand_ins"))
        for text, count in each.pop("notes").items():
            report["notes"][text] = max(count, report["notes"].get(text, 0))
    for key in ("stand_ins", "notes"):
        del roles[0][key]
    report["roles"] = roles
    for key in ("step_time_s", "memory_bytes", "reserved_bytes"):
        known = [each[key] for each in roles]
        report[key] = None if None in known else max(known)
    if report["tokens_per_s"] and report["step_time_s"]:
        report["tokens_per_s"] *= roles[0]["step_time_s"] / report["step_time_s"]


def make_report(session: "Session", others: "list[dict[str, Any]]") -> "dict[str, Any]":
    """Return the report of a session.

    Parameters
    ----------
    session : Session
        The rehearsal.
    others : list of dict
        Summaries of the other running ranks.

    Returns
    -------
    dict
        ``step_time_s`` is the median of the steps after the first, None if there were fewer than
        two; ``memory_bytes`` the peak of the allocated bytes; ``tokens_per_s`` those of all
        replicas, None if the program embeds no tokens. Counts, shares and collectives are
        of the last step. ``sources`` are shares of the kernel time by source of the price,
        ``unpriced`` those of operators whose price is a guess.
    """
    record, storages = session.record, session.storages
    step = record.last or Step(record.rows, 0.0, 0.0, record.operators, 0.0)
    kernels, collectives = _kernels(step), _collectives(step)
    duration = statistics.median(record.durations) if record.durations else None
    guessed = [each for each in kernels if each.source == "unpriced"]
    total = sum(each.seconds for each in kernels)
    unpriced = {
        name: share * sum(each.seconds for each in guessed) / total
        for name, share in _shares(guessed, "operator").items()
    }
    report = {
        "ranks": session.settings.ranks,
        "gpu": session.settings.gpu,
        "steps": len(record.durations) + (record.last is not None),
        "step_time_s": duration,
        "memory_bytes": storages.peak if storages is not None else None,
        "reserved_bytes": storages.allocator.peak_reserved if storages is not None else None,
        "tokens_per_s": _tokens_per_s(session, step, duration),
        "operators": step.operators,
        "kernels": len(kernels),
        "collectives": len(collectives),
        "collectives_by_kind": _of_kind(collectives),
        "collective_sequence": [[each.kind, each.size, len(each.members)] for each in collectives],
        "kernel_time_s": total,
        "collective_time_s": sum(each.seconds for each in collectives),
        "sources": _shares(kernels, "source"),
        "operators_by_time": _shares(kernels, "operator"),
        "unpriced": unpriced,
        "stand_ins": _stand_ins(session),
        "notes": dict(session.notes),
        "assumed": {"host_s_per_operator": session.host_seconds},
        "refused": session.refused,
        "host": _host(session),
    }
    if others:
        _add_roles(report, [make_summary(session), *others])
    return report


def as_json(report: "dict[str, Any]") -> str:
    """Return the report as one line of JSON."""
    return json.dumps(report) + "\n"


def _percentages(shares: "dict[str, float]") -> str:
    shown = list(shares.items())[:SHOWN]
    return ", ".join(f"{100 * share:.1f}% {SOURCES.get(name, name)}" for name, share in shown)


def _role_lines(roles: "list[dict[str, Any]]") -> "list[str]":
    """Return a line for each running rank; none for one."""
    lines: "list[str]" = []
    for each in roles:
        step = "unknown" if each["step_time_s"] is None else f"{each['step_time_s']:.4f} s"
        head = "roles" if not lines else ""
        lines.append(
            f"{head:<12} rank {each['rank']}: step {step}, kernels {each['kernel_time_s']:.4f} s, "
            f"{each['messages']} messages, {(each['memory_bytes'] or 0) / GIB:.2f} GiB allocated, "
            f"{(each['reserved_bytes'] or 0) / GIB:.2f} GiB reserved"
        )
    return lines


def as_text(report: "dict[str, Any]") -> str:
    """Return the report as lines for people."""
    roles = report.get("roles", [])
    ranks = f"ranks {', '.join(str(each['rank']) for each in roles)}" if roles else "rank 0"
    lines = [f"\nrehearsed {ranks} of {report['ranks']} on {report['gpu']}, simulated times"]
    duration = report["step_time_s"]
    if duration is None:
        lines.append(f"step         unknown: expected two optimizer steps, saw {report['steps']}")
    else:
        lines.append(f"step         {duration:.4f} s, median of {report['steps'] - 1} after one")
    if report["memory_bytes"] is not None:
        lines.append(
            f"memory       {report['memory_bytes'] / GIB:.2f} GiB allocated, "
            f"{report['reserved_bytes'] / GIB:.2f} GiB reserved at the peak"
        )
    lines.append(
        f"a step       {report['operators']} operators, {report['kernels']} kernels of "
        f"{report['kernel_time_s']:.4f} s, {report['collectives']} collectives of "
        f"{report['collective_time_s']:.4f} s"
    )
    for row in report["collectives_by_kind"][:SHOWN]:
        lines.append(
            f"             {row['count']} x {row['kind']} among {row['ranks']}: "
            f"{row['bytes'] / GIB:.3f} GiB, {row['time_s']:.4f} s"
        )
    lines.extend(_role_lines(roles))
    lines.append(f"prices       {_percentages(report['sources'])}")
    if report["unpriced"]:
        lines.append(f"guessed      {_percentages(report['unpriced'])}")
    for each in report["stand_ins"][:SHOWN]:
        lines.append(
            f"stand-in     {each['name']} ({each['use']} {each['count']} times at "
            f"{each['place']})"
        )
    lines.extend(f"note         {text} ({count})" for text, count in report["notes"].items())
    host = report["host"]
    lines.append(
        f"host         {host['wall_s']:.1f} s, {host['cpu_s']:.1f} s of CPU, "
        f"{host['peak_rss_bytes'] / GIB:.2f} GiB"
        + (f", {host['step_cpu_s']:.2f} s of CPU a step" if host["step_cpu_s"] else "")
    )
    return "\n".join(lines) + "\n"
