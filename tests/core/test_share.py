"""Taggers for others: the card says what the folder holds, the hub gets it whole, and LMs are pinned to a commit."""

import json
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import ModelCard
from huggingface_hub.utils import filter_repo_objects

import boustro
from boustro.encoders.base import Identity, JoinedIdentity
from boustro.encoders.spec import Spec, load_encoder
from boustro.store import provenance
from boustro.tasks.hub import download, model_card, upload, write_card
from labelled import longer

TRAIN = [
    ("Ada Brandt said boats cost 3 million .".split(), "B-PER I-PER O O O O O O".split()),
    ("In Vellmar it rained .".split(), "O B-LOC O O O".split()),
    ("Nobody reads the bulletin .".split(), "O O O O O".split()),
]
COMMITS = "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def pair(tiny_lm):
    return f"{tiny_lm('llama')}+{tiny_lm('llama', 'backward', seed=1)}"


@pytest.fixture(scope="module")
def tagger(pair):
    return boustro.Tagger(pair, "linear", epochs=2, lr=1e-2).fit(TRAIN, longer(TRAIN), seed=3)


@pytest.fixture
def folder(tagger, tmp_path):
    tagger.save_pretrained(tmp_path / "ner")
    return tmp_path / "ner"


class FakeHub:
    """Keeps repositories in a folder, and every call with its arguments."""

    def __init__(self, home: Path) -> None:
        self.home, self.calls = home, []

    def api(self, token):
        self.calls.append(("token", token))
        return self

    def create_repo(self, repo_id, **options):
        self.calls.append(("create_repo", repo_id, options))

    def upload_folder(self, *, repo_id, folder_path, revision, allow_patterns, commit_message):
        files = [p.relative_to(folder_path).as_posix() for p in Path(folder_path).rglob("*") if p.is_file()]
        target = self.home / repo_id / (revision or "main")
        target.mkdir(parents=True)
        for name in filter_repo_objects(files, allow_patterns=allow_patterns):
            shutil.copy(Path(folder_path) / name, target / name)
        (target / ".gitattributes").write_text("* text=auto\n")  # the hub adds files of its own
        return SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1")

    def snapshot_download(self, repo_id, revision=None):
        found = self.home / repo_id / (revision or "main")
        if not found.is_dir():
            raise OSError("404: no such repository")
        return str(found)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")
    return fake


def test_a_card_is_what_the_hub_can_read(folder, tagger):
    card = ModelCard.load(folder / "README.md", ignore_metadata_errors=False)
    assert (card.data.library_name, card.data.pipeline_tag) == ("boustro", "token-classification")
    values = {r.metric_name: r.metric_value for r in card.data.eval_results}
    scores = tagger.record["dev_scores"]
    assert values["entity F1"] == pytest.approx(scores["f1"] / 100, abs=1e-4)
    assert scores["f1"] == pytest.approx(max(tagger.record["dev_curve"]), abs=1e-3)
    assert {r.dataset_revision for r in card.data.eval_results} == {tagger.record["dev"]["fingerprint"]}


def test_a_card_says_all_that_a_reader_must_know(folder, tagger):
    text, record = (folder / "README.md").read_text("utf-8"), tagger.record
    for label, score in record["dev_scores"]["per_type"].items():
        assert f"| {label} | {score['precision']:.2f} | {score['recall']:.2f} | {score['f1']:.2f} | " in text
    for fact in (
        record["train"]["fingerprint"],
        f"{record['head_parameters']:,}",
        f"{record['encoder_parameters']:,}",
        f"{record['train_seconds']:,}",
        "seed: 3",
        f"command: `{shlex.join(provenance()['command'])}`",
        *(lm.weights for lm in tagger.encoder().identity().lms),
    ):
        assert fact in text
    assert str(folder.parent) not in text and str(Path.home()) not in text


def test_one_folder_gives_one_card_which_may_be_written_on_by_hand(folder):
    first = (folder / "README.md").read_bytes()
    assert write_card(folder).read_bytes() == first
    with (folder / "README.md").open("a") as card:
        card.write("\nAda uses it for the harbour bulletin.\n")
    boustro.Tagger.from_pretrained(folder)


def test_a_card_without_a_development_set_claims_no_score(pair, tmp_path):
    boustro.Tagger(pair, "linear", epochs=1).fit(TRAIN).save_pretrained(tmp_path / "ner")
    card = ModelCard.load(tmp_path / "ner" / "README.md")
    assert card.data.eval_results is None and "no development set" in card.text


def test_what_stands_in_a_table_cannot_break_it(folder):
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["record"]["train"]["name"] = "a|b\nc.conll"
    config["record"]["notices"] = {"words of | a kind": 1200, "of another": 0}
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    text = model_card(config, manifest, "ner")
    assert "| train | a\\|b c.conll | 3 |" in text
    assert "- 1,200 words of \\| a kind" in text and "of another" not in text


def test_only_what_the_manifest_vouches_for_is_sent(folder, hub, capsys):
    (folder / "notes.txt").write_text("private")
    upload(folder, "ada/ner", private=True, token="hf_mine")
    assert hub.calls[0] == ("token", "hf_mine")
    assert capsys.readouterr().err.count("is a local folder; to open ada/ner, give that model") == 2
    sent = {p.name for p in (hub.home / "ada/ner/main").iterdir()}
    assert sent == {"config.json", "head.safetensors", "recall.json", "manifest.json", "README.md", ".gitattributes"}


def test_a_damaged_folder_is_not_sent(folder, hub):
    (folder / "config.json").write_text("{}" + " " * ((folder / "config.json").stat().st_size - 2))
    with pytest.raises(ValueError, match="has changed since it was written"):
        upload(folder, "ada/ner")
    assert not hub.calls


def test_without_a_token_it_says_how_to_get_one(folder, hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(ValueError, match=r"no Hugging Face token.*hf auth login"):
        upload(folder, "ada/ner")
    with pytest.raises(ValueError, match="not a repository name"):
        upload(folder, "./ner", token="hf_mine")
    assert not hub.calls


def test_a_name_is_a_folder_before_it_is_the_hubs(folder, hub, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert download("ner").path == Path("ner") and download(folder).path == folder
    (folder.parent / "ada").mkdir()
    folder.rename(folder.parent / "ada" / "ner")
    assert download("ada/ner").path == Path("ada/ner")
    with pytest.raises(
        FileNotFoundError, match=r"eve/ner: no such folder, and not found on the Hub: .*404: no such repository"
    ):
        boustro.Tagger.from_pretrained("eve/ner")
    for name in ("nothing", "./eve/ner", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="no such folder; a tagger folder is expected here"):
            boustro.Tagger.from_pretrained(name)


@pytest.fixture
def cached_lm(tiny_lm):
    """ada/lm in the hub's cache, as two commits of different weights; main is the second one."""
    repository = Path(huggingface_hub.constants.HF_HUB_CACHE) / "models--ada--lm"
    for seed, commit in enumerate(COMMITS):
        shutil.copytree(tiny_lm("llama", seed=seed), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMITS[0])
    yield repository
    shutil.rmtree(repository)


def test_a_tagger_opens_with_the_commit_it_was_trained_on(cached_lm, tiny_lm, tmp_path):
    backward = tiny_lm("llama", "backward", seed=1)
    trained = boustro.Tagger(f"ada/lm+{backward}", "linear", epochs=1).fit(TRAIN, seed=1)
    trained.save_pretrained(tmp_path / "ner")
    (cached_lm / "refs" / "main").write_text(COMMITS[1])  # the hub moves on
    assert load_encoder("ada/lm").identity().weights == f"ada/lm@{COMMITS[1]}"
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner")
    assert opened.plan.reader.spec == f"ada/lm@{COMMITS[0]}+{backward}"
    assert opened.evaluate(TRAIN) == trained.evaluate(TRAIN)
    assert ModelCard.load(tmp_path / "ner" / "README.md").data.base_model == ["ada/lm"]
    with pytest.raises(ValueError, match="not the one that this head was trained on"):
        boustro.Tagger.from_pretrained(tmp_path / "ner", encoder=f"ada/lm@{COMMITS[1]}+{backward}")
    opened.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again/config.json").read_text("utf-8"))["encoder"] == opened.plan.reader.spec


def identity(*weights: str) -> JoinedIdentity:
    return JoinedIdentity(lms=tuple(Identity(weights=own, vocabulary="v", pooling="exit") for own in weights))


def test_an_exact_spec_leaves_nothing_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("lm").mkdir()
    parts = identity("gpt2@607a30d", "0123", "a/b@c", "4567")
    exact = Spec.parse("gpt2+./lm+backward:a/b@main+backward:lm").exact(parts)
    assert exact == f"gpt2@607a30d+{tmp_path}/lm+backward:a/b@c+backward:{tmp_path}/lm"
    assert Spec.parse(exact).exact(parts) == exact
    assert Spec.parse("starter").exact(identity("0", "1")) == "starter"
    assert Spec.parse("starter-forward").exact(identity("0")) == "starter-forward"
    assert Spec.parse("gpt2").exact(identity("gpt2@None")) == "gpt2"  # a cache that knows no commit
