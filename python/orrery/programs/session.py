"""State of a rehearsal that its parts share, and its end."""

import os
import sys
import time
from typing import Any, Callable, NoReturn, Optional

from .clock import Clock
from .prices import PriceClient
from .record import Record
from .registered import read_prices
from .settings import Settings
from .state import State
from .stand_ins import Ledger

#: Host time of an operator, seconds: assumed, because nothing measures the user's host. A line
#: `host time_s=...` of --prices replaces the value.
HOST_SECONDS = 6e-6
#: Share of the host time for operators that launch no kernel, such as views.
VIEW_SHARE = 0.25
#: Exit code of a program that cannot be rehearsed.
CANNOT_REHEARSE = 4


class Session:
    """Clock, record, prices and settings of one rehearsed process.

    Parameters
    ----------
    settings : Settings
        Description of the rehearsal.
    client : PriceClient
        Connection to the command line.

    Raises
    ------
    PriceFileError
        If the file of --prices has an invalid line.
    """

    #: The session of this process; None before attachment.
    current: "Optional[Session]" = None

    def __init__(self, settings: Settings, client: PriceClient) -> None:
        self.settings = settings
        self.client = client
        self.clock = Clock()
        self.record = Record()
        self.ledger = Ledger(settings.allowed, self.refuse)
        self.registered = read_prices(settings.prices, settings.prices_file)
        host = self.registered.pop("host", None)
        self.host_seconds = HOST_SECONDS if host is None else host.values([], [], 0, 0)["time_s"]
        self.notes: "dict[str, int]" = {}
        #: Returns the phase of the step (mode.py); once torch has been imported.
        self.phase: Callable[[], str] = lambda: "forward"
        #: State of each optimizer on this rank, by the optimizer's id (frameworks.py).
        self.states: "dict[int, State]" = {}
        #: Embedding modules by the shape of their table, and the most tokens of one look-up.
        self.tables: "dict[tuple[int, ...], set[int]]" = {}
        self.tokens = 0
        #: Look-ups by embedding module since the last step, and the most of the last step.
        self.lookups: "dict[int, int]" = {}
        #: Processor time of this process at the first look-up, seconds.
        self.first_lookup_cpu_s: "Optional[float]" = None
        self.passes = 0
        #: Ranks of this rank's pipeline by stage; None before the first message (pipelines.py).
        self.pipeline: "Optional[tuple[int, ...]]" = None
        #: Name of its schedule in PyTorch; "" during the first step.
        self.schedule = ""
        #: Memory of the fake device (storages.Storages), once torch has been imported.
        self.storages: Any = None
        self.refused: Optional[str] = None
        self.reported = False
        self.pid = os.getpid()
        self.started = self.clock.real_counter()

    def note(self, text: str) -> None:
        """Counts an assumption or a simplification for the report."""
        self.notes[text] = self.notes.get(text, 0) + 1

    def note_embedding(self, module: int, table: "tuple[int, ...]", tokens: int) -> None:
        """Notes a look-up of tokens in the table of a module."""
        if self.first_lookup_cpu_s is None:
            self.first_lookup_cpu_s = self.cpu_seconds()
        self.tables.setdefault(table, set()).add(module)
        self.tokens = max(self.tokens, tokens)
        self.lookups[module] = self.lookups.get(module, 0) + 1

    def end_passes(self) -> None:
        """Counts the forward passes of the step that ends, by its look-ups."""
        self.passes = max(self.lookups.values(), default=0)
        self.lookups.clear()

    def refuse(self, message: str) -> NoReturn:
        """Ends the process with exit code 4, the message and the report of what ran so far."""
        self.refused = message
        sys.stdout.flush()
        text = f"error: cannot rehearse this program: {message}\n"
        sys.stderr.write(text)
        if sys.stderr is not sys.__stderr__:  # the program has redirected it
            os.write(2, text.encode())
        try:
            self.send_report()
        finally:
            sys.stderr.flush()
            os._exit(CANNOT_REHEARSE)

    def restart_with(self, ranks: "list[int]") -> NoReturn:
        """Ends the process, so that the program starts again with a process for each rank."""
        self.reported = True
        self.client.request_ranks(ranks)
        self.client.close()
        os._exit(CANNOT_REHEARSE)

    def stop(self, reason: str) -> NoReturn:
        """Ends the process because a rank that it needs has ended and said why."""
        self.note(reason)
        sys.stdout.flush()
        try:
            self.send_report()
        finally:
            sys.stderr.flush()
            os._exit(CANNOT_REHEARSE)

    def send_report(self) -> None:
        """Sends the report to the command line, once, from the process that was attached.

        Rank 0 reports, and waits for the summaries of the others.
        """
        if self.reported or os.getpid() != self.pid:
            return
        self.reported = True
        from . import chakra, report

        settings = self.settings
        compact = self._compact_step()
        if settings.roles[0] != settings.rank:
            groups = self._write_trace({})
            summary = report.make_summary(self)
            self.client.send_summary({**summary, "groups": groups, "step": compact})
            self.client.close()
            return
        others = self.client.summaries() if len(settings.roles) > 1 else []
        steps = {each["rank"]: each.pop("step") for each in others}
        if compact and self.pipeline:
            compact = self._joined_stages({**steps, settings.rank: compact})
        groups = self._write_trace(compact)
        for each in others:
            groups.update(each.pop("groups"))
        if settings.trace:
            chakra.write_groups(groups, settings.trace)
        made = report.make_report(self, others)
        text = report.as_json(made) if settings.as_json else report.as_text(made)
        self.client.send_report(text)
        self.client.close()

    def _compact_step(self) -> "dict[str, Any]":
        """Return the compact form of the last step of this rank; {} without a trace or a form."""
        from . import chakra

        step = self.record.last
        return chakra.compact_step(self, step) if self.settings.trace and step is not None else {}

    def _joined_stages(self, steps: "dict[int, dict[str, Any]]") -> "dict[str, Any]":
        """Return the compact form of the step of a pipeline, from those of its stages by rank."""
        from .steps import joined_stages

        pipeline = self.pipeline or ()
        try:
            if not all(steps.get(rank) for rank in pipeline):
                raise ValueError("a stage of the pipeline has none")
            return joined_stages([steps[rank] for rank in pipeline], pipeline)
        except ValueError as error:
            self.note(f"the trace has no step for `program`: {error}")
            return {}

    def _write_trace(self, compact: "dict[str, Any]") -> "dict[str, list[int]]":
        """Writes the trace of this rank, and returns its groups.

        Ranks that are alike share a file only if all are: otherwise every rank must run, or the
        file is that of a pipeline whose compact form has the other stages.
        """
        from . import chakra

        settings, step = self.settings, self.record.last
        if not settings.trace or step is None:
            return {}
        if len(settings.roles) not in (1, settings.ranks) and not compact:
            return {}
        return chakra.write_trace(self, step, settings.trace, compact)

    def cpu_seconds(self) -> float:
        """Return the processor time of this process."""
        return time.process_time()
