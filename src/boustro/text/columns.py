"""Words in columns, one a line, read as they arrive: CoNLL columns and CoNLL-U, with labels or without.

    EU NNP B-NP B-ORG        CoNLL columns: a word and what is said of it; a blank line ends a sentence
    1  EU  EU  PROPN  …      CoNLL-U: ten columns, or those that a line `# global.columns = ID FORM …` names

CoNLL columns are separated as Excel's first line `sep=;` says, by tabs where the file has tabs, else by runs of spaces
(no other white space, so a word may contain a no-break space). All lines have the same number of columns. `-DOCSTART-`
lines (and `#begin document`, `# newdoc`) separate documents; in a file without them every sentence is its own document.
The first lines of a file decide what its columns are (`ColumnLayout`), each with a note:

- a head such as `word⇥tag` is left out, and names the columns;
- a column that counts the words, from each sentence's first or through the file, is not read as words, nor is what
  stands before it and is the same in a whole sentence: the words are in the next column;
- of two columns of which the first has tags, the second has the words.

A line that starts with `#` and white space is a comment only before a sentence's first word, and only where it has
another number of columns than the words, has the form `# key = value` (between spaces), or has no tag in the column
of the tags.

Tags of entities in any spelling are read as `B-PER`, `I-PER` and `O`, where all tags of a file agree on one:

    B_PER  B:PER  b-PER  PER-B  PER/B    B-PER
    B  I  O                              B-ENTITY  I-ENTITY  O      (no types: one type)
    W-PER                                S-PER                      (BMEWO)
    o  0  _  -X-                         O                          (if no other tag can be the one outside of entities)

A file in which one tag is in none of these spellings is left as it is, because its tags may be plain labels.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal

from boustro.choose import suggestion
from boustro.text.conllu import NEW_DOCUMENT, Arriving, ColumnSentence, ConlluReader, is_conllu
from boustro.text.rows import SEPARATORS, declared_separator
from boustro.types import Note, is_span_tag

DOCUMENT_START = "-DOCSTART-"
LOOKED_AT = 200
"""Lines that decide what the columns are: some sentences, and little enough to wait for."""
HEADED = "lines that name the columns, left out"
COMMENTS = "comment lines"
COUNTED = "columns of numbers that count the words, which are read from the next column"
TAGS_FIRST = "columns of tags before the words, which are read from the last column"
_COMMENT = re.compile(r"#(\s|begin document|end document)")
_SURE_COMMENT = re.compile(r"#\s*([\w.:-]+\s*=|newdoc|newpar|begin document|end document)")
_TAG = re.compile(r"O|[BIESULMW]-\S+")
WORD_NAMES = ("word", "words", "token", "tokens", "form", "forms", "wordform", "surface", "wort")
TAG_NAMES = {
    *("tag", "tags", "label", "labels", "gold", "class", "type", "category", "bio", "iob", "iob2", "bioes", "bilou"),
    *("ner", "nertag", "nertags", "nerlabel", "ne", "netag", "entity", "entities", "entitytag", "biotag", "iobtag"),
    *("pos", "postag", "postags", "upos", "xpos", "chunk", "chunktag", "goldlabel", "goldtag"),
}
_NUMBER_NAMES = {"", "id", "idx", "index", "no", "nr", "num", "number", "wordid", "tokenid", "position"}


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """Columns of a CoNLL file, as its first lines have them.

    Attributes:
        delimiter: What separates them; a space stands for runs of spaces.
        first: The number of the line that gives their number.
        num_columns: How many there are.
        names: What the head calls them.
        head: The line with these names, and its number.
        word: The column of the words.
        notes: What was decided, for people.
        sentences: The cells of the lines that were looked at.
    """

    delimiter: str
    first: int
    num_columns: int
    names: tuple[str, ...]
    head: tuple[int, str] | None
    word: int
    tags_first: bool
    notes: tuple[tuple[str, int, str], ...]
    sentences: Sequence[Sequence[Sequence[str]]]

    @classmethod
    def of(cls, lines: Sequence[tuple[int, str]], delimiter: str | None = None) -> "ColumnLayout | None":
        """That of a file with these first lines; `None` where they hold no word.

        `delimiter` separates the columns, or is its name in `SEPARATORS`; by default it is as the file has it.
        """
        full = [(number, line) for number, line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
        declared = declared_separator(full[0][1]) if full else None
        full = full[1:] if declared else full
        if not full:
            return None
        plain = [pair for pair in full if not pair[1].startswith("#")] or full
        wanted = delimiter or declared or ("tab" if "\t" in plain[0][1] else "space")
        separator = SEPARATORS.get(wanted, wanted)
        head = next((pair for pair in (full[0], plain[0]) if _is_head(pair[1], plain, separator)), None)
        names = _names(split_cells(head[1], separator)) if head else ()
        body = [pair for pair in plain if head is None or pair[1] != head[1]]
        if not body:
            return None
        first, line = body[0]
        num_columns = len(split_cells(line, separator))
        names = names if len(names) == num_columns else ()
        sentences = _sample([pair for pair in lines if not pair[1].strip() or pair in body], separator, num_columns)
        notes = [(HEADED, head[0], f"not read as a word: {head[1]}")] if head else []
        word, counter = 0, _counter(sentences, num_columns)
        tags_first = False
        if names:
            word = next(n for n, name in enumerate(names) if plain_name(name) in WORD_NAMES)
        elif counter is not None:
            word = counter + 1
            notes.append((COUNTED, first, f"column {counter} counts the words, which are read from column {word}"))
        two = not names and num_columns - word == 2
        if two and _have_tags(sentences, word) and not _have_tags(sentences, word + 1):
            tags_first, word = True, word + 1
            notes.append((TAGS_FIRST, first, f"column {word - 1} has the tags, column {word} the words"))
        return cls(separator, first, num_columns, names, head, word, tags_first, tuple(notes), sentences)

    @property
    def tag(self) -> int:
        """The column of the tags: the last that the head names so, else the last."""
        named = [n for n, name in enumerate(self.names) if plain_name(name) in TAG_NAMES]
        return named[-1] if named else self.word - 1 if self.tags_first else self.num_columns - 1

    def holds_tags(self, column: int) -> bool:
        """Return whether a column has tags of entities, with some words outside of them."""
        return _have_tags(self.sentences, column)

    def column(self, path: str, name: str, given: int | str | None, default: int) -> int:
        """Return the number of a column that an option names; `ValueError` for one that is not there."""
        if given is not None and str(given) in self.names:
            return self.names.index(str(given))
        known = f"0 to {self.num_columns - 1}"
        try:
            number = default if given is None else int(given)
        except ValueError:
            named = f" ({', '.join(self.names)}){suggestion(str(given), self.names)}" if self.names else ""
            raise ValueError(f"{path}: --{name}-column {given!r}: CoNLL columns are numbered, {known}{named}") from None
        if not -self.num_columns <= number < self.num_columns:
            raise ValueError(f"{path}: no column {number}: the lines have {self.num_columns} columns, {known}")
        return number % self.num_columns


class ColumnReader:
    """From the lines of a file to its sentences.

    Args:
        path: The file, for messages.
        form: CoNLL-U, or CoNLL columns; by default, as the first lines say.
        delimiter: What separates CoNLL columns, see `ColumnLayout.of`.
        word_column: The column of the words: a number, or a name where columns have names.
        expected: What a line is to hold, for messages.
        tagged: Whether each word has a tag.

    Attributes:
        layout: Of CoNLL columns; `None` before the first sentence, and for CoNLL-U.
        notes: What was left out or decided so far; whoever reads may empty it.

    Raises `ValueError` for a delimiter or a column that cannot be.
    """

    def __init__(
        self,
        path: str,
        form: Literal["conll", "conllu"] | None = None,
        delimiter: str | None = None,
        word_column: int | str | None = None,
        expected: str = "a word",
        tagged: bool = False,
    ) -> None:
        if delimiter == "":
            raise ValueError("--delimiter is empty; give tab, space, or the text that separates the columns")
        self.path, self.form, self.delimiter, self.word_column = path, form, delimiter, word_column
        self.expected, self.tagged = expected, tagged
        self.layout: ColumnLayout | None = None
        self.notes: list[Note] = []

    def read(self, lines: Arriving) -> Iterator[ColumnSentence | None]:
        """Yield the sentences in order, those that cannot be read too, and `None` whenever the next line is not there
        yet."""
        begun: list[tuple[int, str, str]] = []
        rest, num_full = iter(lines), 0
        for item in rest if self.form != "conllu" else ():
            if item is None:
                if self._begins(begun):
                    rest = chain([None], rest)  # the caller waits after the sentences that are here
                    break
                yield None
                continue
            begun.append(item)
            num_full += bool(item[2]) or _is_full(item[1])
            if num_full >= LOOKED_AT:
                break
        seen = [(number, line) for number, line, _ in begun]
        if self.form == "conllu" or (self.form is None and is_conllu(seen)):
            yield from ConlluReader(self.path, self.word_column, self.expected, self.notes).read(chain(begun, rest))
            return
        self.layout = ColumnLayout.of(seen, self.delimiter)
        if self.layout is not None:
            yield from self._read_columns(chain(begun, rest), self.layout)
        else:
            yield from (ColumnSentence(self._place(number), problem=problem) for number, _, problem in begun if problem)

    def _begins(self, begun: Sequence[tuple[int, str, str]]) -> bool:
        """Return whether a sentence has come that says what the columns are, which a single number does not."""
        lines = [(number, line) for number, line, _ in begun]
        full = [_is_full(line) for _, line in lines]
        if not any(a and not b for a, b in pairwise(full)):
            return False
        one = sum(full) == 1 and next(line for _, line in lines if _is_full(line))[:1].isdecimal()
        return not one and ColumnLayout.of(lines, self.delimiter) is not None

    def _place(self, number: int) -> str:
        return f"{self.path}:{number}"

    def _read_columns(self, lines: Arriving, layout: ColumnLayout) -> Iterator[ColumnSentence | None]:
        word = layout.column(self.path, "word", self.word_column, layout.word)
        chosen = self.word_column is not None
        if not chosen and layout.holds_tags(word) and not layout.holds_tags(-1):
            raise ValueError(f"{self.path}: column {word} has tags; put the words first, or name their column")
        notes = (note for note in layout.notes if note[0] == HEADED or not chosen)
        self.notes += [Note(what, self._place(number), detail) for what, number, detail in notes]
        sentence, documents, opens = ColumnSentence(names=layout.names), 0, False
        declares = True
        for item in chain(lines, [(0, "", "")]):
            if item is None:
                yield None
                continue
            number, line, problem = item
            if declares and line.strip():
                declares = False
                if declared_separator(line) is not None:
                    continue
            cells = split_cells(line, layout.delimiter)
            begun = bool(sentence.where)
            is_comment = not begun and self._is_comment(line, cells, layout)
            is_head = not begun and layout.head is not None and line == layout.head[1]
            begins = line.startswith(DOCUMENT_START) or cells[word:][:1] == [DOCUMENT_START]
            if not problem and (begins or is_comment or is_head or not line.strip()):
                if begun:
                    yield sentence
                    opens = False
                if begins or (is_comment and NEW_DOCUMENT.match(line)):
                    documents, opens = documents + 1, True
                named = f"document {documents}" if documents else ""
                sentence = ColumnSentence(names=layout.names, document=named, opens=opens)
                if is_comment:
                    self.notes.append(Note(COMMENTS, self._place(number), f"comment: {line}"))
                elif is_head and layout.head and number != layout.head[0]:
                    self.notes.append(Note(HEADED, self._place(number), f"not read as a word: {line}"))
                continue
            if problem := problem or self._problem(number, line, cells, word, layout):
                sentence.begin(self._place(number), problem)
            else:
                sentence.add(self._place(number), cells[word], number, cells)

    def _is_comment(self, line: str, cells: Sequence[str], layout: ColumnLayout) -> bool:
        if not _COMMENT.match(line):
            return False
        if len(cells) != layout.num_columns:
            return True
        if layout.delimiter == " " and _SURE_COMMENT.match(line):
            return True
        tag = cells[layout.tag].strip()
        return len(cells) > 1 and (" " in tag or (layout.holds_tags(layout.tag) and not _TAG.fullmatch(tag)))

    def _problem(self, number: int, line: str, cells: Sequence[str], word: int, layout: ColumnLayout) -> str:
        if len(cells) != layout.num_columns and (len(cells) > 1 or not self.tagged):
            shown = {"\t": "tabs", " ": "spaces"}.get(layout.delimiter, repr(layout.delimiter))
            expected = f"{len(cells)} columns, but line {layout.first} has {layout.num_columns}"
            return f"{self._place(number)}: {expected} (separated by {shown}; see --delimiter): {line!r}"
        if len(cells) <= word or not cells[word].strip() or (len(cells) < 2 and self.tagged):
            return f"{self._place(number)}: expected {self.expected}, got {line!r}"
        return ""


def split_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line; a space stands for runs of spaces."""
    return [cell for cell in line.split(" ") if cell] if delimiter == " " else line.split(delimiter)


def columns_form(
    lines: Sequence[tuple[int, str]], delimiter: str | None = None, bare: bool = False
) -> Literal["conll", "conllu"] | None:
    """Columns of words and their tags, as the first lines of a file of any name say; `None` for anything else.

    "Ada B-PER", "left O" → "conll": as many cells in each line, of which the last is a tag, or which a head names. Tags
    without letters, which are `bare`, are known by tabs alone, or by an O among them.
    """
    if is_conllu(lines):
        return "conllu"
    lines = lines[:LOOKED_AT]
    layout = ColumnLayout.of(lines, delimiter)
    if layout is None or layout.num_columns < 2:
        return None
    head = layout.head[1] if layout.head else None
    full = [line for _, line in lines if _is_full(line) and line != head]
    rows = [split_cells(line, layout.delimiter) for line in full]
    if {*map(len, rows)} != {layout.num_columns}:
        return None
    tags = {row[layout.tag].strip() for row in rows}
    tabs = all("\t" in line and " " not in line for line in full)
    without = (tabs and "O" in tags) or (bare and (tabs or "O" in tags))  # types without letters
    are_tags = without or all(is_span_tag(tag, ALL_LETTERS) for tag in tags) or ("O" in tags and respell(tags))
    known = tags != {"O"} or len(rows) > 1  # not the text "blood type O"
    return "conll" if layout.names or (are_tags and known) else None


def plain_name(name: str) -> str:
    """Return the name of a column without its case and the marks between its words: `Sentence #` → `sentence`."""
    return re.sub(r"[\s_#-]+", "", name.lower())


def _names(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell.strip().lstrip("#").strip() for cell in cells)


def _is_full(line: str) -> bool:
    """Return whether a line may have a word."""
    return bool(line.strip()) and not line.startswith((DOCUMENT_START, "#"))


def _is_head(line: str, plain: Sequence[tuple[int, str]], delimiter: str) -> bool:
    """Return whether a line names the columns of those after it: one is of words, another of tags or, before it, of
    numbers; and no word below has the same there."""
    cells = split_cells(line, delimiter)
    names = [*map(plain_name, _names(cells))]
    words = [n for n, name in enumerate(names) if name in WORD_NAMES]
    if len(words) != 1:
        return False
    others = [n for n, name in enumerate(names) if name in TAG_NAMES or (name in _NUMBER_NAMES and n < words[0])]
    below = [split_cells(other, delimiter) for _, other in plain if other != line]
    same = (len(row) == len(cells) and row[n] == cells[n] for n in others for row in below)
    return bool(others) and bool(below) and not any(same)


def _sample(lines: Sequence[tuple[int, str]], delimiter: str, num_columns: int) -> list[list[Sequence[str]]]:
    """Return the cells of the words among lines, by sentence; lines with other numbers of columns are left out."""
    sentences: list[list[Sequence[str]]] = [[]]
    for _, line in lines:
        cells = split_cells(line, delimiter)
        if not line.strip():
            sentences.append([])
        elif len(cells) == num_columns:
            sentences[-1].append(cells)
    return [sentence for sentence in sentences if sentence]


def _counter(sentences: Sequence[Sequence[Sequence[str]]], num_columns: int) -> int | None:
    """Return the column that counts the words of each sentence from 0 or 1, or through the file, while those before it
    are the same in a whole sentence; `None` where none does, or where no words would be left."""
    for column in range(num_columns - 1):
        if _counts([[row[column] for row in sentence] for sentence in sentences]):
            values = {row[column + 1].strip() for sentence in sentences for row in sentence}
            are_tags = "O" in values or all(map(_TAG.fullmatch, values))
            return None if column + 2 == num_columns and are_tags else column  # numbers that are words, with tags
        if any(row[column] != sentence[0][column] for sentence in sentences for row in sentence):
            return None
    return None


def _counts(sentences: Sequence[Sequence[str]]) -> bool:
    """Return whether cells are numbers, each one more than the one before it in its sentence, of which one has two
    lines."""
    if max(map(len, sentences), default=0) < 2:
        return False
    if not all(cell.strip().isdecimal() for cells in sentences for cell in cells):
        return False
    last = -1
    for cells in sentences:
        numbers = [int(cell) for cell in cells]
        if any(b != a + 1 for a, b in pairwise(numbers)) or not (numbers[0] in (0, 1) or numbers[0] > last >= 0):
            return False
        last = numbers[-1]
    return True


def _have_tags(sentences: Sequence[Sequence[Sequence[str]]], column: int) -> bool:
    """Return whether a column has tags of entities, with some words outside of them."""
    values = {row[column].strip() for sentence in sentences for row in sentence}
    return "O" in values and len(values) > 1 and all(map(_TAG.fullmatch, values))


LETTERS_OF_SCHEMES = ("BI", "BIES", "BILU", "BMES", "BMEW")
ALL_LETTERS = frozenset("BIESULM")
UNTYPED = "ENTITY"
OUTSIDE = frozenset({"o", "0", "_", "-", "*", "-x-", "out", "outside", "other", "none", "null", "nil"})
MARK = r"[-_:./|+=\u2013\u2014]"
SPELLINGS = [
    re.compile(pattern)
    for pattern in (
        rf"(?P<letter>[A-Za-z])\s*{MARK}\s*(?P<type>\S.*)",
        rf"(?P<type>.*\S)\s*{MARK}\s*(?P<letter>[A-Za-z])",
        rf"(?P<letter>[A-Za-z]){MARK}?",
    )
]


def respell(file_tags: Collection[str]) -> dict[str, str]:
    """Return the tags of a file as `B-PER` is spelled; empty where they are so already, or are not in one spelling."""
    if all(is_span_tag(tag, ALL_LETTERS) for tag in file_tags):
        return {}
    outside = outside_of(file_tags)
    for spelling in SPELLINGS:
        matches = {tag: spelling.fullmatch(tag.strip()) for tag in file_tags if tag not in outside}
        parts = {tag: (m["letter"].upper(), m.groupdict().get("type")) for tag, m in matches.items() if m}
        letters = {letter for letter, _ in parts.values()}
        untyped = any(label is None for _, label in parts.values())
        if len(parts) < len(matches) or not _of_a_scheme(letters) or (untyped and not outside and len(letters) < 2):
            continue
        tags = {tag: f"{'S' if letter == 'W' else letter}-{label or UNTYPED}" for tag, (letter, label) in parts.items()}
        return tags | dict.fromkeys(outside, "O")
    return {}


def outside_of(tags: Collection[str]) -> set[str]:
    """Return the tags outside of entities: `O` (and what has none, `-X-`), or else the only one that can be."""
    named = {tag for tag in tags if tag.strip().lower() in ("o", "-x-")}
    likely = {tag for tag in tags if tag.strip().lower() in OUTSIDE}
    return named or (likely if len(likely) == 1 else set())


def _of_a_scheme(letters: set[str]) -> bool:
    return bool(letters & {"B", "I"}) and any(letters <= set(scheme) for scheme in LETTERS_OF_SCHEMES)
