"""Fits of prices to published runs (python/calibration), on made rows and a made program."""

import sys

import pytest
from conftest import ROOT

np = pytest.importorskip("numpy")
sys.path.insert(0, str(ROOT / "python" / "calibration"))

import accuracy  # noqa: E402
import distances  # noqa: E402
import fit_all  # noqa: E402
import fit_hardware  # noqa: E402
import open_rows  # noqa: E402
import plan_intervals  # noqa: E402
import runs  # noqa: E402

ON_OLDER = """\
    on:
      - gpus: [A100-40GB, A100-80GB, A800]
        family: A100
        compute: 0.9
      - gpus: [H100, H800, H200]
        family: H100
        compute: 0.8
{measured}    source:
      - rows
"""
STACKS = (
    "stacks:\n  - name: generic\n    spread: 0.2\n    source:\n      - none\n"
    "  - name: fast\n" + ON_OLDER.format(measured="        measured: [dense 16]\n") +
    "  - name: slow\n" + ON_OLDER.format(measured="")
)  # fmt: skip


def factors_of(text):
    """Keys of the entries of `on`, by stack and GPU."""
    found, stack, gpus = {}, "", []
    for line in text.splitlines():
        if line.startswith("  - name: "):
            stack = line.removeprefix("  - name: ")
        elif line.startswith("      - gpus: ["):
            gpus = line.split("[")[1].strip("]").split(", ")
        elif line.startswith("        "):
            key, value = line.strip().split(": ", 1)
            for gpu in gpus:
                found.setdefault((stack, gpu), {})[key] = value
    return found


def made_predict(rows, stacks=None, options=()):
    """A program whose steps take 1 s over the compute factor, that of experts included."""
    factors = factors_of(stacks)
    made = []
    for row in rows:
        on = factors.get((row["framework"], row["gpu"]), {})
        rate = float(on.get("compute", 1))
        rate *= float(on.get("experts", 1)) if row["moe_experts"] else 1
        made.append({"iter_time_s": str(1 / rate),
                     "reason": f"rests on: kin complete dense scaled; stack {row['framework']}"})
    return made


def row_of(stack, gpu, seconds, family, source="s", experts=""):
    return {"id": f"{stack}-{gpu}-{family}", "framework": stack, "gpu": gpu, "precision": "bf16",
            "moe_experts": experts, "measured": seconds, "usable": "iteration", "duplicate_of": "",
            "source_key": source, "family": family, "model": "m"}  # fmt: skip


def fit_of(monkeypatch, rows):
    monkeypatch.setattr(runs, "predict", made_predict)
    monkeypatch.setattr(runs, "open_rows", lambda: rows)
    return fit_hardware.HardwareFit(STACKS).run()


def compute_of(fit, stack, gpu):
    return float(factors_of(fit_hardware.catalogue(fit))[stack, gpu]["compute"])


def test_a_stack_slow_on_one_gpu_is_expected_to_be_slow_on_another(monkeypatch):
    rows = [row_of("fast", gpu, 1.6, f"fast {gpu} {i}") for gpu in ("B200", "MI300X")
            for i in range(6)]  # fmt: skip
    rows += [row_of("slow", "B200", 2.4, f"slow {i}") for i in range(6)]
    fit = fit_of(monkeypatch, rows)
    assert compute_of(fit, "fast", "MI300X") == pytest.approx(1 / 1.6, rel=0.05)
    assert compute_of(fit, "slow", "MI300X") < 0.85 * compute_of(fit, "fast", "MI300X")


def test_open_runs_move_an_entry_without_calibration_rows_and_no_other(monkeypatch):
    rows = [row_of(stack, "H100", 2.5, f"{stack} {i}") for stack in ("fast", "slow")
            for i in range(6)]  # fmt: skip
    fit = fit_of(monkeypatch, rows)
    made = factors_of(fit_hardware.catalogue(fit))
    assert float(made["fast", "H100"]["compute"]) == 0.8, "calibrated"
    assert float(made["slow", "H100"]["compute"]) == pytest.approx(1 / 2.5, rel=0.15)
    assert made["slow", "H100"]["measured"] == "[dense 16]"
    assert float(made["slow", "A100-80GB"]["compute"]) == 0.9, "no open run there"
    assert "measured" not in made["slow", "A100-80GB"]
    assert [row["framework"] for row, f in zip(fit.rows, fit.fitted) if f] == ["slow"] * 6


def test_experts_of_open_runs_on_older_gpus_have_a_factor_of_their_own(monkeypatch):
    rows = [row_of("slow", "H100", 1.25, f"dense {i}") for i in range(6)]
    rows += [row_of("slow", "H100", 2.5, f"experts {i}", experts="8") for i in range(6)]
    made = factors_of(fit_hardware.catalogue(fit_of(monkeypatch, rows)))["slow", "H100"]
    assert float(made["compute"]) == pytest.approx(0.8, rel=0.1)
    assert float(made["experts"]) == pytest.approx(0.5, rel=0.15)
    assert made["measured"] == "[dense 16, experts 16]"


def fit_by(monkeypatch, rows, time_of):
    """The catalogue's entries of a fit to rows of a program whose steps take time_of(row, rates)
    seconds. `rates`: the keys of the row's stack on its GPU, 1 where absent."""

    def predict(rows, stacks=None, options=()):
        factors = factors_of(stacks)
        made = []
        for row in rows:
            on = factors.get((row["framework"], row["gpu"]), {})
            names = ("compute", "experts", "attention", "grouped", "network")
            time = time_of(row, {name: float(on.get(name, 1)) for name in names})
            made.append({"iter_time_s": str(time), "reason": "rests on: kin complete dense scaled; "
                         f"stack {row['framework']}"})  # fmt: skip
        return made

    monkeypatch.setattr(runs, "predict", predict)
    monkeypatch.setattr(runs, "open_rows", lambda: rows)
    return factors_of(fit_hardware.catalogue(fit_hardware.HardwareFit(STACKS).run()))


def test_a_transferred_attention_has_a_rate_of_its_own(monkeypatch):
    def time_of(row, on):
        share = row["share"]  # part of a step in attention
        return (share / on["attention"] + 1 - share) / on["compute"]

    rows = []
    for gpu in ("TPU-v5e", "TPU-v5p", "B200"):
        for share in (0.1, 0.6):
            seconds = time_of({"share": share}, {"attention": 0.5, "compute": 0.5})
            rows += [row_of("fast", gpu, seconds, f"{share} {gpu} {i}") | {"share": share}
                     for i in range(6)]  # fmt: skip
    made = fit_by(monkeypatch, rows, time_of)
    for gpu in ("TPU-v5e", "TPU-v5p"):
        assert float(made["fast", gpu]["attention"]) == pytest.approx(0.5, rel=0.15)
        assert float(made["fast", gpu]["compute"]) == pytest.approx(0.5, rel=0.1)
    assert float(made["fast", "TPU-v6e"]["attention"]) < 0.65, "as its relatives"
    assert "attention" not in made["fast", "B200"], "measured there"


def test_runs_alone_tell_the_rate_between_nodes_of_v100s(monkeypatch):
    def time_of(row, on):
        return (1 - row["share"]) / on["compute"] + row["share"] / on["network"]

    rows = []
    for gpu in ("V100-32GB", "MI300X"):
        for share in (0, 0.3):  # part of a step in exchanges
            seconds = time_of({"share": share}, {"compute": 0.7, "network": 0.3})
            rows.append(row_of("fast", gpu, seconds, f"{share} {gpu}") | {"share": share})
    made = fit_by(monkeypatch, rows, time_of)
    assert float(made["fast", "V100-32GB"]["network"]) == pytest.approx(0.3, rel=0.15)
    assert float(made["fast", "MI300X"]["network"]) > 0.4, "closer to what was measured alone"


def test_grouped_experts_have_a_rate_of_their_own_where_padded_ones_ran_too(monkeypatch):
    def time_of(row, on):
        grouped = 1 if fit_hardware.is_padded(row) else on["grouped"]
        return 1 / (on["compute"] * on["experts"] * grouped)

    padded = {"overlap": "dense_matmul, capacity factor 1.25 (drops and pads)"}
    rows = [row_of("fast", "B200", 2, f"grouped {i}", experts="8") for i in range(6)]
    rows += [row_of("fast", "MI355X", 1.5, f"padded {i}", experts="8") | padded for i in range(6)]
    rows += [row_of("fast", "MI355X", 2.5, f"other {i}", experts="8") for i in range(6)]
    made = fit_by(monkeypatch, rows, time_of)
    assert float(made["fast", "MI355X"]["grouped"]) == pytest.approx(0.6, rel=0.1)
    assert "grouped" not in made["fast", "B200"], "no padded run there"
    assert "grouped" not in made["slow", "MI355X"]


def test_words_of_padded_experts():
    words = ("dense_matmul, capacity factor 1.0", "capacity factor 2 (pads: FLOPs x 2)")
    assert all(fit_hardware.is_padded({"overlap": each}) for each in words)
    assert fit_hardware.is_padded({"padded": "1"})
    for each in ("dropless, DeepEP + grouped GEMM v1", "capacity factor 1.25, drops", ""):
        assert not fit_hardware.is_padded({"overlap": each})


def test_a_left_out_family_and_half_are_predicted_by_the_other_rows(monkeypatch):
    rows = [row_of("fast", "B200", 1.5 + 0.005 * i, f"f{i}") for i in range(20)]
    rows += [row_of("slow", "V100-32GB", 3, f"v{i}", source="t") for i in range(20)]
    fit = fit_of(monkeypatch, rows)
    off = fit.left_out([row["family"] for row in fit.rows])
    assert np.abs(off).max() < 0.1
    alone = fit.left_out([row["source_key"] for row in fit.rows])
    assert np.abs(alone[:20]).min() > np.abs(off[:20]).max(), "no other row is of this generation"
    assert fit.halves("s") == fit.halves("s")
    assert max(fit.halves("s")) < 0.1
    table = fit_hardware.halves_table(fit)
    assert "| s | 20 |" in table and "| t | 20 |" in table


def test_the_interval_score_punishes_width_and_misses():
    assert distances.score(0.5, 1, 2, 0.2) == 3
    assert distances.score(2.5, 1, 2, 0.2) == pytest.approx(3 + 10 * 0.5)
    assert distances.score(-1.5, 1, 2, 0.05) == pytest.approx(3 + 40 * 0.5)


def residual_of(family, value, row="1 own", words="kin complete dense scaled", stack="slow"):
    return distances.Residual(words, family, value, row, stack)


def judged(family, value, row):
    sides = np.array([1, 1, 2, 2])
    placed = distances.Placed(residual_of(family, value, row), "kin", sides, abs(value), 0)
    return plan_intervals.judge(placed, np.array([1, 1]))


def test_a_family_of_many_rows_counts_once_in_the_quantiles_of_its_class():
    few = [np.array([0.1 * i]) for i in range(-5, 6)]
    below, above = distances.bounds([*few, np.full(500, 3.0)])[:2]
    assert below == pytest.approx(distances.bounds([*few, np.array([3.0])])[0])
    assert above < 2.1, "one of twelve families; of all rows 98% are at 3"
    of = [residual_of(str(i), 0.1 * i) for i in range(5)] + [residual_of("many", 2)] * 500
    assert distances.held_bounds(of)[0] == pytest.approx(0.4)


def placed_rows(stack, values):
    sides = np.array([1.0, 1.0, 2.0, 2.0])
    return [distances.Placed(residual_of(f"{stack} {i}", value, stack=stack), "kin", sides,
                             abs(value), abs(value) / 2)
            for i, value in enumerate(values)]  # fmt: skip


def test_a_stack_widens_intervals_by_its_rows_and_narrows_them_only_by_three_families():
    wide80, wide95 = distances.stack_factors(placed_rows("wide", [4.0] * 6))
    assert wide80 == pytest.approx(4 ** (6 / 8)) and wide95 == pytest.approx(2 ** (6 / 8))
    assert distances.stack_factors(placed_rows("good", [0.1] * 2)) == pytest.approx([1, 1])
    assert max(distances.stack_factors(placed_rows("good", [0.1] * 3))) < 1
    assert min(distances.stack_factors(placed_rows("good", [1e-6] * 30))) == 0.4
    assert distances.stack_factors([]) == pytest.approx([1, 1])
    judge = plan_intervals.judge(placed_rows("wide", [1.5])[0], np.array([2, 0.5]))
    assert judge.in80 and judge.score80 == 4 and judge.score95 == pytest.approx(2 * 1.05 * 2)


def test_the_catalogue_has_a_line_for_each_stack_beside_the_classes():
    of = [residual_of(f"{i}", 0.01 * i, stack="one") for i in range(40)]
    of += [residual_of(f"{i} two", 0.2, stack="two") for i in range(5)]
    text = distances.catalogue(of)
    names = [line.split(": ")[1] for line in text.splitlines() if line.startswith("  - name: ")]
    assert names[-2:] == ["under one", "under two"] and len(names) == len(set(names))
    assert {"under one", "under two", "kin complete dense scaled"} <= set(names)


def test_few_families_lie_inside_intervals_by_chance():
    assert accuracy.chance_range(1) == (0, 1)
    assert accuracy.chance_range(2) == (0.5, 1), "both outside: 4%"
    assert accuracy.chance_range(3) == pytest.approx((1 / 3, 1)), "at most one inside: 10%"
    low, high = accuracy.chance_range(200)
    assert 0.74 < low < 0.76 and 0.84 < high < 0.86
    assert accuracy.chance_range(200, share=1) == (1, 1)


def test_equal_values_have_the_mean_of_their_ranks():
    assert list(runs.ranks([3, 1, 3, 2])) == [2.5, 0, 2.5, 1]
    assert runs.spearman([1, 1, 2, 3], [4, 5, 6, 7]) == pytest.approx(0.9486833)
    assert runs.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert np.isnan(runs.spearman([1, 1, 1], [1, 2, 3]))


def test_coverage_and_scores_count_a_family_once_and_compare_the_same_rows():
    found = [judged("a", 0, "1 own"), judged("a", 0, "2 own"), judged("b", 1.5, "3 own")]
    assert [(each.in80, each.in95) for each in found] == [(True, True)] * 2 + [(False, True)]
    baseline = {"1 own": {"score80": 4, "score95": 4}, "3 own": {"score80": 14, "score95": 4}}
    cells = plan_intervals.line("all", found, baseline).strip("| ").split(" | ")
    assert cells[:6] == ["all", "3", "67%", "2", "50%", "100%"]
    assert float(cells[6]) == pytest.approx((2 + 7) / 2)
    assert float(cells[7]) == pytest.approx((2 + 7) / (4 + 14)), "row 2 is not in the baseline"
    tables = plan_intervals.tables(found, baseline)
    assert any(line.startswith("| stack: slow | 3 |") for line in tables)


def test_words_about_a_run_become_columns():
    assert runs.stated("mock data, router forced to balance; head_dim 64")["balance"] == "forced"
    assert runs.stated("functional run, natural routing")["balance"] == "natural"
    assert runs.stated("dropless, real routing; PP 8")["balance"] == "natural"
    assert runs.stated("forced balance; PP 8; HybridEP")["balance"] == "forced"
    assert runs.stated("HybridEP, CUDA graph, forced balance")["balance"] == "forced"
    assert runs.stated("forced balance not stated for this table")["balance"] == ""
    assert runs.stated("mock data or forced balance as in the YAML")["balance"] == ""
    assert runs.stated("head_dim 256 (global layers 512)")["head_size"] == "256"
    assert runs.stated("q_dim = heads*128 = 8192 (not hidden)")["head_size"] == "128"
    assert runs.stated("rl trainer, LoRA r8 (base frozen)")["adapter_rank"] == "8"
    assert runs.stated("LoRA: base weights frozen")["adapter_rank"] == "16"
    assert runs.stated("pre-training")["adapter_rank"] == ""
    assert runs.stated("rl trainer, full weights")["loss"] == "chunked"
    assert runs.stated("sft trainer, full weights")["loss"] == "plain"
    assert runs.stated("proxy of few layers; CE fusion")["loss"] == "fused"
    assert runs.stated("precision-aware optimizer (bf16 states)")["optimizer_bytes"] == "8"
    assert runs.stated("steps 41-50 averaged; container nemo:26.06-26.08")["graphs"] == "full"
    assert runs.stated("container nemo:26.04")["graphs"] == ""
    assert runs.stated("DeepEP, loss fusion, sync-free MoE")["graphs"] == "full"


def test_packed_documents_of_unknown_lengths_are_partial(monkeypatch):
    columns = dict.fromkeys(("arch_source", "location", "overlap", "source_key", "iter_time_s",
                             "iter_time_derived_s"), "")  # fmt: skip
    columns |= {"usable": "iteration", "outcome": "ok"}
    packed = columns | {"notes": "SFT on packed rows of 2048"}
    full = columns | {"notes": "packed sequences of 8192; partial CUDA graphs"}
    monkeypatch.setattr(runs, "read", lambda name: [dict(packed), dict(full)])
    found = runs.open_rows()
    assert [row["usable"] for row in found] == ["partial", "iteration"]
    assert [row["graphs"] for row in found] == ["", "partial"]


def test_notes_about_the_row_before_state_what_it_states(monkeypatch, tmp_path):
    columns = dict.fromkeys(("arch_source", "location", "overlap", "iter_time_s",
                             "iter_time_derived_s"), "")  # fmt: skip
    columns |= {"usable": "iteration", "outcome": "ok", "source_key": "cards"}
    rows = [columns | {"notes": notes} for notes in (
        "natural routing, partial CUDA graphs", "as the row before, CUDA graphs off",
        "repeat of the pretrain run from step 50 on", "repeat from step 50 on (0.7% apart)",
        "same layout measured again")]  # fmt: skip
    rows.append(columns | {"notes": "as the row before", "source_key": "another"})
    monkeypatch.setattr(runs, "read", lambda name: [dict(row) for row in rows])
    found = runs.open_rows()
    assert [row["balance"] for row in found] == ["natural"] * 4 + ["", ""]
    assert [row["graphs"] for row in found] == ["partial", "none", "none", "none", "", ""]
    runs.write_stated(tmp_path / "stated.csv")
    head, first = (tmp_path / "stated.csv").read_text().splitlines()[:2]
    assert "measured" not in head.split(",")
    assert "natural" in first and "partial" in first


def open_row(name, measured, predicted):
    prediction = {
        "iter_time_s": str(predicted), "p10_s": str(predicted / 2), "p90_s": str(predicted * 2),
        "reason": "rests on: stack dense; stack nemo", "state": "measured",
    }  # fmt: skip
    row = {"id": name, "source_key": "tables", "gpu": "H100-SXM5-80GB", "measured": measured}
    return open_rows.Row(row, prediction)


def test_each_of_the_ten_worst_runs_needs_a_cause(monkeypatch):
    rows = [open_row(f"run-{number}", 1.0, 1.1 + number) for number in range(12)]
    causes = {row.id: f"cause of {row.id}" for row in rows[2:]}
    monkeypatch.setattr(open_rows, "CAUSES", causes)
    lines = open_rows.worst_text(rows).splitlines()[2:]
    assert len(lines) == 10
    assert lines[0].startswith("| run-11 |") and "cause of run-11" in lines[0]
    del causes["run-7"]
    with pytest.raises(SystemExit, match="found none for run-7: add one"):
        open_rows.worst_text(rows)


def test_a_table_of_a_source_says_which_runs_are_outside_of_their_interval():
    text = open_rows.source_text([open_row("inside", 1.0, 1.5), open_row("far", 1.0, 3.0)])
    far, inside = text.splitlines()[2:]
    assert "outside" in far and "| 200.0% |" in far
    assert "outside" not in inside and "| 0.75 to 3 |" in inside


def fake_step(name, code, *writes, kind=fit_all.FIT, check=fit_all.CHECK):
    """A step whose script is `code`; its arguments are in `sys.argv`."""
    begin = "import pathlib, sys; page = pathlib.Path('docs/accuracy.md'); "
    return fit_all.Step(name, kind, (sys.executable, "-c", begin + code), (), writes, check)


def checkout(folder):
    for name in fit_all.PRODUCTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("old\n")
    return folder


def test_the_fits_run_in_order_and_each_step_prints_its_seconds(tmp_path, capsys):
    steps = (fake_step("one", "page.write_text('1')", fit_all.ACCURACY),
             fake_step("two", "page.write_text(page.read_text() + '2')", fit_all.ACCURACY,
                       kind=fit_all.JUDGEMENT))  # fmt: skip
    fit_all.run_all(steps, checkout(tmp_path))
    assert (tmp_path / fit_all.ACCURACY).read_text() == "12"
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| one", "| two"]
    assert all(line.endswith(" s |") for line in lines[2:])


def test_a_failed_step_ends_the_fits_and_shows_its_last_lines(tmp_path, capsys):
    steps = (fake_step("one", "sys.exit('no such column')"),
             fake_step("two", "page.write_text('2')", fit_all.ACCURACY))  # fmt: skip
    with pytest.raises(SystemExit, match="one: expected exit code 0, found 1"):
        fit_all.run_all(steps, checkout(tmp_path))
    assert "no such column" in capsys.readouterr().err
    assert (tmp_path / fit_all.ACCURACY).read_text() == "old\n"


def test_a_step_that_changes_a_product_of_another_fails(tmp_path):
    step = fake_step("one", "page.write_text('1')", fit_all.KERNELS)
    with pytest.raises(SystemExit, match=f"found changes of {fit_all.ACCURACY}"):
        fit_all.run_all((step,), checkout(tmp_path))


def test_a_check_passes_the_option_on_builds_nothing_and_changes_no_product(tmp_path):
    code = "sys.exit(0 if sys.argv[1:] == ['--check'] else 1)"
    build = fake_step("build", "page.write_text('built')", check=None, kind=fit_all.BUILD)
    fit_all.run_all((build, fake_step("one", code, fit_all.ACCURACY)), checkout(tmp_path), True)
    writer = fake_step("two", "page.write_text('2')", fit_all.ACCURACY)
    with pytest.raises(SystemExit, match="expected changes of no file"):
        fit_all.run_all((writer,), tmp_path, True)
    stale = fake_step("three", "sys.exit(1)", fit_all.STACKS)
    with pytest.raises(SystemExit, match=f"expected {fit_all.STACKS} as the step writes"):
        fit_all.run_all((stale,), tmp_path, True)


def test_two_passes_are_compared_byte_by_byte(tmp_path, capsys):
    root = checkout(tmp_path)
    same = fake_step("one", "page.write_text('1')", fit_all.ACCURACY)
    assert fit_all.run_twice((same,), root) == 0
    grows = fake_step("two", "page.write_text(page.read_text() + '2')", fit_all.ACCURACY)
    assert fit_all.run_twice((grows,), root) == 1
    assert f"found others in {fit_all.ACCURACY}" in capsys.readouterr().err


def test_no_step_reads_a_program_older_than_the_fits_before_it():
    known, stale = set(fit_all.TABLES), False
    for step in fit_all.STEPS:
        embedded = {fit_all.KERNELS, fit_all.STACKS}
        if step.kind != fit_all.BUILD:
            assert set(step.reads) <= known, f"{step.name} reads a product of a later step"
            assert not (stale and fit_all.PROGRAM in step.reads), f"{step.name}: build before it"
        known |= set(step.writes)
        stale = bool(embedded & set(step.writes)) or (stale and fit_all.PROGRAM not in step.writes)
    assert not stale
    scripts = {step.name for step in fit_all.STEPS if step.kind != fit_all.BUILD}
    assert all((ROOT / "python" / "calibration" / name).exists() for name in scripts)
    assert set(fit_all.PRODUCTS) <= known


def test_every_script_with_a_part_of_the_page_is_a_step():
    folder = ROOT / "python" / "calibration"
    writers = {path.name for path in folder.glob("*.py") if "\nPART = " in path.read_text()}
    assert writers and writers <= {step.name for step in fit_all.STEPS}
