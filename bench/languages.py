"""Topics in other languages than English; and a language's pair beside controls that are made on the same machine.

    pip install 'boustro[languages]'
    git clone https://github.com/dadelani/sib-200
    python bench/languages.py topics --data sib-200/data/annotated

The sentence encoders on the German messages beside this script, seventy-two of our own in six topics, by English names
and German ones and after twenty English messages; on the English ones of `messages.jsonl`; and, with `--data`, on
SIB-200 (Adelani et al. 2024; its repository is under Apache 2.0, FLORES-200, whose sentences it labels, under CC
BY-SA 4.0; 204 sentences in seven topics): the English names alone, with K sentences a topic of the language, and
with K English ones, drawn at random.

    python bench/languages.py names --data languages --english conll2003/train.txt

Names. `--data` has a folder of each language with train.txt and dev.txt. Taggers over each encoder, of K sentences a
type in some draws (`boustro fewshot`) and of the first sentences of the training set (`boustro compare`), scored on the
first sentences of dev; then taggers that learned from English alone: their F1 on the types that both sets have, and
the share of the words of persons and places, and of all other words, that some name of theirs covers.

    python bench/languages.py redact languages/*/dev.txt conll2003/dev.txt --thresholds 0.3 0.1

What a redactor masks of the first sentences: of the words of persons and places, and of those that are in no name.

    pip install sklearn-crfsuite
    boustro lab language --text raw.jsonl --train train.conll --dev dev.conll --out swahili
    python bench/languages.py pair --folder swahili --train train.conll --dev dev.conll

`--folder` is what `boustro lab language` wrote. Rows: its forward LM, its pair, without and with the memory of its
text, a masked LM (EuroBERT's body of the same size as one half) that reads as many pieces as both LMs together, all
with the options of its tagger (`--memory --spelling`), the pair without these, and a linear-chain CRF (CRFsuite,
L-BFGS) over each word's characters and shape and those of its neighbours. Mean ± standard deviation over seeds; the CRF
has none. All but the CRF choose their epoch on the development set. The report in `--folder` gets the masked LM;
taggers that it has are not trained again.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from boustro import Classifier, Tagger
from boustro.apps.live.redactor import open_tagger
from boustro.metrics.score import reliability
from boustro.metrics.spans import score_entities
from boustro.names import LANGUAGES_TAGGER
from boustro.tasks.data import read_data
from boustro.tasks.data.schemes import entities_to_bio, gold_entities, tags_to_entities
from boustro.types import Sentence
from gpt2_pair import boustro
from names import KIND_OF, marked

LONGEST, AROUND = 4, (-2, -1, 1, 2)
GERMAN_NAMES = {
    "delivery": "Lieferung",
    "payment": "Zahlung",
    "defect": "Defekt",
    "account": "Konto",
    "return": "Rückgabe",
    "praise": "Lob",
}
LANGUAGES = {
    "German": "deu_Latn",
    "Spanish": "spa_Latn",
    "French": "fra_Latn",
    "Hungarian": "hun_Latn",
    "Ukrainian": "ukr_Cyrl",
    "Turkish": "tur_Latn",
    "Swahili": "swh_Latn",
    "Arabic": "arb_Arab",
    "Hindi": "hin_Deva",
    "Chinese": "zho_Hans",
    "English": "eng_Latn",
}
Rows = Sequence[tuple[str, str]]


def topics(
    data: Path | None = None,
    encoders: tuple[str, ...] = ("starter-texts", "languages"),
    languages: tuple[str, ...] = tuple(LANGUAGES),
    shots: tuple[int, ...] = (1, 4, 16),
    draws: int = 3,
) -> None:
    """Print accuracy and calibration error of topics.

    Args:
        data: The folder of SIB-200 with a folder of each language.
        encoders: Encoders that are compared.
        languages: Languages of SIB-200.
        shots: Sentences a topic.
        draws: Sets that are drawn of each size.
    """
    rows = [json.loads(line) for line in Path(__file__).with_name("german.jsonl").read_text("utf-8").splitlines()]
    own = {name: [(r["text"], r["label"]) for r in rows if r["language"] == name] for name in ("German", "English")}
    german, english = own["German"], own["English"]
    lines = Path(__file__).with_name("messages.jsonl").read_text("utf-8").splitlines()
    messages = [(row["text"], row["label"]) for row in map(json.loads, lines)]
    for encoder in encoders:
        told = [(text, GERMAN_NAMES[label]) for text, label in german]
        for what, asked in (("English names", german), ("German names", told), ("English messages", messages)):
            print(f"{encoder:14} {what:28} {by_name(encoder, asked)}", flush=True)
        model = Classifier(encoder, cache=False).fit(*zip(*english, strict=True), cross_validate=0)
        print(f"{encoder:14} {'20 English labels, German':28} {judged(model, german)}", flush=True)
        for language in languages if data else ():
            train, test = (sib(data, LANGUAGES[language], part) for part in ("train", "test"))
            line = [by_name(encoder, test), *(few(encoder, train, test, count, draws) for count in shots)]
            other = sib(data, LANGUAGES["English"], "train")
            line += [f"English {few(encoder, other, test, count, draws)}" for count in shots if language != "English"]
            print(f"{encoder:14} {language:10} {'   '.join(line)}", flush=True)


def sib(data: Path, code: str, part: str) -> Rows:
    """Sentences of SIB-200, and their topics."""
    lines = (data / code / f"{part}.tsv").read_text("utf-8").split("\n")
    cells = (line.split("\t") for line in lines[1:] if line)
    return [(text.strip('"'), topic) for _, topic, text in cells]


def by_name(encoder: str, rows: Rows) -> str:
    """Of topics that are known by their names, and of texts without labels, those that are asked."""
    names = sorted({label for _, label in rows})
    return judged(Classifier.from_labels(names, [text for text, _ in rows], none=0, encoder=encoder), rows)


def few(encoder: str, train: Rows, test: Rows, count: int, draws: int) -> str:
    """Mean of some draws of so many sentences a topic."""
    scores = []
    for seed in range(draws):
        order = [train[n] for n in np.random.default_rng(seed).permutation(len(train))]
        by_topic = {topic: [row for row in order if row[1] == topic][:count] for _, topic in train}
        texts, labels = zip(*(row for some in by_topic.values() for row in some), strict=True)
        model = Classifier(encoder, cache=False).fit(texts, labels, seed=seed, cross_validate=0)
        scores.append(accuracy(model, test))
    return f"K={count}: {np.mean(scores):5.1f} ± {np.std(scores):3.1f}"


def accuracy(model: Any, rows: Rows) -> float:
    answers = model.predict([text for text, _ in rows])
    return 100 * float(np.mean([answer.label == label for answer, (_, label) in zip(answers, rows, strict=True)]))


def judged(model: Any, rows: Rows) -> str:
    answers = model.predict([text for text, _ in rows])
    right = [answer.label == label for answer, (_, label) in zip(answers, rows, strict=True)]
    return f"{100 * np.mean(right):5.1f} ECE {100 * reliability([a.score for a in answers], right).error:4.1f}"


def names(
    data: Path,
    english: Path,
    out: Path,
    encoders: tuple[str, ...] = ("languages", "starter-large"),
    heads: tuple[str, ...] = ("ridge", "mlp"),
    languages: tuple[str, ...] = ("german", "spanish", "hungarian", "ukrainian", "swahili"),
    train: int = 2000,
    dev: int = 500,
    shots: tuple[int, ...] = (4, 16),
    draws: int = 3,
    epochs: int = 10,
) -> None:
    """Print entity F1 and what names of a tagger cover.

    Args:
        data: A folder with a folder of each language.
        english: English sentences to learn from.
        out: Where studies are written; what is there is not computed again.
        encoders: Encoders that are compared.
        heads: Heads that learn from English.
        languages: Folders in `data`.
        train: Sentences to train on, the first ones.
        dev: Sentences to score on, the first ones.
        shots: Sentences a type.
        draws: Sets that are drawn of each size.
        epochs: Passes of a head over all sentences.
    """
    for encoder, head in ((encoder, head) for encoder in encoders for head in heads):
        steps = {} if head == "ridge" else {"epochs": epochs}
        tagger = Tagger(encoder, head, context="sentence", **steps).fit(read_data(english)[:train], seed=1)
        for language in languages:
            row = transferred(tagger, read_data(data / language / "dev.txt")[:dev])
            print(f"English, {encoder:14} {head:6} {language:10} {row}", flush=True)
    for language in languages:
        cut = [out / language / f"{part}.txt" for part in ("train", "dev")]
        (out / language).mkdir(parents=True, exist_ok=True)
        for file, count in zip(cut, (train, dev), strict=True):
            sentences = (data / language / file.name).read_text("utf-8").strip().split("\n\n")
            file.write_text("\n\n".join(sentences[:count]) + "\n", "utf-8")
        given = ("--encoders", ",".join(encoders), "--train", cut[0], "--dev", cut[1], "--context", "sentence")
        few = ("--shots", ",".join(map(str, shots)), "--seeds", str(draws))
        for name, options in (("fewshot", few), ("compare", ("--seeds", "1", "--epochs", str(epochs)))):
            study = out / language / name
            boustro(name, *given, *options, "--out", study, "--json", f"{study}.json", "--quiet")
            for system in json.loads(Path(f"{study}.json").read_text("utf-8"))["systems"]:
                score, what = system["dev"], system["shots"] or train
                told = f"{score['mean']:5.1f} ± {score['sd']:3.1f}"
                print(f"{language:10} {system['encoder']:14} {what:5} {told}", flush=True)


def transferred(tagger: Tagger, sentences: list[Sentence]) -> str:
    """F1 on the types that the sentences have too, and what is covered."""
    types = {"PERS": "PER"}
    gold = [[replace(e, label=types.get(e.label, e.label)) for e in gold_entities(s)] for s in sentences]
    shared = {e.label for entities in gold for e in entities} & {"PER", "LOC", "ORG", "MISC"}
    found = tagger.predict([Sentence(s.words) for s in sentences])
    kept = [[[e for e in row if e.label in shared] for row in rows] for rows in (gold, found)]
    covered = {True: [], False: []}
    for words, named, answers in zip((s.words for s in sentences), gold, found, strict=True):
        wanted = {n for e in named if e.label in ("PER", "LOC") for n in range(e.start, e.end)}
        hidden = {n for e in answers for n in range(e.start, e.end)}
        for n in range(len(words)):
            covered[n in wanted].append(n in hidden)
    shares = ", ".join(f"{100 * np.mean(covered[which]):5.1f}" for which in (True, False))
    return f"F1 {score_entities(*kept).f1:5.1f} ({', '.join(sorted(shared))}); covered {shares}"


def redact(
    sets: tyro.conf.Positional[tuple[Path, ...]],
    tagger: str = LANGUAGES_TAGGER,
    thresholds: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05),
    sentences: int = 500,
) -> None:
    """Print what a redactor masks."""
    for path in sets:
        gold, shares = marked(path)[:sentences], []
        kinds = [entity_kinds(sentence) for sentence in gold]
        for threshold in thresholds:
            careful = open_tagger(tagger, ["PERSON", "PLACE", "ORGANISATION"], threshold)
            masked = [
                {n for e in row if e.label in ("PERSON", "PLACE", "ORGANISATION") for n in range(e.start, e.end)}
                for row in careful.predict([Sentence(s.words) for s in gold])
            ]
            hits = [(kind, n in row) for own, row in zip(kinds, masked, strict=True) for n, kind in enumerate(own)]
            wanted, plain = ([hit for kind, hit in hits if kind == which] for which in ("PERSON", ""))
            shares.append(f"{threshold}: {100 * np.mean(wanted):5.1f} / {100 * np.mean(plain):4.1f}")
        print(f"{path.parent.name:20} {' | '.join(shares)}", flush=True)


def entity_kinds(sentence: Sentence) -> list[str]:
    """Of each word PERSON where it is in the name of a person or a place, "" where it is in none, else OTHER."""
    found = [""] * len(sentence.words)
    for e in gold_entities(sentence):
        is_wanted = {"PERSON", "PLACE"} & {KIND_OF.get(label, label) for label in (e.label, e.label.removesuffix("S"))}
        found[e.start : e.end] = ["PERSON" if is_wanted else "OTHER"] * (e.end - e.start)
    return found


def pair(
    folder: Path,
    train: Path,
    dev: Path,
    seeds: int = 3,
    epochs: int = 20,
    mask_rate: float = 0.3,
) -> None:
    """Train what is missing, and print a row per system.

    Args:
        folder: A folder of boustro lab language.
        train: Labelled sentences to train on.
        dev: Labelled sentences to score on.
        seeds: Seeds of the heads.
        epochs: Passes of a head over the labelled sentences.
        mask_rate: Share of the pieces that the masked LM has to predict.
    """
    pieces = json.loads((folder / "plan.json").read_text("utf-8"))["tokens"]
    masked = folder / "masked"
    how = ("--objective", "masked", "--mask-rate", str(mask_rate), "--preset", "eurobert-mini", "--resume")
    size = ("--segment-length", "256", "--batch-segments", "16", "--tokens", str(2 * pieces), "--seed", "1")
    boustro("lab", "pretrain", "--shards", folder / "shards", *how, *size, "--out", masked)
    pair = f"{folder / 'forward'}+{folder / 'backward'}"
    rows = {
        "forward LM": (folder / "forward", 1),
        "masked LM": (f"masked:{masked}", 2),
        "pair": (pair, 2),
        "pair with the memory of its text": (f"memory:{folder / 'memory'}", 2),
    }
    given = ("--train", train, "--dev", dev, "--seeds", str(seeds), "--epochs", str(epochs))
    print("\n| system | pieces read | dev F1 |\n|---|---:|---:|")
    for names, options, out in ((rows, ("--memory", "--spelling"), "report"), (["pair"], (), "report-plain")):
        file = folder / f"{out}.json"
        compared = ",".join(rows[name][0] for name in names)
        boustro("compare", "--encoders", compared, *given, *options, "--json", file, "--out", folder / out)
        systems = json.loads(file.read_text("utf-8"))["systems"]
        for name, system in zip(names, systems, strict=True):
            score, read, plain = system["dev"], rows[name][1] * pieces, "" if options else ", without these options"
            print(f"| {name}{plain} | {read / 1e6:.1f}M | {score['mean']:.2f} ± {score['sd']:.2f} |", flush=True)
    started = time.monotonic()
    value = crf_f1(read_data(train), read_data(dev))
    print(f"| CRF over characters and shapes ({time.monotonic() - started:,.0f} s) | 0 | {value:.2f} |")


def crf_f1(train: list[Sentence], dev: list[Sentence]) -> float:
    """Entity F1 of a CRF without a language model."""
    import sklearn_crfsuite

    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    tags = [entities_to_bio(gold_entities(s), len(s.words)) for s in train]
    crf.fit([list(features(s)) for s in train], tags)
    predicted = [tags_to_entities(list(bio), "bio") for bio in crf.predict([list(features(s)) for s in dev])]
    return score_entities([gold_entities(s) for s in dev], predicted).f1


def features(sentence: Sentence) -> Iterator[list[str]]:
    """For each word: itself, its beginnings and ends, its shape; the neighbours' words and shapes."""
    words = sentence.words
    for place, word in enumerate(words):
        lower, names = word.lower(), [f"shape={shape(word)}"]
        names += [f"word={lower}", *(f"begin={lower[:n]}" for n in range(1, LONGEST + 1))]
        names += [f"end={lower[-n:]}" for n in range(1, LONGEST + 1)]
        names += [f"inside={lower[i : i + 3]}" for i in range(len(lower) - 2)]
        for away in AROUND:
            if 0 <= place + away < len(words):
                other = words[place + away]
                names += [f"{away}:word={other.lower()}", f"{away}:shape={shape(other)}"]
            else:
                names.append(f"{away}:outside")
        yield names


def shape(word: str) -> str:
    """Capitals, small letters, digits and the rest, with repeated kinds once: "U.S.-born" is "A.A.-a"."""
    kinds = ["A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c for c in word]
    return "".join(kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] != kind)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"topics": topics, "names": names, "redact": redact, "pair": pair})
