"""Plans of long trainings, from the command line."""

import csv
import json
import math

import pytest
from conftest import orrery

ASKED = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 64, "--tokens", "100B",
         "--tokens-per-batch", 2**21, "--seeds", 40)  # fmt: skip


def words_of(*arguments):
    """The words of a command line in which the last of equal options counts."""
    words = list(map(str, arguments))
    for option in {word for word in words if word.startswith("--") and word != "--set"}:
        while words.count(option) > 1:
            first = words.index(option)
            del words[first : first + 2]
    return words


def planned(*more):
    result = orrery("plan", "--json", *words_of(*ASKED, *more))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def plan():
    return planned()


def test_rows_have_dates_costs_and_layouts(plan):
    rows = plan["candidates"]
    assert len(rows) >= 3
    medians = [row["finish_s"]["p50"] for row in rows]
    assert medians == sorted(medians)
    for row in rows:
        assert row["gpus"] == 64
        size = row["layout"]["tensor"] * row["layout"]["context"] * row["layout"]["pipeline"]
        assert size * row["layout"]["data"] == row["job_gpus"] <= 64
        assert row["finish_s"]["p10"] < row["finish_s"]["p50"] < row["finish_s"]["p90"]
        ideal = row["steps"] * row["step_time_s"]
        assert ideal < row["finish_failures_only_s"]["p50"]
        assert abs(row["goodput"] - ideal / row["finish_failures_only_s"]["p50"]) < 1e-9
        assert abs(sum(row["time_shares"].values()) - 1) < 1e-6
        hours = row["finish_s"]["p50"] / 3600
        assert abs(row["cost_usd"] - 3 * 64 * hours) < 1e-6 * row["cost_usd"]
        assert row["carbon_kg"] is None and row["deadline_met"] is None
        tokens = row["steps"] * row["global_batch"] * 8192
        assert 100e9 <= tokens < 100e9 + row["global_batch"] * 8192


def test_the_interval_has_both_errors(plan):
    for row in plan["candidates"]:
        both, alone = row["finish_s"], row["finish_failures_only_s"]
        step = row["step_interval_s"]["p90"] / row["step_time_s"]
        assert both["p90"] - both["p10"] > alone["p90"] - alone["p10"]
        assert abs(both["p90"] / alone["p50"] / step - 1) < 0.1


def test_the_step_is_that_of_layouts_and_predict(plan, tmp_path):
    layouts = json.loads(
        orrery("layouts", *ASKED[:6], "--tokens-per-batch", 2**21, "--json").stdout
    )["layouts"]
    first = layouts[0]
    whole = [row for row in plan["candidates"] if row["job_gpus"] == 64]
    assert whole and whole[0]["layout"]["tensor"] == first["tensor"]
    assert whole[0]["step_time_s"] == first["iter_time_s"]
    assert whole[0]["step_interval_s"]["p90"] == first["p90_s"]
    layout = whole[0]["layout"]
    shard = {"nothing": "none", "optimizer": "ZeRO-1"}[layout["shard"]]
    cases = tmp_path / "case.csv"
    cases.write_text(
        "model,gpu,n_gpus,tp,pp,dp,cp,vpp,mbs,gbs,seq_len,precision,recompute,dp_shard,framework\n"
        f"llama3-8b,H100,64,{layout['tensor']},{layout['pipeline']},{layout['data']},"
        f"{layout['context']},{layout['chunks']},{layout['micro_batch']},256,8192,bf16,"
        f"{layout['recompute']},{shard},nemo\n"
    )
    assert orrery("predict", cases, "-o", tmp_path / "out.csv").returncode == 0
    row = next(csv.DictReader((tmp_path / "out.csv").open()))
    assert abs(float(row["iter_time_s"]) / first["iter_time_s"] - 1) < 1e-3


def quantile(values, share):
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])


def test_the_simulator_ends_at_the_same_instants(tmp_path):
    file = tmp_path / "row.yaml"
    plan = planned("--scenario", file, "--row", 1, "--seeds", 10, "--set", "failures.scale=5")
    row = plan["candidates"][0]
    ends, failures = [], 0
    for seed in range(1, 11):  # the seeds of the plan
        report = json.loads(orrery("simulate", file, "--json", "--seed", seed).stdout)
        assert report["steps_completed"] == row["steps"]
        assert report["step_time_s"] == pytest.approx(row["simulated_step_s"], rel=1e-6)
        ends.append(report["elapsed_s"])
        failures += report["failure_events"] / 10
    assert failures == pytest.approx(row["failures"], rel=0.05) and failures > 10
    for key, share in {"p10": 0.1, "p50": 0.5, "p90": 0.9}.items():
        end = row["finish_failures_only_s"][key]
        assert quantile(sorted(ends), share) == pytest.approx(end, rel=1e-3)


def test_replaced_ranks_end_as_in_the_simulator(tmp_path):
    file = tmp_path / "row.yaml"
    asked = ("--recovery", "replace", "--seeds", 10, "--set", "failures.scale=5")
    row = planned("--scenario", file, "--row", 1, *asked)["candidates"][0]
    assert row["policies"]["recovery"] == "replace" and '"how":"replace"' in file.read_text()
    ends = sorted(json.loads(orrery("simulate", file, "--json", "--seed", seed).stdout)["elapsed_s"]
                  for seed in range(1, 11))  # fmt: skip
    end = row["finish_failures_only_s"]["p50"]
    assert quantile(ends, 0.5) == pytest.approx(end, rel=2e-3)


def test_the_best_policies_are_chosen(plan):
    usual = plan["candidates"][0]["policies"]
    assert usual["recovery"] == "restart" and usual["sets_played"] >= 2 and usual["gain_s"] >= 0
    assert usual["why"] in plan["why"]
    assert any("recover: replace" in each["change"] for each in plan["changes"])
    best = planned("--recovery", "any")["candidates"][0]
    assert best["policies"]["recovery"] == "replace" and best["policies"]["gain_s"] > 0
    assert "instead of restart" in best["policies"]["why"]
    assert best["finish_failures_only_s"]["p50"] < plan["candidates"][0][
        "finish_failures_only_s"]["p50"]  # fmt: skip
    wrong = orrery("plan", *ASKED, "--recovery", "shrink")
    assert wrong.returncode == 2 and "--recovery: expected restart, replace or any" in wrong.stderr


def test_layouts_write_scenarios(tmp_path):
    file = tmp_path / "layout.yaml"
    asked = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--gpus", 64)
    found = orrery("layouts", *asked, "--json", "--scenario", file, "--row", 2)
    second = json.loads(found.stdout)["layouts"][1]
    report = json.loads(orrery("simulate", file, "--json").stdout)
    assert report["step_time_s"] == pytest.approx(second["iter_time_s"], rel=0.02)
    wrong = orrery("layouts", *asked, "--scenario", file, "--row", 100000)
    assert wrong.returncode == 2 and "--row: expected a layout from 1 to" in wrong.stderr


def test_goals_are_met_with_a_probability(plan):
    median = plan["candidates"][0]["finish_s"]["p50"]
    late = planned("--deadline", f"{3 * median} s", "--budget", "1M")
    first = late["candidates"][0]
    assert first["deadline_met"] > 0.95 and first["within_budget"] == 1
    costs = [row["cost_usd"] for row in late["candidates"] if row["deadline_met"] >= 0.8]
    assert costs == sorted(costs)
    result = orrery("plan", *ASKED, "--deadline", f"{median / 3} s")
    assert result.returncode == 1
    assert "goal missed: the first row meets deadline and budget with 0%" in result.stderr
    dated = orrery("plan", *ASKED, "--deadline", "2027-01-02", "--start", "2027-01-01")
    assert "in time" in dated.stdout


def test_a_spare_is_worth_its_place_where_repairs_take_days():
    slow = planned("--tokens", "1T", "--set", "failures.repair=1 d", "--set", "failures.scale=10")
    assert slow["candidates"][0]["policies"]["spare_nodes"] >= 1
    free = planned("--failures", "none")
    assert free["candidates"][0]["policies"]["spare_nodes"] == 0
    assert free["candidates"][0]["failures"] == 0
    assert any(each.startswith("no failures are planned") for each in free["warnings"])


def test_a_change_of_the_batch_saves_odd_numbers_of_nodes():
    rigid = planned("--gpus", 56, "--batch-change", 0)
    free = planned("--gpus", 56)
    assert free["candidates"][0]["finish_s"]["p50"] < rigid["candidates"][0]["finish_s"]["p50"]
    for row in free["candidates"]:
        assert abs(row["global_batch"] / 256 - 1) <= 0.05


def test_models_and_clusters_of_files_give_the_rows_of_presets(tmp_path, plan):
    model, cluster = tmp_path / "config.json", tmp_path / "cluster.yaml"
    model.write_text(json.dumps(
        {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "vocab_size": 128256, "tie_word_embeddings": False}))  # fmt: skip
    cluster.write_text("preset: dgx-h100\nnodes: 3\nprice: {gpu_hour: 2 USD/h}\n")
    row = planned("--model", model, "--cluster", cluster)["candidates"][0]
    first = plan["candidates"][0]
    assert row["cluster"] == str(cluster) and row["gpus"] == 64  # the file's nodes do not count
    assert row["layout"] == first["layout"]
    assert row["step_time_s"] == pytest.approx(first["step_time_s"], rel=1e-9)
    assert row["cost_usd"] / row["finish_s"]["p50"] == pytest.approx(2 * 64 / 3600)
    both = planned("--cluster", f"dgx-a100,{cluster}")
    assert {each["cluster"] for each in both["candidates"]} == {"dgx-a100", str(cluster)}


def test_sizes_and_clusters_are_compared():
    both = planned("--cluster", "dgx-h100,dgx-a100", "--gpus", "32..60")
    assert {row["cluster"] for row in both["candidates"]} == {"dgx-h100", "dgx-a100"}
    assert {row["gpus"] for row in both["candidates"]} == {32, 40, 56}
    assert any("60 GPUs are 56 in whole nodes" in each for each in both["assumed"])


def test_the_text_names_reasons_and_sources():
    result = orrery("plan", *ASKED, "--csv", "/dev/null", "--top", 2)
    assert result.returncode == 0, result.stderr
    for part in ("row 1: ", "one change at a time:", "why: ", "assumed:", "docs/month.md",
                 "placeholder of topologies/catalog/presets.yaml"):  # fmt: skip
        assert part in result.stdout, part


def test_the_text_has_at_most_100_columns():
    asked = ("--cluster", "dgx-h100,gb200-nvl72", "--gpus", "72,144", "--deadline", "60 d",
             "--budget", "2M")  # fmt: skip
    for more in (asked, ()):
        lines = orrery("plan", *words_of(*ASKED, *more)).stdout.splitlines()
        assert len(lines) > 20 and max(map(len, lines)) <= 100, max(lines, key=len)


def test_the_tables_have_columns_for_what_differs():
    same = orrery("plan", *ASKED, "--top", 2).stdout
    first, layouts = (table.split("\n") for table in same.split("\n\n")[1:3])
    assert first[0].split() == ["spare", "goodput", "days", "P10/P50/P90", "MUSD", "MWh"]
    assert first[-1] == "in each row: dgx-h100, 64 GPUs, restart after losses"
    assert layouts[0].split()[-4:] == ["step", "s", "free", "GiB"] and "data" in layouts[0]
    assert [row.split()[0] for row in layouts[1:3]] == ["1", "2"]
    asked = words_of(*ASKED, "--gpus", "32,64", "--deadline", "60 d", "--top", 0)
    head = orrery("plan", *asked).stdout.split("\n\n")[1].split("\n")[0]
    assert head.split()[:2] == ["GPUs", "spare"] and head.endswith("in time")


def test_csv_and_html_have_the_rows(tmp_path, plan):
    table, page = tmp_path / "plan.csv", tmp_path / "plan.html"
    planned("--csv", table, "--html", page)
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(plan["candidates"])
    median = plan["candidates"][0]["finish_s"]["p50"]
    assert float(rows[0]["finish_s_p50"]) == float(f"{median:.6g}")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "<svg" in text
    assert "http" not in text and "<script" not in text
    assert "<h1>Plan: llama3-8b, 100B tokens</h1>" in text and "<th>t CO2</th>" in text
    head = text.index("<h2>Candidates</h2>")
    first = text[head:].split("</tr>")
    assert first[0].count("<th") == first[1].count("<td"), "a column for each heading"


def test_the_nearest_measured_run_has_its_distance(tmp_path):
    runs, page = tmp_path / "runs.csv", tmp_path / "plan.html"
    runs.write_text(
        "id,model,gpu,n_gpus,tp,pp,dp,cp,vpp,mbs,gbs,seq_len,precision,recompute,dp_shard,"
        "framework,iter_time_s\n"
        "far,llama3-70b,A100,512,8,4,16,1,1,1,512,8192,bf16,none,ZeRO-1,nemo,20\n"
        "near,llama3-8b,H100,32,1,1,32,1,1,1,256,8192,bf16,none,ZeRO-1,nemo,5\n"
        "timeless,llama3-8b,H100,64,1,1,64,1,1,1,256,8192,bf16,none,ZeRO-1,nemo,\n")
    plan = planned("--measured", runs, "--html", page)
    row, nearest = plan["candidates"][0], plan["nearest_measured"]
    assert nearest["id"] == "near" and nearest["measured_s"] == 5
    layout = row["layout"]
    replica = layout["tensor"] * layout["context"] * layout["pipeline"]
    logs = [math.log(row["job_gpus"] / 32), math.log(replica),
            math.log((row["global_batch"] / row["job_gpus"]) / (256 / 32))]  # fmt: skip
    assert nearest["distance"] == pytest.approx(math.sqrt(sum(each**2 for each in logs)))
    assert any(each.startswith("GPUs 32 / ") for each in nearest["differences"])
    assert 2 < nearest["predicted_s"] < 10
    assert "Nearest measured run: near (llama3-8b on 32 H100)" in page.read_text()
    text = orrery("plan", *words_of(*ASKED, "--measured", runs)).stdout
    assert "nearest measured run: near (llama3-8b on 32 H100), distance " in text
    missing = orrery("plan", *ASKED, "--measured", tmp_path / "none.csv")
    assert missing.returncode == 3 and "none.csv" in missing.stderr


@pytest.mark.parametrize(
    "arguments, code, part",
    [
        ((), 3, "expected a model, a cluster, a number of GPUs and a number of tokens"),
        ((*ASKED, "--tokens", "many"), 2, "--tokens: expected a number above 0"),
        ((*ASKED, "--gpus", "512..64"), 2, "--gpus: expected a range"),
        ((*ASKED, "--gpus", "4"), 3, "fewer than a node"),
        ((*ASKED, "--deadline", "soon"), 2, "--deadline: expected a time"),
        ((*ASKED, "--deadline", "2027-02-30", "--start", "2027-01-01"), 2, "expected a date"),
        ((*ASKED, "--deadline", "2027-03-01"), 2, "expected --start DATE"),
        ((*ASKED, "--failures", "llama4"), 3, "llama3"),
        ((*ASKED, "--model", "llama3-9b"), 3, "llama3-8b"),
        ((*ASKED, "--row", "40", "--scenario", "/dev/null"), 2, "--row: expected a row"),
    ],
)
def test_mistakes_are_named(arguments, code, part):
    result = orrery("plan", *words_of(*arguments))
    assert result.returncode == code, result.stderr
    assert part in result.stderr


def test_prices_come_from_a_dated_table(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text("kind,name,gpu,gpus,value,unit,date,source\n"
                   "instance,offer-12,H100,8,16,USD/h,2026-11-01,offer 12\n"
                   "grid,hall,,,100,g/kWh,2026-10-31,contract\n")  # fmt: skip
    chosen = ("--instance", "offer-12", "--grid", "hall", "--prices", own)
    plan = planned(*chosen)
    row = plan["candidates"][0]
    hours = row["finish_s"]["p50"] / 3600
    assert row["cost_usd"] == pytest.approx(16 / 8 * 64 * hours)
    assert row["carbon_kg"] == pytest.approx(row["energy_j"] / 3.6e6 * 100 / 1000)
    text = orrery("plan", *ASKED, *chosen).stdout
    assert f"carbon: {row['carbon_kg'] / 1000:.0f} t of carbon dioxide" in text
    assert "instance offer-12: 16 USD/h on 2026-11-01 (offer 12)" in plan["assumed"]
    assert not any("placeholder" in each for each in plan["assumed"])
    other = orrery("plan", *ASKED[:2], "--cluster", "dgx-b200", *ASKED[4:], *chosen)
    assert other.returncode == 3
    assert "expected an instance with B200, the GPU of dgx-b200" in other.stderr
    assert "did you mean 'france'?" in orrery("plan", *ASKED, "--grid", "frnce").stderr
    assert "nebius-h100" in orrery("list", "prices").stdout
