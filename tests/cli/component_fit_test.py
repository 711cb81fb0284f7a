"""Fits of kernels to published tables (python/calibration/fit_components.py), on made tables: the
digits that the catalogue gets do not depend on the processor."""

import sys

import pytest
from conftest import ROOT

np = pytest.importorskip("numpy")
pytest.importorskip("scipy")
sys.path.insert(0, str(ROOT / "python" / "calibration"))

import fit_components  # noqa: E402
import fit_hardware  # noqa: E402

GEMM, TPU = fit_components.GEMM, fit_components.TPU
MADE = dict(zip(GEMM, (0.9, 12, 250, 0.4, 4, 0.35, 1e-6)))
NOISE = (1.02, 0.97, 1.04, 0.99, 1.01, 0.95)


def made_rows(shapes):
    """Products in 16 bits on a chip of TPU-v6e's rates, in the times of MADE with some noise."""
    rows = {name: np.array(column, float) for name, column in zip("mnk", zip(*shapes))}
    rows |= {name: np.full(len(shapes), value) for name, value in (
        ("peak", 918e12), ("memory", 1640e9), ("element", 2.0))}  # fmt: skip
    noise = np.resize(NOISE, len(shapes))
    return rows | {"time": fit_components.modern_time(TPU, MADE, rows) * noise}


#: Fewer products than coefficients, as of TPUs.
FEW = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
       (16384, 16384, 16384), (8192, 28672, 4096)]  # fmt: skip


def written(rows):
    """Text of the fitted coefficients in the catalogue."""
    found = fit_components.fit(GEMM, fit_components.modern_time, TPU, rows)
    return [fit_components.value_text(name, found[name]) for name in GEMM] + found["held"]


def test_written_digits_depend_on_no_last_bit_and_no_order_of_rows():
    rows = made_rows(FEW)
    expected = written(rows)
    for signs in ((1, -1, 1, 1, -1, 1), (-1, 1, 1, -1, -1, -1)):
        nudged = {name: column * (1 + 1e-12 * np.array(signs)) if name in ("time", "peak") else
                  column for name, column in rows.items()}  # fmt: skip
        assert written(nudged) == expected
    assert written({name: column[::-1] for name, column in rows.items()}) == expected


@pytest.mark.parametrize("direction", (-1, 1))
def test_written_digits_do_not_depend_on_the_start_of_the_search(monkeypatch, direction):
    rows, search = made_rows(FEW), fit_components.least_squares
    expected, starts = written(rows), []

    def moved(residuals, start, bounds, **options):
        first = np.clip(start + direction * np.linspace(-0.5, 0.4, len(start)), *bounds)
        starts.append(first)
        return search(residuals, first, bounds=bounds, **options)

    monkeypatch.setattr(fit_components, "least_squares", moved)
    assert written(rows) == expected
    assert len(starts) == len(fit_components.SHARPNESS)


def test_the_source_of_a_profile_names_the_coefficients_that_a_prior_holds():
    found = fit_components.fit(GEMM, fit_components.modern_time, TPU, made_rows(FEW))
    assert found["gemm_wave"] == pytest.approx(fit_components.BOUNDS["gemm_wave"][2], rel=1e-3), (
        "no row ends in a partial wave of four processors")  # fmt: skip
    assert "gemm_wave" in found["held"] and "gemm_peak" not in found["held"]
    text = fit_components.source_text("TPU", found)
    assert f'      - "A prior, not the rows: {", ".join(found["held"])}"\n' in text
    assert "A prior" not in fit_components.source_text("MI300X", found), "a relative's products"


def test_the_catalogue_has_no_digits_beyond_the_fit():
    texts = {
        ("gemm_half_k", 1599.52652): "1599.5", ("gemm_half_k", 61.19604): "61.196",
        ("gemm_peak", 1.0): "1.0000", ("gemm_wave", 0.056442): "0.0564",
        ("gemm_start", 4.17327e-06): "4.173 us", ("collective_start_high", 53.738e-6): "53.738 us",
    }  # fmt: skip
    for (name, value), text in texts.items():
        assert fit_components.value_text(name, value) == text


def test_a_sharp_power_mean_is_the_least_cost():
    costs = np.array([[3.0, 5.0], [4.0, 5.0]])
    assert fit_components.least(costs).tolist() == [3, 5]
    soft = [fit_components.least(costs, sharpness) for sharpness in fit_components.SHARPNESS]
    assert soft[0][1] < soft[1][1] < soft[-1][1] < 5, "softer means are lower"
    assert soft[-1] == pytest.approx([3, 5], rel=0.004)


def test_generations_with_a_transferred_attention_have_an_effect_for_it():
    profiles = [name for name, parts in fit_components.TRANSFERRED.items() if "attention" in parts]
    groups = {h.group for h in fit_hardware.HARDWARE if h.profile in profiles}
    assert groups == set(fit_hardware.TRANSFERRED_ATTENTION)
