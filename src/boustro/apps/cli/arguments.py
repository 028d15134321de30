"""From the words of a command line to the values of a command's options, in one pass; what is no use is refused.

Values come from the command line, then from the recipe (`--config FILE`), then from the preset (`--preset NAME`), then
from the defaults. A recipe is YAML with the option names as keys; a folder that a command wrote serves as well,
because its manifest holds the options that it was made with:

    train: train.conll
    epochs: 5
    tag-scheme: bioes

An option that no command has is refused with the nearest one:

    boustro fit --train train.conll --output ner
    boustro: there is no option --output; did you mean --out? `boustro fit --help` lists the options
"""

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from boustro.apps.cli.listed import (
    VALUE_NAMES,
    Command,
    Option,
    OptionTable,
    bare_types,
    list_options,
    notes_of,
    parameter_default,
    preset_option,
)
from boustro.choose import nearest, suggestion
from boustro.errors import shorten
from boustro.heads.options import HeadOptions
from boustro.heads.registry import HEADS, owners
from boustro.names import expand_home, is_shipped
from boustro.options import Instead, OptionError, option_fields, option_name, option_words, part_values, problem_of
from boustro.store import MANIFEST, read_json
from boustro.tasks import DEFAULT_TASK, TASKS
from boustro.tasks.config import AUTO
from boustro.text.files import DataFile
from boustro.text.places import Place, check_data, check_lm, check_model, refuse_swapped

ALL = "--help-all"
HELP = ("-h", "--help", ALL)
MEANT = {
    "output": ("out",),
    "output-dir": ("out",),
    "save": ("out",),
    "seeds": ("seed",),
    "draws": ("seeds",),
    "seed": ("seeds",),
    "num-seeds": ("seeds",),
    "learning-rate": ("lr",),
    "num-epochs": ("epochs",),
    "model": ("encoder", "lm"),
    "encoder": ("model", "lm"),
    "lm": ("encoder", "model"),
    "data": ("train",),
    "train-file": ("train",),
    "valid": ("dev",),
    "validation": ("dev",),
    "eval": ("dev",),
    "force": ("overwrite",),
    "yes": ("overwrite",),
    "batch-size": ("batch-words", "batch-segments", "batch-pairs"),
    "verbose": (),
}
"""Names that options have in other programs, and those that they have here, the first that a command knows."""
WRITTEN = ("out", "json", "errors", "held-back", "out-tagger", "copy-sample")
"""Options that name what a command writes; every other path is one that it reads."""


@dataclass(frozen=True)
class Line:
    """A command line that was split, with its recipe, and the options that it may give; none of its values is checked.

    Raises `OptionError` for an unknown preset, for a key of a recipe that is not an option, and for an option of other
    heads than those that are trained.
    """

    table: OptionTable
    words: list[tuple[str, list[str]]]
    """(name, words after it) of each option, as they stand, of which the first may be its value; the words before the
    first option under ""."""
    recipe: Mapping[str, Any]
    path: str | None
    """The file or the folder of the recipe."""
    data: DataFile | None = None
    """The labelled data that the task was guessed from."""

    @classmethod
    def read(cls, command: Command, arguments: Sequence[str], prog: str) -> "Line":
        words = list(_split(map(_expand_home, arguments)))
        path = _take(words, "config")
        recipe = read_recipe(Path(path)) if path else {}

        def values(name: str) -> list[Any]:
            given = [tail[0] for option, tail in words if option == name and tail]
            return given or _listed(recipe.get(name))

        def several(name: str) -> list[Any]:
            given = values(name)
            return part_values(str(given[0])) if len(given) == 1 else given

        def value(name: str) -> Any:
            return next(iter(values(name)), None)

        hints, task, data = get_type_hints(command), value("task"), None
        if "task" not in hints:
            task = DEFAULT_TASK
        elif task not in TASKS:  # an unknown one is refused with its option
            plain = list_options(command)  # which words stand bare; the options of the task are not known yet
            bare = [word for name, tail in words for word in tail[_most(plain.option(name)) :]]
            train = value("train") or (bare[0] if bare and plain.positional else None)
            from boustro.tasks.data.named import guess_task

            data = DataFile(Path(str(train))) if train else None
            texts = several("text-column")
            if values("documents") and data:
                from boustro.tasks.data import with_columns

                texts = with_columns(data, texts)
            task = guess_task(data, texts, value("label-column"))
        heads: list[str] = []
        if HeadOptions in hints.values() and not {*HELP} & {*arguments}:
            automatic = [AUTO] if parameter_default(command, "heads") == (AUTO,) else []
            asked = values("head")[:1] or several("heads") or automatic
            heads = TASKS[task].config.named_heads(asked) or [TASKS[task].config.default_head]
            check_heads(task, heads)  # the table looks them up
        option = preset_option(command)
        preset = option and (value(option) or parameter_default(command, option))
        table = list_options(command, task, heads, preset)
        kinds = TASKS[task].config.heads() if heads else ()
        known = {o.name for o in table.options} | {option_name(o.name) for k in kinds for o in fields(HEADS[k].options)}
        if option and option not in known:
            _take(words, option)
            recipe = {name: setting for name, setting in recipe.items() if name != option}
        for name in recipe:
            if name not in known:
                raise OptionError(f"{path}: {name!r} is not an option of {prog}{suggestion(name, known)}")
        if heads:
            recipe = {n: v for n, v in recipe.items() if not _is_default_of_others(n, v, kinds, heads)}
            for name in (*(name.removeprefix("no-") for name, _ in words[1:]), *recipe):
                if not owners(name.replace("-", "_"), heads):
                    TASKS[task].config.check_head(heads[0], name.replace("-", "_"))  # raises if others have it
        return cls(table, words, recipe, path, data)

    def values(self, prog: str, example: str) -> dict[str, Any]:
        """Return the values given, by the names of options; `OptionError` for the first thing in the line or the recipe
        that the command does not take. `example` is a line that it takes."""
        named, positional = self.table.named, self.table.positional
        replaced = [
            note.option
            for name, _ in self.words[1:]
            if (option := self.table.option(name))
            for note in notes_of(option.hint)
            if isinstance(note, Instead)
        ]
        values: dict[str, Any] = dict.fromkeys(replaced)
        given: dict[str, tuple[str, list[str]]] = {}
        positional = [option for option in positional if option.name not in replaced]
        bare = list(self.words[0][1])
        for name, words in self.words[1:]:
            option = self.table.option(name)
            if option is None:
                near = _meant(name, named)
                raise OptionError(f"there is no option --{name}{f'; did you mean --{near}?' if near else ''}")
            most = _most(option)
            if words[most:] and not positional:
                raise OptionError(_stands_after(option, words))
            bare += words[most:]
            if option.name in given and not option.takes_several:
                raise OptionError(_given_twice(given[option.name][0], name))
            joined = given.setdefault(option.name, (name, []))[1]
            joined += words[:most]
            values[option.name] = name == option.name if option.is_boolean else read_value(option, joined)
        for name, value in self.recipe.items():
            option = next(row for row in self.table.options if row.name == name)
            if name not in values and not option.positional:
                values[name] = read_value(option, value, f"{self.path}: ")
        rest = [option for option in positional if option.name not in self.recipe]
        if len(bare) <= len(rest) or any(option.takes_several for option in rest):
            recipe = [option for option in positional if option not in rest]
            values |= {param.name: read_value(param, self.recipe[param.name], f"{self.path}: ") for param in recipe}
            positional = rest
        self._refuse_loose(positional, bare)
        self._refuse_file(positional[len(bare) :], prog)
        self._check_bare(positional, bare, prog, example)
        for option in positional if bare else ():
            taken, bare = (bare, []) if option.takes_several else (bare[:1], bare[1:])
            values |= {option.name: read_value(option, taken)} if taken else {}
        if needed := [option for option in named.values() if option.required and option.name not in values]:
            shown = " and ".join(f"{option.flag} {option.value}" for option in needed)
            raise OptionError(f"{shown} {'are' if needed[1:] else 'is'} missing, as in: boustro {example}")
        return {name: self._opened(name, value) for name, value in values.items()}

    def _opened(self, name: str, value: Any) -> Any:
        """Return a value, with files of labelled data as what is looked at once."""
        if isinstance(value, tuple):
            return tuple(self._opened(name, one) for one in value)
        if not isinstance(value, Path) or name in WRITTEN:
            return value
        if self.data and value == self.data.path:
            return self.data
        hint = next((option.hint for option in self.table.options if option.name == name), None)
        is_data = any(isinstance(note, Place) and note.check is check_data for note in notes_of(hint))
        return DataFile(value) if is_data else value

    @property
    def loose(self) -> Iterator[tuple[Option, list[str]]]:
        """Options of several values that one word at least stands behind which may be a further value, with what may:
        the word is no file, or their values are files too."""
        reads = any(option.value.startswith("DATA") for option in self.table.positional)
        for name, words in self.words[1:]:
            if (option := self.table.option(name)) and option.takes_several:
                files = [word for word in words[1:] if Path(word).exists() or (reads and Path(word).suffix)]
                if more := [word for word in words[1:] if option.is_place or word not in files]:
                    yield option, [words[0], *more]

    def _refuse_loose(self, positional: list[Option], bare: Sequence[str]) -> None:
        """`OptionError` for words behind an option of several values that nothing else can take."""
        needed = sum(option.required or option.default == () for option in positional)
        most = len(bare) if any(option.takes_several for option in positional) else len(positional)
        for option, words in self.loose:
            others = len(bare) - len(words) + 1
            if len(bare) > most or others >= (needed if option.is_place else len(positional)):
                raise OptionError(_stands_after(option, words))

    def _refuse_file(self, missing: list[Option], prog: str) -> None:
        """`OptionError` where the value of an option is a file, and a file to read is not given."""
        data = missing[0].value.removesuffix(" ...") if missing else ""
        for name, words in self.words if data == "DATA" else ():
            option = self.table.option(name)
            if not (option and option.takes_several and words) or option.is_place:
                continue
            if os.path.isfile(words[0]):  # noqa: PTH113 (pathlib raises OSError for a long text)
                others = [word for n, tail in self.words[1:] if n != name for word in (f"--{n}", *tail)]
                shown = f"{prog} {shlex.join([*self.words[0][1], *words, *others, option.flag, VALUE_NAMES[str]])}"
                said = f"{option.flag} is given {words[0]}, which is a file, and {data} is missing; write {shown}"
                is_stream = missing[0].default in ("-", ("-",))
                raise OptionError(f"{said}, or - as {data} for standard input" if is_stream else said)

    def _check_bare(self, options: list[Option], bare: list[str], prog: str, example: str) -> None:
        if short := next((word for word in bare if re.fullmatch("-[A-Za-z][A-Za-z-]*", word)), None):
            near = _meant(short[1:], self.table.named)
            such = f", such as --{near}" if near else ""
            raise OptionError(f"there is no option {short}; options begin with two dashes{such}")
        if len(bare) < sum(option.required for option in options):
            missing = options[len(bare)]
            raise OptionError(f"{missing.value} is missing ({_first_sentence(missing.help)}), as in: boustro {example}")
        if len(bare) > len(options) and not any(option.takes_several for option in options):
            if not self.table.positional:
                raise OptionError(f"{shorten(bare[0])} has no option before it; write for example: boustro {example}")
            order = " ".join(option.value for option in self.table.positional)
            raise OptionError(f"{shorten(bare[len(options)])} is one value too many: {prog} takes {order}")


def read_value(option: Option, given: Any, where: str = "") -> Any:
    """Return the value of an option from its words, or from a recipe at `where`; `OptionError` for one that it does not
    take.

    --layers 0,4 → "0,4"      --epochs 5 → 5      --shots 4,16 → (4, 16)      epochs: null → None
    """
    if isinstance(given, (bool, Mapping)) or given is None:
        value = given
    else:
        words = [str(word) for word in _listed(given)]
        words = words if isinstance(given, (list, tuple)) and where else option.part(words)
        if not words and not (where and option.takes_several and not option.required):  # recipes have empty lists
            raise OptionError(f"{where}{option.flag} needs a value: {_first_sentence(option.help)}")
        shown = option.value.removesuffix(" ...") if option.positional else option.flag
        for word in words:
            if option.is_place and not word:
                raise OptionError(f"{where}{shown} is empty: {_first_sentence(option.help)}")
            if words[1:] and not word:
                raise OptionError(f"{where}{shown} has an empty value: {_first_sentence(option.help)}")
            if problem := problem_of(option.item, convert_word(option.item, word)):
                near = "" if option.positional else suggestion(word, map(str, option.choices))
                raise OptionError(f"{where}{shown} must be {problem}, not {shorten(word)}{near}")
        several = tuple(convert_word(option.item, word) for word in words)
        value = several if option.takes_several or len(several) != 1 else several[0]
    if problem := problem_of(option.hint, value):
        raise OptionError(f"{where}{option.flag} must be {problem}, not {shorten(value)}")
    return value


def convert_word(hint: Any, word: str) -> Any:
    """Return a word as the first type of a hint that it can be; the word itself where it can be none: it is then
    refused."""
    for kind in bare_types(hint):
        if get_origin(kind) is Literal:
            chosen = [choice for choice in get_args(kind) if str(choice) == word]
            if chosen:
                return chosen[0]
        elif kind in (int, float, Path):
            try:
                return kind(word)
            except ValueError:
                continue
    return word


def resolved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all options of a call, as a recipe that gives them again."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if is_dataclass(value):
            flat |= resolved({field.name: getattr(value, field.name) for field in option_fields(value)})
        else:
            flat[option_name(name)] = _plain(value)
    return flat


def check_places(line: Line, values: Mapping[str, Any], example: str) -> None:
    """Look at each place that is given, before anything is loaded; raises as the checks of `text.places` do.

    `OptionError` where something would be written over what is read, into a folder that is read, or twice.
    """
    table, positional = line.table, line.table.positional
    places = [
        (option, place) for option in table.options for place in notes_of(option.hint) if isinstance(place, Place)
    ]
    if any(place.check is check_model for option, place in places if option.positional):
        given = [_several(values.get(option.name)) for option in positional]
        refuse_swapped([str(one) for item in given for one in item], example)
    for option, place in sorted(places, key=lambda place: place[1].check is check_lm):  # the Hub is asked last
        value = values.get(option.name)
        for one in _several(value):
            if value != option.default and not (place.check is check_lm and values.get("report-only")):
                with _advised(line, str(one)):
                    one.check(place.check) if isinstance(one, DataFile) else place.check(str(one))
    known = [Path(line.path)] if line.path and Path(line.path).is_file() else []
    placed = {option.name for option, _ in places}
    for option in table.options:
        if option.name not in WRITTEN and (option.name in placed or Path in bare_types(option.item)):
            known += [path for one in _several(values.get(option.name)) for path in _named(str(one))]
    written = [Path(one) for name in WRITTEN for one in _several(values.get(name)) if str(one) != "-"]
    for number, target in enumerate(written):
        if any(_is_same(target, path) for path in (*known, *written[:number])):
            raise OptionError(f"{target} is named twice, and would be written over; name another place to write to")
        if around := next((path for path in known if _real(path) in _real(target).parents), None):
            raise OptionError(f"{target} lies in {around}, which is read; name a place outside of it to write to")


@contextlib.contextmanager
def _advised(line: Line, place: str) -> Iterator[None]:
    """Around a check: what is no file may be a further value of the option before it."""
    try:
        yield
    except FileNotFoundError as error:
        for option, words in line.loose:
            if place in words[1:]:
                error.add_note(_stands_after(option, words))
        raise


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `Path.resolve` raises for a loop of links


def _is_same(one: Path, other: Path) -> bool:
    return _real(one) == _real(other) or (one.exists() and other.exists() and one.samefile(other))


def _named(value: str) -> Iterator[Path]:
    """Yield the files and folders that a value names: itself, and what follows a prefix, also in the parts of a
    spec."""
    for part in dict.fromkeys([value, *value.split("+")]):
        places = (part, part.partition(":")[2], part.rpartition(":")[2], part.rpartition("=")[2])
        for path in (Path(expand_home(place)) for place in places if place and not is_shipped(part)):
            if path.is_file() or path.is_dir():
                yield path


def _several(value: Any) -> Sequence[Any]:
    """Return the values of an option; a mapping, which a recipe may have, names no place."""
    return value if isinstance(value, tuple) else () if value is None or isinstance(value, Mapping) else (value,)


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the options of a recipe, or of the command that wrote a folder; `ValueError` for anything else."""
    import yaml

    if path.is_dir():
        options = read_json(path / MANIFEST).get("made_by", {}).get("options")
        if not options:
            raise ValueError(f"{path}: its manifest does not hold the options of a command; name a YAML file")
    else:
        try:
            text = path.read_text(encoding="utf-8")
            options, node = yaml.safe_load(text), yaml.compose(text, yaml.SafeLoader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        names = [str(key.value).replace("_", "-") for key, _ in pairs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{path}: {twice} is given twice; remove one of them")
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise ValueError(f"{path}: expected option names and their values, such as epochs: 5")
    return {name.replace("_", "-"): value for name, value in options.items()}


def check_heads(task: str, heads: Sequence[str]) -> None:
    """Raise `OptionError` for a head that is not the task's, and for heads with other defaults of an option that they
    share: a command has one value for all of them."""
    config, defaults = TASKS[task].config, {}
    for head in heads:
        for field in fields(config.check_head(head).options):
            one, default = defaults.setdefault(field.name, (head, field.default))
            if default != field.default:
                option = option_name(field.name)
                raise OptionError(f"{one} and {head} heads have other defaults of --{option}; train them in two runs")


def _is_default_of_others(name: str, value: Any, kinds: Sequence[str], heads: Sequence[str]) -> bool:
    """Return whether this is what an option of other heads is without a recipe: a folder's has all of its head's
    options."""
    name = name.replace("-", "_")
    others = owners(name, kinds)
    return bool(others) and not owners(name, heads) and getattr(HEADS[others[0]].options(), name) == value


def _split(words: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, words after it) of each option; the words before the first under ""."""
    name, tail = "", []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            yield name, tail
            name, equals, value = word[2:].partition("=")
            name, tail = name.replace("_", "-"), [value] if equals else []
        else:
            tail.append(word)
    yield name, tail


def _most(option: Option | None) -> int:
    """Return how many of the words after an option are its values; none of those before the first option."""
    return int(option is not None and not option.is_boolean)


def _stands_after(option: Option, words: Sequence[str]) -> str:
    """Say that a word too many stands after an option, and how several values are given."""
    if option.is_boolean:
        return f"{option.flag} takes no value, and {shorten(words[0])} stands after it"
    said = f"{option.flag} takes one value, and {shorten(words[1])} stands after that"
    together = shlex.join(option_words({option.name: (*option.part(words[:1]), words[1])}))
    return f"{said}; give several as {together}" if option.takes_several else said


def _take(words: list[tuple[str, list[str]]], option: str) -> str | None:
    """Return the value of an option that no function has; it is taken out, and the words after it stay."""
    places = [place for place, (name, _) in enumerate(words) if name == option]
    if not places:
        return None
    if places[1:]:
        raise OptionError(_given_twice(option, option))
    _, tail = words.pop(places[0])
    if not tail:
        raise OptionError(f"--{option} needs a value")
    words[0][1].extend(tail[1:])
    return tail[0]


def _given_twice(name: str, again: str) -> str:
    what = f"--{name} is given twice" if name == again else f"--{name} and --{again} are both given"
    return f"{what}; remove one of them"


def _expand_home(word: str) -> str:
    """`~/lm` and `--out=~/lm` with the home folder, which a shell fills in only at the head of a word."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + expand_home(value)


def _meant(name: str, named: Mapping[str, Option]) -> str | None:
    return next((other for other in MEANT.get(name, ()) if other in named), None) or nearest(name, named)


def _first_sentence(text: str) -> str:
    first = text.partition(". ")[0].rstrip(".")
    return first if first[1:2].isupper() else first[:1].lower() + first[1:]


def _listed(value: Any) -> list[Any]:
    return [] if value is None else [*value] if isinstance(value, (list, tuple)) else [value]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)
