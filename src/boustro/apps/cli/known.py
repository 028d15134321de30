"""The commands: where each one is, its group, its line in `boustro --help`, examples, and what its help shows first.
Those of `LAB_GROUPS` are behind `boustro lab`: they make models and study language.

A new command is one entry. Its module must not import torch; the command does when it runs.
"""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from boustro.choose import named


class Known(NamedTuple):
    """A command."""

    place: str
    """Its function, as module:name."""
    group: str
    """Its heading in `boustro --help`, or in `boustro lab --help`."""
    summary: str
    """One line."""
    examples: tuple[str, str]
    """Two command lines, without `boustro` before them."""
    first: str = ""
    """The options that its help shows, besides those that it needs; the others are under `--help-all`."""
    next: str = ""
    """What a person does then, with the values of options in braces: `predict {out} FILE`. A command for which that
    depends on what came out says it itself."""
    after: str = ""
    """The option without which nothing is written, and `next` is not said."""

    @property
    def is_of_lab(self) -> bool:
        """Whether it is called as `boustro lab NAME`."""
        return self.group in LAB_GROUPS

    def function(self) -> Callable[..., Any]:
        """Return the function that runs; its module is imported now."""
        return named(self.place)


LAB_GROUPS = ("LMs", "Encoders", "Write", "Studies")
# fmt: off
COMMANDS: dict[str, Known] = {
    "demo": Known("boustro.apps.studies.demo:demo", "Start",
        "train, compare and look at taggers on the shipped sample",
        ("demo", "demo --copy-sample sample"),
        "out seeds copy_sample"),
    "label": Known("boustro.apps.label.command:label", "Start",
        "label entities or topics on a page, with a model that learns from it",
        ("label texts.txt --labels PERSON,PLACE --out labelled.jsonl",
         "label texts.txt --task classify --labels billing,delivery --out topics.jsonl"),
        "out labels task text_column sentences several out_tagger order train tagger port browser"),
    "fit": Known("boustro.apps.cli.commands:fit", "Start", "train a tagger or a classifier on labelled examples",
        ("fit --train train.conll --dev dev.conll --out ner",
         "fit --train texts.jsonl --dev dev-texts.jsonl --out topics"),
        "dev encoder head task epochs seed documents cross_validate overwrite dry_run",
        "predict {out} FILE"),
    "evaluate": Known("boustro.apps.cli.commands:evaluate", "Start", "score a trained folder on labelled examples",
        ("evaluate ner dev.conll", "evaluate ner dev.conll --json scores.json"),
        "json", "predict {folder} FILE"),
    "predict": Known("boustro.apps.batch.command:predict", "Start", "label text",
        ("predict ner article.txt", "predict ner article.txt --out answers.jsonl"),
        "format out text_column labels types recall live overwrite resume workers",
        "serve {folder}", after="out"),
    "serve": Known("boustro.apps.serve.command:serve", "Start",
        "trained folders over HTTP, with a page (needs fastapi)",
        ("serve ner", "serve names=ner --port 8000"),
        "host port token_file"),
    "export": Known("boustro.apps.export.command:export", "Start",
        "a trained folder for use without torch: as ONNX, as a page, as JavaScript",
        ("export ner --precision int8 --out ner-onnx", "export ner --format html --precision int8 --out ner.html"),
        "format precision data overwrite"),
    "check": Known("boustro.apps.cli.check:check", "Data", "report on labelled data before training on it",
        ("check train.conll dev.conll", "check texts.jsonl --json report.json"),
        "json task", "fit --train {data[0]} --out MODEL"),
    "weak": Known("boustro.apps.cli.weak:weak", "Data",
        "silver labels for text, from a gazetteer or an LLM's lists",
        ("weak texts.txt --gazetteer names.tsv --out silver.jsonl", "weak lists.jsonl --out silver.jsonl"),
        "gazetteer ignore_case", "fit --train GOLD --weak {out} --out MODEL"),
    "redact": Known("boustro.apps.batch.redact:redact", "Data",
        "mask the names in texts, tables and JSON before sharing",
        ("redact tickets.csv --text-column message --out shared.csv",
         "redact letter.txt --labels PERSON,PLACE --with label"),
        "out text_column labels types threshold with_ model same_everywhere resume overwrite errors"),
    "cache": Known("boustro.apps.cli.doctor:cache", "Data", "list or clear the cached features",
        ("cache list", "cache clear"),
        "folder"),
    "compare": Known("boustro.apps.studies.compare.command:compare", "Compare",
        "encoders x heads x seeds, as a table and a report",
        ("compare --encoders starter-forward,starter --train train.conll --dev dev.conll --out comparison",
         "compare --encoders starter --heads linear,mlp --train train.conll --dev dev.conll --out heads"),
        "test heads seeds vary reference dry_run"),
    "fewshot": Known("boustro.apps.studies.compare.command:fewshot", "Compare",
        "encoders with few labelled sentences, as curves",
        ("fewshot --encoders starter-forward,starter --train train.conll --dev dev.conll --out shots",
         "fewshot --encoders starter --train train.conll --dev dev.conll --shots 4,16 --out shots"),
        "test shots seeds heads preset dry_run"),
    "backward": Known("boustro.apps.cli.own_lms:backward", "Own LMs",
        "train a small backward LM for an LM, from raw text",
        ("backward gpt2 --text corpus.jsonl --out my-backward",
         "backward gpt2 --text corpus.jsonl --minutes 20 --out my-backward"),
        "minutes preset dry_run overwrite", "fit --encoder {lm}+{out} --train DATA --out MODEL"),
    "pack": Known("boustro.apps.cli.own_lms:pack", "Own LMs",
        "an LM in few bits, or its first blocks alone, as an encoder",
        ("pack gpt2 --blocks 6 --out gpt2-packed", "pack ./minilm --bits 8 --out minilm-packed"),
        "blocks bits overwrite"),
    "distill": Known("boustro.tasks.distill.command:distill", "Own LMs",
        "a trained folder into one with a smaller encoder",
        ("distill ner --student starter-forward --texts corpus.jsonl --out small",
         "distill ner --student starter-forward --texts corpus.jsonl --dev dev.conll --out small"),
        "train dev overwrite", "predict {out} FILE"),
    "embed": Known("boustro.apps.cli.embed:embed", "Vectors", "write one vector per text",
        ("embed texts.txt --out vectors.npy", "embed texts.txt --model my-embeddings --out vectors.npy"),
        "encoder model text_column normalize"),
    "similarity": Known("boustro.apps.cli.embed:similarity", "Vectors", "find the texts most like a query",
        ('similarity texts.txt --query "the ferry is late"',
         'similarity texts.txt --query "the ferry is late" --top 3'),
        "top encoder model text_column json"),
    "doctor": Known("boustro.apps.cli.doctor:doctor", "Other", "print what a bug report should say",
        ("doctor", "doctor --encoder gpt2"),
        "encoder device"),
    "language": Known("boustro.apps.studies.language.command:language", "LMs",
        "raw text and labels to tokenizer, pair and tagger",
        ("lab language --text corpus.jsonl --train train.conll --dev dev.conll --out mine",
         "lab language --text corpus.jsonl --train train.conll --dev dev.conll --minutes 20 --out mine"),
        "test minutes vocabulary dry_run overwrite",
        "predict {out}/tagger FILE"),
    "tokenize": Known("boustro.lab.pretrain.shards:tokenize", "LMs", "turn a corpus into token shards",
        ("lab tokenize corpus.jsonl --tokenizer gpt2 --out shards",
         "lab tokenize corpus.jsonl --train-tokenizer 8192 --out shards"),
        "tokenizer train_tokenizer near_duplicates workers overwrite", "lab pretrain --shards {out} --out LM"),
    "pretrain": Known("boustro.lab.pretrain.config:pretrain", "LMs",
        "train a forward or a backward LM on token shards",
        ("lab pretrain --shards shards --direction backward --out my-backward",
         "lab pretrain --shards shards --preset mini --tokens 30000000 --out my-forward"),
        "direction objective preset init_from tokens validation resume dry_run overwrite",
        "fit --encoder {out} --train DATA --out MODEL"),
    "fuse": Known("boustro.apps.cli.own_lms:fuse", "LMs",
        "train a fusion of a forward and a backward LM on token shards",
        ("lab fuse --forward gpt2 --backward ./my-backward --shards shards --out my-fusion",
         "lab fuse --forward gpt2 --backward ./my-backward --shards shards --kind linear --out my-fusion"),
        "kind tokens validation overwrite", "fit --encoder fused:{out} --train DATA --out MODEL"),
    "adapt": Known("boustro.apps.cli.own_lms:adapt", "LMs",
        "train an LM to read without its mask, or what things are (needs peft)",
        ("lab adapt --lm gpt2 --shards shards --out my-adapted",
         "lab adapt corpus.jsonl --lm gpt2 --things things.tsv --out my-adapted"),
        "things shards train dev learn blocks rank resume overwrite"),
    "elmo": Known("boustro.apps.cli.own_lms:elmo", "LMs", "train an ELMo on a corpus",
        ("lab elmo corpus.jsonl --out my-elmo", "lab elmo corpus.jsonl --width 128 --words 1000000 --out my-elmo"),
        "width cells words validation overwrite", "fit --encoder elmo:{out} --train DATA --out MODEL"),
    "seq2seq": Known("boustro.apps.cli.own_lms:seq2seq", "LMs", "fine-tune an LM on pairs of a prompt and a text",
        ("lab seq2seq --lm gpt2 --train summaries.jsonl --out summariser",
         "lab seq2seq --lm gpt2 --train summaries.jsonl --dev dev-summaries.jsonl --out summariser"),
        "dev prompt_key target_key epochs template overwrite", "lab generate PROMPTS --encoder {out}"),
    "memory": Known("boustro.apps.cli.own_lms:memory", "Encoders",
        "what words are in raw text, for an encoder that remembers it",
        ("lab memory corpus.jsonl --out my-memory", "lab memory corpus.jsonl --encoder gpt2 --out my-memory"),
        "encoder data words overwrite", "fit --encoder memory:{out} --train DATA --out MODEL"),
    "names": Known("boustro.apps.cli.own_lms:names", "Encoders",
        "a small network that finds names, from labelled files of any types",
        ("lab names news.jsonl messages.jsonl --kinds kinds.json --out my-names",
         "lab names news.jsonl --encoder gpt2 --out my-names"),
        "kinds encoder epochs overwrite", "fit --encoder names:{out} --train DATA --out MODEL"),
    "distill-words": Known("boustro.apps.cli.own_lms:distill_words", "Encoders",
        "a sentence encoder into a table of words, for whole texts",
        ("lab distill-words corpus.jsonl --encoder masked:./minilm --out my-words",
         "lab distill-words corpus.jsonl --encoder masked:./minilm --texts 50000 --out my-words"),
        "words texts epochs resume dry_run overwrite", "similarity {corpus[0]} --query TEXT --encoder table:{out}"),
    "generate": Known("boustro.apps.cli.generate:generate", "Write", "continue prompts with a masked or a causal LM",
        ("lab generate prompts.txt --encoder starter-forward",
         "lab generate prompts.txt --encoder starter-forward --length 20"),
        "length temperature top_p seed"),
    "infill": Known("boustro.apps.cli.infill:infill", "Write", "fill the gaps of texts from both ends",
        ('lab infill "It is one of ___ in the country."', "lab infill gaps.txt --candidates 3"),
        "encoder format candidates tokens_per_gap"),
    "score": Known("boustro.apps.cli.generate:score", "Write",
        "texts by an LM's probability, or against targets (ROUGE, BLEU, METEOR)",
        ("lab score written.jsonl --target-key target", "lab score pairs.jsonl --encoder starter-forward --pmi"),
        "encoder target_key train by json score pmi"),
    "prompt": Known("boustro.apps.cli.prompt:prompt", "Write",
        "label texts by the words that an LM would write",
        ("lab prompt reviews.jsonl --encoder starter-forward --template sentiment",
         "lab prompt reviews.jsonl --encoder starter-forward --template sentiment --calibrate"),
        "template calibrate label_key json"),
    "harness": Known("boustro.lab.harness.command:harness", "Write",
        "multiple choice without training (needs lm-eval)",
        ("lab harness --tasks openbookqa --data choices", "lab harness --tasks arc_easy --data choices --encoder gpt2"),
        "encoder data limit json"),
    "scaling": Known("boustro.apps.studies.scaling.command:scaling", "Studies",
        "sizes x budgets of pretraining, with loss curves",
        ("lab scaling --shards shards --validation validation --budgets 1000000,4000000 --out sizes",
         "lab scaling --shards shards --validation validation --budgets 1000000 --objectives causal --out causal"),
        "sizes objectives seeds dry_run report_only",
        "lab pretrain --preset SIZE --shards {shards} --out LM"),
    "geometry": Known("boustro.apps.studies.geometry.command:geometry", "Studies",
        "measure and draw how word vectors lie",
        ("lab geometry measure article.txt", "lab geometry map senses.jsonl --word bank --out bank.html"),
        "encoder word out sentences json"),
}
# fmt: on


def called(name: str) -> str:
    """Return the words that call a command: `predict`, `lab pretrain`."""
    return f"lab {name}" if COMMANDS[name].is_of_lab else name


def pages() -> dict[str, Path]:
    """Return the pages of the documentation by their names: in the package, or beside its source."""
    package = Path(__file__).parents[2]
    folder = next((place for place in (package / "docs", package.parents[1] / "docs") if place.is_dir()), package)
    named = {path.stem: path for path in sorted(folder.glob("*.md")) if path.stem != "log"}
    return {f"{name}.md" if name in COMMANDS else name: path for name, path in named.items()}


def usage(lab: bool = False) -> str:
    """Return the text of `boustro --help`, or of `boustro lab --help`."""
    rows: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        if command.is_of_lab == lab:
            rows.setdefault(command.group, [command.group]).append(f"  {name:<15} {command.summary}")
    if not lab:
        rows["Other"].append(
            f"  {'lab':<15} make and study LMs, write with them: `boustro lab --help` lists its commands"
        )
    shown = "\n\n".join("\n".join(own) for own in rows.values())
    if lab:
        return (
            f"usage: boustro lab COMMAND ...\n\nMake language models, and study them.\n\n{shown}\n\n"
            "`boustro help lab COMMAND` shows examples and the options that people use, `boustro lab COMMAND\n"
            "--help-all` all of them."
        )
    return (
        "usage: boustro COMMAND ...\n\nGive a language model the other half of the sentence.\n\n"
        f"{shown}\n\n`boustro help COMMAND` shows examples and the options that people use, `boustro COMMAND "
        "--help-all`\nall of them; `boustro version` prints the version. New here? Start with `boustro demo`.\n\n"
        + textwrap.fill(f"`boustro help PAGE` prints a page of the documentation: {', '.join(pages())}.", 95)
    )
