"""boustro lab scaling: the curve against known ones, the study's cells, a kill in the middle of a run."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.studies.scaling.command import ScalingOptions, describe_curve
from boustro.apps.studies.scaling.curve import Curve, FinishedRun, fit_curve
from boustro.apps.studies.scaling.study import ScalingStudy, Trained, summarise_runs
from conftest import SENTENCES
from pretraining import write_shards

TRUE = Curve(1.9, 400.0, 0.36, 900.0, 0.31)
SIZES, BUDGETS = (1.5e6, 5.2e6, 3e7, 1e8), (1e6, 4e6, 2e7, 1e8)


def runs(sizes=SIZES, budgets=BUDGETS, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return [FinishedRun(n, d, float(TRUE.loss(n, d)) * (1 + noise * rng.normal())) for n in sizes for d in budgets]


def test_a_curve_without_noise_is_found_again():
    found = fit_curve(runs())
    for name in ("irreducible", "size_exponent", "data_exponent"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.02)
    assert found.largest_error < 1e-3 and not found.at_bound
    assert float(found.loss(2e7, 2e7)) == pytest.approx(float(TRUE.loss(2e7, 2e7)), rel=1e-3)
    assert all(low <= high for low, high in found.spread.values())


def test_a_run_that_went_wrong_hardly_counts():
    """Least squares of the logarithm moves; the Huber loss does not."""
    damaged = runs()
    damaged[5] = damaged[5]._replace(loss=damaged[5].loss * 1.5)
    found = fit_curve(damaged)
    assert found.data_exponent == pytest.approx(TRUE.data_exponent, rel=0.05)
    assert found.largest_error > 0.3
    low, high = found.spread["data_exponent"]
    assert low <= found.data_exponent * 1.001 and high >= found.data_exponent * 0.999


def test_noise_shows_in_the_spread():
    clean, noisy = fit_curve(runs()), fit_curve(runs(noise=0.01))
    width = lambda curve: np.ptp(curve.spread["size_exponent"])  # noqa: E731
    assert width(noisy) > 3 * width(clean)


@pytest.mark.parametrize(
    ("sizes", "budgets", "said"),
    [
        (SIZES[:2], BUDGETS, "there are 2 sizes, 4 budgets and 8 runs"),
        (SIZES, BUDGETS[:2], "there are 4 sizes, 2 budgets and 8 runs"),
        ((), (), "there are 0 sizes, 0 budgets and 0 runs"),
    ],
)
def test_too_few_runs_give_no_curve(sizes, budgets, said):
    with pytest.raises(ValueError, match=f"need at least 3 sizes, 3 budgets and 6 runs, and {said}"):
        fit_curve(runs(sizes, budgets))
    with pytest.raises(ValueError, match="not positive and finite"):
        fit_curve([*runs(), FinishedRun(1e6, 1e6, float("nan"))])


def test_an_exponent_that_the_runs_do_not_determine_is_said():
    flat = [run._replace(loss=3.0 + 20 * run.pieces**-0.3) for run in runs()]
    found = fit_curve(flat)
    assert float(found.loss(5e6, 5e6)) == pytest.approx(3.0 + 20 * 5e6**-0.3, rel=2e-3)
    own = {"runs": [], "curve": replace(found, at_bound=True).to_dict(), "refusal": ""}
    assert "these runs do not determine it" in describe_curve(own)


# The study


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    documents = (" ".join(SENTENCES[n:] + SENTENCES[:n]) for n in range(6))
    return write_shards(tmp_path_factory.mktemp("scaling") / "shards", documents)


def command(shards, out, *more):
    words = ["lab", "scaling", "--shards", shards, "--validation", shards, "--out", out]
    words += ["--sizes", "tiny", "--no-compile"]
    words += ["--budgets", "64,128", "--segment-length", 16, "--batch-segments", 2, "--validation-pieces", 64]
    return [str(word) for word in (*words, *more)]


def test_cells_are_known_by_what_decides_them(shards, tmp_path):
    given = {"shards": (shards,), "validation": shards, "out": tmp_path, "sizes": ("mini",)}
    given["budgets"] = (8192, 4096, 4096)
    study = ScalingStudy(ScalingOptions(**given))
    cells = study.cells(tmp_path)
    assert Counter((cell.system, cell.number) for cell in cells) == Counter(
        (Trained(objective, "mini", 1), pieces)
        for objective in ("causal", "masked", "prefix-suffix")
        for pieces in (4096, 8192)
    )
    names = {cell.folder.name for cell in cells}
    for change in ({"lr": 1e-3}, {"segment_length": 64}, {"direction": "backward"}):
        other = ScalingStudy(replace(study.options, **change)).cells(tmp_path)
        assert not names & {cell.folder.name for cell in other}
    for change in ({"out": tmp_path / "x"}, {"compile": False}, {"save_minutes": 1.0}):
        assert names == {cell.folder.name for cell in ScalingStudy(replace(study.options, **change)).cells(tmp_path)}
    assert study.config(cells[0]).tokens == 4096 and not study.config(cells[0]).resume


@pytest.mark.long
def test_a_study_that_was_stopped_in_a_run_ends_with_the_same_figures(shards, tmp_path, stopped_before, capsys):
    objectives = ["--objectives", "causal,masked", "--save-minutes", 0]
    assert main(command(shards, tmp_path / "straight", *objectives)) == 0
    with stopped_before(3):
        assert main(command(shards, tmp_path / "out", *objectives)) == 101
    runs_left = list((tmp_path / "out" / "runs").glob("*.checkpoints/checkpoint-*"))
    assert runs_left and len(list((tmp_path / "out" / "cells").iterdir())) >= 1
    capsys.readouterr()
    assert main([*command(shards, tmp_path / "out", *objectives), "--dry-run"]) == 0
    assert "4 cells: 1 known, 3 to compute" in capsys.readouterr().out
    assert main(command(shards, tmp_path / "out", *objectives)) == 0
    out, errors = capsys.readouterr()
    assert errors.count("known already") == 1 and "resuming from" in errors and "cannot be compared" in out
    assert "no curve: its five numbers need at least 3 sizes" in out
    found, wanted = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("out", "straight"))
    for objective in ("causal", "masked"):
        ours, theirs = (
            [row | {"seconds": 0} for row in part["objectives"][objective]["runs"]] for part in (found, wanted)
        )
        assert ours == theirs and len(ours) == 2 and ours[0]["validation_loss"] > 0
    assert not any((tmp_path / "out" / "runs").iterdir()), "weights and checkpoints are removed"
    assert main([*command(shards, tmp_path / "out", *objectives), "--report-only", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["stamp"] == ""


def test_what_is_refused(shards, tmp_path, capsys):
    for more, code, said in (
        (["--budgets", 8], 2, "a step reads 32 pieces, more than a budget of 8"),
        (["--sizes", "tinny"], 2, "did you mean 'tiny'"),
        (["--report-only"], 1, "no cell of this study is complete yet"),
        (["--objectives", "causal"], 1, "results.json exists, and no study of boustro wrote it"),
    ):
        if "causal" in more:
            (tmp_path / "x" / "results.json").write_text("mine")
        assert main(command(shards, tmp_path / "x", *more)) == code
        assert said in capsys.readouterr().err
    study = ScalingStudy(ScalingOptions(shards=(shards,), validation=shards, out=tmp_path, budgets=(4096,)))
    assert summarise_runs(study, [])["stamp"] == "0 of 9 cells"
