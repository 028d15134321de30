"""`boustro fewshot`: every point is what `fit` gives on its draw, trained alone or together; the paper's search."""

import json
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boustro
from boustro.apps.cli.main import main
from boustro.apps.label.vectors import VectorReader, vector_source
from boustro.apps.studies.compare.comparison import RATES, Comparison
from boustro.apps.studies.compare.report import REPORT, trained_system, used_system
from boustro.apps.studies.core.draws import draw_all, paper_draw, short_types, types_of
from boustro.encoders.extended import SPELLING, SPELLING_WIDTH, spell
from boustro.heads.registry import HEADS
from boustro.tasks import TASKS
from boustro.tasks.config import AUTO
from boustro.tasks.data.conll import format_conll
from boustro.types import Sentence

NAMES = ["Ada Brandt", "Port Lisse", "Vellmar Calloway", "Okonkwo", "Brandt & Sons", "<b>Lisse", "Ada", "Vellmar"]
DATA = [
    (words.split(), tags)
    for name in NAMES
    for words, tags in (
        (f"{name} said boats cost 3 million .", ["B-PER", *["I-PER"] * name.count(" "), *"OOOOOO"]),
        (f"{name} closes on Mondays .", ["B-LOC", *["I-LOC"] * name.count(" "), *"OOOO"]),
    )
]
SENTENCES = [Sentence(tuple(words), tuple(tags)) for words, tags in DATA]


@pytest.fixture(scope="module")
def study(tiny_lm, tmp_path_factory):
    """A finished study: the arguments that made it, and its folder."""
    folder = tmp_path_factory.mktemp("shots")
    (folder / "data.conll").write_text(format_conll(DATA), "utf-8")
    forward, backward = tiny_lm("llama", sentinel=True), tiny_lm("llama", "backward", seed=1, sentinel=True)
    arguments = ["fewshot", "--encoders", f"{forward},{forward}+{backward}", "--shots", "2,64", "--seeds", "3"]
    arguments += ["--train", str(folder / "data.conll"), "--dev", str(folder / "data.conll")]
    arguments += ["--epochs", "12", "--lr", "0.01", "--hidden", "16", "--no-cache", "--out", str(folder / "out")]
    assert main(arguments) == 0
    return arguments, folder / "out"


def test_the_smallest_k_within_the_interval_of_the_best_is_recommended(study, tiny_pair, tmp_path, capsys):
    """Not the largest, where two sentences tell all; `fit` of all examples gets the head of the largest."""
    rows = [(["So", "Ada", verb, "."], ["O", "B-PER", "O", "O"]) for verb in "left came sang fell rose sat ran".split()]
    (tmp_path / "data.conll").write_text(format_conll(rows), "utf-8")
    given = ["fewshot", "--encoders", tiny_pair, "--heads", "ridge", "--shots", "2,4,6", "--seeds", "2", "--no-cache"]
    given += [word for name in ("--train", "--dev") for word in (name, str(tmp_path / "data.conll"))]
    assert main([*given, "--out", str(tmp_path / "out")]) == 0
    easy, told = read(tmp_path / "out"), capsys.readouterr().out
    assert [s["dev"]["mean"] for s in easy["systems"]] == [100, 100, 100] and easy["best"] == "K=2"
    assert "K=2 has the best score." in told
    some, shown = read(study[1]), (study[1] / "report.html").read_text("utf-8")
    worse, *_ = (s["dev"]["mean"] for s in some["systems"])
    assert some["best"].endswith("K=2") and some["enough"]["points"] == pytest.approx(100 - worse)
    assert re.search(r"K=2 is the smallest K within the interval of the best, K=64 \(\+1\d\.\d points, 95%", shown)
    assert (used_system(some)["head"], trained_system(some)["head"]) == ("ridge", "mlp")
    best = next(s["name"] for s in some["systems"] if s["shots"] == 64)
    said = REPORT.summary({**some, "best": best, "enough": {"best_shots": 64}})
    assert said.endswith("K=64 has the best score, and every smaller K is below its interval.")


def data_of(arguments):
    return arguments[arguments.index("--train") : arguments.index("--epochs")]


def read(out):
    return json.loads((out / "results.json").read_text("utf-8"))


def test_a_point_is_what_fit_gives_on_its_draw(study, monkeypatch):
    """Those of K = 64 were trained together, those of K = 2 in closed form."""
    monkeypatch.setenv("BOUSTRO_BF16", "0")
    _, out = study
    results = read(out)
    found = {(s["shots"], s["head"], s["line"].count("·")) for s in results["systems"]}
    assert found == {(2, "ridge", 0), (64, "mlp", 0)}
    for system in results["systems"]:
        draws = results["draws"][str(system["shots"])]
        options = {"epochs": 12, "lr": 0.01, "hidden": 16} if system["head"] == "mlp" else {}
        for seed, (draw, value) in enumerate(zip(draws, system["dev"]["values"], strict=True), 1):
            tagger = boustro.Tagger(system["encoder"], system["head"], preset="few", cache=False, **options)
            found = tagger.fit([SENTENCES[n] for n in draw], seed=seed).evaluate(SENTENCES).f1
            assert found == pytest.approx(value, abs=0.5)
            for label in ("PER", "LOC"):
                assert sum(f"B-{label}" in DATA[n][1] for n in draw) == min(system["shots"], 8)
    pair, alone = (
        next(s["dev"]["mean"] for s in results["systems"] if s["encoder"].count("+") == count and s["shots"] == 64)
        for count in (1, 0)
    )
    assert pair > alone + 10, "the pair reads what follows the name"


def test_every_head_that_a_study_reports_can_be_had_from_fit():
    for task in TASKS.values():
        for kind in task.config.named_heads([AUTO]):
            if task.config.labellings:
                assert kind in HEADS and kind in task.config.heads()
                task.config.choose(kind, "few", {})


def test_heads_of_all_draws_are_trained_at_once(tiny_pair, monkeypatch):
    from boustro.tasks.fitting import training as fitting

    calls, solve = [], fitting.train_many
    monkeypatch.setattr(fitting, "train_many", lambda *given, **how: calls.append(1) or solve(*given, **how))
    options = {**vars(TASKS["tag"].config()), "mix_epochs": 0, "epochs": 2, "hidden": 8}
    how = {"encoders": (tiny_pair,), "shots": (1, 2), "train": SENTENCES, "dev": SENTENCES, "options": options}
    grid = Comparison(heads=("mlp",), seeds=3, **how)
    assert Comparison(heads=("mlp",), seeds=3, **how | {"shots": (2, 64, 256)}).distinct_shots == (2, 64)
    for system in grid.systems():
        for seed in (2, 1, 3):
            grid._fit(grid._make(system), system, seed)
    assert len(calls) == 2


def test_after_a_kill_only_the_missing_cells_are_computed(study, capsys):
    arguments, out = study
    before = {**read(out), "cost": {}}
    cells = sorted((out / "cells").iterdir())
    stamps = {cell: cell.stat().st_mtime_ns for cell in cells}
    shutil.rmtree(cells[3])
    capsys.readouterr()
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert said.count("(computed in") == 1 and said.count("(known already)") == len(cells) - 1
    assert [c for c in cells if c.stat().st_mtime_ns != stamps[c]] == [cells[3]]
    assert {**read(out), "cost": {}} == before


@pytest.mark.long
def test_the_papers_protocol_reports_the_best_runs_of_its_search(study, tmp_path, capsys):
    arguments, _ = study
    given = [*arguments[: arguments.index("--shots")], *data_of(arguments)]
    given += ["--preset", "paper", "--shots", "1,2", "--budget", "5", "--epochs", "2", "--out", str(tmp_path / "a")]
    assert main(given) == 0
    results = read(tmp_path / "a")
    assert len(results["systems"]) == 4 and results["drawing"] == "paper"
    for system in results["systems"]:
        assert system["head"] == "mlp" and len(system["dev"]["values"]) == 3
        assert system["dev"]["values"] == sorted(system["dev"]["values"], reverse=True)
    cell = next(json.loads(p.read_text()) for p in (tmp_path / "a/cells").glob("*/scores.json"))
    config, record = cell["config"], cell["record"]
    assert (config["layers"], config["pooling"], config["hidden"], config["crf"]) == ("last", "first", None, False)
    assert config["batch_sentences"] == 4 and config["lr"] in RATES and 10 <= record["seed"] < 20
    assert "the scores are optimistic" in (tmp_path / "a/report.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--preset", "paper", "--seeds", "3"], "--seeds is not read with --preset paper"),
        (["--budget", "3"], "--budget is not read with --preset few"),
        (["--preset", "paper", "--task", "classify"], "unknown preset 'paper'"),
        (["--preset", "paper", "--dropout", "0.3"], "--dropout is not read with --preset paper"),
        (["--heads", "lda"], "unknown head 'lda'"),
    ],
)
def test_what_does_not_go_together_is_refused(study, more, said, tmp_path, capsys):
    arguments, _ = study
    given = [*arguments[: arguments.index("--seeds")], *data_of(arguments)]
    assert main([*given, *more, "--out", str(tmp_path / "a")]) in (1, 2)
    assert said in capsys.readouterr().err and not (tmp_path / "a").exists()


@pytest.mark.parametrize("change", [{"encoders": ()}, {"seeds": 0}, {"budget": 0}, {"train": []}])
def test_a_study_of_nothing_is_refused(change):
    sentences = [Sentence(("Ada",), ("B-PER",), where="f:1")]
    given = {"encoders": ("starter",), "shots": (1,), "seeds": 1, "heads": (AUTO,)}
    given |= {"train": sentences, "dev": sentences}
    if "train" in change:
        change = {"train": [Sentence(("a",), ("O",), where="f:1")]}
    with pytest.raises(ValueError, match=r"nothing to compare|so none can be drawn"):
        Comparison(**{**given, **change})


def test_vectors_are_standardised_layers_averaged_and_joined(tiny_lm):
    pair = f"{tiny_lm('llama', sentinel=True)}+{tiny_lm('llama', 'backward', seed=1, sentinel=True)}"
    train = [Sentence(tuple(words), tuple(tags)) for words, tags in DATA]
    reader = VectorReader(vector_source(pair, train, dtype="float32", cache=False), train)
    features = reader.encoder.encode_all(train)
    expected = []
    for stream in features.streams:
        upper = stream[:, 1:].astype(np.float64)  # of layers 0, 1, 2
        expected.append(((upper - upper.mean(0)) / upper.std(0)).mean(1))
    found = reader.vectors(train)
    np.testing.assert_allclose(found.words, np.concatenate(expected, 1), atol=5e-3)
    some = reader.train_vectors(np.array([3, 0]))
    starts = features.starts
    rows = [*range(starts[3], starts[4]), *range(starts[0], starts[1])]
    np.testing.assert_array_equal(some.words, found.words[rows])
    assert some.starts.tolist() == [0, features.lengths[3], features.lengths[3] + features.lengths[0]]


TAGS = ("O", "B-A", "I-A", "B-B", "I-B", "B-C", "I-C")
CORPORA = st.lists(
    st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(TAGS)), min_size=1, max_size=4), max_size=30
).map(lambda rows: [Sentence(tuple(w for w, _ in row), tuple(t for _, t in row)) for row in rows])


def draw_sentences(corpus, shots, draw):
    return draw_all(corpus, [shots], draw)[shots][draw - 1]


def holds(sentence, label):
    return any(tag.endswith(f"-{label}") for tag in sentence.tags)


@given(CORPORA, st.integers(1, 4), st.integers(1, 5))
def test_every_type_gets_its_shots_and_smaller_draws_lie_within_larger_ones(corpus, shots, draw):
    small, large = draw_sentences(corpus, shots, draw), draw_sentences(corpus, shots + 2, draw)
    assert set(small) <= set(large)
    assert list(small) == sorted(set(small))
    for label in types_of(corpus):
        available = sum(holds(s, label) for s in corpus)
        found = sum(holds(corpus[i], label) for i in small)
        assert found >= min(shots, available)
        assert (label in short_types(corpus, small, shots)) == (available < shots)
    for i in small:
        assert types_of([corpus[i]])


@given(CORPORA, st.randoms(use_true_random=False))
def test_a_draw_is_the_same_whatever_the_order_of_the_file(corpus, random):
    shuffled = corpus[:]
    random.shuffle(shuffled)

    def content(c):
        return sorted((s.words, s.tags) for s in (c[i] for i in draw_sentences(c, 2, 3)))

    assert content(corpus) == content(shuffled)


def test_draws_differ_and_are_published_for_good():
    corpus = [Sentence((f"w{i}",), (f"B-{'AB'[i % 2]}",)) for i in range(40)]
    first, second = (draw_sentences(corpus, 2, draw) for draw in (1, 2))
    assert not np.array_equal(first, second)
    # a change here breaks what others have drawn
    assert first.tolist() == [4, 6, 9, 17] and second.tolist() == [11, 17, 22, 38]


def test_the_papers_filter_takes_the_first_single_type_sentences_with_a_longer_mention():
    rows = ["B-A", "B-A I-A", "O B-A I-A B-B", "O B-A I-A", "B-B I-B O", "O O", "I-A B-A O", "B-B O I-B", "O B-A I-A"]
    corpus = [Sentence(tuple("x" * len(r.split())), tuple(r.split())) for r in rows]
    found = paper_draw(corpus, [1, 2, 9])
    assert {k: draws[0].tolist() for k, draws in found.items()} == {1: [3, 4], 2: [3, 4, 6, 7], 9: [3, 4, 6, 7, 8]}


@pytest.mark.parametrize("function", [draw_all, paper_draw])
def test_no_shots_are_refused(function):
    with pytest.raises(ValueError, match="at least 1"):
        function([], [4, 0], 1)


TAGGED = [
    Sentence(("Vellmarer", "port", "."), ("B-MISC", "O", "O"), document="a"),
    Sentence(("She", "left", "Vellmar", "."), ("O", "O", "B-LOC", "O"), document="a"),
    Sentence(("Lisse", "is", "small"), ("B-LOC", "O", "O"), document="b"),
]


@pytest.fixture
def small_study(tiny_pair, file):
    data = str(file("data.conll", "-DOCSTART- O\n\n" + format_conll([(s.words, s.tags) for s in TAGGED])))
    return ["--encoders", tiny_pair, "--train", data, "--dev", data]


def test_letters_and_pooled_mentions_are_read_beside_an_encoder(small_study, tiny_pair, tmp_path):
    """Their cells are others than those of the encoder alone."""
    cells = []
    for option in ("plain", "spelling", "pool_mentions"):
        words = [] if option == "plain" else [f"--{option.replace('_', '-')}"]
        words += ["--shots", "1", "--seeds", "1", "--out", str(tmp_path / option), "--json", str(tmp_path / "all.json")]
        assert main(["fewshot", *small_study, *words]) == 0
        assert option == "plain" or json.loads((tmp_path / "all.json").read_text("utf-8"))["options"][option] is True
        cells += [cell.name for cell in (tmp_path / option / "cells").iterdir()]
    assert len({*cells}) == len(cells)
    plain, spelled = (vector_source(tiny_pair, TAGGED, spelling=spelling) for spelling in (False, True))
    assert [s.name for s in spelled.encoder().streams] == [*(s.name for s in plain.encoder().streams), SPELLING]
    wanted = np.stack([spell(word) for sentence in TAGGED for word in sentence.words])
    own = VectorReader(spelled, TAGGED).vectors(TAGGED).words[:, -SPELLING_WIDTH:].astype(np.float32)
    np.testing.assert_allclose(own, (wanted - wanted.mean(0)) / wanted.std(0), atol=0.02)
    widths = [
        sum(s.width for s in vector_source(tiny_pair, TAGGED, pool_mentions=pooled, context=context).encoder().streams)
        for pooled, context in ((False, "document"), (True, "document"), (True, "sentence"))
    ]
    assert widths[1] == 2 * widths[0] == 2 * widths[2]


def test_a_report_shows_the_layers_of_streams_that_have_several(small_study, tmp_path):
    words = [*small_study, "--seeds", "1", "--epochs", "2", "--mix-epochs", "1", "--pool-mentions"]
    assert main(["compare", *words, "--out", str(tmp_path / "a")]) == 0
    layers = (tmp_path / "a/report.md").read_text("utf-8").partition("Learned layer weights")[2].partition("\n## ")[0]
    assert "mentions pooled" not in layers and "layer all" not in layers and layers.count("| 0.") >= 2
