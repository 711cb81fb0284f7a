"""Score of a twin from its tables, and its plots."""

import pandas as pd
import pytest

import orrery

SCORE = """kind,horizon,forecasts,median_error_s,within_1_min,within_10_min,coverage_80,coverage_95
start,1 min,4,0,1,1,1,1
start,1 h,6,300,0.5,1,0.75,0.9
start,all,10,120,0.6,1,0.85,0.95
end,1 h,3,600,0,1,0.5,1
end,all,3,600,0,1,0.5,1
"""
FORECASTS = """job_id,kind,made_s,median_s,low80_s,high80_s,low95_s,high95_s,actual_s
007,start,0,60,10,90,0,,50
007,end,0,600
"""
POLICIES = """made_s,policy,goal,value
0,easy,wait_mean_s,100
0,easy,slowdown_mean,3
0,srtf,wait_mean_s,40
0,srtf,slowdown_mean,3.5
3600,easy,wait_mean_s,50
3600,easy,slowdown_mean,2
3600,srtf,wait_mean_s,70
3600,srtf,slowdown_mean,1
"""
NOW = """job_id,kind,made_s,median_s,low80_s,high80_s,low95_s,high95_s,policy
139,start,100,110,100,820,100,,easy
wait_mean_s,node_loss,100,90,30,200,5,250,easy
jct_mean_s,node_loss,100,80,34,190,9,235,easy
lost_gpu_s,node_loss,100,1177,490,1685,490,1685,easy
"""


@pytest.fixture
def folder(tmp_path):
    tables = {"score": SCORE, "forecasts": FORECASTS, "policies": POLICIES}
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_the_tables_are_read_while_the_twin_writes_them(folder):
    score = orrery.twin_score(folder)
    assert list(score.forecasts.job_id) == ["007"]  # the second line is not complete
    assert list(score.score.kind.unique()) == ["start", "end"]
    assert "TwinScore of 1 forecasts" in repr(score)


def test_errors_and_coverages_are_drawn_by_horizon(folder):
    score = orrery.twin_score(folder)
    errors = score.errors()
    assert "120 s of 10 starts, 600 s of 3 ends" in errors.text
    starts, ends = errors.plot().lines
    assert list(starts.get_xdata()) == [0, 3] and list(starts.get_ydata()) == [1, 300]
    assert list(ends.get_xdata()) == [3]
    coverage = score.coverage()
    assert "85.0% of 10 starts" in coverage.text
    lines = {line.get_label(): list(line.get_ydata()) for line in coverage.plot().lines}
    assert lines["starts in 80%"] == [100, 75] and lines["ends in 95%"] == [100]
    assert lines["80% and 95%"] == [80, 80]


def test_the_regret_is_that_of_the_active_policy_at_each_forecast(folder):
    score = orrery.twin_score(folder)
    assert list(score.regret().table["regret"]) == [60, 0]
    assert list(score.regret().table["regret so far"]) == [60, 30]
    assert list(score.regret("slowdown_mean").table["regret"]) == [0, 1]
    with pytest.raises(ValueError, match="wait_mean_s or slowdown_mean"):
        score.regret("jct_mean_s")
    assert [axes.get_title(loc="left").split()[0] for axes in score.plot()] == [
        "Error", "Coverage", "Regret"]  # fmt: skip


def test_a_policy_without_an_end_has_no_regret_and_two_plots_remain_without_forecasts(folder):
    table = folder / "policies.csv"
    table.write_text("made_s,policy,goal,value\n5,recover,end_s,\n5,static,end_s,9\n"
                     "6,recover,end_s,4\n6,static,end_s,\n")  # fmt: skip
    assert list(orrery.twin_score(folder).regret().table["regret"]) == [0]
    table.write_text("made_s,policy,goal,value\n")
    score = orrery.twin_score(folder)
    assert len(score.plot()) == 2
    with pytest.raises(orrery.InputError, match="wait for the first"):
        score.regret()


def test_the_cost_of_a_lost_node_is_that_of_the_newest_forecast(folder):
    score = orrery.twin_score(folder)
    assert score.lost_node.empty
    with pytest.raises(orrery.InputError, match="no job waits"):
        score.node_loss()
    (folder / "now.csv").write_text(NOW)
    score = orrery.twin_score(folder)
    answer = score.node_loss()
    assert list(answer.table["cost"]) == ["wait_mean_s", "jct_mean_s", "lost_gpu_s"]
    assert "mean wait 90 (80%: 30 to 200) s" in answer.text
    assert "1177 (80%: 490 to 1685) GPU-seconds" in answer.text.replace(",", "")
    axes = answer.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "mean wait", "mean completion time"]  # fmt: skip
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert bars == [(5, 250), (9, 235), (30, 200), (34, 190)]
    assert [axes.get_title(loc="left").split()[0] for axes in score.plot()] == [
        "Error", "Coverage", "Regret", "Cost"]  # fmt: skip


def test_missing_tables_and_columns_are_named(folder, tmp_path):
    with pytest.raises(orrery.InputError, match=r"orrery twin --out"):
        orrery.twin_score(tmp_path / "none")
    pd.DataFrame({"kind": []}).to_csv(folder / "score.csv")
    with pytest.raises(orrery.InputError, match=r"score\.csv: .*horizon.* is missing"):
        orrery.twin_score(folder)
