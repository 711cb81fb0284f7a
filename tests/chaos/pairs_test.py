"""The checker of pairs.py finds each kind of loss: runs that only say so."""

import json
import pathlib
import tempfile
import time
import types
import unittest

import pairs

BITS = "ab" * 32
WHOLE = {"parameters_sha256": BITS, "micro_batches_lost": 0, "micro_batches_repeated": 0,
         "steps_completed": pairs.STEPS}
RESTORED = "it continues by itself from the newest complete checkpoint"


class Verdicts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        (pathlib.Path(self.folder.name) / f"step-{pairs.STEPS:012}.manifest").touch()

    def judge(self, report=WHOLE, code=0, err="", survivors=(), supervisor_killed=False,
              saved=0, continued=None, ends=True, sharded=False, killed=()):
        """Returns how a run of this end went, and what the checker finds wrong with it."""
        kept = pathlib.Path(self.folder.name)
        script = f"print({json.dumps(continued)!r})" if continued else "raise SystemExit(3)"
        run = types.SimpleNamespace(
            code=lambda: code, survivors=lambda: list(survivors), output=lambda: "", kept=kept,
            supervisor_killed=supervisor_killed, command=["python3", "-c", script],
            sharded=sharded, killed=set(killed))
        watch = types.SimpleNamespace(saved=saved, said=[])
        printed = [json.dumps(report) if report else "", err] if ends else None
        return pairs.verdict(run, watch, printed, BITS)

    def assert_wrong(self, words, **end):
        wrong = self.judge(**end)[1]
        self.assertTrue(any(words in line for line in wrong), wrong)

    def test_a_whole_run_is_whole(self):
        self.assertEqual(self.judge(survivors=[1, 2]), ("whole", []))
        self.assertEqual(self.judge(err=RESTORED), ("restored", []))
        self.assertEqual(self.judge(None, 1, continued=WHOLE | {"steps_completed": 21},
                                    saved=pairs.STEPS - 21), ("continued", []))

    def test_other_bits_and_micro_batches_are_found(self):
        self.assert_wrong("other bits", report=WHOLE | {"parameters_sha256": "cd" * 32})
        self.assert_wrong("lost or repeated", report=WHOLE | {"micro_batches_lost": 1})
        self.assert_wrong("lost or repeated", report=WHOLE | {"micro_batches_repeated": 1})
        self.assert_wrong("other bits", report=WHOLE | {"parameters_sha256": "cd" * 32}, code=6)

    def test_a_missing_last_checkpoint_is_found(self):
        for file in pathlib.Path(self.folder.name).iterdir():
            file.unlink()
        self.assert_wrong("no checkpoint of the last step")

    def test_a_run_that_ends_or_goes_back_while_a_rank_holds_the_state_is_found(self):
        self.assert_wrong("though 1 ranks were not killed", err=RESTORED, survivors=[7])
        self.assert_wrong("though 1 ranks were not killed", report=None, code=1, survivors=[7],
                          continued=WHOLE)
        self.assertEqual(self.judge(None, 5, survivors=[7], supervisor_killed=True,
                                    continued=WHOLE, saved=0), ("continued", []))

    def test_only_a_sharded_run_of_which_two_ranks_were_killed_may_go_back(self):
        gone = f"{pairs.places.STATE_LOST} 0 to 9 has been lost\n{RESTORED}"
        self.assertEqual(self.judge(err=gone, survivors=[7], sharded=True, killed=[1, 3]),
                         ("restored", []))
        for end in ({"sharded": True, "killed": [1]}, {"sharded": False, "killed": [1, 3]},
                    {"sharded": True, "killed": [1, 3], "err": RESTORED}):
            self.assert_wrong("back to a checkpoint", **{"err": gone, "survivors": [7]} | end)

    def test_a_case_that_struck_nothing_is_not_counted(self):
        book = pairs.Book(None)
        case = {"place": "one", "first": "cut_a_link", "second": "kill_a_rank", "gap_s": 1,
                "how": "whole", "wrong": []}
        for seed, struck in ((1, True), (2, False)):
            book.cases[seed] = case | {"seed": seed, "struck": struck}
        self.assertEqual([each["seed"] for each in book.counted()], [1])
        self.assertIn("| 1 | 1 | 0 |", list(book.table())[-1])

    def test_a_run_without_an_end_or_a_report_is_found(self):
        self.assert_wrong("did not end", ends=False)
        self.assert_wrong("without a report", report=None, continued=WHOLE)

    def test_a_continuation_that_fails_loses_a_checkpoint_or_bits_is_found(self):
        self.assert_wrong("no continuation", report=None, code=1)
        self.assert_wrong("was lost", report=None, code=1, saved=9, continued=WHOLE)
        self.assert_wrong("other bits", report=None, code=1,
                          continued=WHOLE | {"parameters_sha256": "cd" * 32})

    def test_silence_is_measured_until_the_status_says_something_new(self):
        status = {"step": 3, "events": [{"number": 1, "what": "begins"}]}
        run = types.SimpleNamespace(status=lambda: dict(status), over=lambda: False)
        watch = pairs.Watch(run)
        watch.start()
        time.sleep(1)
        status["step"] = 4
        time.sleep(0.5)
        watch.close()
        self.assertGreater(watch.longest, 0.8)
        self.assertLess(watch.longest, 2.5)


if __name__ == "__main__":
    unittest.main()
