"""Trained folders on the Hugging Face Hub: uploaded in one commit, verified when they are opened.

    upload("ner", "ada/harbour-ner")           → the address of the commit
    download("ada/harbour-ner", "v1")          → the folder in the Hub's cache
    download("ner")                            → the folder itself

Only files that the folder's manifest lists are uploaded.

The model card of a trained folder: README.md, made of card.md.jinja from the folder's config.json and manifest only.

It starts with the metadata that the Hugging Face Hub reads (YAML between two lines of dashes), with the scores as a
model index. The card may be edited: its bytes are not verified when the folder is opened.

    ---
    library_name: boustro
    pipeline_tag: token-classification
    ...
    # ner
    Finds entities in text: LOC, MISC, ORG, PER. ...
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boustro.encoders.extended import AS_POOLED, SPELLING
from boustro.errors import reason
from boustro.metrics.score import score_table
from boustro.output import as_json
from boustro.store import MANIFEST, Artefact, ModelPlace, make_manifest, read_json, write_file
from boustro.tasks import TASKS, task_of, trained_folder
from boustro.tasks.labellings import open_labelling

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

CARD = "README.md"


def write_card(folder: str | Path, name: str | None = None) -> Path:
    """Write README.md into a folder, complete or not; the same folder gives the same bytes.

    `name` is the name that the folder is opened by: its own, or that of its repository on the Hub.
    """
    folder = Path(folder)
    config = read_json(folder / "config.json")
    kind = TASKS[config["task"]].folder
    written = Artefact(folder)
    manifest = written.check(kind) if written.is_written else make_manifest(folder, kind)
    return write_file(folder / CARD, model_card(config, manifest, name or folder.resolve().name))


def model_card(config: dict[str, Any], manifest: dict[str, Any], name: str) -> str:
    """Return the card as Markdown, from a folder's config.json and manifest; `name` as in `write_card`."""
    from jinja2 import Environment, FileSystemLoader

    from boustro.tasks.fitting.estimate import tell_beside  # with torch, which opening a folder of the Hub lacks

    record, task, made_by = config["record"], TASKS[config["task"]], manifest["made_by"]
    environment = Environment(  # no HTML: what stands in a cell is escaped by the template
        loader=FileSystemLoader(Path(__file__).parent), trim_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    environment.filters |= {"cell": _cell, "json": as_json, "number": "{:,}".format, "file": _file}
    types = ", ".join(map(_cell, open_labelling(**config["labelling"]).types))
    return environment.get_template("card.md.jinja").render(
        config=config,
        record=record,
        task=task,
        name=name,
        metadata=_metadata(config, name).to_yaml(),
        does=f"{task.does} {types}".strip(" ."),
        kind=task.folder.replace("_", " ").replace("-", " "),
        variable=task.folder.replace("-", "_"),
        is_local=bool(local_models(config)),
        scores=score_table(record["dev_scores"]) if record.get("dev_scores") else [],
        judged=tell_beside(record, task.examples),
        settings={**config["config"], **config["head_options"]},
        command=shlex.join(made_by["command"]).replace("`", "'").replace("\n", " "),
        versions=made_by["versions"],
        spec="+".join(map(_shown, config["encoder"].split("+"))),
        models=list(_encoder_rows(config)),
        size=sum(fact["bytes"] for file, fact in manifest["files"].items() if file != CARD),
    )


def local_models(config: dict[str, Any]) -> list[str]:
    """Return the encoder's parts that are folders on the machine where the head was trained."""
    return [part for part in config["encoder"].split("+") if _kind_and_path(part)[1].is_absolute()]


def _metadata(config: dict[str, Any], name: str) -> "ModelCardData":
    from huggingface_hub import EvalResult, ModelCardData

    record, scores = config["record"], config["record"].get("dev_scores")
    task = TASKS[config["task"]]
    metrics = {kind: what for kind, what in task.metrics.items() if kind in (scores or {})}
    pipeline = task.pipeline
    entities = "entity F1" in metrics.values()
    task_name = "Named entity recognition" if entities else pipeline.replace("-", " ").capitalize()
    results = [
        EvalResult(
            task_type=pipeline,
            task_name=task_name,
            dataset_type="local",
            dataset_name=Path(record["dev"]["name"]).name,
            dataset_split="validation",
            dataset_revision=record["dev"]["fingerprint"],
            metric_type=kind,
            metric_name=what,
            metric_value=round(scores[kind] / 100, 4),  # scores on the Hub are from 0 to 1
        )
        for kind, what in metrics.items()
    ]
    weights = [model["weights"] for model in _models(config["encoder_identity"])]
    return ModelCardData(
        library_name="boustro",
        pipeline_tag=pipeline,
        tags=["boustro", pipeline, *(["named-entity-recognition"] if pipeline.startswith("token") else [])],
        base_model=[w.rpartition("@")[0] for w in weights if "@" in w] or None,  # those from the Hub
        model_name=name if results else None,
        eval_results=results or None,
    )


def _encoder_rows(config: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of the models of an encoder, and of its memories of words."""
    identity, shares = config["encoder_identity"], config["record"].get("layer_weights", {})
    models = _models(identity)
    shares = {name: values for name, values in shares.items() if not name.endswith(AS_POOLED) and name != SPELLING}
    if len(shares) != len(models):  # one model twice
        shares = {f"model {number}": [] for number in range(1, len(models) + 1)}
    for (name, lm_shares), model in zip(shares.items(), models, strict=True):
        mix = " ".join(f"{share:.2f}" for share in lm_shares)
        yield [_cell(_shown(name)), f"`{model['weights']}`", model.get("direction", ""), _cell(model["pooling"]), mix]
    yield from (["memory of words", f"`{part['weights']}`", "", "", ""] for part in _parts(identity) if "base" in part)


def _parts(identity: dict[str, Any]) -> list[dict[str, Any]]:
    return identity.get("parts", [identity])


def _models(identity: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the models of an encoder, and those that its memories of words belong to."""
    return [model for part in _parts(identity) for model in (_models(part["base"]) if "base" in part else [part])]


def _kind_and_path(part: str) -> tuple[str, Path]:
    kind, colon, path = part.rpartition(":")
    return kind + colon, Path(path)


def _shown(part: str) -> str:
    """Return a part of a spec; of a local model's path only the last folder, because paths may be private."""
    kind, path = _kind_and_path(part)
    return kind + path.name if path.is_absolute() or str(path).startswith(("..", "~")) else part


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _file(path: str) -> str:
    return Path(path).name


HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def download(name_or_path: ModelPlace, revision: str | None = None) -> Artefact:
    """Return a trained folder: the tagger of the package (`packaged_tagger`), the path itself where it exists, or a
    snapshot of `owner/name` on the Hub.

    `revision` is a branch, a tag or a commit. Raises `FileNotFoundError` when there is neither.
    """
    if isinstance(name_or_path, Artefact):
        return name_or_path
    found, name = trained_folder(name_or_path), str(name_or_path)
    if found.path.exists() or not HUB_NAME.fullmatch(name):
        return found  # `Artefact.check` refuses a missing one
    from huggingface_hub import snapshot_download

    try:
        return Artefact(snapshot_download(name, revision=revision))
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{name}: no such folder, and not found on the Hub: {reason(error)}") from error


def upload_saved(save: Callable[[Path], None], repo_id: str, **where: Any) -> str:
    """Upload what `save` writes, as `upload`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / repo_id.rpartition("/")[2]
        save(path)
        write_card(path, repo_id)
        return upload(path, repo_id, **where)


def upload(
    folder: str | Path, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
) -> str:
    """Upload a trained folder in one commit; the repository and the branch `revision` are created if missing.

    Returns the commit's address. Raises `ValueError` for a damaged folder, a name that is not `owner/name` and
    a missing token, `OSError` when the Hub refuses.
    """
    from huggingface_hub import HfApi, get_token

    trained = Artefact(Path(folder))
    manifest = trained.check(TASKS[task_of(trained)].folder, verify=True)
    if not HUB_NAME.fullmatch(repo_id):
        raise ValueError(f"{repo_id!r} is not a repository name on the Hub; expected for example ada/harbour-ner")
    token = token or get_token()
    if not token:
        raise ValueError(
            "no Hugging Face token: make one at https://huggingface.co/settings/tokens, then run `hf auth login`, "
            "set HF_TOKEN, or pass token="
        )
    for spec in local_models(trained.config()):
        print(f"note: {spec} is a local folder; to open {repo_id}, give that model with encoder=", file=sys.stderr)
    api = HfApi(token=token)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        if revision:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=trained.path,
            revision=revision,
            allow_patterns=[*manifest["files"], MANIFEST],
            commit_message=f"Tagger made with boustro {manifest['made_by']['versions']['boustro']}",
        )
    except OSError as error:
        raise OSError(f"{repo_id}: the Hub refused the upload: {reason(error)}") from error
    return str(commit.commit_url)
