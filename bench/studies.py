"""Every study of docs/results.md, by name: runs those named, or all, and prints their tables.

    python bench/studies.py --data DATA --rival masked:$MINILM --out studies [--only table2-paper heads] [--list]

DATA has `conll2003/train.txt`, `conll2003/dev.txt` and so on for each data set. An interrupted study continues, and a
finished one is not run again; other weights make another study. All studies take hours on two cores; two shells can
share the work with `--only`. Parts of speech are not included: docs/results.md has their command.
"""

import subprocess
import sys
from pathlib import Path

import tyro

SMALL = "--train-sentences 4000 --epochs 8"
CONLL = "conll2003"
STUDIES = {
    "table2-paper": (CONLL, "compare --encoders starter-forward,starter-backward,starter,RIVAL --preset paper"),
    "table2-default": (
        CONLL,
        "compare --encoders starter-forward,starter-backward,starter,RIVAL --epochs 10 --cases starter-forward,starter",
    ),
    "block-paper": (CONLL, "compare --encoders starter-forward --heads block --preset paper"),
    "block-default": (CONLL, "compare --encoders starter-forward --heads block --epochs 10"),
    "pooling": (
        CONLL,
        f"compare --encoders starter {SMALL} --vary pooling=exit+before,entry+exit+before,mean,exit,first,before",
    ),
    "layers": (CONLL, f"compare --encoders starter {SMALL} --vary layers=all/last/2,3,4"),
    "standardise": (CONLL, f"compare --encoders starter {SMALL} --vary standardise=true,false"),
    "start_piece": (CONLL, f"compare --encoders starter {SMALL} --vary start_piece=eos,none"),
    "context": (CONLL, f"compare --encoders starter {SMALL} --vary context=document,sentence"),
    "mentions": (CONLL, "compare --encoders starter-forward,starter --epochs 10 --vary pool_mentions=true"),
    "rival-pooling": (CONLL, f"compare --encoders RIVAL {SMALL} --vary pooling=first,mean,first+last,exit+before"),
    "shots": (CONLL, "fewshot --encoders starter-forward,starter,RIVAL"),
    "shots-mentions": (CONLL, "fewshot --encoders starter-forward,starter,RIVAL --pool-mentions"),
    "shots-heads": (
        CONLL,
        "fewshot --encoders starter --shots 4,16,64 --heads ridge,linear,mlp,span",
    ),
    "shots-paper": (CONLL, "fewshot --encoders starter-forward,starter,RIVAL --preset paper"),
    "heads": (
        CONLL,
        f"compare --encoders starter-forward,starter,RIVAL --heads linear,mlp,span,block,bilstm --hidden 256 {SMALL}",
    ),
    "politics": ("crossner_politics", "compare --encoders starter-forward,starter,RIVAL"),
    "bc5cdr": ("bc5cdr", "compare --encoders starter-forward,starter,RIVAL --epochs 10"),
    "wnut17": ("wnut17", "compare --encoders starter-forward,starter,RIVAL --epochs 10"),
    "chunks": ("conll2000", "compare --encoders starter-forward,starter,RIVAL --epochs 10"),
    "roads": (
        CONLL,
        "compare --encoders starter-forward,unmasked:starter-forward,unmasked:3-4:starter-forward,"
        f"repeated:starter-forward,starter {SMALL}",
    ),
}
"""By name: the folder of the data set, and the command without its files."""


def command(name: str, data: Path, rival: str, out: Path) -> list[str]:
    """The whole command of a study."""
    folder, words = STUDIES[name]
    given = words.replace("RIVAL", rival).split()
    files = [x for part in ("train", "dev") for x in (f"--{part}", str(data / folder / f"{part}.txt"))]
    return [*given, *files, "--out", str(out / name), "--json", str(out / f"{name}.json")]


def main(data: Path, rival: str, out: Path, only: tuple[str, ...] = (), list: bool = False) -> None:
    """Run the studies one after the other, then print their tables.

    Args:
        data: Folder of data sets.
        rival: The encoder that the pair is compared with.
        out: Where studies and their results are written.
        only: Names of studies; all by default.
        list: Print the commands and run nothing.
    """
    unknown = sorted({*only} - {*STUDIES})
    if unknown:
        sys.exit(f"unknown study {', '.join(unknown)}: known are {', '.join(STUDIES)}")
    names = only or tuple(STUDIES)
    for name in names:
        words = command(name, data, rival, out)
        print("boustro", *words, flush=True)
        if not list:
            subprocess.run([sys.executable, "-m", "boustro", *words], check=True)
    if not list:
        results = [str(out / f"{name}.json") for name in names]
        subprocess.run([sys.executable, str(Path(__file__).with_name("results.py")), *results], check=True)


if __name__ == "__main__":
    tyro.cli(main)
