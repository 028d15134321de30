"""The tables of docs/options.md, from the dataclasses that the command lines are made from.

`python -m boustro.cli.tables > docs/options.md` writes the page anew.
"""

import ast
import inspect
import textwrap
from dataclasses import fields
from itertools import pairwise
from typing import Any, get_args, get_origin, get_type_hints

from boustro.embeddings.options import EmbedOptions, EmbedTraining
from boustro.generation.options import GenerationConfig, InfillOptions, LMOptions, ScoreConfig
from boustro.objectives.split import Split
from boustro.output import RunOptions
from boustro.pretrain.config import PretrainConfig
from boustro.roads.options import (
    AdaptConfig,
    BackwardConfig,
    DistillStatesConfig,
    ElmoConfig,
    FuseConfig,
    MemoryConfig,
    MixtureOptions,
    Seq2SeqConfig,
)
from boustro.serve.batch.options import OutputOptions
from boustro.serve.http import HttpOptions
from boustro.serve.labelling.options import LabelOptions
from boustro.serve.options import ServeLimits
from boustro.studies.fewshot.options import ShotOptions
from boustro.studies.labelling.options import SimulateOptions
from boustro.studies.language.options import LanguageOptions
from boustro.studies.scaling.options import ScalingOptions
from boustro.tasks.config import ClassifierConfig, QuestionConfig, TaggerConfig
from boustro.tasks.data.reading import DataOptions, TrainDataOptions
from boustro.tasks.distill.options import DistillOptions
from boustro.tasks.relation.options import RelationConfig
from boustro.tasks.senses.options import SenseOptions

TABLES: dict[str, type] = {
    "`fit` and `compare`, `Tagger`: `TaggerConfig`": TaggerConfig,
    "`fit --task classify`, `Classifier`: `ClassifierConfig`": ClassifierConfig,
    "`fit --task qa`, `QuestionAnswerer`: `QuestionConfig`": QuestionConfig,
    "`fit --task relation`, `RelationClassifier`: `RelationConfig`": RelationConfig,
    "`fewshot`": ShotOptions,
    "`embed`, `similarity` and `embed-fit`, `SentenceEncoder`: `EmbedOptions`": EmbedOptions,
    "`embed-fit`: `EmbedTraining`": EmbedTraining,
    "`infill`, `Infiller`: `InfillOptions`": InfillOptions,
    "`wsd fit`, `SenseTagger`: `SenseOptions`": SenseOptions,
    "`distill`": DistillOptions,
    "`predict`: where answers go": OutputOptions,
    "`serve`: where it listens, and who may ask": HttpOptions,
    "`serve`: its bounds": ServeLimits,
    "`label`": LabelOptions,
    "`label --simulate`": SimulateOptions,
    "`generate`, `Writer`: `GenerationConfig`": GenerationConfig,
    "`score`, `Writer`: `ScoreConfig`": ScoreConfig,
    "`generate`, `score`, `infill`, `prompt` and `harness`: how their LMs run": LMOptions,
    "Labelled data": DataOptions,
    "`fit`: labelled data, gold and silver": TrainDataOptions,
    "How a command runs": RunOptions,
    "`pretrain`": PretrainConfig,
    "`pretrain --objective prefix-suffix`: `Split`": Split,
    "`scaling`": ScalingOptions,
    "`language`": LanguageOptions,
    "`backward`": BackwardConfig,
    "`fuse`": FuseConfig,
    "`adapt`": AdaptConfig,
    "`elmo`": ElmoConfig,
    "`distill-states`": DistillStatesConfig,
    "`memory`": MemoryConfig,
    "`seq2seq`": Seq2SeqConfig,
    "`seq2seq`: several tasks": MixtureOptions,
}
HEAD = """# Options

Every option with its values, its default and its meaning. A dash means that the option is required, or that its
default is described in words. Values come from the command line, then from a recipe, then from a preset
(`--preset paper`), then from these defaults. A recipe is a YAML file with option names as keys; unknown keys are
refused. The manifest of every folder that a command writes holds the values of all its options, so a folder is a
recipe too.

```yaml
train: train.conll
epochs: 1
```
```bash
boustro fit --config recipe.yaml --out ner
boustro fit --config ner --seed 2 --out again
```"""


def page() -> str:
    """docs/options.md."""
    return "\n\n".join([HEAD, *(f"## {title}\n\n{table(options)}" for title, options in TABLES.items())]) + "\n"


def table(options: type) -> str:
    """Markdown: one row per field of a dataclass."""
    described, hints = describe(options), get_type_hints(options)
    lines = ["| option | values | default | meaning |", "|---|---|---|---|"]
    for field in fields(options):
        if not hasattr(hints[field.name], "__dataclass_fields__"):
            default = field.default if isinstance(field.default, (str, int, float)) else "–"
            name, values = field.name.replace("_", "-"), _values(hints[field.name]).replace("|", "\\|")
            lines.append(f"| `--{name}` | {values} | {default} | {described[field.name]} |")
    return "\n".join(lines)


def describe(options: type) -> dict[str, str]:
    """The docstrings of a dataclass's fields, those of its bases too; empty where there is none."""
    found = dict.fromkeys((field.name for field in fields(options)), "")
    for cls in reversed(options.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
        for node, after in pairwise(body):
            match (node, after):
                case (ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                    found[ast.unparse(node.target)] = " ".join(text.split())
    return found


def _values(hint: Any) -> str:
    """`float`, `mix, concat`, `list of int`."""
    arguments = [part for part in get_args(hint) if part is not type(None) and part is not ...]
    if arguments and all(isinstance(part, str) for part in arguments):
        return ", ".join(arguments)
    if get_origin(hint) is tuple:
        return f"list of {_values(arguments[0])}"
    return " or ".join(map(_values, arguments)) if arguments else hint.__name__


if __name__ == "__main__":
    print(page(), end="")
