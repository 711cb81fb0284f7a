"""orrery convert: scenarios, topologies and logs in the newest format; and the key `format`."""

import json

import pytest
from conftest import EXAMPLES, ROOT, STRAGGLER, orrery

LOGS = ROOT / "tests" / "policies" / "record" / "logs"


def scenario_with(tmp_path, first, text=None):
    file = tmp_path / "train.yaml"
    file.write_text(first + (text or STRAGGLER.read_text()))
    return file


def test_a_scenario_may_state_its_format(tmp_path):
    file = scenario_with(tmp_path, 'format: "1.0"\n')
    stated = json.loads(orrery("simulate", file, "--json", "--set", "run.steps=2").stdout)
    plain = json.loads(orrery("simulate", STRAGGLER, "--json", "--set", "run.steps=2").stdout)
    assert stated["scenario_hash"] == plain["scenario_hash"]
    assert stated["decision_trace_sha256"] == plain["decision_trace_sha256"]


@pytest.mark.parametrize("command", ["simulate", "check", "live"])
def test_a_newer_format_is_refused_by_name(tmp_path, command):
    refused = orrery(command, scenario_with(tmp_path, "format: 2.0\n"))
    assert refused.returncode == 3
    assert ("train.yaml:1:9: error: expected format 0.9 to 1.0, found '2.0'; the file needs a "
            "newer orrery") in refused.stderr  # fmt: skip


def test_an_earlier_format_keeps_its_meaning(tmp_path):
    month = (EXAMPLES / "month-10k-h100.yaml").read_text()
    before = scenario_with(tmp_path, "format: 0.9\n", month)
    to = tmp_path / "now.yaml"
    done = orrery("convert", before, "-o", to)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{before}: scenario, format 0.9; {to}: format 1.0",
        "added failures.until: 60 d (the default before)",
    ]
    assert to.read_text() == (
        'format: "1.0"\n' + month.replace("failures:\n", 'failures:\n  until: "60 d"\n')
    )
    hashes = {orrery("check", file).stdout.split()[-1] for file in (before, to)}
    assert len(hashes) == 1
    assert hashes != {orrery("check", EXAMPLES / "month-10k-h100.yaml").stdout.split()[-1]}


def test_a_file_without_a_format_gets_it_in_place(tmp_path):
    file = scenario_with(tmp_path, "")
    first = orrery("convert", file, "-o", file)
    assert (first.returncode, first.stdout.count("\n")) == (0, 1), first.stderr
    once = file.read_text()
    assert once.count('format: "1.0"') == 1 and orrery("check", file).returncode == 0
    orrery("convert", file, "-o", file)
    assert file.read_text() == once
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("# two nodes\npreset: dgx-h100\nnodes: 2\n")
    assert orrery("convert", cluster, "-o", cluster, "--from", "0.9").returncode == 0
    assert cluster.read_text() == '# two nodes\nformat: "1.0"\npreset: dgx-h100\nnodes: 2\n'
    assert orrery("check", cluster).returncode == 0


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_log_of_an_earlier_format_is_written_as_a_new_one(tmp_path, number):
    new = tmp_path / "new.log"
    done = orrery("convert", LOGS / f"format-{number}.log", "-o", new)
    assert done.returncode == 0, done.stderr
    assert f"format {number}; {new}: format 5" in done.stdout
    replayed = json.loads(orrery("replay", new, "--json").stdout)
    before = json.loads(orrery("replay", LOGS / f"format-{number}.log", "--json").stdout)
    assert replayed == before


def test_another_file_is_refused_and_nothing_is_written(tmp_path):
    out = tmp_path / "out"
    for file, reason in ((ROOT / "tests/traces/samples/log.swf", "found a job log (swf)"),
                         (ROOT / "tests/traces/samples/muri.csv", "found a job log (muri)"),
                         (tmp_path / "none", "cannot be read")):  # fmt: skip
        refused = orrery("convert", file, "-o", out)
        assert refused.returncode == 3 and reason in refused.stderr, refused.stderr
    damaged = tmp_path / "damaged.log"
    damaged.write_bytes((LOGS / "format-4.log").read_bytes()[:-40])
    assert orrery("convert", damaged, "-o", out).returncode == 3
    assert not out.exists()
    assert orrery("convert", STRAGGLER).returncode == 2
    assert orrery("convert", STRAGGLER, "-o", out, "--from", "0.5").returncode == 2


def test_the_schema_for_editors_knows_the_key():
    for kind in ("scenario", "topology", "jobs"):
        schema = json.loads(orrery("schema", kind).stdout)
        assert schema["properties"]["format"]["examples"] == ["1.0"]
