"""Time that `orrery run` takes from the thread of a training step, for `./dev bench run`.

Counted are the calls that the attachment hooks into PyTorch: the report of an optimizer step, the
wait for a loader, the marks around a backward pass and before a forward pass; under policies also
the measurement before an optimizer step, and the records of batches and outputs. The operations of
the process group, and the thread that sends the reports, are not among them.
"""

import functools
import sys
import time
import types

from torch.optim import optimizer


class OwnTime:
    """Seconds of the attachment's calls in this rank; all 0 outside `orrery run`."""

    def __init__(self):
        self.spent_s = 0.0
        running = sys.modules.get("orrery_programs.running")
        attachment = getattr(running, "attachment", None)
        if attachment is None:
            return
        pre, post = optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks
        for hooks in (pre, post):
            for key, hook in list(hooks.items()):
                hooks[key] = self._timed(hook)
        self._time_methods(attachment, "note_input")
        self._time_methods(attachment.buckets, "note_forward")
        begin = self._timed(attachment.buckets.begin_backward)
        attachment.buckets.begin_backward = lambda: self._with_timed_end(begin())
        if attachment.steering is not None:
            self._time_methods(attachment.steering.sharing, "note_batch", "weigh_output")
            self._time_methods(attachment.steering.prefetching, "note_batch")

    def _time_methods(self, instance, *names):
        """Adds the time of methods of an object from now on."""
        for name in names:
            setattr(instance, name, self._timed(getattr(instance, name)))

    def _with_timed_end(self, module):
        """An object whose end_backward() is that of the module, with its time added."""
        end = None if module is None else self._timed(module.end_backward)
        return None if end is None else types.SimpleNamespace(end_backward=end)

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
