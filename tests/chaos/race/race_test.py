"""The schedule and the counting of race.py: without PyTorch, and without a contender."""

import itertools
import json
import os
import pathlib
import tempfile
import types
import unittest

import counting
import race
import schedule


def drawn(seed, count=300):
    return list(itertools.islice(schedule.draw_faults(seed, 30.0, 4), count))


def tally_of(*updates, ranks=2):
    tally = counting.Tally(ranks)
    for at_s, rank, ids in updates:
        tally.add({"at_s": at_s, "rank": rank, "step": 0, "ids": ids})
    return tally


class Schedule(unittest.TestCase):
    def test_a_seed_has_one_schedule(self):
        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))

    def test_distances_have_the_mean_and_kinds_and_ranks_are_equally_frequent(self):
        faults = drawn(1, 3000)
        self.assertAlmostEqual(faults[-1].at_s / len(faults), 30.0, delta=3.0)
        for kind in schedule.KINDS:
            self.assertEqual(sum(fault.kind == kind for fault in faults), 1000)
        for rank in range(4):
            self.assertAlmostEqual(sum(fault.rank == rank for fault in faults), 750, delta=100)

    def test_every_contender_gets_it_although_it_looks_at_other_instants(self):
        struck = []
        for looks in (range(0, 400, 1), range(0, 400, 7)):
            with tempfile.TemporaryDirectory() as folder:
                contender = types.SimpleNamespace(
                    pid_of=lambda rank: os.getpid(), folder=pathlib.Path(folder)
                )
                faults = race.Faults(schedule.draw_faults(5, 30.0, 4), contender, 100.0)
                sent = []
                faults._strike = lambda fault, now_s, sent=sent: sent.append(fault) or True
                for now_s in looks:
                    faults.apply_due(100.0 + now_s)
                struck.append([fault for fault in sent if fault.at_s < 390])
        self.assertEqual(struck[0], struck[1])
        self.assertGreater(len(struck[0]), 5)

    def test_a_fault_of_a_rank_that_is_away_is_missed(self):
        gone = types.SimpleNamespace(pid_of=lambda rank: 2**22 + 1, folder=pathlib.Path("/"))
        faults = race.Faults(iter(drawn(1)), gone, 0.0)
        faults.apply_due(200.0)
        self.assertEqual(faults.struck, [])
        self.assertEqual(faults.missed, sum(fault.at_s <= 200.0 for fault in drawn(1)))


class Counting(unittest.TestCase):
    def test_all_examples_of_an_undisturbed_run_are_trained_once(self):
        tally = tally_of((1, 0, [0, 2]), (1, 1, [1, 3]), (2, 0, [4, 6]), (2, 1, [5, 7]))
        self.assertEqual((len(tally.trained), tally.never, tally.twice), (8, 0, 0))

    def test_examples_that_a_rank_skipped_are_never_trained(self):
        tally = tally_of((1, 0, [0, 2]), (1, 1, [1, 3]), (2, 0, [4, 6]), (3, 1, [9, 11]))
        self.assertEqual((len(tally.trained), tally.never, tally.twice), (8, 2, 0))

    def test_examples_that_another_rank_trained_count(self):
        tally = tally_of((1, 0, [0, 2, 1]), (2, 0, [4, 3]), (3, 1, [5]))
        self.assertEqual((len(tally.trained), tally.never, tally.twice), (6, 0, 0))

    def test_steps_after_a_restart_are_trained_twice_once(self):
        tally = tally_of((1, 0, [0, 2]), (2, 0, [4, 6]), (3, 0, [4, 6]), (4, 0, [4, 6]))
        self.assertEqual((len(tally.trained), tally.never, tally.twice), (4, 0, 2))

    def test_the_lost_time_is_the_longest_pause_without_new_examples_beyond_a_step(self):
        steps = [(at_s, 0, [2 * at_s]) for at_s in range(10)]
        restart = [(13, 0, [16]), (14, 0, [18]), (15, 0, [20]), (16, 0, [22])]
        tally = tally_of(*steps, *restart)
        self.assertEqual(tally.median_step_s(), 1.0)
        self.assertEqual(tally.lost_s(9.5, 20.0), 5.0)  # the pause from 9 to the new example at 15
        self.assertEqual(tally.lost_s(2.5, 6.0), 0.0)
        self.assertEqual(tally.lost_s(2.5, 9.5), 0.0)  # the pause is the next fault's, at 9.5
        self.assertEqual(tally.lost_s(9.2, 9.5), 5.0)  # both faults explain it
        self.assertIsNone(tally.lost_s(16.5, 20.0))

    def test_a_rank_returns_with_its_first_update_after_the_loss(self):
        tally = tally_of((1, 0, [0]), (2, 1, [1]), (5, 1, [3]), (7, 0, [2]), (8, 0, [4]))
        self.assertEqual(tally.return_s(0, 1.5), 5.5)
        self.assertIsNone(tally.return_s(1, 6))

    def test_a_line_that_is_being_written_is_read_later(self):
        with tempfile.TemporaryDirectory() as folder:
            tally = counting.Tally(2)
            updates = counting.Updates(folder, tally)
            updates.read()
            line = json.dumps({"at_s": 1, "rank": 0, "step": 1, "ids": [0, 2]}) + "\n"
            path = pathlib.Path(folder) / "updates"
            path.write_text(line + line[:20])
            updates.read()
            self.assertEqual(len(tally.instants[0]), 1)
            path.write_text(line + line)
            updates.read()
            updates.read()
            self.assertEqual(len(tally.instants[0]), 2)


class Tables(unittest.TestCase):
    COMMON = {"seed": 1, "day": "2026-01-02", "load": 1.0, "median_step_s": 0.2}

    def test_the_page_has_both_tables_and_keeps_the_rest(self):
        kills = [{**self.COMMON, "mode": "kill", "contender": name, "number": number,
                  "lost_s": lost_s}
                 for name, times in (("orrery-shrinks", (0.1, 0.3)),
                                     ("torchft-as-shipped", (None, None)))
                 for number, lost_s in enumerate(times)]  # fmt: skip
        whole = {**self.COMMON, "mode": "run", "contender": "torchrun", "examples": 100,
                 "mean_s": 30.0, "took_s": 12.4, "never": 3, "twice": 4, "felt": 2, "missed": 1,
                 "lost_s": [["kill", 9.0], ["slow", 0.5]], "return_s": [2.0, 12.3]}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "run.md"
            page.write_text(f"before\n{race.BEGIN}\nold\n{race.END}\nafter\n")
            race.write_section(page, [*kills, whole])
            lines = page.read_text().splitlines()
        self.assertEqual((lines[0], lines[-1]), ("before", "after"))
        self.assertNotIn("old", lines)
        self.assertIn("| `orrery-shrinks` | 2 | 2 | 0.30 s | 0.30 s | 0.20 s |", lines)
        self.assertIn("| `torchft-as-shipped` | 2 | 0 | the run | the run | 0.20 s |", lines)
        self.assertIn("| `torchrun` | 1 | 100 | 12 s | 3 | 4 | 2 of 3 | 9.00 s | 9.00 s | 12.3 s |",
                      lines)  # fmt: skip

    def test_recorded_runs_are_left_out_and_kills_go_in_turns(self):
        asked = types.SimpleNamespace(contenders="orrery,torchft", kills=2, examples=10, seed=1,
                                      mean=30.0)  # fmt: skip
        keys = list(race.planned(asked))
        self.assertEqual([(each["mode"], each["contender"]) for each in keys],
                         [("kill", "orrery"), ("kill", "torchft")] * 2
                         + [("run", "orrery"), ("run", "torchft")])  # fmt: skip
        self.assertEqual(len({tuple(each.items()) for each in keys}), 6)


if __name__ == "__main__":
    unittest.main()
