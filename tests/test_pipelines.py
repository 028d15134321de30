"""The pipelines answer as those of transformers do: the same shapes, the same keys, the same types."""

import numbers
import shutil

import pytest

import boustro
from boustro.integrations.transformers import pipeline
from boustro.options import OptionError
from boustro.text.tokenizers import with_special_pieces
from boustro.types import Entity
from test_tasks import INPUTS, RECORDS

TEXT = "In Vellmar it rained. Professor Ada  Calloway sold umbrellas."
LABELS = {"token": ["O", "B-PER", "I-PER"], "sequence": ["news", "weather", "sport"]}


@pytest.fixture(scope="module")
def theirs(tiny_tokenizer, tmp_path_factory):
    """theirs("token") → transformers' own pipeline over a small random BERT."""
    import torch
    import transformers

    def make(kind, **options):
        shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        shape["id2label"] = dict(enumerate(LABELS[kind]))
        special = with_special_pieces(tiny_tokenizer, ["mask", "cls", "sep", "pad"])
        config = transformers.AutoConfig.for_model("bert", vocab_size=len(special), **shape)
        torch.manual_seed(1)
        model = getattr(transformers, f"AutoModelFor{kind.title()}Classification").from_config(config)
        return transformers.pipeline(
            f"{kind.replace('sequence', 'text')}-classification", model, tokenizer=special, **options
        )

    return make


@pytest.fixture(scope="module")
def tagger(tagger_folder):
    return boustro.Tagger.from_pretrained(tagger_folder)


@pytest.fixture(scope="module")
def trained(tiny_pair):
    from boustro.tasks import task_class

    return {
        name: task_class(name)(tiny_pair, hidden=8, epochs=1).fit(RECORDS[name]) for name in RECORDS if name != "tag"
    }


def shape(value):
    """Lists by their items' shapes, dicts by their keys in order, numbers and texts by their kind."""
    if isinstance(value, dict):
        return {key: shape(own) for key, own in value.items()}, list(value)
    if isinstance(value, list):
        return [shape(item) for item in value]
    return next(kind for kind in (str, numbers.Integral, numbers.Real) if isinstance(value, kind)).__name__


def one_of_each(value):
    """A list of lists with their first items only: how many there are is the model's affair."""
    return [one_of_each(item) for item in value[:1]] if isinstance(value, list) else value


@pytest.mark.parametrize("strategy", [None, "none", "simple", "first", "average", "max"])
@pytest.mark.parametrize("inputs", [TEXT, [TEXT], [TEXT, "It rained."]], ids=["text", "list of one", "list"])
def test_token_classification_has_the_shape_of_transformers(theirs, tagger, strategy, inputs):
    options = {"ignore_labels": []} | ({} if strategy is None else {"aggregation_strategy": strategy})
    expected, found = theirs("token")(inputs, **options), pipeline("token-classification", tagger)(inputs, **options)
    assert len(found) == len(expected) or isinstance(inputs, str)
    assert shape(one_of_each(found)) == shape(one_of_each(expected))


@pytest.mark.parametrize("made", [{}, {"top_k": 2}, {"top_k": None}], ids=str)
@pytest.mark.parametrize("called", [{}, {"top_k": 1}, {"top_k": 2}, {"top_k": None}, {"batch_size": 2}], ids=str)
@pytest.mark.parametrize("kind", ["text", "list", "dict", "dicts"])
def test_text_classification_has_the_shape_of_transformers(theirs, tiny_pair, made, called, kind):
    labels = LABELS["sequence"]
    classifier = boustro.Classifier(tiny_pair, hidden=8, epochs=1).fit(
        [(f"Ada {n} left.", x) for n, x in enumerate(labels)]
    )
    inputs = {"text": "Ada left.", "list": ["Ada left.", "It rained."], "dict": {"text": "Ada left."}}
    inputs["dicts"] = [inputs["dict"], {"text": "It rained."}]
    expected = theirs("sequence", **made)(inputs[kind], **called)
    found = pipeline("sentiment-analysis", classifier, **made)(inputs[kind], **called)
    assert shape(found) == shape(expected)
    flat = [
        row
        for item in (found if isinstance(found, list) else [found])
        for row in (item if isinstance(item, list) else [item])
    ]
    assert {row["label"] for row in flat} <= set(labels)


def test_words_have_their_tags_and_places(tagger):
    pipe = pipeline("ner", tagger)
    words = pipe(TEXT, ignore_labels=[])
    assert [w["index"] for w in words] == list(range(len(words))) and "".join(w["word"] for w in words) == TEXT.replace(
        " ", ""
    )
    assert [(w["entity"], w["word"]) for w in pipe(TEXT)] == [
        ("B-LOC", "Vellmar"),
        ("B-PER", "Ada"),
        ("I-PER", "Calloway"),
    ]
    assert all(TEXT[w["start"] : w["end"]] == w["word"] and 0 < w["score"] <= 1 for w in words)


def test_entities_are_those_of_predict(tagger):
    pipe = pipeline(None, tagger, aggregation_strategy="simple")
    expected = tagger.predict(TEXT)
    assert [(e["entity_group"], e["start"], e["end"], e["word"]) for e in pipe(TEXT)] == [
        (e.label, e.start, e.end, e.text) for e in expected
    ]
    assert [e["score"] for e in pipe(TEXT)] == pytest.approx([e.score for e in expected], abs=1e-4) and expected
    everything = pipe(TEXT, ignore_labels=[])
    assert "".join(e["word"].replace(" ", "") for e in everything) == TEXT.replace(" ", "")
    assert [e["entity_group"] for e in pipe(TEXT, ignore_labels=["O", "PER"])] == ["LOC"]


def test_many_texts_stream_in_order_and_only_a_batch_is_held(tagger):
    taken = []

    def texts():
        for n in range(10):
            taken.append(n)
            yield TEXT if n % 2 else ""

    pipe = pipeline("token-classification", tagger, aggregation_strategy="simple")
    answers = pipe(texts(), batch_size=2)
    assert next(answers) == [] and len(taken) == 2
    assert [bool(answer) for answer in answers] == [True, *[False, True] * 4] and len(taken) == 10
    assert pipe([TEXT] * 3, batch_size=1) == pipe([TEXT] * 3) == pipe.predict((TEXT,) * 3) == [pipe(TEXT)] * 3
    assert pipe([]) == []


def test_words_that_are_split_already(tagger):
    words = "Professor Ada Calloway sold umbrellas .".split()
    pipe = pipeline("ner", tagger, aggregation_strategy="first", is_split_into_words=True)
    (found,) = pipe(words)
    assert (found["entity_group"], found["word"], found["start"]) == ("PER", "Ada Calloway", 10)
    assert pipe([words, words]) == [[found]] * 2
    (found,) = pipe(words, delimiter="_·_")
    assert "_·_".join(words)[found["start"] : found["end"]] == found["word"] == "Ada_·_Calloway"


def test_nested_entities_all_come(tagger, monkeypatch):
    from boustro.tasks.answers import Answer

    own = (Entity("ORG", 0, 4, score=0.9), Entity("LOC", 2, 4, score=0.6))
    monkeypatch.setattr(tagger, "answer", lambda examples: [Answer(("O",) * 6, (1.0,) * 6, own) for _ in examples])
    found = pipeline("ner", tagger)("Bank of Port Lisse fell.", aggregation_strategy="max", ignore_labels=[])
    assert [(e["entity_group"], e["word"]) for e in found] == [
        ("ORG", "Bank of Port Lisse"),
        ("LOC", "Port Lisse"),
        ("O", "fell."),
    ]


def test_pairs_and_numbers_are_text_classification(trained):
    both = {"text": INPUTS["pair"][0], "text_pair": INPUTS["pair"][1]}
    found = pipeline(None, trained["pair"])([both, both], top_k=None)
    assert [[row["label"] for row in rows] for rows in found] == [
        sorted(["0", "1"], key=lambda x: -trained["pair"].predict(INPUTS["pair"]).probabilities[x])
    ] * 2
    assert pipeline(None, trained["pair"])(both)["label"] == trained["pair"].predict(INPUTS["pair"]).label
    (number,) = pipeline(None, trained["regress"])("Ada left.")
    assert number == {"label": "LABEL_0", "score": trained["regress"].predict("Ada left.")}
    assert pipeline("text-classification", trained["similarity"])(both)["score"] == trained["similarity"].predict(
        INPUTS["pair"]
    )


def test_questions_have_the_shape_that_transformers_4_had(trained):
    """Version 5 has no such pipeline to compare with; these are the keys of version 4, in its order."""
    asked, pipe = INPUTS["qa"], pipeline("question-answering", trained["qa"])
    found = pipe(question=asked["question"], context=asked["context"])
    assert list(found) == ["score", "start", "end", "answer"] and [type(v) for v in found.values()] == [
        float,
        int,
        int,
        str,
    ]
    assert asked["context"][found["start"] : found["end"]] == found["answer"] != ""
    assert (
        pipe(asked) == found
        and pipe([asked, asked]) == pipe(question=["Who?"] * 2, context=asked["context"]) == [found] * 2
    )
    assert pipe(asked, top_k=2)[0] == found and len(pipe(asked, top_k=2)) == 2
    with pytest.raises(ValueError, match="a question and its context"):
        pipe(question="Who?")


def test_no_answer_is_given_only_where_it_is_asked_for(trained, monkeypatch):
    from boustro.tasks.questions import SpanAnswer

    best = (SpanAnswer("Ada", 0, 3, 0.2), SpanAnswer("May", 27, 30, 0.1))
    monkeypatch.setattr(trained["qa"], "result", lambda answer: SpanAnswer("", 0, 0, 0.7, best))
    pipe = pipeline("question-answering", trained["qa"])
    assert pipe(INPUTS["qa"])["answer"] == "Ada"
    assert pipe(INPUTS["qa"], handle_impossible_answer=True) == {"score": 0.7, "start": 0, "end": 0, "answer": ""}
    assert [a["answer"] for a in pipe(INPUTS["qa"], handle_impossible_answer=True, top_k=2)] == ["", "Ada"]


def test_a_folder_opens_by_its_path(tagger, tmp_path, monkeypatch):
    tagger.save_pretrained(tmp_path / "ner")
    assert pipeline("ner", tmp_path / "ner", device=-1)(TEXT) == pipeline("ner", tagger)(TEXT)
    shutil.copytree(tmp_path / "ner", tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    assert pipeline(model="other").task == "token-classification"


def test_mistakes_are_said(tagger, trained):
    with pytest.raises(ValueError, match="unknown task 'fill-mask': known are token-classification"):
        pipeline("fill-mask", tagger)
    with pytest.raises(OptionError, match="a Tagger is for the pipeline token-classification, not for text-classif"):
        pipeline("text-classification", tagger)
    with pytest.raises(OptionError, match="no option 'agregation_strategy'; did you mean 'aggregation_strategy'"):
        pipeline("ner", tagger, agregation_strategy="simple")
    with pytest.raises(OptionError, match="unknown aggregation_strategy 'last': known are none, simple"):
        pipeline("ner", tagger)(TEXT, aggregation_strategy="last")
    with pytest.raises(OptionError, match="give a model"):
        pipeline("ner")
    with pytest.raises(ValueError, match="text 2 is 7, which is not a string"):
        pipeline("ner", tagger)([TEXT, 7])
    with pytest.raises(FileNotFoundError, match="nothing: no such folder"):
        pipeline("ner", "nothing")
