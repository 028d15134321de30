"""The identifier of languages in the package, and how often it is right.

    pip install py3langid
    python bench/identify.py make src/boustro/data/languages/model.safetensors

`make` prunes the model of py3langid 0.4 (Lui & Baldwin 2012; BSD): naive Bayes over pieces of bytes, of which the
longest one that ends at a byte counts. Of the languages in Latin letters it keeps the pieces that tell them apart best,
and adds what a dropped piece weighs to the longest kept one that it ends in.

    git clone https://github.com/dadelani/sib-200
    python bench/identify.py judge --english reddit.jsonl.xz trec.jsonl.xz --sib sib-200/data/annotated

`judge` prints how many English texts are taken for others, of each file, and, of SIB-200's development sentences in
Latin letters, the share that is told from English, whole and cut to a few words, and that is called by its name.
"""

import importlib
import json
import lzma
from collections import Counter, deque
from pathlib import Path

import numpy as np
import tyro
from safetensors.numpy import save_file

from boustro.text.languages import identifier, language_of

NAMES = dict(
    entry.split(maxsplit=1)
    for entry in (
        "af Afrikaans|an Aragonese|az Azerbaijani|br Breton|bs Croatian, Bosnian or Serbian|ca Catalan|"
        "crh Crimean Tatar|cs Czech|cy Welsh|da Danish|de German|eo Esperanto|es Spanish|et Estonian|"
        "eu Basque|fi Finnish|fo Faroese|fr French|fy Frisian|ga Irish|gd Scottish Gaelic|gl Galician|"
        "gug Guarani|ha Hausa|hr Croatian, Bosnian or Serbian|ht Haitian Creole|hu Hungarian|id Indonesian|"
        "ig Igbo|is Icelandic|it Italian|jv Javanese|kab Kabyle|kik Kikuyu|ku Kurdish|lb Luxembourgish|"
        "lg Luganda|lij Ligurian|ln Lingala|lt Lithuanian|ltg Latgalian|lv Latvian|mg Malagasy|ms Malay|"
        "mt Maltese|nl Dutch|nn Norwegian|no Norwegian|nso Northern Sotho|oc Occitan|om Oromo|pl Polish|"
        "pt Portuguese|qu Quechua|ro Romanian|rw Kinyarwanda|se Northern Sami|sk Slovak|sl Slovenian|sn Shona|"
        "so Somali|sq Albanian|sr Croatian, Bosnian or Serbian|st Sotho|sv Swedish|sw Swahili|tk Turkmen|"
        "tl Tagalog|tr Turkish|uz Uzbek|vec Venetian|vi Vietnamese|wa Walloon|xh Xhosa|yo Yoruba|zu Zulu"
    ).split("|")
)
"""Names by the codes of py3langid; those without one are another language."""
LATIN_SHARE = 0.5
"""The least share of a language's pieces that are of Latin letters."""
NEAR_ENGLISH = frozenset({"pcm", "la"})
"""Nigerian Pidgin, and Latin, which English texts quote."""
FLOOR = 1e-7  # of the probability of a piece in a language that never has it
CUTS = (6, 4)


def make(out: tyro.conf.Positional[Path], pieces: int = 12_000) -> None:
    """Write the identifier."""
    model = importlib.import_module("py3langid.langid").LanguageIdentifier.from_model_file("data/model.npz.xz")
    chances = np.exp(np.asarray(model.nb_ptc, np.float32))
    named = [(piece, feature) for piece, feature in pieces_of(model) if is_latin(piece)]
    of_latin = chances[sorted({feature for _, feature in named})].sum(0) > LATIN_SHARE
    columns = [n for n, code in enumerate(model.nb_classes) if of_latin[n] and code not in NEAR_ENGLISH]
    chances = chances[:, columns]
    worth = chances.mean(1) * np.log(chances).var(1)
    best = sorted(range(len(named)), key=lambda n: -worth[named[n][1]])[:pieces]
    kept = {named[n][0]: row for row, n in enumerate(best)}
    sums = np.full((len(kept), len(columns)), FLOOR)
    for piece, feature in named:
        row = next((kept[piece[n:]] for n in range(len(piece)) if piece[n:] in kept), None)
        if row is not None:
            sums[row] += chances[feature]
    weights = np.log(sums)
    low, high = weights.min(), weights.max()
    tensors = {
        "weights": np.round((weights - low) / (high - low) * 255).astype(np.uint8),
        "range": np.array([low, high], np.float32),
        "pieces": np.frombuffer(b"".join(kept), np.uint8).copy(),
        "lengths": np.array([len(piece) for piece in kept], np.uint8),
    }
    codes = [model.nb_classes[n] for n in columns]
    out.parent.mkdir(parents=True, exist_ok=True)
    for key, words in (("codes", codes), ("names", [NAMES.get(code, "") for code in codes])):
        tensors[key] = np.frombuffer("|".join(words).encode(), np.uint8).copy()
    save_file(tensors, out)
    out.chmod(0o644)
    print(f"{out}: {len(kept):,} pieces, {len(codes)} languages, {out.stat().st_size:,} bytes; {' '.join(codes)}")


def pieces_of(model) -> list[tuple[bytes, int]]:
    """Pieces of bytes with the number of their feature, from the automaton that finds them."""
    known, queue = {0: b""}, deque([0])
    while queue:
        state = queue.popleft()
        for byte in range(256):
            after = model.tk_nextmove[(model.tk_row[state] << 8) + byte]
            if after not in known:
                known[after] = known[state] + bytes([byte])
                queue.append(after)
    return [(known[state], feature) for state, feature in enumerate(model.tk_output) if feature >= 0]


def is_latin(piece: bytes) -> bool:
    """Whether a piece may stand in a word of Latin letters."""
    letters = piece.decode("utf-8", "ignore")
    within = ((0, 0x250), (0x300, 0x370), (0x1E00, 0x1F00), (0x2000, 0x2070))
    return bool(letters) and all(any(low <= ord(c) < high for low, high in within) for c in letters)


def judge(english: tuple[Path, ...] = (), sib: Path | None = None, most: int = 3000) -> None:
    """Print what is taken for another language, and what is found."""
    for path in english:
        with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
            texts = [json.loads(line)["text"] for line, _ in zip(file, range(most), strict=False)]
        found = Counter(filter(None, map(language_of, texts)))
        print(f"{path.name}: {found.total():,} of {len(texts):,}: {dict(found.most_common(5))}", flush=True)
    shares: dict[str, list[float]] = {"whole": [], **{f"{n} words": [] for n in CUTS}}
    known = {*identifier().names}
    right: list[tuple[float, str, str]] = []
    for path in sorted(sib.glob("*_Latn/dev.tsv")) if sib else ():
        if path.parent.name == "eng_Latn":
            continue
        texts = [line.split("\t")[2] for line in path.read_text("utf-8").splitlines()[1:]]
        answers = [language_of(text) for text in texts]
        shares["whole"].append(np.mean([a is not None for a in answers]))
        for n in CUTS:
            cut = [language_of(" ".join(text.split()[:n])) for text in texts]
            shares[f"{n} words"].append(np.mean([a is not None for a in cut]))
        ((name, count),) = Counter(answers).most_common(1)
        right.append((count / len(texts), path.parent.name, str(name)))
    for what, values in shares.items():
        if values:
            print(f"{what}: {100 * np.mean(values):.1f}% told from English; worst {100 * min(values):.0f}%")
    print(*(f"{code} {name} {100 * share:.0f}%" for share, code, name in right if name in known), sep="; ")


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"make": make, "judge": judge})
