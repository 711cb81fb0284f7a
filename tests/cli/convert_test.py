"""orrery convert: scenarios, topologies and logs in the newest format; and the key `format`."""

import json
import re

import pytest
from conftest import EXAMPLES, ROOT, STRAGGLER, orrery
from import_test import step_of
from predict_test import HEADER, ROW

LOGS = ROOT / "tests" / "policies" / "record" / "logs"


def scenario_with(tmp_path, first, text=None):
    file = tmp_path / "train.yaml"
    file.write_text(first + (text or STRAGGLER.read_text()))
    return file


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_scenario_may_state_its_format(tmp_path, version):
    file = scenario_with(tmp_path, f'format: "{version}"\n')
    stated = json.loads(orrery("simulate", file, "--json", "--set", "run.steps=2").stdout)
    plain = json.loads(orrery("simulate", STRAGGLER, "--json", "--set", "run.steps=2").stdout)
    assert stated["scenario_hash"] == plain["scenario_hash"]
    assert stated["decision_trace_sha256"] == plain["decision_trace_sha256"]


@pytest.mark.parametrize("command", ["simulate", "check", "live"])
def test_a_newer_format_is_refused_by_name(tmp_path, command):
    refused = orrery(command, scenario_with(tmp_path, "format: 2.0\n"))
    assert refused.returncode == 3
    assert ("train.yaml:1:9: error: expected format 0.9 to 1.1, found '2.0'; the file needs a "
            "newer orrery") in refused.stderr  # fmt: skip


def test_an_earlier_format_keeps_its_meaning(tmp_path):
    month = (EXAMPLES / "month-10k-h100.yaml").read_text()
    before = scenario_with(tmp_path, "format: 0.9\n", month)
    to = tmp_path / "now.yaml"
    done = orrery("convert", before, "-o", to)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{before}: scenario, format 0.9; {to}: format 1.1",
        "added failures.until: 60 d (the default before)",
    ]
    assert to.read_text() == (
        'format: "1.1"\n' + month.replace("failures:\n", 'failures:\n  until: "60 d"\n')
    )
    hashes = {orrery("check", file).stdout.split()[-1] for file in (before, to)}
    assert len(hashes) == 1
    assert hashes != {orrery("check", EXAMPLES / "month-10k-h100.yaml").stdout.split()[-1]}


def test_a_file_without_a_format_gets_it_in_place(tmp_path):
    file = scenario_with(tmp_path, "")
    first = orrery("convert", file, "-o", file)
    assert (first.returncode, first.stdout.count("\n")) == (0, 1), first.stderr
    once = file.read_text()
    assert once.count('format: "1.1"') == 1 and orrery("check", file).returncode == 0
    orrery("convert", file, "-o", file)
    assert file.read_text() == once
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("# two nodes\npreset: dgx-h100\nnodes: 2\n")
    assert orrery("convert", cluster, "-o", cluster, "--from", "0.9").returncode == 0
    assert cluster.read_text() == '# two nodes\nformat: "1.1"\npreset: dgx-h100\nnodes: 2\n'
    assert orrery("check", cluster).returncode == 0


def with_earlier_checkpoints(text):
    """Returns the text of a scenario with its checkpoints under `live`, as before format 1.1."""
    before, key, after = text.partition("\ncheckpoints:\n")
    block, end, rest = after.partition("\n\n")
    lines = [key.strip("\n"), *block.split("\n")]
    return f"{before}\nlive:\n" + "\n".join(f"  {line}" for line in lines) + end + rest


@pytest.mark.parametrize("version", ['format: "1.0"\n', 'format: "1.1"\n', ""])
def test_checkpoints_under_live_are_those_of_the_scenario(tmp_path, version):
    month = (EXAMPLES / "month-10k-h100.yaml").read_text()
    before = scenario_with(tmp_path, version, with_earlier_checkpoints(month))
    assert "\nlive:\n  checkpoints:\n    folder: kept\n" in before.read_text()
    reports = [json.loads(orrery("simulate", file, "--json", "--set", "run.steps=200").stdout)
               for file in (EXAMPLES / "month-10k-h100.yaml", before)]  # fmt: skip
    for report in reports:
        del report["host"]
    assert reports[0] == reports[1]
    to = tmp_path / "now.yaml"
    done = orrery("convert", before, "-o", to)
    assert done.stdout.splitlines()[1:] == ["moved live.checkpoints to checkpoints"], done.stderr
    assert to.read_text().replace('format: "1.1"\n', "", 1) == month


def test_two_values_for_checkpoints_are_refused_with_the_remedy(tmp_path):
    month = (EXAMPLES / "month-10k-h100.yaml").read_text()
    file = scenario_with(tmp_path, "live: {checkpoints: {folder: other}}\n", month)
    for command in (("check",), ("simulate",), ("convert", "-o", tmp_path / "out.yaml")):
        refused = orrery(command[0], file, *command[1:])
        assert refused.returncode == 3
        assert f"{file}:1:8: error: expected 'checkpoints' once" in refused.stderr
        assert "leave 'checkpoints' out here" in refused.stderr
    same = month.partition("\ncheckpoints:")[2].partition("\n\n")[0].replace("\n", "\n   ")
    file = scenario_with(tmp_path, f"live:\n  checkpoints:{same}\n", month)
    assert orrery("check", file).returncode == 0


def test_both_paths_of_checkpoints_are_overrides():
    reports = [json.loads(orrery("simulate", "month-10k-h100", "--json", "--set", "run.steps=50",
                                 "--set", f"{path}=7").stdout)
               for path in ("checkpoints.every", "live.checkpoints.every")]  # fmt: skip
    for report in reports:
        del report["host"]
    assert reports[0] == reports[1]
    refused = orrery("simulate", "month-10k-h100", "--set", "live.chekpoints.every=7")
    assert refused.returncode == 3
    assert "did you mean 'checkpoints' at the top of the file?" in refused.stderr


@pytest.mark.parametrize("number", [2, 3, 4])
def test_a_log_of_an_earlier_format_is_written_as_a_new_one(tmp_path, number):
    new = tmp_path / "new.log"
    done = orrery("convert", LOGS / f"format-{number}.log", "-o", new)
    assert done.returncode == 0, done.stderr
    assert f"format {number}.0; {new}: format 5.1" in done.stdout
    replayed = json.loads(orrery("replay", new, "--json").stdout)
    before = json.loads(orrery("replay", LOGS / f"format-{number}.log", "--json").stdout)
    assert replayed == before


def log_of_format(tmp_path, number, version):
    """Returns a log whose header states MAJOR.MINOR: its field 1 is MAJOR + 65,536 MINOR."""
    new = tmp_path / "new.log"
    orrery("convert", LOGS / f"format-{number}.log", "-o", new)
    data = new.read_bytes()
    number_of_bytes = rb"[\x80-\xff]*[\x00-\x7f]"
    head = re.match(number_of_bytes + rb"\x0a" + number_of_bytes + rb"\x08\x85\x80\x04", data).end()

    def varint(value):
        return (bytes([value & 127 | 128]) + varint(value >> 7)) if value > 127 else bytes([value])

    def number_at(at):
        value, shift = 0, 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at

    size, at = number_at(0)
    inner, body = number_at(at + 1)
    header = b"\x08" + varint(version[0] + 65536 * version[1]) + data[head:body + inner]
    record = b"\x0a" + varint(len(header)) + header
    newer = tmp_path / "newer.log"
    newer.write_bytes(varint(len(record)) + record + data[at + size:])
    return newer


def test_a_log_of_a_newer_minor_is_read_with_a_note(tmp_path):
    newer, out = log_of_format(tmp_path, 4, (5, 3)), tmp_path / "out.log"
    note = f"note: {newer} has log format 5.3, this orrery knows 5.1: fields that it does not know"
    done = orrery("convert", newer, "-o", out)
    assert done.stdout.splitlines() == [
        f"{newer}: log of 21 calls, format 5.3; {out}: format 5.3",
        "nothing changed: this orrery writes log format 5.1, and keeps a newer one",
    ]
    assert orrery("replay", out).stdout.startswith("identical: 21 calls")
    for command in (("replay", newer), ("replay", newer, "--under", "recover"),
                    ("simulate", "--from", newer)):  # fmt: skip
        assert orrery(*command).stderr.count(note) == 1, command
    assert "note:" not in orrery("replay", LOGS / "format-4.log").stderr


def test_a_log_of_a_newer_major_is_refused_with_the_remedy(tmp_path):
    newer = log_of_format(tmp_path, 4, (6, 1))
    for command in (("replay", newer), ("convert", newer, "-o", tmp_path / "out.log"),
                    ("simulate", "--from", newer)):  # fmt: skip
        refused = orrery(*command)
        assert refused.returncode == 3
        assert "expected log format 2.0 to 5.x, found format 6.1; read the log" in refused.stderr
        assert "'orrery --version' prints the version" in refused.stderr
    assert not (tmp_path / "out.log").exists()


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
        assert schema["properties"]["format"]["examples"] == ["1.1"]


SECTIONS = {  # writers of parts of files, and of files that are not of a kind with a format
    "cli/commands/calibrate.cpp": "profiles of machines and kernels",
    "cli/commands/fit.cpp": "the section `failures` of a scenario",
    "cli/commands/import.cpp": "the key `model` of a job",
    "cli/shared/run_calibration.cpp": "a stack of software",
}


def written_files(tmp_path):
    """Yields the files that the commands write, for each command that writes such a file."""
    asked = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 8)
    layout, plan = tmp_path / "layout.yaml", tmp_path / "plan.yaml"
    yield layout, orrery("layouts", *asked, "--scenario", layout)
    yield plan, orrery("plan", *asked, "--tokens", "1B", "--scenario", plan)
    cases = tmp_path / "cases.csv"
    cases.write_text(HEADER + ROW.format(time=""))
    yield tmp_path / "a.yaml", orrery(
        "predict", cases, "-o", tmp_path / "out.csv", "--scenarios", tmp_path)
    cluster, trace = tmp_path / "cluster.yaml", tmp_path / "trace.yaml"
    facts = ROOT / "tests" / "traces" / "clusters" / "samples" / "topology.conf"
    yield cluster, orrery("import", "cluster-file", facts, "--gpu", "H100", "-o", cluster)
    yield trace, orrery("import", "chakra", step_of(tmp_path), "-o", trace)


def test_every_written_file_states_its_format(tmp_path):
    for file, done in written_files(tmp_path):
        assert done.returncode == 0, done.stderr
        head = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert head[0] == 'format: "1.1"' and "format" not in "".join(head[1:]), file
        assert orrery("check", file).returncode == 0, file


def test_no_other_code_writes_yaml_without_its_format():
    writers = {str(file.relative_to(ROOT)) for room in ("cli", "sim", "live", "python")
               for file in (ROOT / room).rglob("*.cpp")
               if re.search(r"\bto_yaml\(", file.read_text())}  # fmt: skip
    assert writers == set(SECTIONS)
