"""Time that `orrery run` takes from the thread of a training step, for `./dev bench run`.

Counted are the calls that the attachment hooks into PyTorch: the report of an optimizer step, the
wait for a loader, the marks around a backward pass and before a forward pass. The operations of the
process group are not among them.
"""

import functools
import sys
import time

from torch.optim import optimizer


class OwnTime:
    """Seconds of the attachment's calls in this rank; all 0 outside `orrery run`."""

    def __init__(self):
        self.spent_s = 0.0
        running = sys.modules.get("orrery_programs.running")
        attachment = getattr(running, "attachment", None)
        if attachment is None:
            return
        hooks = optimizer._global_optimizer_post_hooks
        for key, hook in list(hooks.items()):
            hooks[key] = self._timed(hook)
        kind, buckets = type(attachment), type(attachment.buckets)
        kind.note_input = self._timed(kind.note_input)
        buckets.note_forward = self._timed(buckets.note_forward)
        buckets.run_backward = self._timed_around(buckets.run_backward)

    def _timed(self, call):
        """The call, with its time added."""

        @functools.wraps(call)
        def timed(*arguments, **named):
            begin = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self.spent_s += time.perf_counter() - begin

        return timed

    def _timed_around(self, call):
        """The call, with its time added without that of the backward pass in it."""

        def timed(buckets, backward):
            def subtracted():
                begin = time.perf_counter()
                try:
                    backward()
                finally:
                    self.spent_s -= time.perf_counter() - begin

            begin = time.perf_counter()
            try:
                call(buckets, subtracted)
            finally:
                self.spent_s += time.perf_counter() - begin

        return timed
