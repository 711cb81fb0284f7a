"""Policies in the manner of Pollux, AdaScale SGD and CASSINI decide alike in both worlds."""

import numpy as np
import pytest
from conftest import EXAMPLES, STRAGGLER
from slot_policies_test import SHORT

import orrery
from orrery import actions, events, settings
from orrery.values import Layout


def ended_step(seen):
    """Returns the newest step that ended since the last call, or -1."""
    return max((e.last for e in seen.events if isinstance(e, events.StepsDone)), default=-1)


def sampled_noise_scale(seen):
    """Returns the gradient noise scale of job 0 in sequences; 0: no sample."""
    scales = seen.samples.ranks(0)["noise_scale"]
    known = scales[np.isfinite(scales)]
    return float(known[0]) if len(known) else 0.0


class Goodput(orrery.Policy):
    """Pollux: the GPUs and the batch with the largest throughput x statistical efficiency.

    A micro-batch is one sequence. ``overhead``: seconds of a step beside its micro-batches.
    """

    def __init__(self, from_step, overhead=0.04):
        self.from_step, self.overhead = from_step, overhead
        self.noise, self.done = 0.0, False

    def needs(self):
        return orrery.Needs(actions=[actions.Assign], settings=[settings.Batch])

    def observe(self, seen, decisions):
        step = ended_step(seen)
        if self.done or step < 0:
            return
        self.noise = sampled_noise_scale(seen) or self.noise
        if self.noise == 0 or step < self.from_step:
            return
        self.done = True
        spec = seen.jobs[0].spec
        choices = [
            (gpus, batch)
            for gpus in (4, 8)
            for batch in (spec.micro_batches, 2 * spec.micro_batches)
            if batch <= gpus * spec.max_micro_batches
        ]
        gpus, batch = max(choices, key=lambda choice: self.goodput(spec, *choice))
        gain = (1 + self.noise / spec.micro_batches) / (1 + self.noise / batch)
        decisions.configure(0, settings.Batch(batch, gain), why=f"noise scale {self.noise:.3g}")
        where = actions.Assign(0, list(range(gpus)), Layout(data=gpus), state="peer")
        decisions.add(where, why=f"{gpus} GPUs have the largest goodput")

    def goodput(self, spec, gpus, batch):
        seconds = spec.nominal_micro_batch_time * -(-batch // gpus) + self.overhead
        efficiency = (self.noise + spec.micro_batches) / (self.noise + batch)
        return batch / seconds * efficiency

    def save(self):
        return f"{self.noise} {int(self.done)}".encode()


class AdaScale(orrery.Policy):
    """AdaScale SGD: a batch S times as large, with the gain of the gradient's variance.

    ``scales``: S by step; the batch applies from three steps later on.
    """

    def __init__(self, scales):
        self.scales, self.noise, self.gains = scales, 0.0, []

    def needs(self):
        return orrery.Needs(settings=[settings.Batch])

    def observe(self, seen, decisions):
        step = ended_step(seen)
        if step < 0:
            return
        self.noise = sampled_noise_scale(seen) or self.noise
        if step not in self.scales:
            return
        base, scale = seen.jobs[0].spec.micro_batches, self.scales[step]
        gain = (self.noise / base + 1) / (self.noise / base / scale + 1)
        self.gains.append(gain)
        batch = settings.Batch(base * scale, gain)
        decisions.configure(0, batch, at_step=step + 3, why=f"S = {scale}, gain {gain:.3f}")

    def save(self):
        return f"{self.noise} {self.gains}".encode()


class Interleaving(orrery.Policy):
    """CASSINI: one job starts its step later, so that it computes while the other one exchanges."""

    def __init__(self, job, seconds, from_step=3):
        self.job, self.seconds, self.from_step = job, seconds, from_step
        self.done, self.times = False, []

    def needs(self):
        return orrery.Needs(settings=[settings.Delay])

    def observe(self, seen, decisions):
        for event in seen.events:
            if not isinstance(event, events.StepsDone) or event.job != self.job:
                continue
            self.times += [event.duration / event.count] * event.count
            if event.last >= self.from_step and not self.done and self.seconds > 0:
                self.done = True
                shift = settings.Delay(self.seconds)
                decisions.configure(self.job, shift, at_step=event.last + 3, why="time shift")

    def save(self):
        return f"{int(self.done)}".encode()


class Watch(orrery.Policy):
    """Outcomes, batches and placements, as any policy sees them."""

    def __init__(self):
        self.outcomes, self.batches, self.sizes = [], [], []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.Decided):
                self.outcomes.append((event.status, event.reason))
            if isinstance(event, events.StepsDone) and seen.jobs[0].gpus:
                job = seen.jobs[0]
                if job.batch.micro_batches not in self.batches[-1:]:
                    self.batches.append(job.batch.micro_batches)
                if len(job.gpus) not in self.sizes[-1:]:
                    self.sizes.append(len(job.gpus))


BASE = {**SHORT, "run.steps": 20, "elastic": True, "job.noise_scale": 30}


def in_both(make, tmp_path, **changes):
    """Runs a policy in both worlds, replays both logs and compares decisions and effects.

    Returns policy, watch and report of the simulated and of the live run.
    """
    results, decided = [], []
    overrides = {**BASE, **changes}
    for run in (orrery.simulate, orrery.live):
        policy, look, log = make(), Watch(), tmp_path / f"{run.__name__}.log"
        report = run(STRAGGLER, policies=[policy, look], record=log, overrides=overrides)
        assert report.steps_completed == overrides["run.steps"]
        assert report.micro_batches_lost == report.micro_batches_repeated == 0
        assert orrery.replay(log, policies=[make(), Watch()]).identical
        table = orrery.read_log(log).decisions
        rows = table[["job", "action", "setting", "parameters", "why", "outcome"]]
        decided.append(rows.values.tolist())
        results.append((policy, look, report))
    (_, simulated, _), (_, live, _) = results
    assert decided[1] == decided[0] and decided[0]
    assert live.outcomes == simulated.outcomes
    assert {status for status, _ in live.outcomes} == {"applied"}, live.outcomes
    assert live.batches == simulated.batches and live.sizes == simulated.sizes
    return results


def test_goodput_decides_gpus_and_batch(tmp_path):
    (_, look, simulated), (_, _, live) = in_both(lambda: Goodput(5), tmp_path)
    assert look.batches == [8, 16] and look.sizes == [4, 8]
    assert 20 * 8 < simulated.samples < 20 * 16 and 20 * 8 < live.samples < 20 * 16


def test_a_small_noise_scale_leaves_the_batch_as_it_is(tmp_path):
    (_, look, _), _ = in_both(lambda: Goodput(5), tmp_path, **{"job.noise_scale": 0.1})
    assert look.batches == [8] and look.sizes == [4, 8]


def test_a_larger_batch_has_the_gain_of_its_variance(tmp_path):
    results = in_both(lambda: AdaScale({4: 2, 11: 3}), tmp_path, **{"job.max_share": 8})
    for policy, look, report in results:
        assert look.batches == [8, 16, 24]
        gains = [(30 / 8 + 1) / (30 / 8 / scale + 1) for scale in (2, 3)]
        assert policy.gains == pytest.approx(gains) and 1 < gains[0] < 2 < gains[1] < 3
        assert report.samples == 7 * 8 + 7 * 16 + 6 * 24


def test_a_step_waits_as_long_as_was_asked(tmp_path):
    plain = orrery.live(STRAGGLER, policy="static", overrides=BASE)
    (_, _, simulated), (_, _, live) = in_both(lambda: Interleaving(0, 0.7), tmp_path)
    calm = orrery.simulate(STRAGGLER, policy="static", overrides=BASE)
    assert simulated.elapsed_s - calm.elapsed_s == pytest.approx(0.7, abs=1e-6)
    assert live.elapsed_s >= plain.elapsed_s + 0.35  # a busy machine slows down either
    assert live.parameters_sha256 == plain.parameters_sha256


def test_interleaved_jobs_do_not_slow_each_other_down():
    spine = EXAMPLES / "two-jobs-one-spine.yaml"
    steps = {"run.steps": 30, "jobs[0].steps": 30}
    times = {}
    for shift in (0, 0.26):
        policy = Interleaving(1, shift)
        orrery.simulate(spine, policies=[policy], overrides=steps)
        times[shift] = policy.times[10]
    assert times[0.26] < 0.8 * times[0]


def test_without_a_declaration_only_live_mode_knows_the_noise_scale():
    class Scales(orrery.Policy):
        def __init__(self):
            self.known = []

        def observe(self, seen, decisions):
            self.known += [scale for scale in [sampled_noise_scale(seen)] if scale > 0]

    overrides = {**SHORT, "run.steps": 20}
    simulated, live = Scales(), Scales()
    orrery.simulate(STRAGGLER, policies=[simulated], overrides=overrides)
    orrery.live(STRAGGLER, policies=[live], overrides=overrides)
    assert not simulated.known and len(set(live.known)) > 1


class Schedule(orrery.Policy):
    """A batch from a step on."""

    def __init__(self, at_step, batch):
        self.at_step, self.batch = at_step, batch

    def needs(self):
        return orrery.Needs(settings=[settings.Batch])

    def observe(self, seen, decisions):
        if any(isinstance(event, events.JobStarted) and event.from_ == 0 for event in seen.events):
            decisions.configure(0, self.batch, at_step=self.at_step, why="schedule")


def test_a_scheduled_batch_leaves_the_same_bits_despite_a_loss(tmp_path):
    overrides = {**SHORT, "run.steps": 12, "survival.on_loss": "replace"}
    hashes = {}
    for name, batch, faults in (
        ("calm", settings.Batch(12, 1.5), []),
        ("killed", settings.Batch(12, 1.5), [{"at_step": 8, "rank": 1, "kill": True}]),
        ("rate", settings.Batch(12, 1.0), []),
        ("size", settings.Batch(8, 1.5), []),
    ):
        record = tmp_path / f"{name}.log"
        report = orrery.live(
            STRAGGLER,
            policies=[Schedule(5, batch)],
            record=record,
            overrides={**overrides, "faults": faults},
        )
        assert report.samples == 5 * 8 + 7 * batch.micro_batches
        assert orrery.replay(record, policies=[Schedule(5, batch)]).identical
        hashes[name] = report.parameters_sha256
    assert hashes["killed"] == hashes["calm"]
    assert len({hashes["calm"], hashes["rate"], hashes["size"]}) == 3
