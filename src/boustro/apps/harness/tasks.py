"""Tasks of lm-evaluation-harness over local files: YAML in `boustro/data/harness`, or a user's own.

A YAML names its file of JSON lines (`dataset_kwargs: data_files: test`), which is looked for in the folder of the data
sets. It is read here, not by `datasets`, so nothing is fetched or copied, and a row that lacks a key that the templates
use is an error with its line; the harness would fill in nothing.
"""

import logging
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import datasets
import jinja2
import jinja2.meta
from lm_eval.api.task import ConfigurableTask

from boustro.choose import choose
from boustro.text.documents import read_values

TEMPLATES = ("doc_to_text", "doc_to_choice", "doc_to_target")
SPLIT = "test"
logging.getLogger("lm_eval").setLevel(logging.ERROR)  # what matters is raised


def known_tasks() -> dict[str, Any]:
    """The YAML files in the package, by the names of their tasks."""
    folder = files("boustro").joinpath("data", "harness")
    return {file.name.removesuffix(".yaml"): file for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def open_task(name: str, data: Path, limit: int | None = None) -> ConfigurableTask:
    """The task of a name or of a YAML file, over the first `limit` rows of its file in `data`.

    Raises `ValueError` for an unknown task, one that is not multiple choice, and a bad row; `FileNotFoundError` where
    the file is missing.
    """
    if name.endswith((".yaml", ".yml")):
        config = read_config(Path(name))
    else:
        with as_file(choose(name, known_tasks(), "task")) as path:
            config = read_config(path)
    if config.get("output_type") != "multiple_choice":
        raise ValueError(f"{name}: expected output_type: multiple_choice, not {config.get('output_type')}")
    try:
        path = data / config["dataset_kwargs"]["data_files"][SPLIT]
    except (KeyError, TypeError):
        raise ValueError(f"{name}: no file of JSON lines under dataset_kwargs, data_files, {SPLIT}") from None
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, which the task {name} reads; name its folder with --data")
    rows = read_rows(path, config, limit)
    config |= {"dataset_kwargs": None, "test_split": SPLIT, "metadata": {"version": 1.0}}
    config["custom_dataset"] = lambda **_: datasets.DatasetDict({SPLIT: datasets.Dataset.from_list(rows)})
    try:
        return ConfigurableTask(config=config)
    except IndexError:  # it looks at the first row
        raise ValueError(f"{path}, row 1: the right choice is none of its choices") from None


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of a task; `ValueError` for anything else."""
    import yaml

    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict) or not all(isinstance(config.get(name), str) for name in ("task", *TEMPLATES)):
        raise ValueError(f"{path}: expected a task with the texts {', '.join(TEMPLATES)}")
    return config


def read_rows(path: Path, config: dict[str, Any], limit: int | None) -> list[dict[str, Any]]:
    """The rows that the templates can use; `ValueError`, with file:line, for others and for a file without any."""
    needed = set().union(*(_names(config[template]) for template in TEMPLATES))
    rows: list[dict[str, Any]] = []
    for place, row in read_values(path):
        if limit is not None and len(rows) == limit:
            break
        if not isinstance(row, dict) or (missing := needed - row.keys()):
            lacking = ", ".join(sorted(missing)) if isinstance(row, dict) else "everything"
            raise ValueError(f"{place}: the row lacks {lacking}, which the task {config['task']} uses")
        rows.append({name: row[name] for name in sorted(needed)})
    if not rows:
        raise ValueError(f"{path}: no rows")
    return rows


def _names(template: str) -> set[str]:
    """The keys that a template uses: `"{{context}} {{question}}"`, or a key alone."""
    if "{{" not in template and "{%" not in template:
        return {template}
    return jinja2.meta.find_undeclared_variables(jinja2.Environment().parse(template))


def gold(task: ConfigurableTask, doc: dict[str, Any], number: int) -> int:
    """The number of the right choice; `ValueError` for none, which the harness would count as a wrong answer."""
    found: Any = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    choices = task.doc_to_choice(doc)
    if isinstance(found, str) and found in choices:
        found = choices.index(found)
    if not isinstance(found, int) or not 0 <= found < len(choices):
        raise ValueError(f"{task.config.task}, row {number}: there are {len(choices)} choices, but {found!r} is right")
    return found
