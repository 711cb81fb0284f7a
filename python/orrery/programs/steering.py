"""Steps of a rank under policies (`orrery run --policy`): reports, and plans that begin at a step.

A step is an item of `orrery.torch.state().steps(...)`, in a program without that call an optimizer
step. The first optimizer step of each rank waits until the policies have started.
"""

import time
from typing import Any, Optional

from .own_saves import follow_trainer


class Steering:
    """Steps of this rank, and the plans that hold for them.

    Attributes
    ----------
    sharing : Sharing
        Shares of the examples that a policy has set (sharing.py).
    every : int, optional
        Steps between two snapshots, where a policy has set them.
    prefetching : Prefetching
        Readers of the training data that a policy has set (prefetching.py).

    Parameters
    ----------
    attachment : Attachment
        Attachment of this process.
    """

    def __init__(self, attachment: Any) -> None:
        from .prefetching import Prefetching
        from .sharing import Sharing

        self.every: Optional[int] = None
        self.sharing = Sharing(attachment.weighs)
        self.prefetching = Prefetching()
        self._attachment = attachment
        self._training: Any = None
        self._own_saves: Any = None
        self._has_begun = False
        self._saves = False
        self._begin_s = time.monotonic()

    @property
    def step(self) -> int:
        """Number of steps that this rank has done."""
        steps: int = self._attachment.steps if self._training is None else self._training.step
        return steps

    def use_steps_of(self, training: Any) -> None:
        """Counts the steps of a TrainingState from now on, in place of optimizer steps."""
        self._training = training

    def before_update(self, *_: Any) -> None:
        """Measures the compute of this step, and waits in the first one for the policies."""
        module = self._attachment.started_module
        if module is not None and self._has_begun:
            module.mark_update()
            return
        module = self._attachment.module()
        if module is None:
            return
        module.mark_begin(self._begin_s)
        module.mark_update()
        self._announce(module)

    def ends_with_update(self) -> bool:
        """Return True if a step ends with its optimizer step: no TrainingState counts the steps."""
        return self._has_begun and self._training is None

    def end_step(self) -> None:
        """Reports the end of a step; begins the next one, and applies the plans for it."""
        attachment, training = self._attachment, self._training
        module = attachment.started_module
        if module is None or not self._has_begun:
            return
        steps = attachment.steps if training is None else training.step
        if self._own_saves is not None:
            self._own_saves.plan_step(steps, self.every, self.drain_save())
        workers, depth = self.prefetching.in_force
        plans = module.end_step(
            *(steps, self.sharing.batch or 1, attachment.input_s, workers, depth, training is None)
        )
        if plans:
            self._apply(plans)

    def begin_step(self) -> None:
        """Begins the measurement of the next step anew, behind the work between two steps."""
        self._begin_s = time.monotonic()
        module = self._attachment.started_module
        if module is not None and self._has_begun:
            module.mark_begin(self._begin_s)

    def drain_save(self) -> bool:
        """Return True once for each snapshot that a policy has ordered."""
        saves, self._saves = self._saves, False
        return saves

    def report_save(self, is_complete: bool, stalled_s: float) -> None:
        """Reports the snapshot of this step, or that the snapshot has failed."""
        kind = "snapshot" if is_complete else "unsaved"
        self._attachment.send_fields(kind, str(self.step), str(stalled_s))

    def _announce(self, module: Any) -> None:
        state, every, no_saves = "", 0, ""
        if self._training is not None:
            state, every = self._training.kind, self._training.every
        else:
            self._own_saves, no_saves = follow_trainer(self.report_save)
            if self._own_saves is not None:
                state, every = "own", self._own_saves.every
        no_codes = self._attachment.buckets.problem()
        readers = self.prefetching.facts()
        no_table = self._attachment.collectives.problem()
        fields = [self.step, state, every, *self.sharing.facts(), no_codes, *readers, no_saves]
        steps = self._attachment.trainer_steps
        fields += [no_table, int(steps is not None and steps.admits_joins)]
        module.send_fields(["ready", *map(str, fields)])
        module.start_measuring()
        module.wait_until_begun()
        self._has_begun = True
        self._apply(module.begin_step(self.step))

    def _apply(self, plans: "list[str]") -> None:
        for plan in plans:
            kind, *words = plan.split()
            if kind == "every":
                self.every = int(words[0])
            elif kind == "save":
                self._saves = True
            elif kind == "codecs":
                self._attachment.buckets.set_codec(words[0], float(words[1]), words[2] == "1")
            elif kind == "table":
                self._attachment.collectives.set_table(int(words[0]))
            elif kind == "prefetch":
                self.prefetching.target = (int(words[0]), int(words[1]))
            elif kind == "shares":
                pairs = [word.split(":") for word in words]
                self.sharing.shares = {int(rank): int(count) for rank, count in pairs}


def install(attachment: Any) -> Steering:
    """Return the steering of this process, which is called in each optimizer step."""
    from .updates import call_before_updates

    made = Steering(attachment)
    call_before_updates(made.before_update)
    return made
