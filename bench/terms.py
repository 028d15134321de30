"""States that know what a thing is: NuNER's step on the bodies in the package, from raw text without a label.

    apt-get install wordnet-base                       # /usr/share/wordnet
    python bench/terms.py data --wikipedia-folder WIKIPEDIA --wordnet /usr/share/wordnet --held-out ner names … \
        --texts WIKIPEDIA/train-AC.jsonl.bz2=12000 abstracts.jsonl.xz=12000 tweets.jsonl.xz=8000 … --out terms/data
    python bench/terms.py tune --body MINILM --data terms/data --rank 16 --out terms/minilm
    python bench/terms.py few --sets conll=dev.txt … --encoders terms/minilm --cache terms/few
    python bench/terms.py pack --out terms/minilm --body src/boustro/data/starter/texts
    python bench/terms.py few --sets conll=dev.txt … --encoders terms/minilm/shipped --cache terms/few

`data` marks in sentences the names of articles with what these say ("Norwegian chemist"), titles that are written small
("jazz", "music genre") and nouns with what WordNet says (the gloss, and the next kind above), a file a source. No
sentence has eight words in a row with a file of `--held-out`.

`tune` trains a masked LM or a causal one with its start piece and run-up. The mean of a mention's states, each of the
last piece of a word, is near the vector of what the mention is, which MiniLM as it was gives, among those of the others
in the batch and of further ones; and a word is inside a mention or not. `--rank 0` trains whole matrices. It goes on
from `checkpoint.pt` in OUT, which it writes every few minutes. At the end OUT has `adapter.safetensors`, `heads.pt`
and `merged`, a folder of transformers.

`few` gives F1 of logistic regression over words, four draws of 20 and 60 sentences, on 200 others, over the highest
states of an encoder alone, of `starter-large`, of it without the body, and with the encoder in place of the body or
beside. `heads` gives F1 of a head of the package with its defaults, over specs. Source: Bogdanov et al. 2024.
"""

import bz2
import json
import lzma
import math
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import tyro
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import boustro
from boustro.encoders.options import ReadingOptions
from boustro.encoders.reading import pad_rows
from boustro.encoders.spec import open_encoder
from boustro.lab.adapt.names import highest_layers
from boustro.models.packed import PACKED_FILE, StoredWeights, pack_tensors
from boustro.tasks.label_types import DescribedStates
from boustro.text.alignment import Aligner
from boustro.text.start import run_up_pieces, start_pieces
from boustro.text.words import split_text
from names import lines_of, plain_title
from typed import NAME, WORDS, definition

# data --------------------------------------------------------------------------------------------------------------

PER_THING, PER_NOUN = 20, 500
"""Mentions of a title or a lemma, and of things of one noun, from which on they are no reason to take a sentence."""
PER_RECORD = 6
LONGEST = 4
MARKED = "IO?"
"""A word is inside a mention, outside, or nobody knows: names of no article, and nouns that have several senses."""


@dataclass(frozen=True)
class Things:
    """What things are: `names` as they are written, `nouns` in small letters, joined by `_`: (said, noun, kind)."""

    names: dict[str, tuple[str, str]]
    nouns: dict[str, tuple[str, str, str]]
    may_be_noun: frozenset[str]
    written_small: frozenset[str]


def wordnet(folder: Path) -> tuple[dict[str, tuple[str, str, str]], frozenset[str], frozenset[str]]:
    """Of lemmas that are nouns alone and have at most three senses, the first: its gloss, and the next kind above; all
    lemmas of nouns; and all that are written small."""
    lines = lambda name: [s for s in (folder / name).read_text("utf-8").splitlines() if s[:1] != " "]  # noqa: E731
    rows = {pos: [line.split() for line in lines(f"index.{pos}")] for pos in ("noun", "verb", "adj", "adv")}
    small, data = set[str](), {}
    for pos in rows:
        for line in lines(f"data.{pos}"):
            head, _, gloss = line.partition("|")
            f = head.split()
            at = 4 + 2 * int(f[3], 16)
            small.update(word for word in f[4:at:2] if word.islower())
            if pos == "noun":
                up = [f[at + 2 + 4 * i] for i in range(int(f[at])) if f[at + 1 + 4 * i] in ("@", "@i")]
                data[f[0]] = f[4].replace("_", " "), up, gloss.strip().split(";")[0].strip('" ')
    other, found = {row[0] for pos in ("verb", "adj", "adv") for row in rows[pos]}, {}
    for row in rows["noun"]:
        lemma, senses = row[0], row[6 + int(row[3]) :]
        if len(lemma) < 4 or lemma in other or len(senses) > 3 or any(c.isdigit() for c in lemma):
            continue
        _, up, gloss = data[senses[0]]
        if up and data[up[0]][1]:
            found[lemma] = gloss, data[up[0]][0], "noun"
    return found, frozenset(row[0] for row in rows["noun"]), frozenset(small)


def things(wikipedia_folder: Path, wordnet_folder: Path) -> Things:
    """From the articles that alone have their title, and from WordNet."""
    nouns, may_be_noun, small = wordnet(wordnet_folder)
    said, own = defaultdict[str, list[tuple[str, str] | None]](list), set[str]()
    for path in sorted(wikipedia_folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            title = plain_title(record)
            said[title].append(definition(record["text"]))
            low = title[:1].lower() + title[1:]
            # an article about Reading, the town, does not have the word small
            if low.islower() and len(low) > 3 and low.isascii() and f" {low}" in record["text"][len(title) + 1 : 2000]:
                own.add(title)
    known = {t: one[0] for t, one in said.items() if len(one) == 1 and one[0] and t[:1].isupper() and len(t) > 2}
    counts = Counter(noun for _, noun in known.values())
    known = {t: one for t, one in known.items() if counts[one[1]] >= 3}
    terms = {t.lower().replace(" ", "_"): (*one, "term") for t, one in known.items() if t in own}
    terms = {t: one for t, one in terms.items() if "_" in t or t not in small}
    return Things({t: one for t, one in known.items() if t not in own}, terms | nouns, may_be_noun, small)


def singular(words: Sequence[str]) -> Iterator[str]:
    """The forms that a lemma of these words may have."""
    low = "_".join(words).lower()
    yield low
    for ending, other in (("s", ""), ("es", ""), ("ies", "y")):
        if low.endswith(ending):
            yield low[: -len(ending)] + other


def mark(text: str, known: Things, loose: bool) -> tuple[Any, list[list[Any]], str] | None:
    """A sentence, its mentions [begin, end, said, noun, kind], and a letter of `MARKED` for each word; `loose` texts
    have capitals for other reasons."""
    parts = [*split_text(text, "text")]
    words = parts[0].sentence.words if len(parts) == 1 else ()
    if not 7 < len(words) < 60:
        return None
    begins = {place[0]: n for n, place in enumerate(parts[0].places)}
    ends = {place[1]: n + 1 for n, place in enumerate(parts[0].places)}
    marks = list[list[Any]]()
    for m in NAME.finditer(text):
        name = m.group().rstrip(".'’")
        start, end = begins.get(m.start()), ends.get(m.start() + len(name))
        if name not in known.names or start is None or end is None:
            continue
        if end == start + 1 and name.lower() in known.written_small and (loose or start == 0):
            continue
        marks.append([start, end, *known.names[name], "name"])
    taken, at = {n for b, e, *_ in marks for n in range(b, e)}, 0
    while at < len(words):
        for n in range(min(LONGEST, len(words) - at), 0, -1):
            some = words[at : at + n]
            if not taken.isdisjoint(range(at, at + n)) or not all(w[:1].islower() for w in some):
                continue
            if found := next((known.nouns[form] for form in singular(some) if form in known.nouns), None):
                marks.append([at, at + n, *found])
                at += n - 1
                break
        at += 1
    taken = {n for b, e, *_ in marks for n in range(b, e)}
    letters = [
        "I" if n in taken
        else "O" if not word[0].isalpha() or (word.islower() and (
            len(word) < 4 or known.may_be_noun.isdisjoint(singular([word]))))
        else "?"
        for n, word in enumerate(words)
    ]  # fmt: skip
    return parts[0].sentence, sorted(marks), "".join(letters)


def eights(text: str) -> set[int]:
    """Hashes of all eight words in a row."""
    own = re.findall(r"\w+", text.lower())
    return {hash(tuple(own[n : n + 8])) for n in range(len(own) - 7)}


def strings(value: Any) -> Iterator[str]:
    """All that stand in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(own, str) for own in value):
        yield " ".join(value)
    elif isinstance(value, list | dict):
        for own in value.values() if isinstance(value, dict) else value:
            yield from strings(own)


def held_out_texts(folders: Sequence[Path]) -> Iterator[str]:
    """Each text of the files in folders: JSON lines, or a word a line."""
    for path in sorted(file for folder in folders for file in ([folder] if folder.is_file() else folder.rglob("*"))):
        if path.suffix in (".xz", ".bz2", ".jsonl"):
            opened: Any = {".xz": lzma, ".bz2": bz2}.get(path.suffix)
            with opened.open(path, "rt", encoding="utf-8") if opened else path.open(encoding="utf-8") as file:
                for line in file:
                    yield from strings(json.loads(line)) if line.startswith("{") and line.endswith("}\n") else [line]
        elif path.suffix in (".txt", ".conllu"):
            column = 1 if path.suffix == ".conllu" else 0
            for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
                rows = [line.split() for line in block.split("\n") if line.strip() and not line.startswith("# ")]
                yield " ".join(row[column] for row in rows if len(row) > column)


def sentences(path: Path, number: int) -> Iterator[str]:
    """Sentences of the records of a file, at most a few of each, or of a few long ones as many as are needed."""
    with (bz2 if path.suffix == ".bz2" else lzma).open(path, "rt", encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["text"]
            lines = re.split(r"(?<=[a-z0-9)][.!?]) (?=[A-Z])|\n", text)
            lines = [own for own in lines if 40 < len(own) < 300]
            yield from random.sample(lines, min(len(lines), PER_RECORD if len(text) < 300_000 else number // 20))


def data(
    wikipedia_folder: Path,
    wordnet: Path,
    texts: tuple[str, ...],
    out: Path,
    held_out: tuple[Path, ...] = (),
    loose: tuple[str, ...] = ("tweets", "reddit", "newsgroups", "irc"),
) -> None:
    """Write a file for each FILE=SENTENCES of texts that is not there yet; of names:FILE=SENTENCES all have a name."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = list[tuple[Path, int, bool, Path]]()
    for given, _, number in (own.rpartition("=") for own in texts):
        path = Path(given.removeprefix("names:"))
        target = out / f"{'names' if path != Path(given) else path.parent.name}-{path.name.partition('.')[0]}.jsonl"
        if not target.is_file():
            wanted.append((path, int(number), path != Path(given), target))
    if not wanted:
        return
    apart = set(chain.from_iterable(map(eights, held_out_texts(held_out))))
    print(f"{len(apart):,} eights of other sets, {time.process_time():.0f} CPU s", flush=True)
    known = things(wikipedia_folder, wordnet)
    terms = sum(kind == "term" for *_, kind in known.nouns.values())
    print(f"{len(known.names):,} names, {terms:,} terms, {len(known.nouns) - terms:,} nouns of WordNet", flush=True)
    for path, number, named, target in wanted:
        random.seed(5)
        of_thing, of_noun, of_kind, rows, left = Counter[str](), Counter[str](), Counter[str](), list[str](), 0
        for text in sentences(path, number):
            found = mark(text, known, path.name.partition(".")[0] in loose)
            if found is None:
                continue
            sentence, marks, letters = found
            fresh = [m[4] for m in marks if of_thing[m[2]] < PER_THING and of_noun[m[3]] < PER_NOUN]
            if "name" not in fresh and (named or len(fresh) < 2):
                continue
            if not eights(text).isdisjoint(apart):
                left += 1
                continue
            of_thing.update(m[2] for m in marks)
            of_noun.update(m[3] for m in marks)
            of_kind.update(m[4] for m in marks)
            row = {"words": sentence.words, "spaces": "".join("01"[s] for s in sentence.spaces), "marks": marks}
            rows.append(json.dumps(row | {"inside": letters}, ensure_ascii=False))
            if len(rows) == number:
                break
        random.shuffle(rows)
        whole = target.with_suffix(".part")
        whole.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        whole.replace(target)
        counts = ", ".join(f"{count:,} {kind}s" for kind, count in of_kind.items())
        print(f"{target.name}: {len(rows):,} sentences, {counts}, {len(of_thing):,} things, {len(of_noun):,} "
              f"kinds; {left:,} left out as others'; {time.process_time():.0f} CPU s", flush=True)  # fmt: skip


# training ----------------------------------------------------------------------------------------------------------

PHRASES, CHECKPOINT, MERGED, SHIPPED = "phrases.npz", "checkpoint.pt", "merged", "shipped"
ADAPTER, HEADS, RECORD = "adapter.safetensors", "heads.pt", "record.json"
TARGET_WIDTH, POOL, SAVE_SECONDS, SAY_STEPS = 384, 40, 120, 50
SCALE = 2.0
"""Of the product of the two small matrices, as in LoRA with alpha = 2 · rank."""


class LowRank(nn.Module):
    """A frozen linear layer and a change of low rank."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.bfloat16()
        self.narrow = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.wide = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """(…, K) → (…, N), in bfloat16."""
        x = x.bfloat16()
        return self.base(x) + F.linear(F.linear(x, self.narrow.bfloat16()), SCALE * self.wide.bfloat16())


class Body(nn.Module):
    """An LM of which `rank` numbers a channel, or all, of the upper blocks learn; and its two heads.

    The last states of a masked LM in its frame, or those of a causal one behind its start piece and its run-up.
    """

    def __init__(self, folder: Path, rank: int, blocks: int) -> None:
        super().__init__()
        from transformers import AutoModel, AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.lm: Any = AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
        self.aligner, config = Aligner(tokenizer), self.lm.config
        self.causal = config.model_type == "llama"
        before = [tokenizer.cls_token_id], [tokenizer.sep_token_id]
        if self.causal:
            before = [*start_pieces(tokenizer, config), *run_up_pieces(tokenizer, config)], []
        self.frame = before
        layers = self.lm.layers if self.causal else self.lm.encoder.layer
        self.requires_grad_(False)
        for layer in layers[-blocks:] if blocks else layers:
            for name, part in [*layer.named_modules()]:
                if isinstance(part, nn.Linear) and rank:
                    parent = layer.get_submodule(name.rpartition(".")[0])
                    setattr(parent, name.rpartition(".")[2], LowRank(part, rank))
                elif not rank:
                    part.requires_grad_(True)
        for part in self.lm.modules() if rank else ():
            if isinstance(part, nn.Linear):
                part.bfloat16()
        self.own = [weight for weight in self.lm.parameters() if weight.requires_grad]
        self.project, self.inside = nn.Linear(config.hidden_size, TARGET_WIDTH), nn.Linear(config.hidden_size, 1)
        if config.hidden_size == TARGET_WIDTH:
            nn.init.eye_(self.project.weight)

    def states(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """(B, P, D) of the pieces of each row, float32."""
        from transformers import DynamicCache

        first, last = self.frame
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if self.causal:
                cache = DynamicCache(config=self.lm.config)
                self.lm(input_ids=torch.tensor([first]), past_key_values=cache, use_cache=True)
                cache.batch_repeat_interleave(len(rows))
                ids = torch.from_numpy(pad_rows(rows, 0))
                return self.lm(input_ids=ids, past_key_values=cache, use_cache=True).last_hidden_state.float()
            whole = [[*first, *row, *last] for row in rows]
            ids, lengths = torch.from_numpy(pad_rows(whole, 0)), torch.tensor([len(row) for row in whole])
            mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
            return self.lm(input_ids=ids, attention_mask=mask).last_hidden_state.float()[:, len(first) :]

    def learned(self) -> dict[str, Tensor]:
        """What was trained, by name."""
        return {name: weight.detach() for name, weight in self.lm.named_parameters() if weight.requires_grad}


@dataclass(frozen=True)
class Row:
    """A sentence: its pieces, the place of each word's last piece, its mentions (begin, end, pair), words inside or
    not."""

    ids: list[int]
    last: np.ndarray
    marks: list[tuple[int, int, int]]
    words: np.ndarray
    inside: np.ndarray


def read_rows(
    folder: Path, sources: Sequence[str], kinds: Sequence[str], number: int, aligner: Aligner, longest: int
) -> tuple[list[Row], list[tuple[str, str]]]:
    """The sentences, drawn evenly from all sources together, and the pairs (said, noun) that they mention."""
    files = [folder / f"{name}.jsonl" for name in sources] if sources else sorted(folder.glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    random.Random(5).shuffle(lines)
    pairs, rows = dict[tuple[str, str], int](), list[Row]()
    for line in lines:
        own = json.loads(line)
        letters, marks = list(own["inside"]), []
        (pieces,) = aligner.align([(own["words"], [c == "1" for c in own["spaces"]])])
        seen = int(np.searchsorted(pieces.bounds, longest, "right")) - 1
        for begin, end, said, noun, kind in own["marks"]:
            if kind not in kinds:
                letters[begin:end] = "?" * (end - begin)
            elif end <= seen:
                marks.append((begin, end, pairs.setdefault((said, noun), len(pairs))))
        if not marks:
            continue
        told = np.array([n for n, letter in enumerate(letters[:seen]) if letter != "?"], np.int64)
        inside = np.array([letters[n] == "I" for n in told], np.float32)
        ids, last = pieces.ids[: pieces.bounds[seen]].tolist(), pieces.bounds[1 : seen + 1] - 1
        rows.append(Row(ids, last, marks, told, inside))
        if len(rows) == number:
            break
    return rows, [*pairs]


@torch.no_grad()
def targets(pairs: Sequence[tuple[str, str]], folder: Path) -> Tensor:
    """(N, 384): of each pair the vector of what is said and of "the name of a NOUN", by the sentence encoder in the
    package; kept in the folder."""
    texts, file = [*dict.fromkeys(t for said, noun in pairs for t in (said, f"the name of a {noun}"))], folder / PHRASES
    known = dict[str, np.ndarray]()
    if file.is_file():
        with np.load(file) as kept:
            known = dict(zip(json.loads(str(kept["texts"])), kept["vectors"], strict=True))
    if new := sorted((text for text in texts if text not in known), key=len):
        encoder: Any = open_encoder("starter-texts", ReadingOptions(dtype="bfloat16"), reads="text")
        read = encoder.read([boustro.Sentence(tuple(text.split())) for text in new])
        known.update((text, vector[0, 0]) for text, (vector,) in zip(new, read, strict=True))
        kept = {"texts": np.array(json.dumps([*known])), "vectors": np.stack([*known.values()]).astype(np.float16)}
        with (part := file.with_suffix(".part")).open("wb") as made:
            np.savez(made, **kept)
        part.replace(file)
    vectors = torch.from_numpy(np.stack([known[said] + known[f"the name of a {noun}"] for said, noun in pairs]))
    return F.normalize(vectors.float(), dim=1)


def batches(rows: Sequence[Row], size: int, draw: int) -> Iterator[list[Row]]:
    """A pass, in batches of sentences of about one length."""
    order, picked = [*range(len(rows))], random.Random(draw)
    picked.shuffle(order)
    made = list[list[Row]]()
    for first in range(0, len(order) - size + 1, size * POOL):
        some = sorted((rows[n] for n in order[first : first + size * POOL]), key=lambda row: len(row.ids))
        made += [some[n : n + size] for n in range(0, len(some) - size + 1, size)]
    picked.shuffle(made)
    yield from made


def loss_of(body: Body, some: Sequence[Row], wanted: Tensor, noun_of: Tensor, heat: float, others: int) -> Tensor:
    """The contrast of the mentions, and half of whether words are inside."""
    h = body.states([row.ids for row in some])
    means, pairs, words, inside = [], [], [], []
    for n, row in enumerate(some):
        own = h[n, torch.from_numpy(row.last)]
        means += [own[begin:end].mean(0) for begin, end, _ in row.marks]
        pairs += [pair for *_, pair in row.marks]
        words.append(own[torch.from_numpy(row.words)])
        inside.append(torch.from_numpy(row.inside))
    given = torch.tensor(pairs)
    among = torch.cat([given, torch.randint(len(wanted), (others,))]).unique()
    at = torch.searchsorted(among, given)
    scores = F.normalize(body.project(torch.stack(means)), dim=1) @ wanted[among].T / heat
    alike = (noun_of[given][:, None] == noun_of[among]) & (given[:, None] != among)
    found = body.inside(torch.cat(words)).squeeze(-1)
    placed = F.binary_cross_entropy_with_logits(found, torch.cat(inside))
    return F.cross_entropy(scores.masked_fill(alike, -1e4), at) + 0.5 * placed


@dataclass(frozen=True)
class Plan:
    """What is trained, on what, and how."""

    body: Path
    """A folder of transformers, not packed."""
    data: Path
    out: Path
    sources: tuple[str, ...] = ()
    """Names of the files of data; by default all."""
    kinds: tuple[str, ...] = ("name", "term", "noun")
    sentences: int = 12_000
    passes: int = 1
    rank: int = 16
    """0 trains whole matrices."""
    blocks: int = 0
    """Of the upper end; 0 for all."""
    lr: float = 1e-3
    """1e-4 is right for whole matrices."""
    heat: float = 0.07
    others: int = 0
    """Further things in each contrast."""
    batch: int = 24
    longest: int = 72
    """Pieces of a sentence."""
    seed: int = 5


def tune(plan: tyro.conf.OmitArgPrefixes[Plan]) -> None:
    """Train, from the last checkpoint if there is one."""
    plan.out.mkdir(parents=True, exist_ok=True)
    if (plan.out / MERGED).is_dir():
        print(f"{plan.out}: done already")
        return
    facts = json.loads(json.dumps(asdict(plan), default=str))
    torch.manual_seed(plan.seed)
    body = Body(plan.body, plan.rank, plan.blocks)
    rows, pairs = read_rows(plan.data, plan.sources, plan.kinds, plan.sentences, body.aligner, plan.longest)
    nouns = {noun: n for n, noun in enumerate(dict.fromkeys(noun for _, noun in pairs))}
    noun_of, wanted = torch.tensor([nouns[noun] for _, noun in pairs]), targets(pairs, plan.data)
    heads = [*body.project.parameters(), *body.inside.parameters()]
    optimizer = torch.optim.AdamW([{"params": body.own, "lr": plan.lr}, {"params": heads}], weight_decay=0.01)
    steps = plan.passes * sum(1 for _ in batches(rows, plan.batch, 0))
    rise = lambda n: min(1, (n + 1) / (0.05 * steps)) * max(0.02, 1 - n / steps)  # noqa: E731
    schedule, done, spent, losses = torch.optim.lr_scheduler.LambdaLR(optimizer, rise), 0, 0.0, list[float]()
    if (file := plan.out / CHECKPOINT).is_file():
        kept = torch.load(file, weights_only=False)
        if kept["facts"] != facts:
            raise SystemExit(f"{file} is of another plan: {kept['facts']}")
        body.load_state_dict(kept["body"], strict=False)
        optimizer.load_state_dict(kept["optimizer"])
        schedule.load_state_dict(kept["schedule"])
        done, spent, losses = kept["done"], kept["spent"], kept["losses"]
    print(f"{len(rows):,} sentences, {sum(len(row.marks) for row in rows):,} mentions of {len(pairs):,} things, "
          f"{len(nouns):,} nouns; {sum(w.numel() for w in body.own):,} weights learn; {steps:,} steps from {done:,}",
          flush=True)  # fmt: skip
    body.train()
    for part in body.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.1 if not plan.rank else 0.0
    begun, saved = time.process_time() - spent, time.time()

    def keep() -> None:
        state = {name: weight for name, weight in body.state_dict().items() if name in trained}
        more = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(), "losses": losses}
        torch.save({"facts": facts, "body": state, "done": done, "spent": time.process_time() - begun, **more},
                   part := file.with_suffix(".part"))  # fmt: skip
        part.replace(file)

    trained = {name for name, weight in body.named_parameters() if weight.requires_grad}
    whole = chain.from_iterable(batches(rows, plan.batch, plan.seed + n) for n in range(plan.passes))
    for number, some in enumerate(whole):
        if number < done:
            continue
        loss = loss_of(body, some, wanted, noun_of, plan.heat, plan.others)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(body.own, 1.0)
        optimizer.step()
        schedule.step()
        done += 1
        losses.append(loss.item())
        if done % SAY_STEPS == 0:
            spent = time.process_time() - begun
            print(f"step {done:,}: loss {np.mean(losses[-SAY_STEPS:]):.3f}, {spent:.0f} CPU s", flush=True)
        if time.time() - saved > SAVE_SECONDS:
            keep()
            saved = time.time()
    torch.save({"project": body.project.state_dict(), "inside": body.inside.state_dict()}, plan.out / HEADS)
    save_file({name: weight.contiguous() for name, weight in body.learned().items()}, plan.out / ADAPTER)
    record = facts | {"steps": done, "cpu_seconds": round(time.process_time() - begun), "losses": losses[::SAY_STEPS]}
    record |= {"mentions": sum(len(row.marks) for row in rows), "things": len(pairs), "nouns": len(nouns)}
    (plan.out / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    merge(plan.out)
    file.unlink(missing_ok=True)


def merge(out: Path, weights: Mapping[str, Tensor] | None = None, learned: Any = None, to: str = MERGED) -> None:
    """Write `merged`, the body with what was learned added to it."""
    from transformers import AutoModel, AutoTokenizer

    facts = json.loads((out / RECORD).read_text(encoding="utf-8"))
    model: Any = AutoModel.from_pretrained(facts["body"], dtype=torch.float32)
    own, learned = dict(model.named_parameters()), learned or load_file(out / ADAPTER)
    with torch.no_grad():
        for name, weight in (weights or {}).items():
            own[name].copy_(weight)
        for name, weight in learned.items():
            if name.endswith(".narrow"):
                base = name.removesuffix(".narrow")
                own[f"{base}.weight"] += SCALE * learned[f"{base}.wide"] @ weight
            elif not name.endswith(".wide"):
                own[name].copy_(weight)
    model.save_pretrained(out / f"{to}.part")
    AutoTokenizer.from_pretrained(facts["body"]).save_pretrained(out / f"{to}.part")
    (out / f"{to}.part").replace(out / to)


def pack(out: Path, body: Path, bits: int = 8) -> None:
    """Write `adapter.packed.safetensors`, what was learned in few bits, and `shipped`, the packed weights of the body
    with it, as a folder of transformers; what was trained must be of low rank."""
    tensors, facts = pack_tensors(load_file(out / ADAPTER), bits)
    with TemporaryDirectory(dir=out) as folder:
        save_file(tensors, Path(folder) / PACKED_FILE, facts)
        learned = StoredWeights(folder).read_all(torch.float32)
        (Path(folder) / PACKED_FILE).rename(file := out / "adapter.packed.safetensors")
    print(f"{file}: {file.stat().st_size:,} bytes", flush=True)
    stored = StoredWeights(body)
    merge(
        out, {name.removeprefix("model."): stored.read(name, torch.float32) for name in stored.shapes}, learned, SHIPPED
    )


# what it is worth --------------------------------------------------------------------------------------------------

PLACES = {"starter-lm": slice(0, 1152), "starter-texts": slice(1152, 1920)}
"""The columns of a body in all of `starter-large`."""
COARSE = {"person": "PER", "location": "LOC", "organization": "ORG"}
OF_ENCODER = frozenset({"alone", "in place", "beside"})
SENTENCES, JUDGED, LARGE = 400, 200, "starter-large"


def runs_of(types: Sequence[str]) -> set[tuple[int, int, str]]:
    """Runs of one type other than O."""
    found, at = set[tuple[int, int, str]](), 0
    while at < len(types):
        end = at + 1
        while end < len(types) and types[end] == types[at]:
            end += 1
        found |= {(at, end, types[at])} if types[at] != "O" else set()
        at = end
    return found


def scaled(x: np.ndarray) -> np.ndarray:
    """Columns of one spread, and rows of about the length 1."""
    x = x.astype(np.float32)
    return (x - x.mean(0)) / ((x.std(0) + 1e-3) * math.sqrt(x.shape[1]))


def tagged(path: Path) -> list[tuple[tuple[str, ...], list[str]]]:
    """Words and their types of sentences drawn from a file; those of Few-NERD as CoNLL-2003 calls them."""
    found = list[tuple[tuple[str, ...], list[str]]]()
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        rows = [line.split() for line in block.split("\n") if line.strip() and not line.startswith("-DOCSTART-")]
        if rows:
            tags = [row[-1].removeprefix("B-").removeprefix("I-") for row in rows]
            types = [COARSE.get(tag.partition("-")[0], tag) for tag in tags]
            found.append((tuple(row[0] for row in rows), types))
    random.Random(5).shuffle(found)
    return found[:SENTENCES]


def scores_of(x: np.ndarray, types: Sequence[Sequence[str]], k: int, draws: int, first_judged: int = 0) -> list[float]:
    """F1 of each draw; with `first_judged` those before it are learned from alone, and those from it on judged."""
    from sklearn.linear_model import LogisticRegression

    starts, scores = np.cumsum([0, *map(len, types)]), []
    for draw in range(draws):
        order = [*range(first_judged or len(types))]
        random.Random(draw).shuffle(order)
        learn, judge = order[:k], order[k : k + JUDGED]
        if first_judged:
            judge = [*range(first_judged, min(len(types), first_judged + JUDGED))]
        rows = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in learn])
        values, vectors = np.linalg.eigh((own := x[rows]) @ own.T)  # the same regression in as many columns as rows
        kept = values > 1e-6 * values[-1]
        turn = own.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        tags = np.concatenate([types[n] for n in learn])
        if len({*tags}) < 2:
            scores.append(0.0)
            continue
        model = LogisticRegression(C=30, max_iter=200).fit(own @ turn, tags)
        right = marked = there = 0
        for n in judge:
            answers, gold = runs_of(model.predict(x[starts[n] : starts[n + 1]] @ turn)), runs_of(types[n])
            right, marked, there = right + len(answers & gold), marked + len(answers), there + len(gold)
        scores.append(200 * right / max(1, marked + there))
    return scores


def few(
    sets: tuple[str, ...],
    encoders: tuple[str, ...],
    cache: Path,
    compare: tuple[str, ...] = ("starter-large", "without", "body", "alone", "in place"),
    sizes: tuple[int, ...] = (20, 60),
    draws: int = 4,
) -> None:
    """A line for each NAME=DEV.txt, or NAME=LEARN.txt,DEV.txt, of sets and each size; an encoder is a folder of
    `tune` or of transformers, or one of each body, joined by `+`. What was measured is in `few.jsonl` in `cache`, and
    is not measured again. `compare` may have `beside`, too."""
    cache.mkdir(parents=True, exist_ok=True)
    file = cache / "few.jsonl"
    told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    known = {(own["encoder"], own["set"], own["k"], own["how"]): own["f1"] for own in told}
    for spec in encoders:
        for name, _, path in (given.partition("=") for given in sets):
            parts = [tagged(Path(own)) for own in path.split(",")]
            shared = set.intersection(*({t for _, types in part for t in types} for part in parts))
            gold = [boustro.Sentence(words) for part in parts for words, _ in part]
            types = [[t if t in shared else "O" for t in types] for part in parts for _, types in part]
            states = Readings(spec, cache / f"{name}.npy", gold)
            for k in sizes:
                means = list[str]()
                for how in compare:
                    key = (spec if how in OF_ENCODER else LARGE if how == LARGE else states.body, name, k, how)
                    if key not in known:
                        known[key] = scores_of(states.read(how), types, k, draws, len(parts[0]) if parts[1:] else 0)
                        with file.open("a", encoding="utf-8") as more:
                            row = dict(zip(("encoder", "set", "k", "how"), key, strict=True)) | {"f1": known[key]}
                            more.write(json.dumps(row) + "\n")
                    means.append(f"{how} {np.mean(known[key]):.1f}")
                print(f"{spec} {name} {k}: {', '.join(means)}", flush=True)


class Readings:
    """The states (W, D) that are compared, read when they are wanted; those of `starter-large` are kept in a file."""

    def __init__(self, spec: str, file: Path, gold: Sequence[boustro.Sentence]) -> None:
        self._file, self._gold, self._paths = file, gold, dict[str, str]()
        for part in spec.split("+"):
            merged = Path(part) / MERGED
            path = merged if merged.is_dir() else Path(part)
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
            causal = config["model_type"] == "llama"
            self._paths["starter-lm" if causal else "starter-texts"] = f"{'' if causal else 'masked:'}{path}"
        self.body = "+".join(sorted(self._paths))

    @cached_property
    def _large(self) -> np.ndarray:
        if not self._file.is_file():
            np.save(self._file, highest(LARGE, self._gold))
        return np.load(self._file)

    @cached_property
    def own(self) -> dict[str, np.ndarray]:
        return {body: highest(path, self._gold) for body, path in sorted(self._paths.items())}

    def read(self, how: str) -> np.ndarray:
        """What is compared: all of `starter-large`, the bodies in it, the encoder alone, or both."""
        if how == LARGE:
            return scaled(self._large)
        if how == "without":
            left = np.ones(self._large.shape[1], bool)
            for body in self._paths:
                left[PLACES[body]] = False
            return scaled(self._large[:, left])
        if how == "body":
            return scaled(np.hstack([self._large[:, PLACES[body]] for body in sorted(self._paths)]))
        if how == "alone":
            return scaled(np.hstack([*self.own.values()]))
        if how == "beside":
            return np.hstack([self.read(LARGE), self.read("alone")])
        replaced = self._large.copy()
        for body, states in self.own.items():
            replaced[:, PLACES[body]] = states
        return scaled(replaced)


def highest(spec: str, gold: Sequence[boustro.Sentence]) -> np.ndarray:
    """The highest layer of each word."""
    return highest_layers(open_encoder(spec, ReadingOptions(layers="last")), gold)


def heads(
    sets: tuple[str, ...],
    encoders: tuple[str, ...],
    cache: Path,
    head: str = "ridge",
    sizes: tuple[int, ...] = (20,),
    draws: int = 4,
) -> None:
    """F1 of a head of the package, with its defaults, over specs of encoders, on the draws of `few`."""
    for name, _, path in (given.partition("=") for given in sets):
        gold = [s for s in boustro.read_data(path) if s.is_labelled]
        random.Random(5).shuffle(gold)
        gold = [boustro.Sentence(s.words, s.tags) for s in gold[:SENTENCES]]
        for k, spec in product(sizes, encoders):
            scores = list[float]()
            for draw in range(draws):
                order = [*range(len(gold))]
                random.Random(draw).shuffle(order)
                tagger: Any = boustro.Tagger(spec, head, cache=cache).fit([gold[n] for n in order[:k]])
                scores.append(tagger.evaluate([gold[n] for n in order[k : k + JUDGED]]).value)
            each = ", ".join(f"{f1:.1f}" for f1 in scores)
            print(f"{name} {k} {head} {spec}: {np.mean(scores):.1f} ({each})", flush=True)


SAID = WORDS | {"Chemical": "chemical or drug", "Disease": "disease", "Restaurant_Name": "restaurant"}
NO_TYPES = ("misc", "other", "MISC", "O")


def types(sets: tuple[str, ...], runs: tuple[Path, ...], cache: Path) -> None:
    """The share of gold entities whose type is right by what it is called, without a label: by the map in the package,
    and by what each run learned, averaged. The states of `starter-large` are those that `few` kept in `cache`."""
    shipped = DescribedStates.load(Path(str(files("boustro") / "data" / "starter" / "types")))
    for name, _, path in (given.partition("=") for given in sets):
        part = tagged(Path(path))
        gold = [boustro.Sentence(words) for words, _ in part]
        own = sorted({t for _, tags in part for t in tags} - {*NO_TYPES})
        said = told_by([SAID.get(t, t).lower() for t in own])
        starts = np.cumsum([0, *map(len, gold)])
        spans = [(at + b, at + e, t) for at, (_, told) in zip(starts, part, strict=False) for b, e, t in runs_of(told)]
        spans = [(b, e, own.index(t)) for b, e, t in spans if t in own]
        large = np.load(cache / f"{name}.npy")[:, : shipped.map.shape[1]].astype(np.float32)
        vectors = {"the map": large @ shipped.map.T + shipped.bias}
        for run in runs:
            (body,) = Readings(str(run), cache / f"{name}.npy", gold).own.values()
            x = torch.from_numpy(body[:, : body.shape[1] // 2].astype(np.float32))
            vectors[run.name] = F.linear(x, **torch.load(run / HEADS)["project"]).numpy()
        learned = sum(unit(vectors[run.name]) for run in runs)
        vectors |= {"the runs": learned, "the runs and the map": unit(learned) + unit(vectors["the map"])}
        right = np.array([t for *_, t in spans])
        shares = {
            how: 100 * ((np.stack([v[b:e].mean(0) for b, e, _ in spans]) @ said.T).argmax(1) == right).mean()
            for how, v in vectors.items()
        }
        print(f"{name}: {', '.join(f'{how} {share:.1f}' for how, share in shares.items())}", flush=True)


def unit(v: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return v / (np.linalg.norm(v, axis=1, keepdims=True) + 1e-9)


def told_by(nouns: Sequence[str]) -> np.ndarray:
    """(N, 384): vectors of what nouns mean as types."""
    encoder: Any = open_encoder("starter-texts", ReadingOptions(), reads="text")
    texts = [boustro.Sentence(tuple(text.split())) for noun in nouns for text in (f"the name of a {noun}", f"a {noun}")]
    vectors = np.stack([own[0][0, 0] for own in encoder.read(texts)]).astype(np.float32)
    return unit(vectors[::2] + vectors[1::2])


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict(
        {"data": data, "tune": tune, "few": few, "pack": pack, "heads": heads, "types": types}
    )
