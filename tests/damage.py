"""Files and folders as careless editors, broken disks, killed programs and other versions leave them.

`damage_bytes`, `damage_json` and `damage_folder` draw what they do; `vouch` makes a folder's manifest agree with it, so
that the damage is met by whatever reads the folder.
"""

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

BYSTANDER = "bystander.txt"
DEEP = "[" * 5000 + "]" * 5000
LINES = ["", "\t", "x", "a b c d e f", "-DOCSTART-", "# newdoc", "1\t2\t3", "{", DEEP, '{"words": ["a"]}', "x\tB-"]
LINES += ['{"text": "Ada", "entities": [[0, 99, "PER"]]}', '{"text": 5}', '{"words": [1], "tags": [2]}', "null", "[]"]
LINES += ["x\tI-PER", "x\tB-É", "\ufeff", "a\u2028b\tO", "\x85\tO", "x\tO\r", '{"text": "\\ud800"}', '{"a": NaN}']
LINES += ["1" * 5000, "1\ta\ta\tX\tX\t_\t99\tx\t_\t_", "3-1\ta\t_\t_\t_\t_\t_\t_\t_\t_"]
LINES.append('{"text": "' + "a" * 3000 + '"}')
LINES += ["\ufeff-DOCSTART-\tO", "x\tB_PER", "x\tB", "(X*\t(X*", '{"text": "🚒 a", "entities": [[3, 4, "X"]]}']
VALUES: list[Any] = [None, True, 0, -1, 1.5, math.nan, math.inf, "", "x", "é" * 50, [], {}, [None], {"x": 1}, [[1]]]
VALUES += [10**12, 2**63, -(2**40), "B-PER", ["a", "b"], "\ud800", "../../x", "/dev/null"]


def below(random: Random, limit: int) -> int:
    """0 to `limit` - 1, by one draw: what is drawn later does not hang on the lengths of files."""
    return int(random.random() * limit)


def damage_bytes(random: Random, content: bytes, json_lines: bool) -> bytes:
    """Bytes as a careless editor, a broken disk or another program leaves them."""
    lines = content.split(b"\n")
    at, other = below(random, len(lines)), below(random, len(lines))
    place = below(random, len(content) + 1)

    def flipped() -> bytes:
        found = bytearray(content)
        for _ in range(random.randint(1, 8) if found else 0):
            found[below(random, len(found))] = below(random, 256)
        return bytes(found)

    def changed(line: bytes) -> bytes:
        try:
            return json.dumps(damage_json(random, json.loads(line))).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            return line[: below(random, len(line) + 1)]

    ways: list[Callable[[], bytes]] = [
        flipped,
        lambda: content[:place],
        lambda: (
            content[:place]
            + bytes(random.choice([b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\x1a"]))
            + content[place:]
        ),
        lambda: b"\n".join([*lines[:at], *lines[at + 1 :]]),
        lambda: b"\n".join([*lines[:at], lines[other], *lines[at:]]),
        lambda: b"\n".join([*lines[:at], random.choice(LINES).encode("utf-8", "surrogatepass"), *lines[at:]]),
        lambda: content.replace(b"\n", random.choice([b"\r", b"\r\n", b"\n\n", b""])),
        lambda: content.decode("utf-8", "replace").encode(
            random.choice(["utf-16", "utf-32", "cp037", "latin-1"]), "replace"
        ),
        lambda: random.choice([b"", b"\n", b"\0" * 100, b"\xff\xfe", b"[]", b"{}", b"null", DEEP.encode(), b"O\n"]),
        lambda: content.replace(b"\t", random.choice([b" ", b"\t\t", b",", b""])),
        lambda: random.sample(lines, len(lines)) and b"\n".join(random.sample(lines, len(lines))),
    ]
    if json_lines:
        ways += [lambda: b"\n".join([*lines[:at], changed(lines[at]), *lines[at + 1 :]])] * 12
    return random.choice(ways)()


def damage_json(random: Random, value: Any) -> Any:
    """JSON with another value, a missing or another key, somewhere in it."""
    inner = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inner or random.random() < 0.15:
        return random.choice(VALUES)
    key, found = random.choice(inner), value.copy()
    way = random.random()
    if way < 0.2:
        del found[key]
    elif way < 0.4:
        found[key] = random.choice(VALUES)
    elif way < 0.45 and isinstance(found, dict):
        found[random.choice(["unknown", "", f"../{BYSTANDER}", f"{BYSTANDER}"])] = found.pop(key)
    else:
        found[key] = damage_json(random, found[key])
    return found


def damage_folder(random: Random, folder: Path) -> str:
    """Damage one file of a folder, perhaps so that its manifest vouches for the damage; returns what was done."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != BYSTANDER)
    if not files:
        return "nothing"
    told = [p for p in files if p.suffix in (".json", ".jsonl")]
    file = random.choice(told if told and random.random() < 0.6 else files)
    way = random.random()
    if way < 0.1:
        file.unlink()
        done = "removed"
    elif way < 0.2:
        content = file.read_bytes()
        file.write_bytes(content[: below(random, len(content) + 1)])
        done = "truncated"
    elif way < 0.3:
        file.unlink()
        shape = random.choice(["folder", "dangling link", "link to itself", "link to a folder", "empty file"])
        {
            "folder": lambda: file.mkdir(),
            "dangling link": lambda: file.symlink_to("nowhere"),
            "link to itself": lambda: file.symlink_to(file.name),
            "link to a folder": lambda: file.symlink_to(folder.parent / "others"),
            "empty file": lambda: file.touch(),
        }[shape]()
        done = f"a {shape}"
    elif file.suffix == ".safetensors":
        file.write_bytes(_damage_tensors(random, file.read_bytes()))
        done = "with other tensors"
    elif file.suffix == ".json":
        try:
            value = json.loads(file.read_text("utf-8"))
        except (ValueError, RecursionError):
            return f"{file.relative_to(folder)} damaged twice"
        changed = damage_json(random, value)
        file.write_text(json.dumps(changed), "utf-8", errors="surrogatepass")
        done = f"with other JSON ({_difference(value, changed)})"
    else:
        file.write_bytes(damage_bytes(random, file.read_bytes(), file.suffix == ".jsonl"))
        done = "with other bytes"
    vouched = random.random() < 0.75 and file.name != "manifest.json"
    if vouched:
        vouch(folder)
    return f"{file.relative_to(folder)} {done}{' and a manifest that agrees' if vouched else ''}"


def _difference(old: Any, new: Any, where: str = "") -> str:
    """The first place at which two JSON values differ, for a message."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *new]:
            if key not in new or key not in old:
                return f"{where}.{key} {'is new' if key in new else 'is gone'}"
            if repr(old[key]) != repr(new[key]):
                return _difference(old[key], new[key], f"{where}.{key}")
    return f"{where} is {str(new)[:60]!r}"


def vouch(folder: Path) -> None:
    """Make the sizes and hashes of all manifests right."""
    for manifest in folder.rglob("manifest.json"):
        with suppress(ValueError, OSError, TypeError, KeyError, AttributeError):
            told = json.loads(manifest.read_text("utf-8"))
            for name in list(told["files"]):
                file = manifest.parent / name
                if file.is_file():
                    content = file.read_bytes()
                    told["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                else:
                    del told["files"][name]
            manifest.write_text(json.dumps(told), "utf-8")


def _damage_tensors(random: Random, content: bytes) -> bytes:
    """A safetensors file with another header, or with values that are not finite."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), bytearray(content[8 + size :])
    way = random.random()
    if way < 0.3 and data:
        data[: len(data) // 4 * 4] = np.full(
            len(data) // 4, random.choice([math.nan, math.inf, 1e38]), np.float32
        ).tobytes()
    elif way < 0.7:
        names = [name for name in header if name != "__metadata__"]
        name, other = random.choice(names), random.choice(names)
        if random.random() < 0.5:
            header[name], header[other] = header[other], header[name]
        else:
            header[f"{name}x"] = header.pop(name)
    else:
        header = damage_json(random, header)
    if way < 0.05:
        return random.choice([2**63, 2**40, 0, 1]).to_bytes(8, "little") + content[8:]
    new = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(new).to_bytes(8, "little") + new + bytes(data)
