"""The README.md of an exported folder: what it is, and how it is used."""

from pathlib import Path

from boustro.apps.runtime.opening import CONFIG
from boustro.store import read_json, write_file
from boustro.tasks import TASKS

PAGE = """# {name}

{does} {labels}. Exported by boustro {version} with weights in {precision}; it runs without torch.

```bash
boustro predict {name} texts.txt
```
```python
from boustro.apps.runtime import load

model = load("{name}")
model.predict({example})
```

Needed besides Python are onnxruntime, tokenizers and numpy. On {answers} examples it was compared with the trained
folder: {checked}.
"""


def write_card(folder: Path, name: str) -> None:
    """Write README.md into an exported folder that is complete otherwise."""
    config = read_json(folder / CONFIG)
    entry, checked = TASKS[config["task"]], dict(config["checked"])
    answers = checked.pop("answers")
    said = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in checked.items())
    labels = ", ".join(config["labelling"]["labels"][:20])
    facts = {name: config[name] for name in ("version", "precision")}
    page = PAGE.format(
        name=name, does=entry.does, labels=labels, example=entry.example, answers=f"{answers:,}", checked=said, **facts
    )
    write_file(folder / "README.md", page)
