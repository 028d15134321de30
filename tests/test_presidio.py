"""The recogniser in Presidio's own analyzer: the tagger's entities under Presidio's names."""

import sys
from importlib import import_module

import pytest

import boustro
from boustro.options import OptionError

TEXT = "🚀 In Vellmar it rained. Professor Ada  Calloway sold umbrellas to 10.0.0.7."


@pytest.fixture(scope="module")
def tagger(tagger_folder):
    pytest.importorskip("presidio_analyzer")
    return boustro.Tagger.from_pretrained(tagger_folder)


@pytest.fixture
def make(tagger):
    from boustro.apps.integrations.presidio import BoustroRecognizer

    return lambda *arguments, **options: BoustroRecognizer(tagger, *arguments, **options)


def analyzer(recognizer):
    """Presidio's engine with this recogniser and one of its own, without a downloaded model."""
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine
    from presidio_analyzer.predefined_recognizers import IpRecognizer

    class Nothing(NlpEngine):
        def load(self):
            pass

        def is_loaded(self):
            return True

        def process_text(self, text, language):
            return NlpArtifacts([], [], [], [], self, language)

        def process_batch(self, texts, language, **_):
            return ((text, self.process_text(text, language)) for text in texts)

        def is_stopword(self, word, language):
            return False

        def is_punct(self, word, language):
            return False

        def get_supported_entities(self):
            return []

        def get_supported_languages(self):
            return ["en"]

    registry = RecognizerRegistry(recognizers=[recognizer, IpRecognizer()], supported_languages=["en"])
    return AnalyzerEngine(registry=registry, nlp_engine=Nothing(), supported_languages=["en"])


def shown(results, text=TEXT):
    return sorted((r.entity_type, text[r.start : r.end]) for r in results)


def test_the_analyzer_finds_what_the_tagger_finds(make, tagger):
    engine = analyzer(make())
    results = engine.analyze(TEXT, language="en")
    assert shown(results) == [("IP_ADDRESS", "10.0.0.7"), ("LOCATION", "Vellmar"), ("PERSON", "Ada  Calloway")]
    expected = {e.text: e.score for e in tagger.predict(TEXT)}
    assert {TEXT[r.start : r.end]: r.score for r in results if r.entity_type != "IP_ADDRESS"} == expected
    assert {r.recognition_metadata["recognizer_name"] for r in results} == {"BoustroRecognizer", "IpRecognizer"}
    assert {"PERSON", "LOCATION"} <= set(engine.get_supported_entities("en"))


def test_only_the_entities_that_are_asked_for_come(make):
    engine = analyzer(make())
    assert shown(engine.analyze(TEXT, language="en", entities=["PERSON"])) == [("PERSON", "Ada  Calloway")]
    assert shown(engine.analyze(TEXT, language="en", entities=["LOCATION"], score_threshold=1.0)) == []
    (person,) = engine.analyze(TEXT, language="en", entities=["PERSON"], return_decision_process=True)
    assert "PER by Tagger(" in person.analysis_explanation.textual_explanation


def test_names_can_be_chosen_and_labels_left_out(make):
    own = make({"PER": "AUTHOR", "LOC": None})
    assert own.supported_entities == ["AUTHOR"]
    assert shown(own.analyze(TEXT, ["AUTHOR"])) == shown(own.analyze(TEXT, [])) == [("AUTHOR", "Ada  Calloway")]
    with pytest.raises(OptionError, match=r"the tagger has no label 'PERS'; did you mean 'PER'\? \(it has LOC, PER\)"):
        make({"PERS": "PERSON"})


def test_text_that_arrives_has_the_same_results_once_they_are_final(make):
    own, found, safe = make({"LOC": "CITY"}), [], []
    stream = own.live(delay=None)
    for place in range(0, len(TEXT), 7):
        found += stream.feed(TEXT[place : place + 7])
        safe.append(stream.safe)
    assert found == [] and {*safe} == {0}
    assert shown(stream.end()) == [("CITY", "Vellmar"), ("PERSON", "Ada  Calloway")] == shown(own.analyze(TEXT, []))


def test_a_result_of_text_that_arrives_is_final_before_the_text_ends(make):
    own = make({"LOC": "CITY"})
    seen, stream = {}, own.live(delay=8, entities=["CITY"])
    for number, character in enumerate(TEXT):
        for result in stream.feed(character):
            assert result.end <= stream.safe <= number
            seen[number] = result
    ((number, city),) = seen.items()
    assert shown([city]) == [("CITY", "Vellmar")] and TEXT.index("rained") < number < TEXT.index("Ada")
    assert stream.end() == [] and stream.safe == len(TEXT)


def test_a_promised_recall_gives_longer_lists(make, tagger):
    few, many = make(), make(recall=0.5)
    assert many.tagger.recall == 0.5 and tagger.recall is None
    assert (
        {r.entity_type for r in few.analyze(TEXT, [])}
        <= {"PERSON", "LOCATION"}
        >= {r.entity_type for r in many.analyze(TEXT, [])}
    )


def test_a_folder_opens(tagger, tmp_path):
    from boustro.apps.integrations.presidio import BoustroRecognizer

    tagger.save_pretrained(tmp_path / "ner")
    found = BoustroRecognizer(tmp_path / "ner", supported_language="de", name="names")
    assert (found.name, found.supported_language, found.version) == ("names", "de", boustro.__version__)
    assert found.is_loaded and len(found.analyze(TEXT, ["PERSON"])) == 1


def test_without_presidio_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.delitem(sys.modules, "boustro.apps.integrations.presidio", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'boustro\[presidio\]'"):
        import_module("boustro.apps.integrations.presidio")
