"""EASY backfilling on any free resources, on pybatsim's low-level interface. Usage: pybatsim
PATH/easy.py."""

from fifo import Fifo


class Easy(Fifo):
    """Starts jobs behind the first waiting one if they do not delay its reservation."""

    def schedule(self):
        started = super().schedule()
        if len(self.waiting) < 2:
            return started
        first, free = self.waiting[0].requested_resources, self.free
        # The smaller one of equal ends is first, as in policies/queues/expected_ends.hpp.
        for job in sorted(self.running, key=lambda each: (each.end, each.requested_resources)):
            free += job.requested_resources
            shadow = job.end
            if free >= first:
                break
        extra = free - first  # resources that the reservation leaves free
        for job in self.waiting[1:]:
            ends_before = self.bs.time() + job.requested_time <= shadow
            room = self.free if ends_before else min(self.free, extra)
            if job.requested_resources <= room:
                extra -= 0 if ends_before else job.requested_resources
                started.append(self.start(job))
        return started
