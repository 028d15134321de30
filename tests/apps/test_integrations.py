"""Taggers inside spaCy and Presidio: the same entities, on the library's own terms."""

import json
import shutil
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import boustro
from boustro.options import OptionError
from boustro.tasks import task_class
from boustro.tasks.answers import Answer
from boustro.types import Entity, Sentence
from conftest import ROOT, SENTENCES
from labelled import DATA, RECORDS

TEXTS = ["In Vellmar it rained.\n\n Professor Ada  Calloway sold umbrellas.", "", "Nobody reads the bulletin.", " \n"]


@pytest.fixture
def nlp(tagger_folder):
    spacy = pytest.importorskip("spacy")
    import_module("boustro.apps.integrations.spacy")  # an installed package is found by its entry point
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("boustro", config={"tagger": str(tagger_folder)})
    return nlp


def entities(doc):
    return [(e.label_, e.text) for e in doc.ents]


def test_spacy_documents_get_the_taggers_entities(nlp):
    doc = nlp(TEXTS[0])
    assert entities(doc) == [("LOC", "Vellmar"), ("PER", "Ada  Calloway")]
    found = nlp.get_pipe("boustro").tagger.predict(TEXTS[0])
    places = [(e.label_, e.start_char, e.end_char) for e in doc.ents]
    assert places == [(e.label, e.start, e.end) for e in found]
    spans = doc.spans["boustro"]
    assert [(e.label_, e.text) for e in spans] == entities(doc)
    assert spans.attrs["scores"].tolist() == pytest.approx([e.score for e in found], abs=1e-3)


def test_spacy_tokens_are_read_with_the_spaces_that_the_text_has(nlp, monkeypatch):
    given: list[Sentence] = []
    component = nlp.get_pipe("boustro")
    nothing = Answer((), (), ())
    answer = lambda sentences: given.extend(sentences) or [nothing] * len(sentences)  # noqa: E731
    monkeypatch.setattr(component.tagger, "answer", answer)
    list(nlp.pipe(["Ada’s boat (old)\tsank.\nIt did.", "Ada"]))
    text, last = given[0], given[-1]
    assert "".join(" " * s + w for w, s in zip(text.words, text.spaces, strict=True)) == " Ada’s boat (old) sank."
    assert given[1].words == ("It", "did", ".") and given[1].spaces == (True, True, False)
    assert text.document == given[1].document != last.document


def test_spacy_batches_change_nothing(nlp):
    texts = TEXTS * 3
    alone = [entities(nlp(text)) for text in texts]
    assert [entities(doc) for doc in nlp.pipe(texts, batch_size=5)] == alone
    assert [doc.text for doc in nlp.pipe(texts, batch_size=5)] == texts
    assert any(alone)


def test_spacy_without_sentences_reads_the_document_as_one(nlp):
    nlp.remove_pipe("sentencizer")
    assert entities(nlp("In Vellmar it rained.")) == [("LOC", "Vellmar")]


def test_a_spacy_pipeline_holds_its_tagger_wherever_it_is_moved(tagger_folder, tiny_pair, tmp_path, monkeypatch):
    import spacy

    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir(), away.mkdir()
    shutil.copytree(tagger_folder, home / "ner")
    monkeypatch.chdir(home)
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("boustro", config={"tagger": "ner"})
    expected = [entities(doc) for doc in nlp.pipe(TEXTS)]
    assert any(expected)
    nlp.to_disk("pipeline")
    data = nlp.to_bytes()
    config = nlp.config
    assert sum(f.stat().st_size for f in Path("pipeline").rglob("*")) < 2**20  # the LMs are not in it
    shutil.move("pipeline", away / "moved")
    shutil.rmtree("ner")
    monkeypatch.chdir(away)
    opened = spacy.load("moved")
    assert [entities(doc) for doc in opened.pipe(TEXTS)] == expected
    assert opened.get_pipe_config("boustro") == nlp.get_pipe_config("boustro")
    assert opened.pipe_labels["boustro"] == opened.meta["labels"]["boustro"] == ["LOC", "PER"]
    opened.to_disk("again")
    assert [entities(doc) for doc in spacy.load("again").pipe(TEXTS)] == expected
    whole = spacy.blank("en").from_config(config).from_bytes(data)
    assert [entities(doc) for doc in whole.pipe(TEXTS)] == expected


def test_a_spacy_pipeline_finds_lms_that_have_moved(tagger_folder, tiny_pair, tmp_path):
    import spacy

    forward, backward = tiny_pair.split("+")
    for name, path in (("f", forward), ("b", backward)):
        shutil.copytree(path, tmp_path / name)
    own = f"{tmp_path / 'f'}+{tmp_path / 'b'}"
    nlp = spacy.blank("en")
    nlp.add_pipe("boustro", config={"tagger": str(tagger_folder), "encoder": own})
    expected = entities(nlp(TEXTS[0]))
    nlp.to_disk(tmp_path / "pipeline")
    spacy.load(tmp_path / "pipeline")
    shutil.move(tmp_path / "f", tmp_path / "g")
    with pytest.raises((OSError, ValueError)):
        spacy.load(tmp_path / "pipeline")
    there = {"components": {"boustro": {"encoder": own.replace("/f+", "/g+")}}}
    assert entities(spacy.load(tmp_path / "pipeline", config=there)(TEXTS[0])) == expected


def test_a_shipped_encoder_travels_by_its_name(tmp_path, monkeypatch):
    spacy = pytest.importorskip("spacy")
    import_module("boustro.apps.integrations.spacy")
    boustro.Tagger("starter-forward", "linear", epochs=1, cache=False).fit(DATA).save_pretrained(tmp_path / "ner")
    nlp = spacy.blank("en")
    nlp.add_pipe("boustro", config={"tagger": str(tmp_path / "ner")})
    nlp.to_disk(tmp_path / "pipeline")
    saved = json.loads((tmp_path / "pipeline/boustro/tagger/config.json").read_text("utf-8"))
    assert saved["encoder"] == "starter-forward"


def test_a_spacy_pipeline_tells_its_labels_before_anything_is_opened(nlp, tagger_folder):
    assert nlp.pipe_labels["boustro"] == ["LOC", "PER"]
    assert nlp.get_pipe("boustro")._task is None
    analysis = nlp.analyze_pipes()
    assert analysis["summary"]["boustro"]["assigns"] == ["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type"]
    assert "ents_f" in analysis["summary"]["boustro"]["scores"] and not analysis["problems"]["boustro"]


def test_of_nested_entities_spacy_has_the_outermost_and_the_spans_have_all(nlp, monkeypatch):
    nested = (Entity("ORG", 0, 4, score=0.9), Entity("LOC", 2, 4, score=0.6))
    answer = lambda sentences: [Answer((), (), nested) for _ in sentences]  # noqa: E731
    monkeypatch.setattr(nlp.get_pipe("boustro").tagger, "answer", answer)
    doc = nlp("Bank of Port Lisse fell.")
    assert entities(doc) == [("ORG", "Bank of Port Lisse")]
    assert [(e.label_, e.text) for e in doc.spans["boustro"]] == [("ORG", "Bank of Port Lisse"), ("LOC", "Port Lisse")]
    assert doc.spans["boustro"].attrs["scores"].tolist() == pytest.approx([0.9, 0.6])


def test_what_an_earlier_component_found_stays_in_spacy(nlp, monkeypatch):
    from spacy.tokens import Span, SpanGroup

    tagger = nlp.get_pipe("boustro")
    found = [Entity("PER", 0, 2, score=0.5), Entity("LOC", 4, 6, score=0.7), Entity("LOC", 7, 8, score=0.9)]
    monkeypatch.setattr(type(tagger.tagger), "answer", lambda *_: [Answer((), (), tuple(found))])
    doc = nlp.make_doc("Ada Brandt flew to Port Lisse with Okonkwo today by air")
    first = [Span(doc, 1, 3, label="ORG", kb_id="Q7"), Span(doc, 8, 9, label="DATE")]
    doc.set_ents(first, blocked=[doc[7:8]])
    doc.spans["boustro"] = SpanGroup(doc, spans=[doc[9:11], Span(doc, 4, 6, label="LOC")], attrs={"scores": [0.1, 0.2]})
    for _ in range(2):
        tagger(doc)
        assert [(e.start, e.end, e.label_) for e in doc.ents] == [(1, 3, "ORG"), (4, 6, "LOC"), (8, 9, "DATE")]
        assert doc.ents[0].kb_id_ == "Q7" and (doc[7].ent_iob_, doc[7].ent_type_, doc[0].ent_iob_) == ("B", "", "O")
        assert [(s.start, s.end) for s in doc.spans["boustro"]] == [(9, 11), (0, 2), (4, 6), (7, 8)]
        assert doc.spans["boustro"].attrs["scores"] == pytest.approx([0.1, 0.5, 0.7, 0.9])


def test_spacy_evaluates_with_the_taggers_own_scores(nlp, tagger_folder):
    from spacy.tokens import Doc
    from spacy.training import Example

    nlp.remove_pipe("sentencizer")
    examples = []
    for words, tags in DATA:
        reference = Doc(nlp.vocab, words=words, ents=list(tags))
        examples.append(Example(Doc(nlp.vocab, words=words), reference))
    scores = nlp.evaluate(examples)
    truth = nlp.get_pipe("boustro").tagger.evaluate([Sentence(tuple(w), tuple(t), (True,) * len(w)) for w, t in DATA])
    assert 100 * scores["ents_f"] == pytest.approx(truth.f1) and set(scores["ents_per_type"]) == set(truth.per_type)
    for example in examples:
        example.reference.spans["boustro"] = list(example.reference.ents)
    assert nlp.evaluate(examples)["spans_boustro_f"] == pytest.approx(scores["ents_f"])


def test_spacy_says_which_tagger_is_missing(nlp):
    nlp.add_pipe("boustro", name="other", config={"tagger": "nothing"})
    assert nlp.pipe_labels["other"] == []
    with pytest.raises(FileNotFoundError, match="nothing: no such folder; a tagger folder is expected here"):
        nlp("Ada")


def test_spacy_says_once_that_its_tagger_reads_another_language():
    nlp = pytest.importorskip("spacy").blank("de")
    nlp.add_pipe("boustro", config={"tagger": "names"})
    text = "Angela Merkel traf Barack Obama gestern in Berlin, und wir haben nichts davon gehört."
    with pytest.warns(UserWarning, match="German"):
        nlp(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp(text)


def test_the_entry_point_names_the_factory():
    pytest.importorskip("spacy")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, function = project["entry-points"]["spacy_factories"]["boustro"].partition(":")
    assert callable(getattr(import_module(module), function))


@pytest.mark.parametrize("library", ["spacy", "presidio_analyzer", "sentence_transformers"])
def test_a_missing_library_is_asked_for_with_its_command(library, monkeypatch):
    for name in [library, *(m for m in sys.modules if m.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    own = library.removesuffix("_analyzer")
    monkeypatch.delitem(sys.modules, f"boustro.apps.integrations.{own}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install .*boustro\[{own.replace('_', '-')}\]"):
        import_module(f"boustro.apps.integrations.{own}")


TEXT = "🚀 In Vellmar it rained. Professor Ada  Calloway sold umbrellas to 10.0.0.7."


@pytest.fixture(scope="module")
def tagger(tagger_folder):
    pytest.importorskip("presidio_analyzer")
    return boustro.Tagger.from_pretrained(tagger_folder)


@pytest.fixture
def recogniser(tagger):
    from boustro.apps.integrations.presidio import BoustroRecognizer

    return lambda *arguments, **options: BoustroRecognizer(tagger, *arguments, **options)


def analyzer(recognizer):
    """Presidio's engine with this recogniser and one of its own, without a downloaded model."""
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine
    from presidio_analyzer.predefined_recognizers import IpRecognizer

    def processed(self, text, language):
        return NlpArtifacts([], [], [], [], self, language)

    def batch(self, texts, language, **_):
        return ((text, processed(self, text, language)) for text in texts)

    said = {"load": None, "is_loaded": True, "is_stopword": False, "is_punct": False}
    said |= {"get_supported_entities": [], "get_supported_languages": ["en"]}
    members = {name: lambda *_, value=value: value for name, value in said.items()}
    nothing = type("Nothing", (NlpEngine,), members | {"process_text": processed, "process_batch": batch})
    registry = RecognizerRegistry(recognizers=[recognizer, IpRecognizer()], supported_languages=["en"])
    return AnalyzerEngine(registry=registry, nlp_engine=nothing(), supported_languages=["en"])


def shown(results, text=TEXT):
    return sorted((r.entity_type, text[r.start : r.end]) for r in results)


def test_the_analyzer_finds_what_the_tagger_finds(recogniser, tagger):
    engine = analyzer(recogniser())
    results = engine.analyze(TEXT, language="en")
    assert shown(results) == [("IP_ADDRESS", "10.0.0.7"), ("LOCATION", "Vellmar"), ("PERSON", "Ada  Calloway")]
    expected = {e.text: e.score for e in tagger.predict(TEXT)}
    assert {TEXT[r.start : r.end]: r.score for r in results if r.entity_type != "IP_ADDRESS"} == expected
    assert {r.recognition_metadata["recognizer_name"] for r in results} == {"BoustroRecognizer", "IpRecognizer"}
    assert {"PERSON", "LOCATION"} <= set(engine.get_supported_entities("en"))


def test_only_the_entities_that_are_asked_for_come(recogniser):
    engine = analyzer(recogniser())
    assert shown(engine.analyze(TEXT, language="en", entities=["PERSON"])) == [("PERSON", "Ada  Calloway")]
    assert shown(engine.analyze(TEXT, language="en", entities=["LOCATION"], score_threshold=1.0)) == []
    (person,) = engine.analyze(TEXT, language="en", entities=["PERSON"], return_decision_process=True)
    assert "PER by Tagger(" in person.analysis_explanation.textual_explanation


def test_names_can_be_chosen_and_labels_left_out(recogniser):
    own = recogniser({"PER": "AUTHOR", "LOC": None})
    assert own.supported_entities == ["AUTHOR"]
    assert shown(own.analyze(TEXT, ["AUTHOR"])) == shown(own.analyze(TEXT, [])) == [("AUTHOR", "Ada  Calloway")]
    with pytest.raises(OptionError, match=r"the tagger has no label 'PERS'; did you mean 'PER'\? \(it has LOC, PER\)"):
        recogniser({"PERS": "PERSON"})


def test_presidio_gets_its_own_names_of_places_and_organisations_and_no_tagger_that_it_would_not_ask():
    pytest.importorskip("presidio_analyzer")
    from boustro.apps.integrations.presidio import BoustroRecognizer

    own, text = BoustroRecognizer("names"), "Ada Brandt of Siemens left Oslo."
    assert own.supported_entities == ["LOCATION", "ORGANIZATION", "PERSON"]
    assert "WORK" in BoustroRecognizer("names", {"OTHER": "WORK"}).supported_entities
    found = analyzer(own).analyze(text, language="en", entities=["LOCATION", "ORGANIZATION"])
    assert shown(found, text) == [("LOCATION", "Oslo"), ("ORGANIZATION", "Siemens")]
    assert shown(own.analyze(text, ["PLACE"]), text) == [("LOCATION", "Oslo")]

    def trained(*labels):
        sentence = [[(word, label) for word, label in zip(("Ada", "Oslo"), labels, strict=True)]]
        return boustro.Tagger(head="ridge").fit(["Ada left Oslo."], sentence)

    assert BoustroRecognizer(trained("person", "Gpe")).supported_entities == ["LOCATION", "PERSON"]
    ships = trained("VESSEL", "HARBOUR")
    with pytest.raises(OptionError, match=r"\(HARBOUR, VESSEL\) is one that Presidio asks for.*HARBOUR.: .PERSON"):
        BoustroRecognizer(ships)
    assert BoustroRecognizer(ships, {"VESSEL": "SHIP"}).supported_entities == ["HARBOUR", "SHIP"]


def test_text_that_arrives_has_the_same_results_once_they_are_final(recogniser):
    own, found, safe = recogniser({"LOC": "CITY"}), [], []
    stream = own.live(delay=None)
    for place in range(0, len(TEXT), 7):
        found += stream.feed(TEXT[place : place + 7])
        safe.append(stream.safe)
    assert found == [] and {*safe} == {0}
    assert shown(stream.end()) == [("CITY", "Vellmar"), ("PERSON", "Ada  Calloway")] == shown(own.analyze(TEXT, []))


def test_a_result_of_text_that_arrives_is_final_before_the_text_ends(recogniser):
    own = recogniser({"LOC": "CITY"})
    seen, stream = {}, own.live(delay=8, entities=["CITY"])
    for number, character in enumerate(TEXT):
        for result in stream.feed(character):
            assert result.end <= stream.safe <= number
            seen[number] = result
    ((number, city),) = seen.items()
    assert shown([city]) == [("CITY", "Vellmar")] and TEXT.index("rained") < number < TEXT.index("Ada")
    assert stream.end() == [] and stream.safe == len(TEXT)


def test_a_promised_recall_gives_longer_lists(recogniser, tagger):
    few, many = recogniser(), recogniser(recall=0.5)
    assert many.tagger.recall == 0.5 and tagger.recall is None
    found = [{r.entity_type for r in one.analyze(TEXT, [])} for one in (few, many)]
    assert found[0] <= {"PERSON", "LOCATION"} >= found[1]


def test_a_folder_opens(tagger, tmp_path):
    from boustro.apps.integrations.presidio import BoustroRecognizer

    tagger.save_pretrained(tmp_path / "ner")
    found = BoustroRecognizer(tmp_path / "ner", supported_language="de", name="names")
    assert (found.name, found.supported_language, found.version) == ("names", "de", boustro.__version__)
    assert found.is_loaded and len(found.analyze(TEXT, ["PERSON"])) == 1


@pytest.fixture(scope="module")
def folders(tiny_pair, tmp_path_factory):
    home = tmp_path_factory.mktemp("folders")
    names = ("classify", "regress", "pair")
    made = {name: task_class(name)(tiny_pair, hidden=8, epochs=2).fit(RECORDS[name]) for name in names}
    several = [("Ada left.", ["news"]), ("It rained.", ["weather", "sport"])]
    made["several"] = boustro.Classifier(tiny_pair, hidden=8, epochs=2).fit(several)
    for name, task in made.items():
        task.save_pretrained(home / name)
    return home, made


def component(folder, **config):
    spacy = pytest.importorskip("spacy")
    import boustro.apps.integrations.spacy  # noqa: F401 (an installed package is found by its entry point)

    nlp = spacy.blank("en")
    nlp.add_pipe("boustro_text", config={"model": str(folder), **config})
    return nlp


@pytest.mark.parametrize("name", ["classify", "several"])
def test_spacy_documents_get_the_labels_of_a_classifier(name, folders, tmp_path):
    home, made = folders
    nlp = component(home / name)
    texts = ["Ada left.", "", "It rained. It rained."] * 3
    expected = [made[name].predict(text).probabilities for text in texts]
    assert nlp.pipe_labels["boustro_text"] == made[name].types and nlp.get_pipe("boustro_text")._task is None
    for doc, cats in zip(nlp.pipe(texts, batch_size=4), expected, strict=True):
        assert doc.cats == pytest.approx(cats, abs=5e-3)
    nlp.to_disk(tmp_path / "pipeline")
    import spacy

    opened = spacy.load(tmp_path / "pipeline")
    assert opened(texts[0]).cats == pytest.approx(expected[0], abs=5e-3)
    again = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert again(texts[0]).cats == pytest.approx(expected[0], abs=5e-3)


def test_spacy_scores_the_labels(folders):
    from spacy.training import Example

    home, made = folders
    nlp = component(home / "classify")
    examples = []
    for record in RECORDS["classify"]:
        reference = nlp.make_doc(record["text"])
        reference.cats = {label: float(label == record["label"]) for label in made["classify"].types}
        examples.append(Example(nlp.make_doc(record["text"]), reference))
    truth = made["classify"].evaluate(RECORDS["classify"]).to_dict()
    assert 100 * nlp.evaluate(examples)["cats_micro_f"] == pytest.approx(truth["accuracy"])


def test_spacy_documents_get_the_number_of_a_regressor(folders):
    home, made = folders
    doc = component(home / "regress")("Ada left.")
    assert doc._.boustro_score == pytest.approx(made["regress"].predict("Ada left.")) and doc.cats == {}


def test_spacy_says_what_it_takes(folders):
    home, _ = folders
    with pytest.raises(ValueError, match=r"pair: a folder of the task pair; the component takes classify and regress"):
        component(home / "pair")("Ada left.")
    with pytest.raises(FileNotFoundError, match="nothing: no such folder"):
        component("nothing")("Ada")


@pytest.fixture(scope="module")
def encoder(tiny_pair):
    return boustro.SentenceEncoder(tiny_pair, "statistics", cache=False, dtype="float32").fit(SENTENCES)


def test_a_round_trip_through_sentence_transformers(encoder, tmp_path):
    from boustro.apps.integrations.sentence_transformers import BoustroModule

    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(modules=[BoustroModule(encoder)], device="cpu")
    vectors = model.encode(SENTENCES, batch_size=3, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, encoder.encode(SENTENCES, normalize_embeddings=True), atol=1e-5)
    assert model.get_embedding_dimension() == encoder.width and model.encode("").shape == (encoder.width,)
    alike = encoder.similarity(vectors[:2], vectors[2:4])
    np.testing.assert_allclose(model.similarity(vectors[:2], vectors[2:4]), alike, atol=1e-5)
    model.save_pretrained(str(tmp_path / "st"))
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(opened.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-5)
    encoder.save_pretrained(tmp_path / "own")
    found = BoustroModule(tmp_path / "own").encoder.encode("Ada.")
    np.testing.assert_allclose(found, encoder.encode("Ada."), atol=1e-5)
