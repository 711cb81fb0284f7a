"""Policies in the manner of Pollux, AdaScale and CASSINI decide alike in both worlds."""

import numpy as np
import pytest
from conftest import EXAMPLES, STRAGGLER
from slot_policies_test import SHORT

import orrery
from orrery import actions, events, settings
from orrery.values import Layout


def last_step(seen):
    """Returns the newest step that ended, or -1."""
    return max((e.last for e in seen.events if isinstance(e, events.StepsDone)), default=-1)


def noise_scale(seen):
    """Returns the gradient noise scale in sequences; 0: not known yet."""
    scales = seen.samples.ranks(0)["noise_scale"]
    known = scales[np.isfinite(scales)]
    return float(known[0]) if len(known) else 0.0


class Goodput(orrery.Policy):
    """Pollux: the GPUs and the batch with the largest throughput x statistical efficiency."""

    def __init__(self, from_step):
        self.from_step, self.done = from_step, False

    def needs(self):
        return orrery.Needs(actions=[actions.Assign], settings=[settings.Batch])

    def observe(self, seen, decisions):
        if self.done or last_step(seen) < self.from_step:
            return
        job, noise = seen.jobs[0], noise_scale(seen)
        if noise == 0:
            return
        base, each = job.spec.micro_batches, job.spec.nominal_micro_batch_time

        def goodput(choice):
            gpus, batch = choice
            seconds = each * -(-batch // gpus) + 0.01
            return batch / seconds * (noise + base) / (noise + batch)

        most = job.spec.max_micro_batches
        gpus, batch = max(
            ((n, m) for n in (4, 8) for m in (base, 2 * base) if m <= n * most), key=goodput
        )
        self.done = True
        rate = (1 + noise / base) / (1 + noise / batch)
        decisions.configure(0, settings.Batch(batch, rate), why=f"noise scale {noise:.3g}")
        where = actions.Assign(0, list(range(gpus)), Layout(data=gpus), state="peer")
        decisions.add(where, why="goodput")


class AdaScale(orrery.Policy):
    """AdaScale: a batch `scale` times as large, with the gain of the gradient's variance."""

    def __init__(self, scale, every):
        self.scale, self.every, self.newest, self.gains = scale, every, -1, []

    def needs(self):
        return orrery.Needs(settings=[settings.Batch])

    def observe(self, seen, decisions):
        step = last_step(seen)
        noise = noise_scale(seen) if step >= self.newest + self.every else 0
        if noise == 0 or step + 2 >= seen.jobs[0].spec.steps:
            return
        self.newest = step
        base = seen.jobs[0].spec.micro_batches
        gain = (noise / base + 1) / (noise / base / self.scale + 1)
        self.gains.append(gain)
        decisions.configure(0, settings.Batch(base * self.scale, gain), why="gain")


class Interleaving(orrery.Policy):
    """CASSINI: one job starts its step while the other one computes, once."""

    def __init__(self, job, seconds, from_step=3):
        self.job, self.seconds, self.from_step, self.done = job, seconds, from_step, False
        self.times = []

    def needs(self):
        return orrery.Needs(settings=[settings.Delay])

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.StepsDone) and event.job == self.job:
                self.times += [event.duration / event.count] * event.count
                if event.last >= self.from_step and not self.done and self.seconds > 0:
                    self.done = True
                    decisions.configure(self.job, settings.Delay(self.seconds), why="phase")


class Watch(orrery.Policy):
    """Outcomes and batches, as any policy sees them."""

    def __init__(self):
        self.outcomes, self.batches, self.sizes = [], [], []

    def observe(self, seen, decisions):
        for event in seen.events:
            if isinstance(event, events.Decided):
                self.outcomes.append((event.status, event.reason))
            if isinstance(event, events.StepsDone) and event.job == 0 and seen.jobs[0].gpus:
                now = (seen.jobs[0].batch.micro_batches, len(seen.jobs[0].gpus))
                if now[0] not in self.batches[-1:]:
                    self.batches.append(now[0])
                if now[1] not in self.sizes[-1:]:
                    self.sizes.append(now[1])


BASE = {**SHORT, "run.steps": 20, "elastic": True, "job.noise_scale": 30}


def in_both(make, tmp_path, **changes):
    """Runs a policy in both worlds; returns policy, watch and report of each."""
    results = []
    for number, run in enumerate((orrery.simulate, orrery.live)):
        policy, look, record = make(), Watch(), tmp_path / f"{number}.log"
        overrides = {**BASE, **changes}
        report = run(STRAGGLER, policies=[policy, look], record=record, overrides=overrides)
        assert report.steps_completed == overrides["run.steps"]
        assert report.micro_batches_lost == report.micro_batches_repeated == 0
        assert orrery.replay(record, policies=[make(), Watch()]).identical
        results.append((policy, look, report))
    (_, simulated, _), (_, live, _) = results
    assert live.outcomes == simulated.outcomes
    assert {status for status, _ in live.outcomes} == {"applied"}, live.outcomes
    assert live.batches == simulated.batches and live.sizes == simulated.sizes
    return results


def test_goodput_decides_gpus_and_batch(tmp_path):
    (_, look, simulated), (_, _, live) = in_both(lambda: Goodput(5), tmp_path)
    assert look.batches == [8, 16] and look.sizes == [4, 8]
    assert 20 * 8 < simulated.samples < 20 * 16 and 20 * 8 < live.samples < 20 * 16


def test_a_larger_batch_has_the_gain_of_its_variance(tmp_path):
    results = in_both(lambda: AdaScale(2, 5), tmp_path)
    for policy, look, _ in results:
        assert look.batches == [8, 16]
        assert policy.gains and all(1 <= gain <= 2 for gain in policy.gains)
    assert results[0][0].gains[0] == pytest.approx((30 / 8 + 1) / (30 / 16 + 1))
    assert results[0][2].samples == results[1][2].samples


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
