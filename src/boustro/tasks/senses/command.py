"""`boustro wsd fit`, `evaluate` and `predict`: word sense disambiguation.

torch is imported when the command runs, so that its help does not wait for it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from boustro.options import OptionError, check_options
from boustro.output import DEFAULT_RUN, RunOptions, as_json, check_output, give, only_errors, print_notices
from boustro.store import claim
from boustro.tasks.senses.options import SenseOptions

if TYPE_CHECKING:
    from boustro.metrics.senses import SenseScore
    from boustro.tasks.senses.tagger import Sense, SenseTagger

DEFAULT_SENSES = SenseOptions()
UNKNOWN = "words without an answer: their lemma is not in the training data (nor in WordNet, where it was given)"
EXPECTED = {"fit": ("DATA",), "evaluate": ("DIR", "DATA"), "predict": ("DIR", "DATA")}


def wsd(
    action: Positional[Literal["fit", "evaluate", "predict"]],
    places: Positional[tuple[Path, ...]],
    out: Path | None = None,
    keys: Path | None = None,
    encoder: str | None = None,
    wordnet: Path | None = None,
    senses: SenseOptions = DEFAULT_SENSES,
    format: Literal["keys", "jsonl"] = "keys",
    json: Path | None = None,
    overwrite: bool = False,
    run: RunOptions = DEFAULT_RUN,
) -> None:
    """Word sense disambiguation: learn the centroids of senses, score them, or name the senses of words.

    boustro wsd fit DATA --out DIR; boustro wsd evaluate DIR DATA; boustro wsd predict DIR DATA. The options of
    reading, transform and prior are those of fit.

    Args:
        action: What to do.
        places: fit: the training data; evaluate and predict: a folder that fit wrote, and the data. Data are XML in the
            format of Raganato et al. 2017, or JSON lines.
        out: fit: the folder to write.
        keys: Gold keys of an XML file. By default CORPUS.gold.key.txt beside CORPUS.data.xml.
        encoder: fit: spec of the encoder, by default starter; else where the encoder is now, if it has moved.
        wordnet: fit: a folder with WordNet's index.sense, whose first sense lemmas get that training data lack.
        format: predict: keys (a line per word: its id and its key) or jsonl (a line per word, all senses with scores).
        json: Write the record of fit, or the scores of evaluate, to this file (- for standard output).
        overwrite: fit: replace an existing folder at --out.
    """
    check_options(wsd, locals())
    if len(places) != len(EXPECTED[action]):
        given = " ".join(map(str, places)) or "nothing"
        raise OptionError(f"wsd {action} takes {' '.join(EXPECTED[action])}, not {given}")
    if (action == "fit") == (out is None):
        raise OptionError("wsd fit needs --out, the folder to write" if out is None else f"wsd {action} takes no --out")
    from boustro.tasks.senses.reading import read_senses
    from boustro.tasks.senses.tagger import SenseTagger

    with only_errors(run.quiet):
        check_output(json)
        if out is not None:
            chosen = {"cache": run.cache, "device": run.device, **vars(senses)}
            tagger = SenseTagger(encoder or "starter", wordnet=wordnet, **chosen)
            _fit(tagger, places[0], keys, out, overwrite, json)
            return
        data = read_senses(places[1], keys)
        tagger = SenseTagger.from_pretrained(places[0], encoder=encoder, cache=run.cache, device=run.device)
        answers = tagger.answer(data, cached=action == "evaluate")
        print_notices(tagger.reader.encoder().counts)
        if action == "evaluate":
            print_notices(data.notices)
            score = tagger.score(data, answers)
            give(score.to_dict(), json, lambda: _print_score(score), indent=1)
            return
        _print_answers(answers, format)


def _print_answers(answers: "Sequence[Sense]", format: str) -> None:
    print_notices({UNKNOWN: sum(answer.key is None for answer in answers)})
    for number, answer in enumerate(answers):
        if format == "jsonl":
            print(as_json(answer.to_dict()))
        elif answer.key is not None:
            print(answer.target.name or number, answer.key)


def _fit(tagger: "SenseTagger", train: Path, keys: Path | None, out: Path, overwrite: bool, json: Path | None) -> None:
    from boustro.encoders.spec import check_spec
    from boustro.tasks.senses.folder import KIND

    check_spec(tagger.reader.spec)
    with claim(out, KIND, overwrite):
        tagger.fit(train, keys)
        tagger.save_pretrained(out)
    record = tagger.record
    print_notices(record["notices"])
    said = (
        f"{out}: {record['senses']:,} senses of {record['lemmas']:,} lemmas from {record['train']['occurrences']:,} "
        f"occurrences; prior {record['prior']:g}"
    )
    give(record, json, lambda: print(said, file=sys.stderr), indent=1)


def _print_score(score: "SenseScore") -> None:
    """The scores by part of speech, those of all, and the baselines."""
    print(f"{'':20} {'precision':>9} {'recall':>7} {'F1':>7} {'words':>7}")
    for name, c in {**score.per_pos, "all": score.total}.items():
        print(f"{name:20} {c.precision:9.2f} {c.recall:7.2f} {c.f1:7.2f} {c.num_gold:7,}")
    for name, f1 in score.baselines.items():
        print(f"{name:20} {'':9} {'':7} {f1:7.2f}")
    print(f"{score.coverage:.1f}% of the words have a lemma of the training data")
