"""Record of the operators and collectives of a rehearsed rank, step by step."""

from typing import NamedTuple, Union


class Shape(NamedTuple):
    """Model of a kernel's price: its kind, precision, shape and entry of the kernel tables.

    `kind` is 'gemm', 'attention', 'memory', or 'time' for a kernel that has a duration only.
    """

    kind: str = "time"
    precision: str = "bf16"
    m: float = 0
    n: float = 0
    k: float = 0
    batch: float = 1
    entry: str = ""


class Kernel(NamedTuple):
    """Kernel on a stream: its price with the source, and its start on the clock, in seconds.

    `phase` is 'forward' (outside backward passes and updates), 'backward' or 'update'.
    """

    operator: str
    source: str
    seconds: float
    flops: float
    moved: float
    stream: int
    start: float
    phase: str = "forward"
    shape: Shape = Shape()


class Collective(NamedTuple):
    """Collective of a process group. `size`: bytes of the whole buffer (docs/rehearse.md).

    `element`: bytes of one value.
    """

    kind: str
    size: int
    group: str
    members: "tuple[int, ...]"
    seconds: float
    stream: int
    start: float
    number: int
    blocking: bool
    phase: str = "forward"
    element: int = 4


class Mark(NamedTuple):
    """Dependency between streams.

    `action` is 'event' (event `number` recorded on the stream), 'wait_event' (the stream waits for
    event `number`), 'wait_stream' (for stream `number`) or 'wait_collective' (for collective
    `number`).
    """

    action: str
    stream: int
    number: int


class Pass(NamedTuple):
    """Begin of a pass of a pipeline stage; rows up to the next pass belong to it.

    `kind` is 'forward', 'backward' or 'weights'; `chunk` counts the stages of this rank.
    """

    kind: str
    chunk: int
    micro_batch: int


class Transfer(NamedTuple):
    """Message of a pass of a pipeline stage, in place of the Collective that carries it.

    `kind` is 'send' or 'receive', `phase` 'forward' or 'backward', `chunk` that of the pass, and
    `receiver` the chunk of the receiving pass. `peer` is the place of the other rank in the
    pipeline, and `tensors` the number of Collectives.
    """

    kind: str
    phase: str
    chunk: int
    micro_batch: int
    receiver: int
    peer: int
    size: int
    tensors: int = 1


Row = Union[Kernel, Collective, Mark, Pass, Transfer]


class Step(NamedTuple):
    """Optimizer step: its rows, its begin and end on the clock, and the calls of operators."""

    rows: "list[Row]"
    begin: float
    end: float
    operators: int
    cpu_s: float


class Record:
    """Rows since the last step, and the last complete step. Older rows are dropped.

    A step ends with the optimizer's update. Updates without a kernel of another phase between them
    (two optimizers) belong to one step.
    """

    def __init__(self) -> None:
        self.rows: "list[Row]" = []
        self.operators = 0
        self.last: "Step | None" = None
        self.durations: "list[float]" = []
        #: Processor seconds of the process at the end of the first step, of the cheapest later one.
        self.first_end_cpu_s: "float | None" = None
        self.least_cpu_s: "float | None" = None
        self._end: "float | None" = None
        self._cpu_s = 0.0
        self._busy = False

    def add(self, row: Row) -> None:
        """Appends a row."""
        self.rows.append(row)

    def note_pass(self) -> None:
        """Marks that a kernel outside the optimizer ran."""
        self._busy = True

    def end_step(self, moment: float, cpu_s: float) -> None:
        """Ends the current step.

        Parameters
        ----------
        moment : float
            Simulated time at which the streams are idle, seconds.
        cpu_s : float
            Processor time that the process has used, seconds.
        """
        if self._end is not None and not self._busy and self.last is not None:
            self.last.rows.extend(self.rows)
            self.last = self.last._replace(
                end=moment, operators=self.last.operators + self.operators
            )
            if self.durations:
                self.durations[-1] += moment - self._end
        else:
            begin = 0.0 if self._end is None else self._end
            step = Step(self.rows, begin, moment, self.operators, cpu_s - self._cpu_s)
            if self._end is None:
                self.first_end_cpu_s = cpu_s
            else:
                self.durations.append(moment - begin)
                self.least_cpu_s = min(step.cpu_s, self.least_cpu_s or step.cpu_s)
            self.last = step
        self.rows = []
        self.operators = 0
        self._end = moment
        self._cpu_s = cpu_s
        self._busy = False
