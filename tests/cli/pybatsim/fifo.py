"""First come, first served on any free resources, on pybatsim's low-level interface.
Usage: pybatsim PATH/fifo.py."""

from itertools import islice

from batsim.batsim import BatsimScheduler
from procset import ProcSet


class Fifo(BatsimScheduler):
    """Starts waiting jobs in the order of their submission, once for each message."""

    def onSimulationBegins(self):
        self.free = self.bs.nb_compute_resources
        self.places = ProcSet((0, self.free - 1))
        self.waiting, self.running = [], []

    def onJobSubmission(self, job):
        self.waiting.append(job)

    def onJobCompletion(self, job):
        self.running.remove(job)
        self.free += job.requested_resources
        self.places |= job.allocation

    def onNoMoreEvents(self):
        self.bs.execute_jobs(self.schedule())

    def start(self, job):
        """Takes the lowest free resources for the job."""
        size = job.requested_resources
        job.allocation = ProcSet(*islice(self.places, size))
        job.end = self.bs.time() + job.requested_time
        self.places -= job.allocation
        self.free -= size
        self.waiting.remove(job)
        self.running.append(job)
        return job

    def schedule(self):
        """Starts jobs and returns them."""
        started = []
        while self.waiting and self.waiting[0].requested_resources <= self.free:
            started.append(self.start(self.waiting[0]))
        return started
