"""A recorded log through the same policies."""

import json

from conftest import STRAGGLER, orrery


def test_replay_agrees_until_a_threshold_changes(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    same = orrery("replay", log, "--json")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["first_difference"] is None
    changed = orrery("replay", log, "--set", "predictive-rebalance.gain_threshold=9")
    assert changed.returncode == 1
    assert "first difference" in changed.stderr


def test_a_torn_log_is_bad_input(tmp_path):
    log = tmp_path / "log"
    assert orrery("simulate", STRAGGLER, "--record", log).returncode == 0
    log.write_bytes(log.read_bytes()[:-9])
    result = orrery("replay", log)
    assert result.returncode == 3
    assert str(log) in result.stderr
