"""Names before labels: the files that the network in the package was trained on, and what it is worth.

    python bench/names.py data --sources NAMES --wikipedia-folder WIKIPEDIA --held-out dev.txt … --out names
    boustro lab names names/*.jsonl --kinds names/kinds.json --epochs 2 --out my-names
    python bench/names.py measure --train train.txt --dev dev.txt --few starter-memory starter-names
    python bench/names.py few --sets wnut=train.txt,dev.txt everyday=bench/everyday.txt
    python bench/names.py keys --texts messages.jsonl --encoders starter-memory starter-names

`data` reads `SOURCE/train.jsonl.xz` (`text`, tokens joined by spaces, and `entities`) and `*.jsonl.bz2` of articles
(`title`, `text`), and writes a file a source. Of Wikipedia a run of capitals is a name, with the type of the title that
it is: the last noun of "… was a Norwegian chemist" in the title's own article. `?` marks words that may be names.
`everyday.jsonl` has messages that are made of half of the sentences of prose.

`measure` gives recall and precision of the spans that the tagger `names` finds, whatever their type, and F1 of a
`ridge` head trained on K sentences of each type. `few` gives F1 of what `boustro fit` makes of sentences drawn at
random, beside what the tagger `names` finds without any; a file alone is halved. `keys` counts what a person presses on
the labelling page who answers with the labels of a file: a key to go on, one for a suggestion that is wrong, a label
that is wrong or a `name?`, two for a name that is not suggested.
"""

import bz2
import json
import lzma
import random
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import boustro
from boustro.apps.label.answers import AnswerFile
from boustro.apps.label.curve import Point, is_due
from boustro.apps.label.curve import measure_tagger as measure_live
from boustro.apps.label.named_types import open_namer, prior_scores
from boustro.apps.label.pool import Order
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import read_to_label
from boustro.apps.label.vectors import VectorReader, vector_source
from boustro.apps.studies.core.draws import draw_all
from boustro.encoders.options import ReadingOptions
from boustro.encoders.spec import open_encoder
from boustro.heads.factored import aliases
from boustro.metrics.spans import extract_spans
from boustro.tasks.data.reading import DEFAULT_OPTIONS
from boustro.tasks.tagger.tags import CONTRACTION, SELDOM_NAMES, may_be_name
from boustro.text.words import split_text
from boustro.types import Entity, Sentence

KINDS = {
    "PERSON": "player footballer politician cricketer actor actress writer artist author singer director painter "
    "composer lawyer journalist poet bishop producer musician businessman architect coach engineer historian priest "
    "physician athlete scholar novelist president scientist minister photographer king queen prince general PER "
    "Person User_Name professor swimmer boxer officer rower pitcher wrestler midfielder defender diplomat pianist "
    "gymnast judge singer-songwriter runner merchant goalkeeper designer driver soldier leader striker manager "
    "outfielder mathematician cyclist baseman racer sculptor theologian physicist botanist commander dancer "
    "activist founder economist philosopher jurist guitarist songwriter editor sprinter chemist academic attorney "
    "screenwriter surgeon farmer filmmaker teacher comedian canoer diver forward entrepreneur shooter "
    "weightlifter jumper educator catcher rider judoka mayor nobleman sailor prelate skater sportsperson "
    "violinist conductor linebacker clergyman saint",
    "PLACE": "village town city municipality district commune suburb county province state country region island lake "
    "river mountain valley station building church airport stadium road bridge castle LOC Location geographic_poi poi "
    "settlement community house area hamlet neighborhood park highway locality tributary street cemetery township "
    "parish moshav kibbutz site square constituency subdivision hotel skyscraper prison",
    "ORGANISATION": "company band club team organization organisation university school college party institution "
    "agency newspaper magazine committee league museum bank airline union ministry department institute academy "
    "society association federation council bureau commission court office ORG Organisation Organization "
    "manufacturer firm hospital group network channel publisher diocese library chain provider brand retailer charity",
    "OTHER": "album film song single series novel species genus book game show play ship war tournament competition "
    "title Application Library Library_Class Language Operating_System Website Device Algorithm artist playlist "
    "object_name movie_name track album entity_name service Species GENE protein DNA RNA cell_line Protein Nationality "
    "moth episode manuscript character language opera breed festival racehorse drug journal ep format model trilobite "
    "butterfly plant drama subspecies event race treaty",
}
"""Some of the types of each kind; a marked type that is in none is no name."""
KIND_OF = {own: kind for kind, names in KINDS.items() for own in names.split()}
PERSONAL = frozenset(
    "PERSON PLACE ORGANISATION PER LOC ORG person location corporation group politician organisation politicalparty "
    "country researcher scientist university".split()
)
"""Types of the sets that are measured on that a redactor leaves out by default."""
PREPOSITIONS = frozenset("by in of for from on at to as with under near between within about".split())
ENDS = PREPOSITIONS | frozenset("who which that and or located based born where whose when but formed founded".split())
NO_NAMES = frozenset(
    "January February March April May June July August September October November December Monday Tuesday Wednesday "
    "Thursday Friday Saturday Sunday I".split()
)
INSTITUTIONS = frozenset(
    "University Bank Ministry Department Institute College School Society Academy Museum Court House Church Office "
    "Association Federation Council Board Committee Union Republic Kingdom Duke Bishop Archbishop Earl Count Lord "
    "Queen King Bureau Commission League Cathedral Chamber".split()
)
"""What a name goes on behind with "of" or "for"."""
ORDINARY, SURELY = 0.12, 0.8
"""Shares of the mentions of a word with a capital: below the first it is no name, from the second on it is one."""
DESCRIBED = frozenset(["re3d"])
"""Sets whose mentions are descriptions too, such as "we", "people" and "the regime"."""
NATION = r"(?:an|sh|ese|[^r]ch|i|ss|eek|ino|tine)$"
"""How words of nationality end; they stand first in what an article says: "was a Norwegian chemist"."""
CAPITALS = r"((?:[A-Z][^\W\d_]+(?:[ -]|(?=[,.;)])))+)"
INSIDE = rf"\b(?:in|of|near) (?:the )?{CAPITALS}(?:, {CAPITALS})?(?:, {CAPITALS})?"
"""Where a place lies: "a village in Vellmar County, Norway"."""
FEWEST = {"noun": 80, "nation": 15, "first": 5, "place": 3}
"""Articles that a noun of titles is in, a nationality, a first name and a place, to count as one."""
NO_NOUNS = frozenset("list u name known".split())
EVERYDAY = 0.5
"""Share of the sentences of prose that messages are made of."""
MARK = r"\{([A-Z]+) ([^}]*)\}"
ODD = r"^[A-Z@#]|\d[A-Za-z]|[A-Za-z]\d|_"
FIRST, WIDE = 600, 8
OPENERS = (
    "Hi <P>,|Hello <P>,|Hey <P>,|Dear <P>,|Thanks <P>!|Thank you, <P>.|Good morning <P>,|Good evening, <P>,|Hi <P>.|"
    "Hey <P>!|<P>,|<P>:|I'm <P>.|I am <P> and|I'm <P> from <L>,|My name is <P>.|This is <P>.|It's <P> again:|"
    "Ask <P>:|Ask <P> whether|Tell <P> that|Please tell <P>:|Let <P> know that|<P> says|<P> wrote:|Call <P>.|"
    "Sorry <P>,|Welcome to <L>!|Love <L>!|Greetings from <L>,|Back in <L>.|Off to <L>.|I bought it at <O>.|"
    "We called <O>.|Never again <O>.|<O> does not answer.|Shame on <O>.|I work at <O>:|<P> of <O> wrote:|"
    "Parcel for <P>, <L>.|Flight to <L> cancelled.|Meeting with <P> and <P>.|Lunch with <P> at <O>?|Booking for <P>.|"
    "Hi,|Hi there,|Hi all,|Hi everyone,|Hello,|Hello everybody,|Hey,|Hey guys,|Dear all,|Dear team,|"
    "Dear Sir or Madam,|Good morning,|Good evening,|Thanks!|Many thanks!|Thank you so much.|Sorry,|Ask me:|Ask them:|"
    "Tell me:|Tell them that|Please note:|I'm new here.|I'm sorry:|I'm sure that|It's true:|That's it.|"
    "Quick question:|Great!|Great news:|Well done!|OK,|Okay,|LOL|OMG|FYI:|BTW|Please help!|Update:|Welcome!|No idea.|"
    "Congratulations!|Happy birthday!|Never mind.|Once AGAIN:|WHAT?|WOW!"
).split("|")
"""How messages begin; `<P>`, `<L>` and `<O>` are a person, a place and an organisation."""
SIGNS = {"P": "PERSON", "L": "PLACE", "O": "ORGANISATION"}
SIGN_OF = {"PERSON": "P", "ORGANISATION": "O"}
"""Kinds that get other names; with other places too a redactor marks a little less."""
CLOSINGS = (
    "Best wishes|Kind regards|Cheers|Yours|Many thanks|Best wishes, <P>|Kind regards, <P>|Cheers, <P>|<P>, <O>"
).split("|")
"""How they end."""
FIRMS = (
    "<S> & <S>|<S> & Sons|<S> and Sons|<S> & Co|<S> & Daughters|<S> Brothers|<S>, <S> & <S>|<S> Ltd|<S> and <S>"
).split("|")
"""What firms are called after their owners, by surnames."""
CUT = frozenset("the a an my your our this that is was are were and but so because very too some any of to".split())
"""Small words behind which a sentence may be cut: what follows can begin a message, as "Driver never rang" does."""


def said_of(text: str) -> list[str]:
    """The words in which an article says what its title is: "X was a Norwegian chemist and …" → Norwegian, chemist."""
    told = re.search(r"\b(?:is|was|are|were)\s+(?:an?|the|one of the)\s+(.{3,200})", text[:500])
    found: list[str] = []
    for word in re.findall(r"[^\W\d_][\w'-]*|[,.;:()]", told.group(1)) if told else ():
        if not word[0].isalpha() or word.lower() in ENDS:
            break
        found.append(word)
    return found


def plain_title(record: dict[str, Any]) -> str:
    """The title of an article without what tells it from others: "Vellmar (river)" → "Vellmar"."""
    return re.sub(r"\s*\(.*?\)|, .*", "", record["title"])


class Capitals:
    """How often words are written small, and with a capital, inside sentences of raw text."""

    def __init__(self) -> None:
        self.small, self.capital = Counter[str](), Counter[str]()

    def add(self, text: str) -> None:
        """Count the words that follow a small letter or a comma."""
        for word in re.findall(r"(?<=[a-z,] )[A-Za-z][A-Za-z'-]*", text):
            (self.capital if word[0].isupper() else self.small)[word] += 1

    def share(self, word: str) -> float | None:
        """Of the mentions of a word those with a capital; `None` for a word that is too rare to tell."""
        small, capital = self.small[word.lower()], self.capital[word[:1].upper() + word[1:]]
        return (capital + 0.5) / (small + capital + 1) if small + capital >= 3 else None

    def is_ordinary(self, word: str) -> bool:
        """Whether a word with a capital is no name: it stands at the beginning of a sentence."""
        share = self.share(word)
        return not (len(word) > 1 and word.isupper()) and share is not None and share < ORDINARY


def runs(words: Sequence[str], types: dict[str, str], capitals: Capitals) -> Iterator[Entity]:
    """The names of a sentence, and words that may be names: first words, and those that are often written small."""
    capital = [word[:1].isupper() and word not in NO_NAMES and not CONTRACTION.fullmatch(word) for word in words]
    start = 0
    while start < len(words):
        stop = start
        begins = start == 0 or not words[start - 1][-1:].isalnum()
        noun = None
        while stop < len(words) and capital[stop]:
            stop += 1
            joins = words[stop - 1] in INSTITUTIONS and "".join(words[stop : stop + 1]) in ("of", "for")
            if joins and stop + 1 < len(words) and capital[stop + 1]:
                noun, stop = noun or words[stop - 1].lower(), stop + 1
        if stop == start:
            start += 1
            continue
        name, share = " ".join(words[start:stop]), capitals.share(words[start])
        if begins and (name not in types or capitals.is_ordinary(name)) and (share is None or share < SURELY):
            if capitals.is_ordinary(words[start]):
                start += 1
            else:  # where a name begins is not known either
                yield Entity("?", start, stop)
                start = stop
            continue
        noun = noun or words[stop - 1].lower()
        label = types.get(name, noun if noun in KIND_OF and stop > start + 1 else "*")
        if label == "*" and stop < start + 5:
            label = types.get(f"{words[start]} …", "*")
        if label == "*" and stop == start + 1 and share is not None and share < SURELY / 2:
            label = "?"
        yield Entity(label, start, stop)
        start = stop


def eights(words: Sequence[str]) -> set[tuple[str, ...]]:
    """All eight words in a row."""
    own = [word.lower() for word in words if re.search(r"\w", word)]
    return {tuple(own[n : n + WIDE]) for n in range(len(own) - WIDE + 1)}


def write(path: Path, rows: Iterator[tuple[Sequence[str], Sequence[Entity]]]) -> None:
    """As JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for words, found in rows:
            file.write(
                json.dumps({"words": list(words), "entities": [[e.start, e.end, e.label] for e in found]}) + "\n"
            )


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a packed file of JSON lines."""
    with (bz2 if path.suffix == ".bz2" else lzma).open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def titles(folder: Path, share: float) -> tuple[dict[str, str], list[str]]:
    """The types of the titles of articles, of nationalities, of places and of first names ("Ada …"), by what articles
    say; and the beginnings of a share of them."""
    nouns, kept = dict[str, str](), list[str]()
    nations, firsts, others, places = (Counter[str]() for _ in range(4))
    for path in sorted(folder.glob("train-*.jsonl.bz2")):
        for record in lines_of(path):
            title, said = plain_title(record), said_of(record["text"])
            if said and title[:1].isupper():
                nouns[title] = said[-1].lower()
                kind, first = KIND_OF.get(said[-1].lower()), title.split()[0]
                nations.update(word for word in said[:-1][:1] if word[0].isupper())
                (firsts if kind == "PERSON" and first != title else others)[first] += 1
                lies = re.search(INSIDE, record["text"][:250]) if kind == "PLACE" else None
                places.update(place.strip() for place in (lies.groups() if lies else ()) if place)
            if random.random() < share:
                kept.append(record["text"][:FIRST])
    counts = Counter(nouns.values())
    types = {name: "PLACE" for name, n in places.items() if n >= FEWEST["place"] and name not in INSTITUTIONS}
    usual = {name for name, n in firsts.items() if n >= FEWEST["first"] and others[name] < 2 * n}
    types |= {f"{name} …": "PERSON" for name in usual - places.keys() - nations.keys()}
    types |= {n: "Nationality" for n, count in nations.items() if count >= FEWEST["nation"] and re.search(NATION, n)}
    for title, noun in nouns.items():
        is_noun = counts[noun] >= FEWEST["noun"] and not noun.endswith(("ed", "ing")) and noun not in NO_NOUNS
        if noun in KIND_OF or is_noun:
            types[title] = noun
    return types, kept


def about(text: str, nouns: Collection[str]) -> tuple[set[str], str]:
    """The capitals before "is" in an article, and the type of what it is about; `*` where that is not known."""
    said, first = said_of(text), re.split(r"\b(?:is|was|are|were)\b", text)[0]
    noun = said[-1].lower() if said else ""
    return set(re.findall(r"[A-Z][\w'-]*", first)) - {"The", "A", "An"}, noun if noun in nouns else "*"


def prose(
    texts: Sequence[str], types: dict[str, str], capitals: Capitals, known: set[tuple[str, ...]]
) -> Iterator[tuple[list[str], list[Entity]]]:
    """Sentences of texts, with the names that rules find; some in small letters, where capitals say nothing."""
    nouns = {*types.values()}
    for text in texts:
        own, noun = about(text, nouns)
        lower = random.random() < 0.12
        for part in split_text(text, "text"):
            words = part.sentence.words
            if 3 < len(words) < 80 and eights(words).isdisjoint(known):
                found = list(runs(words, types, capitals))
                found = [
                    replace(e, label=noun) if e.label == "*" and own.issuperset(words[e.start : e.end]) else e
                    for e in found
                ]
                if words and not any(word[:1].isupper() for word in words):
                    shares = ((n, capitals.share(word)) for n, word in enumerate(words) if word.isalpha())
                    found = [Entity("?", n, n + 1) for n, share in shares if share is None or share > SURELY / 2]
                yield [word.lower() if lower else word for word in words], found


class Namer:
    """Names for `<P>`, `<L>` and `<O>`, out of the titles of articles, and of firms that nobody has written about."""

    def __init__(self, types: dict[str, str]) -> None:
        plain = [
            title for title in types if re.fullmatch(r"[^\W\d_]{2,}( [^\W\d_]{2,}){0,2}", title) and title.istitle()
        ]
        by_kind = {kind: [t for t in plain if KIND_OF.get(types[t], types[t]) == kind] for kind in KINDS}
        self.people = [title.split() for title in by_kind["PERSON"] if " " in title]
        self.titles = {"L": by_kind["PLACE"], "O": by_kind["ORGANISATION"]}

    def name(self, sign: str) -> list[str]:
        """The words of a name."""
        full = random.choice(self.people)
        if sign == "P":
            title = random.choice(("Mr", "Mrs", "Ms", "Dr"))
            forms = [full[:1], full[:1], full, full, [title, full[-1]], full[-1:]]
            return random.choice(forms)
        if sign == "O" and random.random() < 0.5:
            firm = re.sub("<S>", lambda _: random.choice(self.people)[-1], random.choice(FIRMS))
            return re.findall(r"[^\s,]+|,", firm)
        return random.choice(self.titles[sign]).split()

    def fill(self, template: str) -> tuple[list[str], list[Entity]]:
        """The words of a template, and the names in it: "Hi <P>," → "Hi Ada ,"."""
        words, found = list[str](), list[Entity]()
        for part in re.split(r"(<[PLO]>)", template):
            sign = part[1:2] if part.startswith("<") else ""
            own = self.name(sign) if sign else [w for p in split_text(part, "text") for w in p.sentence.words]
            if sign:
                found.append(Entity(SIGNS[sign], len(words), len(words) + len(own)))
            words += own
        return words, found

    def renamed(self, words: Sequence[str], found: Sequence[Entity]) -> tuple[list[str], list[Entity]]:
        """A sentence with other names in the place of half of its persons and organisations."""
        new, entities, at = list[str](), list[Entity](), 0
        for e in found:
            new += words[at : e.start]
            sign = SIGN_OF.get(KIND_OF.get(e.label, e.label), "")
            own, label = words[e.start : e.end], e.label
            if sign and random.random() < 0.5:
                own, label = self.name(sign), SIGNS[sign]
            entities.append(Entity(label, len(new), len(new) + len(own)))
            new += own
            at = e.end
        return [*new, *words[at:]], entities


def joined(
    words: list[str], found: list[Entity], then: list[str], names: list[Entity]
) -> tuple[list[str], list[Entity]]:
    """Two sentences as one."""
    moved = [replace(e, start=e.start + len(words), end=e.end + len(words)) for e in names]
    return [*words, *then], [*found, *moved]


def everyday(
    rows: Sequence[tuple[Sequence[str], Sequence[Entity]]], types: dict[str, str]
) -> Iterator[tuple[list[str], list[Entity]]]:
    """Messages made of sentences whose names are known: with a greeting and other names, cut at their beginning, with
    a word in capitals, or all of them.

    "He said that the driver never rang"  →  "Hi Ada, Driver NEVER rang"
    """
    namer = Namer(types)
    for given, marks in rows:
        words, found = namer.renamed(list(given), marks)
        if random.random() < 0.4:
            free = {n for e in found for n in range(e.start, e.end)}
            starts = [n + 1 for n, word in enumerate(words[:-3]) if word in CUT | {","} and words[n + 1].isalpha()]
            starts = [n for n in starts if n not in free and words[n].islower()]
            if starts:
                start = random.choice(starts)
                words = [words[start].capitalize(), *words[start + 1 :]]
                found = [Entity(e.label, e.start - start, e.end - start) for e in found if e.start > start]
        if random.random() < 0.15:  # a few in capitals
            named = {n for e in found for n in range(e.start, e.end)}
            small = [n for n, word in enumerate(words) if word.islower() and n not in named]
            for n in random.sample(small, min(len(small), random.choice((1, 1, 2, 4)))):
                words[n] = words[n].upper()
        if random.random() < 0.5:
            opener, names = namer.fill(random.choice(OPENERS))
            if opener[-1] in ".!?":  # a sentence of its own
                yield opener, names
            else:
                if opener[-1].isalpha() and words[0][1:].islower() and (not found or found[0].start > 0):
                    words = [words[0].lower(), *words[1:]]
                words, found = joined(opener, names, words, found)
        elif random.random() < 0.1:
            words, found = joined(words, found, *namer.fill(random.choice(CLOSINGS)))
        yield [word.upper() for word in words] if random.random() < 0.15 else words, found


def named_part(words: Sequence[str], entity: Entity) -> Entity:
    """A mention from its first capital to its last: of "the Syrian army" Syrian; one without any may be a name."""
    capitals = [n for n in range(entity.start, entity.end) if words[n][:1].isupper()]
    return replace(entity, start=capitals[0], end=capitals[-1] + 1) if capitals else replace(entity, label="?")


def source(path: Path, capitals: Capitals) -> Iterator[tuple[list[str], list[Entity]]]:
    """Sentences of a set that people marked; capitals and odd words that they did not mark may be names."""
    for record in lines_of(path):
        words = record["text"].split(" ")
        ends = np.cumsum([len(word) + 1 for word in words])
        found = [
            Entity(
                e["label"],
                int(np.searchsorted(ends, e["start"], "right")),
                int(np.searchsorted(ends, e["end"])) + 1,
            )
            for e in record["entities"]
        ]
        if path.parent.name in DESCRIBED:
            found = [named_part(words, e) for e in found]
        marked = {n for e in found for n in range(e.start, e.end)}
        odd = [n for n, w in enumerate(words) if n not in marked and re.search(ODD, w) and not capitals.is_ordinary(w)]
        yield words, sorted([*found, *(Entity("?", n, n + 1) for n in odd)], key=lambda e: e.start)


def data(
    sources: Path,
    wikipedia_folder: Path,
    out: Path,
    prose_files: tuple[Path, ...] = (),
    held_out: tuple[Path, ...] = (),
    share: float = 0.08,
    paragraphs: int = 5000,
) -> None:
    """Write a file a source, and the kinds of the types; `paragraphs` is how many of each file of prose are read."""
    random.seed(23)
    known = {own for path in held_out for s in boustro.read_data(path) for own in eights(s.words)}
    out.mkdir(parents=True, exist_ok=True)
    (types, kept), capitals = titles(wikipedia_folder, share), Capitals()
    read = {path: [p for r in lines_of(path) for p in r["text"].split("\n") if p.strip()] for path in prose_files}
    for text in [*kept, *(text for texts in read.values() for text in texts)]:
        capitals.add(text)
    some = {"wikipedia": kept}
    for path, texts in read.items():
        some[f"{path.parent.name}-{path.name.split('.')[0]}"] = random.sample(texts, min(paragraphs, len(texts)))
    to_change = list[tuple[list[str], list[Entity]]]()
    for name, texts in some.items():
        rows = list(prose(texts, types, capitals, known))
        write(out / f"{name}.jsonl", iter(rows))
        to_change += random.sample(rows, int(EVERYDAY * len(rows)))
    write(out / "everyday.jsonl", everyday(to_change, types))
    found = set(KIND_OF)
    for path in sorted(sources.glob("*/train.jsonl.xz")):
        rows = list(source(path, capitals))
        found |= {e.label for _, own in rows for e in own} - {"?", "*"}
        write(out / f"{path.parent.name}.jsonl", iter(rows))
    (out / "kinds.json").write_text(
        json.dumps({label: KIND_OF.get(label) for label in sorted(found)}, indent=1), "utf-8"
    )


def spans(tags: Sequence[str] | None) -> set[tuple[int, int]]:
    """Where entities are, whatever their type."""
    return {(e.start, e.end) for e in extract_spans(tags or ())}


def measure(
    train: Path,
    dev: Path,
    few: tuple[str, ...] = ("starter-memory", "starter-names"),
    draws: int = 3,
    shots: tuple[int, ...] = (1, 4, 16),
    sentences: int = 10_000,
    names: str = "names",
) -> None:
    """Print the figures; `sentences` is how many of each file are read."""
    gold: list[Sentence] = boustro.read_data(dev)[:sentences]
    told = boustro.load(names).tag(gold)
    pairs = [(spans(s.tags), spans(own)) for s, own in zip(gold, told, strict=True)]
    right, wanted, given = (sum(map(len, own)) for own in ([a & b for a, b in pairs], *zip(*pairs, strict=True)))
    near = sum(any(a < e and s < b for a, b in own) for want, own in pairs for s, e in want)
    print(
        f"{names}: recall {100 * right / wanted:.1f}, precision {100 * right / given:.1f}, "
        f"touched {100 * near / wanted:.1f}"
    )
    labelled = boustro.read_data(train)[:sentences]
    for k, drawn in draw_all(labelled, shots, draws).items():
        for encoder in few:
            found = []
            for draw in drawn:
                tagger = boustro.Tagger(encoder, "ridge", preset="few").fit([labelled[n] for n in draw])
                found.append(tagger.evaluate(gold).value)
            print(
                f"K = {k}, {encoder}: {np.mean(found):.2f} ± {np.std(found):.2f} {[round(f, 2) for f in found]}",
                flush=True,
            )


def marked(path: Path) -> list[Sentence]:
    """Sentences of a labelled file, or of lines of text such as "{PERSON Ada Brandt} left."."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    if not any(re.search(MARK, line) for line in lines):
        return boustro.read_data(path)
    found = list[Sentence]()
    for line in lines:
        text, at, spans = "", 0, list[tuple[int, int, str]]()
        for mark in re.finditer(MARK, line):
            text += line[at : mark.start()]
            spans.append((len(text), len(text) + len(mark[2]), mark[1]))
            text, at = text + mark[2], mark.end()
        for part in split_text(text + line[at:], "text"):
            tags, places = ["O"] * len(part.sentence.words), part.places
            for start, stop, label in spans:
                inside = [n for n, (first, last) in enumerate(places) if first < stop and last > start]
                if inside:  # else it stands in another sentence of the line
                    tags[inside[0] : inside[-1] + 1] = [f"B-{label}", *[f"I-{label}"] * (len(inside) - 1)]
            found.append(replace(part.sentence, tags=tuple(tags)))
    return found


def labels_of(sentence: Sentence) -> set[str]:
    """The types of its entities."""
    return {e.label for e in extract_spans(sentence.tags or ())}


def few(
    sets: tuple[str, ...],
    encoders: tuple[str, ...] = ("starter-memory", "starter-names", "starter-large"),
    sizes: tuple[int, ...] = (10, 20, 50),
    draws: int = 5,
    sentences: int = 400,
) -> None:
    """Print F1 for each set, NAME=TRAIN,DEV, of so many sentences of DEV, taken evenly."""
    for one in sets:
        name, _, files = one.partition("=")
        pool, *dev = [marked(Path(file)) for file in files.split(",")]
        gold = dev[0] if dev else pool[len(pool) // 2 :]
        gold = gold[:: max(1, len(gold) // sentences)][:sentences]
        kinds = {label: next(k for k in (*KINDS, label) if k in aliases(label)) for s in gold for label in labels_of(s)}
        told = boustro.load("starter-names").tag(gold)
        wanted, given = (
            {
                (n, e.start, e.end, kinds.get(e.label, e.label))
                for n, tags in enumerate(some)
                for e in extract_spans(tags)
            }
            for some in ([s.tags or () for s in gold], told)
        )
        given = {own for own in given if own[-1] in kinds.values()}
        print(f"{name}, names alone: {200 * len(wanted & given) / (len(wanted) + len(given)):.1f}", flush=True)
        pool = pool if dev else pool[: len(pool) // 2]
        for size in sizes:
            drawn = [np.random.default_rng(draw).permutation(len(pool))[:size] for draw in range(draws)]
            for encoder in encoders:
                found = []
                for some in drawn:
                    tagger = boustro.Tagger(encoder)
                    found.append(tagger.fit([pool[n] for n in some]).evaluate(gold).value)
                print(f"{name}, {size}, {encoder}: {np.mean(found):.1f} ± {np.std(found):.1f}", flush=True)


def redact(sets: tuple[Path, ...], cover: float = 97.5, sentences: int = 100_000) -> None:
    """Print what the package's redactor covers at thresholds, by words: of persons, places and organisations / of what
    is masked the names of any type (share of the other words that is masked); and the highest in steps of 0.005 at
    which the mean of the first is at least `cover`, for `live.redactor.THRESHOLD`."""
    encoder, steps = open_encoder("starter-names", ReadingOptions(layers="last")), np.arange(100, 0, -1) * 0.005
    found = []
    for path in sets:
        gold = marked(path)[:sentences]
        tags, words = [tag for s in gold for tag in s.tags or ()], [word for s in gold for word in s.words]
        named, wanted = np.array([tag != "O" for tag in tags]), np.array([tag[2:] in PERSONAL for tag in tags])
        told = encoder.read_all(gold).streams[-1][:, 0].astype(np.float32)
        outside, *_, other = np.exp(told[:, [-len(KINDS) - 3, *range(-len(KINDS), 0)]]).T
        lettered = np.array([may_be_name(word) or not any(map(str.isalnum, word)) for word in words])
        likely, wanted = np.where(lettered, (1 - outside) * (1 - other), 0), wanted & lettered
        likely[(likely < 0.5) & np.array([word.lower() in SELDOM_NAMES for word in words])] = 0
        shares = [
            (100 * (masked & part).sum() / max(1, whole))
            for masked in (likely >= step for step in steps)
            for part, whole in ((wanted, wanted.sum()), (named, masked.sum()), (~named, (~named).sum()))
        ]
        found.append(np.reshape(shares, (-1, 3)))
    means = np.mean(found, 0)
    for step, own, mean in zip(steps, zip(*found, strict=True), means, strict=True):
        print(f"{step:.3f}: " + " | ".join("{:.1f} / {:.1f} ({:.1f})".format(*one) for one in [*own, mean]))
    print(f"chosen: {max(step for step, mean in zip(steps, means, strict=True) if mean[0] >= cover):.3f}")


def pressed(shown: Sequence[dict[str, Any]], gold: Sequence[Entity]) -> int:
    """The keys for one text; a digit labels the first `name?`, so that those before a name are taken away."""
    found, wanted = {(e["start"], e["end"]): e["label"] for e in shown}, {(e.start, e.end): e.label for e in gold}
    unnamed = [span for span in sorted(found) if not found[span]]
    last = max((span for span in unnamed if span in wanted), default=(-1, -1))
    wrong = sum(span not in wanted and (bool(found[span]) or span < last) for span in found)
    other = sum(span in found and found[span] != label for span, label in wanted.items())
    return 1 + wrong + other + 2 * len(wanted.keys() - found.keys())


def keys(
    texts: Path,
    encoders: tuple[str, ...] = ("starter-memory", "starter-names"),
    orders: tuple[Order, ...] = ("in-order", "uncertain"),
    rename: bool = True,
    groups: bool = False,
) -> None:
    """Print how many keys label the texts. With `rename` labels do not say what they are; with `groups` those of at
    least two names are told first, by one key each, unless more than a fifth of them are wrong."""
    for encoder in encoders:
        for order in orders:
            loaded = read_to_label(texts, "auto", DEFAULT_OPTIONS)
            labels = sorted({e.label for text in loaded for e in text.gold or ()})
            new = {label: f"T{n}" if rename else label for n, label in enumerate(labels)}
            gold = [tuple(replace(e, label=new[e.label]) for e in text.gold or ()) for text in loaded]
            reader = VectorReader(vector_source(encoder, own := [t.sentence for t in loaded], pool_mentions=True), own)
            with tempfile.TemporaryDirectory() as folder, AnswerFile(Path(folder) / "answers.jsonl").open() as file:
                session, points, counts = (
                    LabellingSession(loaded, file, [*new.values()], order),
                    list[Point](),
                    list[int](),
                )
                vectors, start = reader.train_vectors(np.arange(len(own))), reader.start
                namer, start = open_namer({name: name for name in new.values()}, start) if start else (None, None)
                prior = namer and prior_scores(namer, own, session.labels, cached=True)
                session.attach(range(len(own)), vectors, prior, start)
                told = tell(session, gold) if groups else 0
                while (shown := session.view()["sentence"]) is not None:
                    counts.append(pressed(shown["entities"], gold[shown["number"]]))
                    session.answer(shown["number"], gold[shown["number"]])
                    if session.tagger and is_due(points, session.words_answered, len(session.answers)):
                        points.append(measure_live(session.tagger, session.answers))
            print(f"{encoder}, {order}: {sum(counts) + told} keys, {told} of them for groups", flush=True)


def tell(session: LabellingSession, gold: Sequence[Sequence[Entity]]) -> int:
    """Tell what groups are; how many were looked at."""
    looked, names = [group for group in session.groups() if len(group.names) > 1], Counter[tuple[str, str]]()
    for text, entities in zip(session.texts, gold, strict=True):
        names.update((" ".join(text.sentence.words[e.start : e.end]), e.label) for e in entities)
    for group in looked:
        right = Counter({label: sum(names[name, label] for name in group.names) for label in session.labels})
        label, count = (right + Counter({"": group.mentions - right.total()})).most_common(1)[0]
        if count >= 0.8 * group.mentions:
            session.label_group(group.names, label)
    return len(looked)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"data": data, "measure": measure, "few": few, "redact": redact, "keys": keys})
