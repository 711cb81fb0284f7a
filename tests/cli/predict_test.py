"""Predictions of published runs, from the command line."""

import csv
import io
import json
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT, data_file, orrery

SAMPLE = pathlib.Path(__file__).parent / "samples" / "runs.csv"
COLUMNS = [
    "id", "iter_time_s", "p10_s", "p90_s", "p2_5_s", "p97_5_s", "memory_bytes", "status", "reason",
    "state", "reserved_bytes", "reserved_p10", "reserved_p90",
]  # fmt: skip
HEADER = (
    "id,model,n_params_b,layers,hidden,heads,kv_heads,ffn,gated_mlp,vocab,seq_len,gpu,n_gpus,"
    "gpus_per_node,tp,pp,dp,cp,precision,mbs,gbs,recompute,framework,iter_time_s\n"
)
ROW = (
    "a,llama2-7b,6.74,32,4096,32,32,11008,1,32000,4096,A100-SXM4-80GB,8,8,1,1,8,1,bf16,1,64,full,"
    "Composer+FSDP,{time}\n"
)
OUTCOMES = {
    "iter_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "tflops_kind",
    "mfu_pct", "hfu_pct", "iter_time_derived_s", "derived_from", "check", "split", "grade",
    "notes", "usable",
}  # fmt: skip


def predict(tmp_path, text):
    cases, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_bytes(text if isinstance(text, bytes) else text.encode())
    out.unlink(missing_ok=True)
    result = orrery("predict", cases, "-o", out)
    return result, out.read_text(errors="replace") if out.exists() else ""


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_one_row_in_one_row_out(tmp_path):
    result, out = predict(tmp_path, HEADER + ROW.format(time="") + ROW.replace("8,8,1", "9,8,1"))
    assert result.returncode == 0, result.stderr
    rows = rows_of(out)
    assert list(rows[0]) == COLUMNS
    assert [row["status"] for row in rows] == ["ok", "unsupported"]
    low, p10, mid, p90, high = (
        float(rows[0][key]) for key in ("p2_5_s", "p10_s", "iter_time_s", "p90_s", "p97_5_s")
    )
    assert 0 < low < p10 < mid < p90 < high
    assert float(rows[0]["memory_bytes"]) > 1e9
    assert "assumed" in rows[0]["reason"]
    assert "not n_gpus = 9" in rows[1]["reason"]


def test_a_model_of_the_catalogue_is_enough(tmp_path):
    result, out = predict(tmp_path, "model,n_gpus\nllama3-70b,512\nmine,512\n")
    assert result.returncode == 0, result.stderr
    known, mine = rows_of(out)
    assert known["status"] == "ok" and float(known["iter_time_s"]) > 0
    for taken in ("gpu H100", "framework nemo", "tp 8", "seq_len 8192", "gbs 512", "dp 32"):
        assert taken in known["reason"], known["reason"]
    assert mine["status"] == "unsupported"
    assert mine["reason"].startswith("'layers', 'hidden', 'heads', 'ffn', 'vocab' are missing: ")


def test_the_outcome_is_not_read(tmp_path):
    _, blank = predict(tmp_path, HEADER + ROW.format(time=""))
    for time in ("0.1", "1e9", "soon"):
        assert predict(tmp_path, HEADER + ROW.format(time=time))[1] == blank


def test_without_o_it_prints(tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text(HEADER + ROW.format(time=""))
    assert orrery("predict", cases).stdout == predict(tmp_path, cases.read_text())[1]


@pytest.mark.parametrize(
    "text, place",
    [
        ("", ":1:1: error: is empty"),
        ("id,layers\na,8\n", ":1:1: error: expected one run a row under a header"),
        (HEADER + "a,b\n", ":2:1: error: this row has 2 fields"),
        (HEADER + '"a,b\n', ":2:1: error: this quote is never closed"),
    ],
)
def test_a_malformed_table_has_its_place(tmp_path, text, place):
    result, out = predict(tmp_path, text)
    assert result.returncode == 3
    assert f"cases.csv{place}" in result.stderr
    assert out == ""


def test_a_missing_file_is_bad_input(tmp_path):
    assert orrery("predict", tmp_path / "none.csv", "-o", tmp_path / "o.csv").returncode == 3


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_text(HEADER + ROW.format(time=""))
    result = orrery("predict", cases, "-o", tmp_path / "none" / "o.csv")
    assert result.returncode == 4
    assert "cannot write" in result.stderr


def test_own_stacks(tmp_path):
    cases, stacks = tmp_path / "cases.csv", tmp_path / "stacks.yaml"
    cases.write_text(HEADER + ROW.format(time=""))
    times = []
    for gap in ("0 s", "1 s"):
        stacks.write_text(
            f"stacks:\n  - name: composer-fsdp\n    step_gap: {gap}\n    source: [a test]\n"
        )
        result = orrery("predict", cases, "--stacks", stacks)
        assert result.returncode == 0, result.stderr
        times.append(float(rows_of(result.stdout)[0]["iter_time_s"]))
    assert times[1] == pytest.approx(times[0] + 1, rel=1e-4)


def test_damaged_tables_never_crash(tmp_path):
    """Every byte of a row replaced in turn: a prediction, a refusal, or exit 3 with a place."""
    text = (HEADER + ROW.format(time="")).encode()
    begin = len(HEADER)
    for i in range(begin, len(text), 3):
        for byte in b'\x00",9\n\xff':
            damaged = text[:i] + bytes([byte]) + text[i + 1 :]
            result, _ = predict(tmp_path, damaged)
            assert result.returncode in (0, 3), (damaged, result.stderr)
            if result.returncode == 3:
                assert "cases.csv:" in result.stderr


@pytest.fixture(params=["sample", "measured"])
def runs(request):
    """A table of runs: one of our own making, and the measured ones where they are."""
    if request.param == "sample":
        return SAMPLE
    return data_file("training-runs", "measured.csv")


def test_blanking_what_came_out_changes_nothing(tmp_path, runs):
    """Runs with and without their outcome: the same bytes."""
    rows = rows_of(runs.read_text())
    blanked = io.StringIO()
    writer = csv.DictWriter(blanked, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if k in OUTCOMES else v for k, v in row.items()} for row in rows)
    text = runs.read_text()
    result, whole = predict(tmp_path, text)
    assert result.returncode == 0, result.stderr
    assert predict(tmp_path, blanked.getvalue())[1] == whole
    assert [row["id"] for row in rows_of(whole)] == [row["id"] for row in rows]


def test_every_kind_of_layout_of_the_sample_is_predicted(tmp_path):
    rows = rows_of(predict(tmp_path, SAMPLE.read_text())[1])
    assert [row["id"] for row in rows if row["status"] != "ok"] == ["odd-layout"]
    times = {row["id"]: float(row["iter_time_s"] or 0) for row in rows}
    assert times["chunks-2"] < times["pipe-4"]  # a smaller bubble, and else the same run
    assert all("out of memory" not in row["reason"] for row in rows)


def test_at_least_95_percent_of_published_configurations(tmp_path):
    text = data_file("training-runs", "inputs-only.csv").read_text()
    result, out = predict(tmp_path, text)
    assert result.returncode == 0, result.stderr
    rows = rows_of(out)
    assert [row["id"] for row in rows] == [row["id"] for row in rows_of(text)]
    assert sum(row["status"] == "ok" for row in rows) >= 0.95 * len(rows)
    assert all(row["reason"] for row in rows)


def test_predict_and_simulate_agree(tmp_path, runs):
    """20 runs under `simulate`, of every kind: SimGrid adds less than 0.5%, except where the
    gradient rings of several stages meet on the spine; and less than 2% where the many transfers of
    interleaved stages meet the gradients on the NICs."""
    cases = runs
    out = tmp_path / "out.csv"
    result = orrery("predict", cases, "-o", out, "--scenarios", tmp_path / "scenarios")
    assert result.returncode == 0, result.stderr
    inputs = {row["id"]: row for row in rows_of(cases.read_text())}
    eligible = []
    for row in rows_of(out.read_text()):
        if row["status"] != "ok" or row["reason"].startswith("out of memory"):
            continue
        case = inputs[row["id"]]
        passes = int(case["gbs"]) // int(case["dp"] or 1) // int(case["mbs"] or 1)
        if passes * int(case["pp"]) > 400 or case["usable"] != "iteration":
            continue  # the first would only take longer
        if int(case["pp"]) > 1 and int(case["dp"] or 1) > 16:
            continue
        eligible.append((case, row))
    wanted = 20 if cases != SAMPLE else 8
    chosen = eligible[:: len(eligible) // wanted][:wanted]
    assert len(chosen) == wanted
    for column in ("vpp", "cp", "ep", "pp"):
        assert any(case[column] not in ("", "1") for case, _ in chosen), column
    for case, row in chosen:
        interleaved = int(case["pp"]) > 1 and int(case["vpp"] or 1) > 1
        scenario = tmp_path / "scenarios" / f"{row['id']}.yaml"
        simulated = orrery("simulate", scenario, "--json")
        assert simulated.returncode == 0, simulated.stderr
        step = json.loads(simulated.stdout)["step_time_s"]
        assert step == pytest.approx(
            float(row["iter_time_s"]), rel=0.02 if interleaved else 0.005
        ), row["id"]


def test_impossible_hardware_and_layouts_are_refused_with_the_reason(tmp_path):
    header = "id,model,n_gpus,tp,pp,dp,vpp,nic_gbps\n"
    cells = "4,4,4,{vpp},{gbps}\n"
    cases = [("", ""), ("5", "400"), ("5", "0"), ("5", "0.001"), ("1000", "400")]
    text = header + "".join(
        f"{i},llama3-70b,64," + cells.format(vpp=vpp, gbps=gbps)
        for i, (vpp, gbps) in enumerate(cases)
    )
    result, out = predict(tmp_path, text)
    assert result.returncode == 0, result.stderr
    rows = rows_of(out)
    assert [row["status"] != "unsupported" for row in rows] == [True, True, False, False, False]
    assert "nic_gbps is '0', no rate from 1 to 100000 Gbit/s" in rows[2]["reason"]
    assert "nic_gbps is '0.001'" in rows[3]["reason"]
    assert "vpp is 1000, expected at most 20 chunks a stage" in rows[4]["reason"]


@pytest.mark.parametrize(
    "options, least",
    [(["--count", "4000"], 1500), (["--count", "0", "--seq-len", "16384"], 1000)],
    ids=["a sample of all rows", "all rows of long sequences"],
)
def test_more_hardware_is_not_slower_and_more_work_is_not_faster(options, least):
    """Pairs that python/calibration/monotone.py makes of the measured runs. Attention decides the
    step of a long sequence: there an older kernel must not be slower on a newer GPU."""
    data_file("training-runs", "runs-open.csv")
    checked = subprocess.run(
        [sys.executable, ROOT / "python" / "calibration" / "monotone.py", *options],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    assert sum(int(line.split("|")[2]) for line in checked.stdout.splitlines()[2:]) > least


def test_open_runs_agree_with_simulate(tmp_path):
    """20 published runs that no stack was fitted to: within 2%, or slower where the stages of a
    pipeline send beside the gradients, which predict() lets pass each other."""
    cases = data_file("training-runs", "runs-open.csv")
    out, scenarios = tmp_path / "out.csv", tmp_path / "scenarios"
    result = orrery("predict", cases, "-o", out, "--scenarios", scenarios)
    assert result.returncode == 0, result.stderr
    piped = {row["id"] for row in rows_of(cases.read_text()) if row["pp"] not in ("", "1")}
    predicted = [row for row in rows_of(out.read_text()) if row["iter_time_s"]]
    chosen = predicted[:: len(predicted) // 20][:20]
    assert len(chosen) == 20 and len({row["id"].split("-")[0] for row in chosen}) >= 4
    for row in chosen:
        simulated = orrery(
            "simulate", scenarios / f"{row['id']}.yaml", "--json", "--set", "run.memory=warn"
        )
        assert simulated.returncode == 0, simulated.stderr
        more = json.loads(simulated.stdout)["step_time_s"] / float(row["iter_time_s"]) - 1
        assert -0.001 < more < (0.05 if row["id"] in piped else 0.02), (row["id"], more)


def test_measured_only_refuses_what_is_transferred(tmp_path):
    known = HEADER + ROW.format(time="")
    cases, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    cases.write_text(known + ROW.format(time="").replace("Composer+FSDP", "my own"))
    assert orrery("predict", cases, "--measured-only", "-o", out).returncode == 0
    measured, mine = rows_of(out.read_text())
    assert (measured["status"], measured["state"]) == ("ok", "measured")
    assert (mine["status"], mine["state"]) == ("unsupported", "transferred")
    assert mine["reason"].startswith("--measured-only: expected ")
    for command in ("layouts", "simulate"):
        scenario = tmp_path / f"{command}.yaml"
        scenario.write_text(
            "name: t\ncluster: {preset: dgx-h100, nodes: 1}\n"
            "job: {model: {preset: llama3-8b}, sequence_length: 4096, global_batch: 16,\n"
            "  layout: {tensor: 1, data: 8, shard: optimizer}, stack: nemo}\n"
            "run: {steps: 1, memory: warn}\n"
        )
        assert orrery(command, scenario, "--measured-only").returncode == 0
        refused = orrery(command, scenario, "--measured-only", "--set", "job.stack=generic")
        assert refused.returncode == 4, refused.stderr
        assert "transferred" in refused.stderr
