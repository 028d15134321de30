"""Trained folders on the Hugging Face Hub: uploaded in one commit, verified when they are opened.

    upload("ner", "ada/harbour-ner")           → the address of the commit
    download("ada/harbour-ner", "v1")          → the folder in the Hub's cache
    download("ner")                            → the folder itself

Only files that the folder's manifest lists are uploaded.
"""

import re
import sys
from pathlib import Path

from boustro.errors import reason
from boustro.store import MANIFEST, open_folder, read_json
from boustro.tasks import TASKS, task_of

HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def download(name_or_path: str | Path, revision: str | None = None) -> Path:
    """A trained folder: the path itself where it exists, else a snapshot of `owner/name` on the Hub.

    `revision` is a branch, a tag or a commit. Raises `FileNotFoundError` when there is neither.
    """
    name = str(name_or_path)
    if Path(name).exists() or not HUB_NAME.fullmatch(name):
        return Path(name)  # `open_folder` refuses a missing one
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision))
    except (OSError, ValueError) as error:
        raise FileNotFoundError(f"{name}: no such folder, and not found on the Hub: {reason(error)}") from error


def upload(
    folder: str | Path, repo_id: str, *, private: bool = False, revision: str | None = None, token: str | None = None
) -> str:
    """Upload a trained folder in one commit; the repository and the branch `revision` are created if missing.

    Returns the commit's address. Raises `ValueError` for a damaged folder, a name that is not `owner/name` and
    a missing token, `OSError` when the Hub refuses.
    """
    from huggingface_hub import HfApi, get_token

    from boustro.tasks.card import local_models

    folder = Path(folder)
    manifest = open_folder(folder, TASKS[task_of(folder)].folder, verify=True)
    if not HUB_NAME.fullmatch(repo_id):
        raise ValueError(f"{repo_id!r} is not a repository name on the Hub; expected for example ada/harbour-ner")
    token = token or get_token()
    if not token:
        raise ValueError(
            "no Hugging Face token: make one at https://huggingface.co/settings/tokens, then run `hf auth login`, "
            "set HF_TOKEN, or pass token="
        )
    for spec in local_models(read_json(folder / "config.json")):
        print(f"note: {spec} is a local folder; to open {repo_id}, give that model with encoder=", file=sys.stderr)
    api = HfApi(token=token)
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        if revision:
            api.create_branch(repo_id, branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            allow_patterns=[*manifest["files"], MANIFEST],
            commit_message=f"Tagger made with boustro {manifest['made_by']['versions']['boustro']}",
        )
    except OSError as error:
        raise OSError(f"{repo_id}: the Hub refused the upload: {reason(error)}") from error
    return str(commit.commit_url)
