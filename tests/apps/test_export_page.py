"""The JavaScript of an exported page says what Python says, and the page works in a browser, alone."""

import contextlib
import csv
import io
import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.apps.export.page import MAGIC, bundle, classes, folds, html_page, model_file, write_module
from boustro.apps.runtime import load
from boustro.apps.runtime.parts import GraphHead
from boustro.encoders.extended import PooledMentions
from boustro.encoders.reading import plan_windows
from boustro.encoders.word_means import WordMeans, encode_vectors
from boustro.heads.crf import best_path, entity_forms, make_chain, posteriors, valid_transitions
from boustro.metrics.spans import extract_spans
from boustro.store import write_folder
from boustro.tasks import EXPORT
from boustro.text.alignment import Aligner
from boustro.text.words import RULE, split_text, word_rule
from browser import needs_chromium, open_browser
from javascript import RUNTIME, needs_node, needs_runtime, run_js

pytest.importorskip("onnx")
TAGS = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
LETTERS = "aZ é'’.-!?…,:/@&\n\t 12½²中ไ🇫🇷👩🏽‍🚀\u0301\u200d\u00ad“”()[]dsnt'tU.S.ßΣςİ\ufeff\x85"
TEXTS = [
    "Ada Brandt's ferry left Port Lisse on Monday. It didn't return: Dr. Okonkwo (U.N.) waited.\nNo one came…",
    "",
    "naïve café — 東京タワー 中国 🇫🇷👩🏽‍🚀 1996-97 O'Neill example.org ß ẞ İstanbul <|endoftext|>",
    "The ferry to Vellmar leaves at seven, and Ada Brandt is never on time. " * 60,
    f"Ada sent {'QmFzZTY0' * 5000} and {'𝒜b3/' * 33} to Lisse.",
    "Peter,Maria/Tom:he.He Cc:Ada.Brandt@example.org,1,000 10:30 https://example.org/a,b?c Ph.D.,1.Tom x.org:80/y",
    "F/A-18,OS/2 T/Ada",
    f"Then data:image/png;base64,{'aB+/+c' * 40}==. {'-=' * 80}",
]


def random_texts(count=300):
    draw = random.Random(3)
    return ["".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, 60))) for _ in range(count)]


def header_of(data):
    size = int.from_bytes(data[8:12], "little")
    return json.loads(data[12 : 12 + size])


@needs_node
@pytest.mark.parametrize("rule", [1, RULE])
def test_words_and_pieces_are_those_of_python(exported, rule):
    facts = header_of(model_file(exported, "ner"))
    assert facts["words"]["rule"] == RULE
    texts = [*TEXTS, *random_texts()]
    body = """
        const splitter = new Splitter(given.words), tokenizer = new Tokenizer(given.tokenizer);
        const plain = (w) => [w.text, w.spaced, tokenizer.word(w.text, w.spaced)];
        return given.texts.map((text) => splitter.split(text).map((sentence) => sentence.map(plain)));
    """
    given = {"words": facts["words"] | {"rule": rule}, "tokenizer": facts["tokenizers"][0], "texts": texts}
    found = run_js(body, given, "words.js", "pieces.js")
    aligner = Aligner(load(exported).fitted.plan.reader.encoder().parts[0].tokenizer)
    for text, own in zip(texts, found, strict=True):
        with word_rule(rule):
            wanted = [placed.sentence for placed in split_text(text)]
        assert [[[word, spaced] for word, spaced, _ in s] for s in own] == [
            [list(pair) for pair in zip(s.words, s.spaces, strict=True)] for s in wanted
        ], text
        for sentence, pieces in zip(own, aligner.align([(s.words, s.spaces) for s in wanted]), strict=True):
            assert [i for *_, ids in sentence for i in ids] == pieces.ids.tolist(), text


@needs_node
def test_windows_are_those_of_python():
    cases = [
        [n, size, first, both] for n in range(24) for size in (4, 5, 7) for first in (-1, 0) for both in (False, True)
    ]
    found = run_js("return given.map((own) => planWindows(...own));", cases, "reading.js")
    for own, (pieces, size, first, both) in zip(found, cases, strict=True):
        wanted = plan_windows(0, pieces, size, first, both)
        assert [[w["start"], w["stop"], w["first"], w["last"]] for w in own] == [
            [*w_[1:]] for w_ in map(_fields, wanted)
        ]


def _fields(window):
    return [window.text, window.start, window.stop, window.first, window.last]


@needs_node
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_tags_and_probabilities_are_those_of_python(temperature):
    draw = np.random.default_rng(5)
    scores = draw.normal(size=(9, len(TAGS))) * 3
    valid = valid_transitions(TAGS)
    chain = make_chain(valid, *(draw.normal(size=allowed.shape) for allowed in valid))
    parts = [np.maximum(part, -1e300).ravel().tolist() for part in chain]
    body = """
        const score = (s) => s < -1e299 ? -Infinity : s; // JSON has no infinity
        const chain = new Chain(...given.chain.map((part) => Float64Array.from(part, score)));
        return decodeTags(Float32Array.from(given.scores), { ...given, decode: "crf", chain });
    """
    scores = scores.astype(np.float32)
    given = {"labels": TAGS, "temperature": temperature, "chain": parts, "scores": scores.ravel().tolist()}
    found = run_js(body, given, "decode.js")
    lengths = np.array([9])
    ids = best_path(scores.astype(np.float64), lengths, chain)
    shares = posteriors(scores.astype(np.float64) / temperature, lengths, chain.over(temperature))
    assert found["tags"] == ids.tolist()
    np.testing.assert_allclose(found["probabilities"], shares[np.arange(9), ids], rtol=1e-9)


@needs_node
@pytest.mark.parametrize(
    "labels", [TAGS, ["LOC", "O", "PER"], ["O", *(f"{p}-{t}" for t in ("X", "Y") for p in "BIES")]]
)
def test_entities_of_a_ridge_head_are_those_of_python(labels):
    scores = np.random.default_rng(3).normal(size=(40, 2 + len(labels))).astype(np.float32) * 3
    scores[:, 2 + len(entity_forms(labels)) :] = -1e30  # no types; JSON has no infinity
    given = {"labels": labels, "decode": "runs", "forms": entity_forms(labels)}
    body = "return decodeTags(Float32Array.from(given.scores), given);"
    found = run_js(body, given | {"scores": scores.ravel().tolist()}, "decode.js")
    head = SimpleNamespace(labels=tuple(labels), words=None)
    ((tags, probabilities),) = GraphHead.read_runs(head, scores, np.array([40]), False)
    assert found["tags"] == tags.tolist() and len(set(found["tags"])) > 2
    np.testing.assert_allclose(found["probabilities"], probabilities, rtol=1e-5)


@needs_node
def test_entities_are_those_of_conlleval():
    draw = random.Random(7)
    names = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y-Z", "I-Y-Z", "S-Y-Z"]
    rows = [[draw.choice(names) for _ in range(draw.randrange(1, 9))] for _ in range(500)]
    found = run_js("return given.map((tags) => readEntities(tags, false));", rows, "decode.js")
    for tags, own in zip(rows, found, strict=True):
        assert [(e["label"], e["start"], e["end"]) for e in own] == [
            (e.label, e.start, e.end) for e in extract_spans(tags)
        ]
    bare = run_js("return readEntities(given, true);", ["PER", "PER", "O", "LOC", "PER"], "decode.js")
    assert [(e["label"], e["start"], e["end"]) for e in bare] == [("PER", 0, 2), ("LOC", 3, 4), ("PER", 4, 5)]


@needs_node
@pytest.mark.parametrize("coded", [False, True])
def test_pooled_mentions_are_those_of_python(coded):
    """A word in this case, one in another case, one that the memory lacks, and two sentences with the same word."""
    draw = np.random.default_rng(2)
    words = ["Lisse", "straße", *(f"w{n}" for n in range(300))]
    vectors = draw.normal(size=(len(words), 16)).astype(np.float16)
    means = encode_vectors(vectors, 4) if coded else vectors
    known = WordMeans({w: n for n, w in enumerate(words)}, draw.integers(1, 9, len(words)).astype(np.float32), [means])
    texts = [["Lisse", "saw", "LISSE"], ["STRASSE", "Lisse", "w7"]]
    states = draw.normal(size=(6, 2, 16)).astype(np.float32)
    arrays = vars(means) if coded else {"vectors": means}
    body = """
        const typed = ([key, own]) => [key, key === "codes" ? Uint8Array.from(own) : Float32Array.from(own)];
        const means = [Object.fromEntries(Object.entries(given.means).map(typed))];
        const counts = Float32Array.from(given.counts);
        const memory = new Memory({ words: given.words, counts, means }, given.folds);
        const texts = given.texts.map((words) => words.map((text) => ({ text })));
        return Array.from(poolMentions(texts, Float32Array.from(given.states), 2, 0, [memory]));
    """
    plain = {name: array.astype(float).ravel().tolist() for name, array in arrays.items()}
    given = {"means": plain, "words": words, "counts": known.counts.tolist(), "folds": folds()}
    found = run_js(body, given | {"texts": texts, "states": states.ravel().tolist()}, "memory.js")
    wanted = _pooled(texts, states, known)
    np.testing.assert_allclose(np.reshape(found, (6, 16)), wanted, atol=1e-5)


def _pooled(texts, states, known):
    from boustro.encoders.base import Features, Stream
    from boustro.types import Sentence

    pooled = PooledMentions([Stream("given", 2, 16)], "sentence", known)
    sentences = [Sentence(tuple(words)) for words in texts]
    features = Features.__new__(Features)
    object.__setattr__(features, "streams", [states])
    return next(pooled.extra_streams(sentences, features))[:, 0]


def test_the_classes_of_characters_are_those_of_python():
    """Every character, by the ranges that a page is given."""
    found = classes()
    spans = [(int(a, 16), int(b, 16)) for a, b in re.findall(r"\\u\{(\w+)\}-\\u\{(\w+)\}", found["word"])]
    inside = {c for a, b in spans for c in range(a, b + 1)}
    assert inside == {c for c in range(0x110000) if re.match(r"\w", chr(c))}
    assert folds()["ß"] == "ss" and "A" not in folds()


def test_what_a_page_cannot_run_is_refused(exported, tmp_path):
    with write_folder(tmp_path / "other", EXPORT) as folder:
        for file in exported.rglob("*"):
            if file.is_file() and file.name != "manifest.json":
                (folder / file.relative_to(exported)).parent.mkdir(exist_ok=True)
                (folder / file.relative_to(exported)).write_bytes(file.read_bytes())
        saved = json.loads((folder / "tokenizer0.json").read_text())
        saved["normalizer"] = {"type": "Lowercase"}
        (folder / "tokenizer0.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="byte-level BPE"):
        model_file(tmp_path / "other", "ner")


def test_one_file_has_all_and_no_import():
    script = bundle(["words.js", "tagger.js"], keep_exports=True)
    assert "import " not in re.sub(r"//.*", "", script) and "class Splitter" in script
    assert re.findall(r"^export \w*(?: ?function)? (\w+)", script, re.M) == ["openTagger", "inCodePoints"]
    assert not re.search("^export ", bundle(["words.js", "tagger.js"], keep_exports=False), re.M)


@needs_node
def test_a_damaged_file_is_refused():
    body = """
        const said = (bytes) => openTagger(Uint8Array.from(bytes), {}).then(() => "", (error) => error.message);
        return [await said([]), await said([...given])];
    """
    header = json.dumps({"format": 9}).encode()
    data = MAGIC + len(header).to_bytes(4, "little") + header
    empty, other = run_js(body, list(data), "tagger.js")
    assert "no model.bin" in empty and "format 9" in other


@needs_node
@needs_runtime
def test_the_module_answers_as_python(exported, tmp_path):
    write_module(exported, tmp_path, "ner")
    body = """
        ort.env.wasm.numThreads = 1;
        ort.env.wasm.wasmBinary = fs.readFileSync(given.runtime + "/dist/ort-wasm-simd-threaded.wasm").buffer;
        const tagger = await openTagger(new Uint8Array(fs.readFileSync(given.model)), ort);
        const found = [];
        for (const text of given.texts) found.push(inCodePoints(text, await tagger.predict(text)));
        return found;
    """.replace("ort.env.wasm.numThreads", "const ort = await import(given.glue);\nort.env.wasm.numThreads", 1)
    texts = [*TEXTS, *random_texts(40)]
    given = {"runtime": RUNTIME, "model": str(tmp_path / "model.bin"), "texts": texts}
    given["glue"] = (Path(RUNTIME) / "dist" / "ort.wasm.bundle.min.mjs").resolve().as_uri()
    found = run_js(body, given, str(tmp_path / "tagger.js"))
    for own, wanted in zip(found, load(exported).predict(texts), strict=True):
        places = [(e["label"], e["start"], e["end"], e["text"]) for e in own]
        assert places == [(e.label, e.start, e.end, e.text) for e in wanted]
        np.testing.assert_allclose([e["score"] for e in own], [e.score for e in wanted], atol=2e-4)


@needs_chromium
@needs_runtime
def test_the_page_marks_entities_alone(exported, tmp_path):
    """From disk, without a request to anywhere; a text is never taken for HTML."""
    text = "👩🏽‍🚀 Ada Brandt left Vellmar.\n<img src=x onerror=\"document.title='run'\">"
    with opened_page(exported, tmp_path, "Names & <places>") as page:
        page.run(f"document.getElementById('text').value = {json.dumps(text)}")
        page.click("#go")
        page.wait("document.getElementById('found')?.hidden === false")
        assert page.text("#marked").startswith("👩🏽‍🚀")
        assert page.run("document.querySelectorAll('#marked img').length") == 0
        assert page.run("document.title") == "Names & <places>"
        rows = page.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.textContent))")
        wanted = load(exported).predict(text)
        assert [row[:2] for row in rows] == [[e.label, e.text] for e in wanted] and wanted
        units = [len(text[: e.start].encode("utf-16-le")) // 2 for e in wanted]
        assert [int(row[2]) for row in rows] == units != [e.start for e in wanted]
        assert not page.errors()
        assert page.addresses() == {(tmp_path / "tagger.html").as_uri()}


@needs_chromium
@needs_runtime
def test_a_file_is_dropped_and_what_was_found_is_copied(exported, tmp_path):
    """In code points, as Python counts; a file that is no text is refused in a sentence."""
    text = "👩🏽‍🚀 Ada Brandt left Vellmar.\nIn Lisse it rained."
    with opened_page(exported, tmp_path, "ner") as page:
        drop(page, b"\xff\xfe", "image.png")
        page.wait("!document.getElementById('problem').hidden")
        assert page.text("#problem") == "image.png is not text in UTF-8: save it as a text file in UTF-8."
        drop(page, b"id,text\n1,Ada\n", "a.csv")
        page.wait("document.getElementById('problem').textContent.startsWith('a.csv has a text in each row')")
        drop(page, text.encode(), "a.txt")
        page.wait("document.getElementById('found')?.hidden === false")
        assert page.run("document.getElementById('text').value") == text and page.run("problem.hidden")
        found, rows = json.loads(copied(page, "#json")), list(csv.DictReader(io.StringIO(copied(page, "#csv"))))
        assert not page.errors()
    wanted = [(e.label, e.start, e.end, e.text) for e in load(exported).predict(text)]
    assert found["text"] == text and wanted
    assert [(e["label"], e["start"], e["end"], e["text"]) for e in found["entities"]] == wanted
    assert [(e["label"], int(e["start"]), int(e["end"]), e["text"]) for e in rows] == wanted
    assert [float(e["score"]) for e in rows] == [e["score"] for e in found["entities"]]


@contextlib.contextmanager
def opened_page(exported, folder, title):
    """The exported page in a browser, from the disk, when it is ready."""
    page_file = folder / "tagger.html"
    page_file.write_text(html_page(exported, Path(RUNTIME), title))
    with open_browser() as browser:
        page = browser.open(page_file.as_uri())
        page.wait("document.getElementById('go')?.disabled === false")
        yield page


def drop(page, content, name):
    """A file, as the mouse lets it fall on the page."""
    page.run(f"""(() => {{
        const held = new DataTransfer();
        held.items.add(new File([Uint8Array.from({json.dumps(list(content))})], {json.dumps(name)}));
        document.body.dispatchEvent(new DragEvent("drop", {{ dataTransfer: held, bubbles: true, cancelable: true }}));
    }})()""")


def copied(page, button):
    """What is in the clipboard after a button was pressed: pasted into an area of its own."""
    page.click(button)
    page.wait("document.getElementById('copied').textContent === 'copied'")
    area = "Object.assign(document.createElement('textarea'), { id: 'pasted' })"
    page.run(f"document.body.append({area}); pasted.focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="v", commands=["paste"])
    pasted = page.wait("document.getElementById('pasted').value")
    page.run("pasted.remove(); document.getElementById('copied').textContent = ''")
    return pasted


def test_the_command_writes_a_module_and_says_how_to_get_what_a_page_needs(
    tagger_folder, traced_once, tmp_path, capsys
):
    small = ["--sentences", "20", "--agreement", "0"]
    assert main(["export", str(tagger_folder), "--format", "module", "--out", str(tmp_path / "js"), *small]) == 0
    made = {file.name for file in (tmp_path / "js").iterdir()}
    assert {"tagger.js", "tagger.d.ts", "model.bin", "README.md", "manifest.json"} == made
    assert "MB, float32; the same as the folder's" in capsys.readouterr().err
    page = ["export", str(tagger_folder), "--format", "html", "--out", str(tmp_path / "a.html"), *small]
    assert main([*page, "--onnxruntime-web", str(tmp_path / "js")]) != 0
    assert "npm install onnxruntime-web" in capsys.readouterr().err
    (tmp_path / "a.html").write_text("mine")
    assert main(page) != 0 and "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "a.html").read_text() == "mine"
