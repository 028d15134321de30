"""The tables of docs/options.md, from the dataclasses that the command lines are made from.

`python -m boustro.cli.tables > docs/options.md` writes the page anew.
"""

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from boustro.generation.options import GenerationConfig, InfillOptions, LMOptions, ScoreConfig
from boustro.heads.registry import HEADS
from boustro.objectives.split import Split
from boustro.options import describe_fields
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
from boustro.tasks import TASKS
from boustro.tasks.config import TaskConfig
from boustro.tasks.data.reading import DataOptions, TrainDataOptions
from boustro.tasks.distill.options import DistillOptions
from boustro.tasks.embed.options import VectorOptions

TABLES: dict[str, type] = {
    **{f"`fit --task {name}`, `{task.name}`: `{task.config.__name__}`": task.config for name, task in TASKS.items()},
    "`fewshot`": ShotOptions,
    "`embed` and `similarity`: `VectorOptions`": VectorOptions,
    "`infill`, `Infiller`: `InfillOptions`": InfillOptions,
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
    """Markdown: one row per field of a dataclass; of a task a second table, with the options of its heads."""
    lines = ["| option | values | default | meaning |", "|---|---|---|---|", *rows(options)]
    if not issubclass(options, TaskConfig):
        return "\n".join(lines)
    kinds = options.heads()
    lines += [
        "",
        f"Heads: {', '.join(kinds)}.",
        "",
        "| option | values | default | meaning | heads |",
        "|---|---|---|---|---|",
    ]
    having: dict[str, list[str]] = {}
    for kind in kinds:
        for row in rows(HEADS[kind].options):
            having.setdefault(row, []).append(kind)
    lines += [f"{row} {'all' if own == kinds else ', '.join(own)} |" for row, own in having.items()]
    return "\n".join(lines)


def rows(options: type) -> list[str]:
    """One for each field of a dataclass."""
    described, hints, found = describe_fields(options), get_type_hints(options), []
    for field in fields(options):
        if not is_dataclass(hints[field.name]):
            default = field.default if isinstance(field.default, (str, int, float)) else "–"
            name, values = field.name.replace("_", "-"), _values(hints[field.name]).replace("|", "\\|")
            found.append(f"| `--{name}` | {values} | {default} | {described[field.name]} |")
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
