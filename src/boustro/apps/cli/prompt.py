"""`boustro lab prompt`: labels texts by an LM's own words, and scores the labels beside two controls.

    answers        as they were asked for
    calibrated     with the prior divided out (or `not calibrated`, where that was asked for)
    majority       the most frequent label, for all
    prior only     the label that the LM prefers for a text without content, for all

A prompt that is no better than the two controls says nothing about the texts. torch is imported when the command runs,
so that its help does not wait for it.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.errors import count_of
from boustro.lab.generation.options import DEFAULT_LM, LMOptions

if TYPE_CHECKING:
    from boustro.lab.prompting import PromptClassifier
from boustro.lab.generation.templates import Template, open_template, template_of
from boustro.metrics.labels import LabelScore, score_text_labels
from boustro.options import Count, Positional, check_options
from boustro.output import as_json, check_output, give, keeping, only_errors, print_notices
from boustro.progress import Progress
from boustro.store import provenance
from boustro.text.files import DataFile
from boustro.text.places import LM, TextFile, TextPath
from boustro.text.rows import parse_record
from boustro.text.tables import FileRow
from boustro.types import short_score

LINES = 256  # texts that are scored before their answers are printed


def prompt(
    encoder: LM,
    template: str | None = None,
    file: Positional[TextFile] = "-",
    calibrate: bool = False,
    score: str | None = None,
    train: TextPath | None = None,
    label_key: str = "label",
    prompt_pieces: Count | None = None,
    json: Path | None = None,
    run: LMOptions = DEFAULT_LM,
) -> None:
    """Label texts by the words that an LM would write into a template; writes JSON lines as they are done.

    Where the texts have labels, their scores follow on standard error, beside two controls: the most frequent label,
    and the label that the LM prefers for a text without content. lab seq2seq --template fine-tunes an LM for it.

    Args:
        encoder: A masked LM, a forward LM, a backward LM, or a pair such as starter.
        template: sentiment, question-type, entailment, paraphrase, acceptability, or a JSON file (see: boustro help
            generation). By default the one that the model was fine-tuned on, with the words that it learned.
        file: JSON lines with the template's keys, or texts, one a line (.gz, .bz2, .xz too), or - for standard input.
        calibrate: Divide the probabilities of the labels by those for a text without content.
        score: How a word is scored. Of a masked LM: one of boustro lab score's, by default left-to-right; for a word of
            one piece they are all the same. Else forward, forward-mean, forward-pmi, backward, pair or pair-pmi.
        train: Training set, JSON lines with labels, whose most frequent label is the control. By default the most
            frequent one of the file itself.
        label_key: The key of the label in JSON lines.
        prompt_pieces: Read only the first pieces of each text; how many were cut is said. By default nothing is cut.
        json: Write the scores to this file (- for standard output, in place of the answers).
    """
    check_options(prompt, locals())
    (source := DataFile(file)).check()
    check_output(json)
    known = open_template(template) if template else template_of(encoder)
    labelled = read_labels(train, known, label_key) if train else None
    from boustro.lab.prompting import PromptClassifier

    alone = json is not None and str(json) == "-"
    with (
        only_errors(run.quiet),
        Progress("labelling", "texts", total=None if run.quiet else source.count()) as bar,
        keeping(lambda: "" if alone else f"{count_of(bar.done, 'texts are')} answered and printed"),
    ):
        how: dict[str, Any] = {"score": score, "calibrate": calibrate, "prompt_pieces": prompt_pieces}
        classifier = PromptClassifier(encoder, known, device=run.device, start_piece=run.start_piece, **how)
        figures = PromptScores(classifier, labelled)
        for batch in _records(source):
            places, records = [place for place, _ in batch], [record for _, record in batch]
            gold = [_gold(record, known, label_key, place) for place, record in batch]
            answers = classifier.answer(records, places)
            figures.add(gold, answers, places)
            for record, answer in zip(records, answers, strict=True):
                shown = {label: short_score(value) for label, value in answer.probabilities.items()}
                if not alone:
                    print(as_json(record | {"answer": answer.label, "probabilities": shown}))
            sys.stdout.flush()
            bar.update(len(batch))
        print_notices(classifier.counts)
        figures.give(json)


def read_labels(path: Path, template: Template, label_key: str) -> list[str]:
    """Return the labels of a training set; `ValueError`, with file:line, for a line without one."""
    gold = [_gold(value, template, label_key, place) for place, value in DataFile(path).open("json")]
    labels = [label for label in gold if label is not None]
    if len(labels) < len(gold) or not labels:
        raise ValueError(f"{path}: a line has no label under the key {label_key!r}; name it with --label-key")
    return labels


def _gold(record: Any, template: Template, label_key: str, place: str) -> str | None:
    value = record.get(label_key) if isinstance(record, Mapping) else None
    return None if value is None else template.label(value, place)


def _records(file: DataFile) -> Iterator[Sequence[tuple[str, dict[str, Any]]]]:
    """Yield (place, record) of the lines as they arrive; a line that is no object is a text."""
    for batch in file.batches(LINES):
        yield [(item.place, _record(item)) for item in batch if not item.is_line or item.value.strip()]


def _record(item: FileRow) -> dict[str, Any]:
    if item.is_line:
        return parse_record(item.value, item.place) if item.value.lstrip().startswith("{") else {"text": item.value}
    if not isinstance(item.value, (str, dict)):
        raise ValueError(f"{item.place}: expected a text, or a JSON object with the keys of the template")
    return {"text": item.value} if isinstance(item.value, str) else item.value


class PromptScores:
    """Gathers answers and labels; `labelled` are those of a training set, for the majority."""

    def __init__(self, classifier: "PromptClassifier", labelled: Sequence[str] | None = None) -> None:
        self._classifier, self._labelled = classifier, labelled
        self._gold: list[str] = []
        self._answers: list[Any] = []
        self._num_without = 0

    def add(self, gold: Sequence[str | None], answers: Sequence[Any], places: Sequence[str]) -> None:
        """Answers, with the labels of their texts; `ValueError`, with the place, where only some have one."""
        for label, answer, place in zip(gold, answers, places, strict=True):
            if label is None:
                self._num_without += 1
            else:
                self._gold.append(label)
                self._answers.append(answer)
            if self._num_without and self._gold:
                raise ValueError(f"{place}: some texts have a label and some have none; give all of them one, or none")

    def to_dict(self) -> dict[str, Any]:
        """Return all figures; without labels only the prior."""
        classifier = self._classifier
        facts: dict[str, Any] = {
            "model": classifier.model,
            "template": classifier.template.name,
            "score": classifier.score,
            "calibrated": classifier.calibrate,
            "prior": classifier.prior,
        }
        if not self._gold:
            return facts | {"texts": self._num_without}
        scores = {name: score.to_dict() for name, score in self._scores().items()}
        return facts | {"texts": len(self._gold), "scores": scores}

    def _scores(self) -> dict[str, LabelScore]:
        prior = self._classifier.prior
        controls = {
            "majority": Counter(self._labelled or self._gold).most_common(1)[0][0],
            "prior only": max(prior, key=prior.__getitem__),
        }
        other = "not calibrated" if self._classifier.calibrate else "calibrated"
        systems = {"answers": [a.label for a in self._answers], other: [a.other_label for a in self._answers]}
        systems |= {f"{name} ({label})": [label] * len(self._gold) for name, label in controls.items()}
        versions = provenance()["versions"]
        signature = {"version": f"boustro {versions.get('boustro', '')}".rstrip(), "score": self._classifier.score}
        return {name: score_text_labels(self._gold, labels, signature) for name, labels in systems.items()}

    def give(self, json: Path | None) -> None:
        """The figures to the file, and a table to standard error."""
        give(self.to_dict(), json, self._show, indent=1)

    def _show(self) -> None:
        if self._gold:
            print(
                f"{self._classifier.template.name}, {self._classifier.score}, {count_of(len(self._gold), 'texts')}",
                file=sys.stderr,
            )
            for name, score in self._scores().items():
                figures = f"accuracy {score.accuracy:6.2f}   macro F1 {score.macro_f1:6.2f}   MCC {score.mcc:6.2f}"
                print(f"{name:<28} {figures}", file=sys.stderr)
