"""Questions of a planner about a plan: answers, plots and sliders."""

import re

import numpy as np
import pandas as pd
import pytest

import orrery
from orrery import _charts, _html, _sliders

QUESTIONS = ("sensitivity", "spares", "pareto", "layout_map", "memory", "roofline",
             "goodput_over_time", "fan")  # fmt: skip


@pytest.fixture(scope="module")
def plan():
    return orrery.plan("llama3-8b", "dgx-h100", gpus="32..64", tokens="100B", deadline="20 d",
                       budget=1e5, seeds=40, global_batch=256)  # fmt: skip


@pytest.fixture(scope="module")
def answers(plan):
    found = {name: getattr(plan, name)() for name in QUESTIONS}
    return {**found, "compare": plan.compare(1, 2), "rent_or_buy": plan.rent_or_buy(40_000)}


def test_a_row_is_played_again_with_the_same_failures(plan):
    again = plan.play(1)
    assert again.row == plan.row(1)
    assert len(again.ends_s) == len(again.alone_s) == 40
    harder = plan.play(1, failures__scale=10)
    assert (harder.alone_s >= again.alone_s).all() and harder.days["p50"] > again.days["p50"]
    assert "P10/P50/P90" in repr(again) and "goodput" in again._repr_html_()
    first = plan.play(1, seeds=20)
    assert (first.alone_s == again.alone_s[:20]).all() and plan.seeds == 40
    for seeds in (9, 41):
        with pytest.raises(orrery.UsageError, match="expected 10 to 40 seeds"):
            plan.play(1, seeds=seeds)
    with pytest.raises(IndexError, match="a row from 1 to"):
        plan.row(99)
    with pytest.raises(orrery.UsageError, match="a row from 1 to"):
        plan.play(99)
    with pytest.raises(orrery.InputError, match="scal"):
        plan.play(1, failures__scal=2)


def test_the_parts_of_a_run_sum_up_to_its_median(plan):
    for row in (1, 2, 3):
        played = plan.play(row)
        assert played.parts().sum() == pytest.approx(np.quantile(played.alone_s, 0.5) / 86_400)


def test_a_comparison_has_the_difference_and_its_cause(plan):
    slower = {"row": 1, "step_factor": 1.1}
    answer = plan.compare(1, slower)
    ends = plan.play(1).ends_s, plan.play(**slower).ends_s
    assert f"{np.quantile((ends[1] - ends[0]) / 86_400, 0.5):.2f} days earlier" in answer.text
    assert "earlier in 100%" in answer.text and "kernels of the busiest stage" in answer.text
    difference = answer.table["difference (days)"]
    medians = [np.quantile(plan.play(**each).alone_s, 0.5) for each in ({"row": 1}, slower)]
    assert difference.sum() == pytest.approx((medians[1] - medians[0]) / 86_400)
    alike = plan.compare(1, {"row": 1})
    assert (alike.table["difference (days)"] == 0).all()
    wide, narrow = plan.compare(1, slower, errors="independent"), answer
    assert wide.text != narrow.text
    with pytest.raises(ValueError, match="'common' or 'independent'"):
        plan.compare(1, 2, errors="none")


def test_the_tornado_is_ordered_and_moves_the_right_way(plan):
    table = plan.sensitivity().table
    assert table["swing (days)"].is_monotonic_decreasing
    assert table["input"][0] == "step price"
    rates = table.set_index("input").loc["failure rates"]
    assert rates["days at low"] < rates["days at high"]
    money = plan.sensitivity(measure="usd").table
    assert money["million USD at low"].notna().all()
    # Twice and half of Daly's interval both end later: the swing reaches back to the plan.
    base = np.quantile(plan.play(1).alone_s, 0.5) / 86_400
    ends = table[["days at low", "days at high"]].assign(base=base)
    assert np.allclose(table["swing (days)"], ends.max(axis=1) - ends.min(axis=1))


def test_the_tornado_plays_the_first_seeds(plan):
    some = plan.sensitivity(seeds=20)
    assert "of 20 seeds" in some.notes[0] and "of 40 seeds" in plan.sensitivity().notes[0]
    ends = some.table.set_index("input").loc["failure rates"]
    for column, scale in (("days at low", 0.5), ("days at high", 2)):
        alone = plan.play(1, seeds=20, failures__scale=scale).alone_s
        assert ends[column] == pytest.approx(np.quantile(alone, 0.5) / 86_400)


def test_spares_reach_a_goodput(plan):
    easy = plan.spares(goodput=0.5, most=2)
    assert list(easy.table["spare nodes"]) == [0, 1, 2]
    assert "0 spare nodes reach a goodput of 50.0%" in easy.text
    assert plan.play(1, spares=1)._repr_html_().count("1 spare node<") == 1
    hopeless = plan.spares(goodput=0.9999, most=1)
    assert hopeless.text.startswith("No number of spare nodes up to 1")
    with pytest.raises(ValueError, match="shares between 0 and 1"):
        plan.spares(goodput=97)


def test_the_front_has_no_row_that_another_beats(plan):
    table = plan.pareto().table
    front = table[table["on the front"]].sort_values("days P50")
    assert front["million USD"].is_monotonic_decreasing
    for _, row in table[~table["on the front"]].iterrows():
        earlier = table["days P50"] <= row["days P50"]
        assert (earlier & (table["million USD"] <= row["million USD"])).sum() > 1


def test_layouts_out_of_memory_have_their_reason(plan):
    answer = plan.layout_map()
    assert set(answer.table["status"]) >= {"ok"}
    best = orrery.layouts(model="llama3-8b", cluster="dgx-h100", gpus=plan.best["job_gpus"],
                          global_batch=plan.best["global_batch"], top=1)  # fmt: skip
    assert answer.table["tokens/s"].max() == pytest.approx(best["tokens_per_s"][0])
    big = orrery.plan("llama3-70b", "dgx-h100", gpus=64, tokens="1B", seeds=10)
    table = big.layout_map().table
    full = table[table["status"] == "out-of-memory"]
    assert len(full) and full["reason"].str.contains("needs").all()
    assert (full["memory (GiB)"] > 79).all()
    with pytest.raises(ValueError, match="two of tensor"):
        plan.layout_map(x="tensor", y="tensor")


def test_memory_and_roofline_are_those_of_the_row(plan):
    memory = plan.memory().table
    assert memory.sum(axis=1).max() * 2**30 == pytest.approx(plan.best["memory_bytes"])
    roof = plan.roofline().table
    assert roof["share of the kernels' time"].sum() == pytest.approx(1)
    computing = roof[roof["FLOP"] > 0]
    assert (computing["FLOP"] / computing["seconds"] <= computing["peak (FLOP/s)"]).all()
    assert roof["seconds"].sum() < plan.best["step_time_s"]


def test_renting_and_buying_meet_where_the_answer_says(plan):
    answer = plan.rent_or_buy(40_000, rent=3.0, electricity=0.1, upkeep=0.1, years=4)
    row = plan.best
    power = row["energy_j"] / 3.6e6 / row["finish_s"]["p50"]
    rate = (3 * row["gpus"] / 3600 - 0.1 * 40_000 * row["gpus"] / (365.25 * 86_400) - 0.1 * power)
    months = 40_000 * row["gpus"] / rate / (365.25 / 12 * 86_400)
    assert f"{months:.1f} months" in answer.text
    assert "does not pay" in plan.rent_or_buy(1e6).text


def test_the_fan_reaches_all_tokens_at_the_end_of_each_quantile(plan):
    table = plan.fan(start="2027-01-01").table
    finish = plan.best["finish_s"]
    for quantile, key in (("P10", "p90"), ("P50", "p50"), ("P90", "p10")):
        tokens = np.interp(finish[key] / 86_400, table["day"], table[f"billion tokens {quantile}"])
        assert tokens == pytest.approx(100, rel=0.02), quantile
    assert str(table["date"].iloc[0]) == "2027-01-01"
    tokens = table.filter(like="billion tokens")
    assert (tokens.diff(axis=1).iloc[:, 1:] >= 0).all().all()


def test_goodput_of_windows_is_that_of_the_run():
    plan = orrery.plan("llama3-8b", "dgx-h100", gpus=32, tokens="200B", seeds=20, global_batch=256,
                       failures__scale=20, failures__repair="1 h")  # fmt: skip
    table = plan.goodput_over_time(window_days=1).table
    assert table["goodput P50"].mean() == pytest.approx(plan.best["goodput"], abs=0.03)
    assert (table["goodput P10"] <= table["goodput P90"]).all()
    assert table["goodput P10"].min() < table["goodput P50"].median()


def test_each_answer_is_a_sentence_a_table_and_a_plot(answers):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    for name, answer in answers.items():
        assert answer.text.endswith(".") and len(answer.table) > 0, name
        page = answer._repr_html_()
        assert "<svg" in page and "<table" in page and "http://" not in page.split("<svg")[0], name
        assert answer.title in repr(answer)
        axes = answer.plot()
        # A quantity has its unit in brackets; named things have their names.
        for axis in (answer._chart.x, answer._chart.y):
            assert axis.ticks or re.search(r"\(\S.*\)$", axis.label), (name, axis.label)
        assert axes.get_xlabel() == answer._chart.x.label, name
        assert axes.get_title(loc="left"), name
        matplotlib.pyplot.close("all")


def test_numbers_are_written_without_exponents_and_common_factors(answers):
    assert _html.number(1_566_530.4) == "1,566,530" and _html.number(42.5301) == "42.53"
    assert _html.number(999.96) == "1000" and _html.number(1.25e15) == "1.25e+15"
    assert _html.duration(86_400 * 1234.4) == "1,234 d" and _html.duration(90) == "1.5 min"
    for name in ("rent_or_buy", "layout_map", "spares", "fan"):
        assert not re.search(r"\de\+\d", repr(answers[name])), name
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    near = _charts.Line([1e6 + 0.1, 1e6 + 0.2], [98.10001, 98.10002])
    cells = _charts.Cells([[2e6, 7e6]], [["", ""]], "tokens/s")
    for mark in (near, cells):
        axes = _charts.draw(_charts.Chart("", _charts.Axis("x (s)"), _charts.Axis("y (%)"), [mark]))
        axes.figure.canvas.draw()
        for each in axes.figure.axes:
            for axis in (each.xaxis, each.yaxis):
                assert axis.get_offset_text().get_text() == "", mark
    bar = axes.figure.axes[1]
    assert all("e" not in each.get_text() for each in bar.get_yticklabels())
    assert "5,000,000" in {each.get_text() for each in bar.get_yticklabels()}
    matplotlib.pyplot.close("all")


def test_plotly_writes_the_reasons_of_empty_cells():
    pytest.importorskip("plotly")
    cells = _charts.Cells([[None, 2.0]], [["OOM\n90 GiB", "1 s"]], "tokens/s")
    axis = _charts.Axis("", ticks=[(0.0, "1"), (1.0, "2")])
    figure = _charts.draw(_charts.Chart("", axis, axis, [cells]), "plotly")
    assert [list(each.text) for each in figure.data if each.type == "scatter"] == [
        ["OOM<br>90 GiB"]]  # fmt: skip


def test_plotly_draws_each_answer(answers):
    pytest.importorskip("plotly")
    for name, answer in answers.items():
        figure = answer.plot(backend="plotly")
        assert figure.data, name
        assert figure.layout.xaxis.title.text or figure.layout.yaxis.title.text, name
    with pytest.raises(ValueError, match="'matplotlib' or 'plotly'"):
        answers["fan"].plot(backend="gnuplot")


def test_series_differ_by_more_than_their_colour():
    assert len(set(_charts.PALETTE)) == len(_charts.PALETTE) == len(set(_charts.HATCHES))
    # Lightness of the colours alone tells the first four apart in print.
    luma = [sum(w * int(c[i : i + 2], 16) for w, i in ((0.299, 1), (0.587, 3), (0.114, 5)))
            for c in _charts.PALETTE[:2]]  # fmt: skip
    assert abs(luma[0] - luma[1]) > 20


def test_sliders_change_the_row(plan):
    found = plan.best
    positions = {"spares": found["policies"]["spare_nodes"] + 1, "checkpoints": 2, "failures": 3,
                 "repair_h": 1.5, "restart_min": 2, "step": 1.1}  # fmt: skip
    played = plan.play(1, **_sliders.changes_of(positions, found))
    assert played.row["policies"]["spare_nodes"] == positions["spares"]
    every = found["policies"]["checkpoint_every_steps"]
    assert played.row["policies"]["checkpoint_every_steps"] == 2 * every
    assert played.row["step_time_s"] == pytest.approx(1.1 * found["step_time_s"])
    pytest.importorskip("ipywidgets")
    box = plan.sliders(1)
    *sliders, shown = box.children
    before = shown.value
    sliders[0].value += 1
    assert shown.value != before and "goodput" in shown.value


def test_a_plan_without_a_price_says_what_is_missing():
    plan = orrery.plan("llama3-8b", "dgx-h100", gpus=32, tokens="1B", seeds=10, global_batch=256,
                       overrides={"cluster.price.gpu_hour": "0 USD/h"})  # fmt: skip
    with pytest.raises(ValueError, match="expected clusters with a price"):
        plan.pareto()
    with pytest.raises(ValueError, match="rent: expected USD"):
        plan.rent_or_buy(40_000)
    assert isinstance(plan.sensitivity().table, pd.DataFrame)
