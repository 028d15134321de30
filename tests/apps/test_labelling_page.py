"""The labelling page in Chromium: keyboard, mouse, two tabs, hostile texts, and no address but its own."""

import threading

import numpy as np
import pytest

from boustro.apps.label.answers import TOPIC, TOPICS, AnswerFile
from boustro.apps.label.app import LabellingApp
from boustro.apps.label.background import Background, SessionSource
from boustro.apps.label.session import LabellingSession
from boustro.apps.label.texts import read_whole
from boustro.apps.label.updated_ridge import BIAS
from boustro.apps.label.vectors import Start, WordVectors
from boustro.apps.serve.http import HttpOptions, address_of, listen, run_app
from browser import needs_chromium, open_browser
from labelling import WIDTH, answer, attach, on_disk, session_at, text, texts, vectors

pytestmark = needs_chromium
TOKEN = "secret-of-the-page"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture
def served(monkeypatch):
    """served(session) → the address of its page."""
    stops = []

    def serve(session):
        import uvicorn

        made = []
        monkeypatch.setattr(uvicorn.Server, "install_signal_handlers", lambda self: None, raising=False)
        init = uvicorn.Server.__init__

        def kept(self, *given, **named):
            init(self, *given, **named)
            made.append(self)

        monkeypatch.setattr(uvicorn.Server, "__init__", kept)
        http = HttpOptions(port=0, grace_seconds=1)
        listener = listen(http)
        app = LabellingApp(session, Background(session, SessionSource(encoder="starter"))).make(http, TOKEN)
        thread = threading.Thread(target=run_app, args=(app, http, listener), daemon=True)
        address = f"{address_of(listener)}/#{TOKEN}"
        thread.start()
        stops.append((made, thread))
        return address

    yield serve
    for made, thread in stops:
        for server in made:
            server.should_exit = True
        thread.join(20)


@pytest.fixture
def opened(browser, served):
    """opened(session) → its page, which is closed in the end."""
    pages = []

    def open_it(session, ready="document.querySelector('#sentence .w')", **how):
        address = session if isinstance(session, str) else served(session)
        pages.append(page := browser.open(address, **how))
        page.wait(f"{ready} && !busy" if ready else "document.querySelector('#problem')?.hidden === false")
        return page

    yield open_it
    for page in pages:
        page.close()


def until(page, condition, *keys, **held):
    """Press keys, and wait until the page has come to what they do."""
    page.press(*keys, **held)
    page.wait(f"{condition} && !busy")


def entities(page):
    return page.run("entities.map(e => [e.label, e.start, e.end])")


def test_the_text_around_a_sentence_is_shown(opened, tmp_path):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(LabellingSession(texts(6, 3), file, ["PER", "LOC"], order="in-order"))
        page = opened(session)
        assert page.text("#before") == "" and page.text("#after") == "Okonkwo saw Vellmar ."
        until(page, "state.answered === 1", "Enter")
        assert page.text("#before") == "Ada left Vellmar ." and page.text("#after") == "Brandt sold Vellmar ."


def test_a_sentence_is_labelled_with_the_keyboard(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        page = opened(session)
        page.press("ArrowRight", "1", "ArrowRight", "ArrowRight")  # Ada: PER; left, Vellmar
        page.press("ArrowRight", shift=True)  # Vellmar .
        page.press("2")
        assert entities(page) == [["PER", 0, 1], ["LOC", 2, 4]]
        page.press("Delete", "ArrowLeft", "2", "n")
        page.write("sure")
        until(page, "state.answered === 1", "Enter")
        (row,) = on_disk(path)
        assert [(e["start"], e["end"], e["label"]) for e in row["entities"]] == [(0, 1, "PER"), (2, 3, "LOC")]
        assert row["note"] == "sure"
        until(page, "state.answered === 0", "u")
        assert on_disk(path) == [] and page.text("#kind") == "undone" and len(entities(page)) == 2
        until(page, "state.answered === 1", "z", control=True, shift=True)
        until(page, "state.skipped === 1", "s")
        until(page, "state.sentence.is === 'answered'", "b")
        until(page, "state.sentence.is === 'suggested'", "f")
        page.press("+")
        page.write("NEW")
        until(page, "state.labels.includes('NEW')", "Enter")
        assert session.labels == ["PER", "LOC", "NEW"]
        assert page.errors() == [] and page.text("#problem").strip() in ("", "continue here")


def test_a_sentence_is_labelled_with_the_mouse(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        page = opened(session)
        page.drag(".w[data-i='0']", ".w[data-i='1']")
        page.click("#labels button:nth-child(1)")
        page.click("#labels button:nth-child(2)")  # stays: every tap gets it
        page.click(".w[data-i='2']")
        assert entities(page) == [["PER", 0, 2], ["LOC", 2, 3]]
        page.click("#sentence mark .chip")
        assert entities(page) == [["LOC", 2, 3]]
        page.click("#accept")
        until(page, "state.answered === 1")
        page.click("#undo")
        until(page, "state.answered === 0")
        page.click("#redo")
        until(page, "state.answered === 1")
        assert [(e["label"], e["start"], e["end"]) for e in on_disk(path)[0]["entities"]] == [("LOC", 2, 3)]
        assert page.errors() == []


def test_suggestions_are_shown_with_confidence_and_accepted_with_enter(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path) as session:
        for _ in range(8):
            answer(session)
        page = opened(session)
        shown = page.run("[...document.querySelectorAll('#sentence mark.suggested .chip')].map(c => c.textContent)")
        assert len(shown) == 2 and all("%" in chip for chip in shown) and {c[:3] for c in shown} == {"PER", "LOC"}
        wanted = entities(page)
        until(page, "state.answered === 9", "Enter")
        assert [[e["label"], e["start"], e["end"]] for e in on_disk(path)[-1]["entities"]] == wanted
        page.wait("[...document.querySelectorAll('#counts dd')].map(d => d.textContent).join() === '9,9'")
        page.wait("document.querySelectorAll('#unsure button').length > 0")
        page.click("#unsure button")
        page.wait("!busy")
        for number in range(10, len(session.texts) + 1):
            until(page, f"state.answered === {number}", "Enter")
        page.wait("$('unsure').parentElement.hidden")  # no heading over nothing


def test_a_name_without_a_label_takes_one_digit_and_is_no_answer(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with AnswerFile(path).open() as file:
        session = LabellingSession(texts(4), file, ["PER", "LOC"], order="in-order")
        read = vectors(session.sentences)
        rows = np.vstack([read.words.T.astype(float), np.full(len(read.words), BIAS)]).T
        is_name = [w[0].isupper() for text in session.texts for w in text.sentence.words]
        session.attach(range(4), read, start=Start(np.linalg.lstsq(rows, np.array(is_name, float))[0], {}, (0, WIDTH)))
        page = opened(session)
        chips = "[...document.querySelectorAll('#sentence mark .chip')].map(c => c.textContent)"
        assert page.run(chips) == ["name?×", "name?×"]
        page.press("1")
        assert entities(page) == [["", 2, 3], ["PER", 0, 1]] and page.run(chips) == ["PER×", "name?×"]
        until(page, "state.answered === 1", "Enter")
        (row,) = on_disk(path)
        assert [(e["start"], e["end"], e["label"]) for e in row["entities"]] == [(0, 1, "PER")]
        page.press("Escape")
        while page.run("unlabelled().length"):
            page.press("Delete")
        page.press("2")
        assert page.run("brush") == "LOC" and page.errors() == []


def test_groups_of_names_are_labelled_with_one_key_and_taken_back_with_one(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        for _ in range(6):
            answer(session)
        page = opened(session)
        shown = "[...document.querySelectorAll('#groups li')].map(g => g.textContent)"
        until(page, "groups.length > 1", "g")
        before = page.run(shown)
        first = page.run("groups[0].names")
        page.press("2", "0")  # at once
        page.wait("state.groups_told === 2 && !pending")
        assert session.told.steps[0] == ("LOC", tuple(first)) and session.told.steps[1][0] == ""
        assert {*first, *session.told.steps[1][1]}.isdisjoint(page.run("groups.flatMap(g => g.names)"))
        page.press("u", "u")
        page.wait(f"state.groups_told === 0 && !pending && groups.length === {len(before)}")
        assert page.run(shown) == before and len(session.answers) == 6
        page.drag(".w[data-i='1']", ".w[data-i='1']")
        page.press("2")  # of the words that are selected
        assert ["LOC", 1, 2] in entities(page) and page.run("state.groups_told") == 0
        page.press("Escape")
        assert page.run("$('grouped').hidden")
        until(page, "state.answered === 5", "u", "u")  # what was changed on the screen
        assert page.errors() == []


def test_a_second_tab_is_refused_until_it_insists(opened, served, tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        address = served(session)
        first, second = opened(address), opened(address, "")
        assert "open in another tab" in second.text("#problem") and not second.run("!!document.querySelector('.w')")
        second.click("#insist")
        until(second, "document.querySelector('.w')")
        first.press("Enter")
        first.wait("document.querySelector('#problem')?.hidden === false")
        assert "open in another tab" in first.text("#problem") and not session.answers
        second.press("Enter")
        second.wait("state.answered === 1")


def test_an_old_page_says_where_the_program_is_that_was_started_again(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        page = opened(session)
        page.press("ArrowRight", "1")
        page.run("localStorage.clear(), token = 'of the run before', panel()")
        page.wait("!$('problem').hidden")
        assert "open the one that it printed last, http://127.0.0.1" in page.text("#problem")
        page.run(f"localStorage.setItem('token', '{TOKEN}'), panel()")  # another tab has it
        page.wait("!$('moved').hidden")
        assert page.text("#moved") == page.run("location.href") + "#" + TOKEN
        page.click("#moved")
        page.wait("$('problem').hidden && !busy")
        assert entities(page) == [["PER", 0, 1]] and page.run("location.hash") == ""
        until(page, "state.answered === 1", "Enter")
        assert page.errors() == []


def test_without_the_token_there_is_nothing(opened, served, tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        page = opened(served(session).replace(TOKEN, "wrong"), "")
        assert "of another run" in page.text("#problem") and not page.run("!!document.querySelector('.w')")


def test_the_page_asks_nobody_else_and_hides_its_token(opened, served, tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        address = served(session)
        page = opened(address)
        page.wait("document.querySelectorAll('#counts dd').length === 2")
        own = address.split("/#")[0]
        asked = page.addresses() - {"about:blank"}
        assert asked and all(url.startswith(own) for url in asked)
        assert TOKEN not in page.run("location.href")


def test_texts_and_labels_are_text(opened, tmp_path):
    hostile = "<img src=x onerror=alert(1)> </mark><script>document.title='x'</script> & \" ' \u202e"
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(LabellingSession([text(hostile), text("b c", 1)], file, ["<b onclick=x>"], order="in-order"))
        page = opened(session)
        page.press("ArrowRight", "1")
        words = page.run("[...document.querySelectorAll('#sentence .w')].map(w => w.textContent).join(' ')")
        assert words == hostile and page.text("title") == "boustro label"
        assert page.run("document.querySelectorAll('#sentence img, #sentence script, #labels b').length") == 0
        assert page.text("#labels button").startswith("<b onclick=x>")
        until(page, "state.answered === 1", "Enter")
        assert page.run("document.querySelectorAll('#counts b').length") == 0


def test_right_to_left_text_is_read_from_the_right(opened, tmp_path):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(LabellingSession([text("زار أحمد القاهرة أمس")], file, ["PER"], order="in-order"))
        page = opened(session)
        assert page.run("getComputedStyle(document.querySelector('#sentence')).direction") == "rtl"
        places = page.run("[...document.querySelectorAll('#sentence .w')].map(w => w.getBoundingClientRect().x)")
        assert places == sorted(places, reverse=True)
        page.press("ArrowLeft", "ArrowLeft")  # onwards
        page.press("1")
        assert entities(page) == [["PER", 1, 2]]


def test_nested_entities_are_drawn_inside_each_other(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", nested=True, order="in-order") as session:
        page = opened(session)
        page.drag(".w[data-i='0']", ".w[data-i='2']")
        page.press("1")
        page.run("(choose([1, 4]), 1)")  # crosses the first one
        page.press("2")
        page.run("(choose([2, 3]), 1)")
        page.press("2")
        assert sorted(entities(page)) == [["LOC", 1, 4], ["LOC", 2, 3], ["PER", 0, 3]]
        assert page.run("document.querySelectorAll('#sentence mark mark').length") >= 2
        assert page.run("document.querySelectorAll('#sentence .chip').length") == 3
        assert page.run("document.querySelectorAll('#sentence .w').length") == 4
        until(page, "state.answered === 1", "Enter")


def test_undo_begins_with_the_sentence_on_the_screen(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        page = opened(session)
        until(page, "state.answered === 1", "Enter")
        page.press("ArrowRight", "1", "ArrowRight", "ArrowRight", "2")
        assert entities(page) == [["PER", 0, 1], ["LOC", 2, 3]]
        page.press("u")
        assert entities(page) == [["PER", 0, 1]] and len(on_disk(path)) == 1
        page.press("r")
        page.press("z", control=True)
        page.press("u")
        assert entities(page) == [] and len(on_disk(path)) == 1
        until(page, "state.answered === 0", "u")  # now the answer before it
        assert on_disk(path) == []


def test_what_is_not_answered_survives_a_reload(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        page = opened(session)
        page.press("ArrowRight", "1", "n")
        page.write("half done")
        page.call("Page.reload")
        until(page, "document.querySelector('#sentence mark')")
        assert entities(page) == [["PER", 0, 1]] and page.run("$('note').value") == "half done"
        until(page, "state.answered === 1", "Enter")
        page.call("Page.reload")
        page.wait("document.querySelector('#sentence .w') && !busy && state.answered === 1")
        assert entities(page) == [] and page.run("$('note').value") == ""  # of another sentence
        until(page, "state.sentence.is === 'answered'", "b")
        page.press("ArrowRight", "2")  # another label than the answer's
        page.call("Page.reload")
        until(page, "document.querySelector('#sentence mark')")
        assert entities(page) == [["LOC", 0, 1]] and page.text("#kind") == "changed"
        until(page, "state.sentence.is !== 'answered'", "Enter")
        assert [e.label for e in session.answers[0].entities] == ["LOC"]


def test_the_history_of_marks_survives_a_reload_and_a_new_label(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        page = opened(session)
        until(page, "state.answered === 1", "Enter")
        page.press("ArrowRight", "1", "ArrowRight", "ArrowRight", "2", "u")
        page.call("Page.reload")
        until(page, "document.querySelector('#sentence mark')")
        page.press("r")
        assert entities(page) == [["PER", 0, 1], ["LOC", 2, 3]]
        page.press("+")
        page.write("NEW")
        until(page, "state.labels.includes('NEW')", "Enter")
        page.press("u", "u")
        assert entities(page) == [] and len(on_disk(path)) == 1 and page.run("state.answered") == 1
        page.press("r")
        page.call("Page.reload")
        until(page, "document.querySelector('#sentence mark')")
        page.press("u")
        assert entities(page) == [] and page.run("state.answered") == 1
        until(page, "state.answered === 0", "u")
        until(page, "state.answered === 1", "r")
        page.press("r", "r")
        assert entities(page) == [["PER", 0, 1], ["LOC", 2, 3]] and page.errors() == []


def test_a_name_is_marked_everywhere_with_one_key_and_taken_back(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    words = ["Ada saw Ada and Ada Brandt .", "Then Ada left .", "Ada Brandt and Ada ."]
    with AnswerFile(path).open() as file:
        session = attach(LabellingSession([text(w, n) for n, w in enumerate(words)], file, ["PER"], order="in-order"))
        session.tagger.decode = lambda scores, sentences: [() for _ in sentences]
        page = opened(session)
        assert page.run("$('everywhere').hidden")
        page.drag(".w[data-i='4']", ".w[data-i='5']")
        page.press("1")
        page.click(".w[data-i='0']")
        page.press("1")
        assert page.text("#everywhere span") == "Ada is PER everywhere"
        until(page, "state.groups_told === 1", "a")
        here = [["PER", 0, 1], ["PER", 2, 3], ["PER", 4, 6]]
        assert sorted(entities(page)) == here and page.run("$('everywhere').hidden")
        until(page, "state.groups_told === 0", "u")
        assert sorted(entities(page)) == [["PER", 0, 1], ["PER", 4, 6]]
        until(page, "state.groups_told === 1", "r")
        assert sorted(entities(page)) == here
        until(page, "state.answered === 1", "Enter")
        assert entities(page) == [["PER", 1, 2]]  # Ada in a text to come
        until(page, "state.answered === 2", "Enter")
        assert entities(page) == [["PER", 0, 1], ["PER", 3, 4]]
        page.click("#sentence mark .chip")
        assert page.text("#everywhere span") == "Ada is no name anywhere"
        page.call("Page.reload")
        page.wait("document.querySelector('#sentence mark') && !busy")
        page.click("#everywhere")
        page.wait("state.groups_told === 2 && !busy && !$('message').hidden")
        assert entities(page) == [] and "out of 2 answers" in page.text("#message")
        spans = [[(e["start"], e["end"]) for e in row["entities"]] for row in on_disk(path)]
        assert spans == [[(4, 6)], []]
        until(page, "state.groups_told === 1", "u")
        assert len(on_disk(path)[0]["entities"] + on_disk(path)[1]["entities"]) == 4
        assert page.errors() == []


def test_keys_go_to_the_ends_and_from_entity_to_entity(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        page = opened(session)
        last = page.run("state.sentence.words.length") - 1
        for key, place in (("End", last), ("Home", 0)):
            page.press(key)
            assert page.run("cursor") == place
        page.press("1")  # the first word
        page.press("ArrowRight", control=True)
        assert page.run("cursor") == last  # no entity follows
        page.press("ArrowLeft", control=True)
        assert page.run("cursor") == 0
        page.press("End", shift=True)
        assert page.run("chosen") == [0, last + 1]


def test_all_names_of_the_group_that_a_key_labels_can_be_seen(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", order="in-order") as session:
        page = opened(session)
        names = [f"Name{n}" for n in range(30)]
        made = [{"names": names, "mentions": 30, "label": ""} for _ in range(2)]
        page.run(f"groups = {made}.map(g => ({{...g, out: new Set()}})), draw(), 1".replace("'", '"'))
        shown = "[...document.querySelectorAll('#groups li')].map(g => g.querySelectorAll('.name').length)"
        assert page.run(shown) == [30, 12]
        page.run("now = 1, draw(), 1")
        assert page.run(shown) == [12, 30]


def test_no_entities_answers_and_delete_takes_back_what_was_just_made(opened, tmp_path):
    path = tmp_path / "answers.jsonl"
    with session_at(path, order="in-order") as session:
        page = opened(session)
        page.press("ArrowRight", "1", "Delete")
        assert entities(page) == []
        until(page, "state.answered === 1", "Delete", "ArrowRight", "1", "x")
        page.click("#clear")
        until(page, "state.answered === 2")
        assert [row["entities"] for row in on_disk(path)] == [[], []]


def test_the_innermost_goes_first_and_a_drag_labels_what_was_dragged(opened, tmp_path):
    with session_at(tmp_path / "answers.jsonl", nested=True, order="in-order") as session:
        page = opened(session)
        page.drag(".w[data-i='0']", ".w[data-i='3']")
        page.press("1")
        page.click(".w[data-i='2']")  # one word inside, and not all of the entity
        page.press("2")
        page.drag(".w[data-i='1']", ".w[data-i='2']")
        page.press("2")
        assert sorted(entities(page)) == [["LOC", 1, 3], ["LOC", 2, 3], ["PER", 0, 4]]
        for rest in ([["LOC", 1, 3], ["PER", 0, 4]], [["PER", 0, 4]], []):
            page.click(".w[data-i='2']")
            page.press("Delete")
            assert sorted(entities(page)) == rest


def test_a_chip_stands_behind_the_last_word_whatever_the_direction(opened, tmp_path):
    lines = ["We saw אחמד חסן in Cairo .", "زار Ada Brandt القاهرة أمس"]
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(
            LabellingSession([text(own, n) for n, own in enumerate(lines)], file, ["PER"], order="in-order")
        )
        page = opened(session, width=1000)
        box = 'document.querySelector("{}").getBoundingClientRect()'
        page.drag(".w[data-i='2']", ".w[data-i='3']")
        page.press("1")
        chip, first, last = (page.run(f"({box.format(s)}).x") for s in (".chip", ".w[data-i='2']", ".w[data-i='3']"))
        assert chip < last < first  # read from the right
        until(page, "state.answered === 1", "Enter")
        page.drag(".w[data-i='1']", ".w[data-i='2']")
        page.press("1")
        chip, first, last = (page.run(f"({box.format(s)}).x") for s in (".chip", ".w[data-i='1']", ".w[data-i='2']"))
        assert first < last < chip


def test_a_tab_without_the_session_cannot_be_used(opened, served, tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        address = served(session)
        first, second = opened(address), opened(address, "")
        off = "[...document.querySelectorAll('header, .page')].map(n => n.inert)"
        assert second.run(off) == [True, True] and first.run(off) == [False, False]
        assert float(second.run("getComputedStyle(document.querySelector('.page')).opacity")) < 0.5
        second.click("#insist")
        until(second, "document.querySelector('.w')")
        assert second.run(off) == [False, False]
        first.press("1")
        first.wait("document.querySelector('#problem')?.hidden === false")
        assert first.run(off) == [True, True]


@pytest.mark.parametrize("manner", [TOPIC, TOPICS], ids=["one", "several"])
def test_topics_of_whole_texts(opened, tmp_path, manner):
    path = tmp_path / "answers.jsonl"
    (tmp_path / "m.txt").write_text("My <b>parcel</b> is late.  Where is it?\nA wrong invoice.\nThanks!\n")
    found = read_whole(tmp_path / "m.txt", "auto")
    with AnswerFile(path, manner.answer).open() as file:
        session = LabellingSession(found, file, ["delivery", "billing"], order="in-order", manner=manner)
        session.attach([0, 1, 2], manner.vectors(vectors([own.sentence for own in found])))
        page = opened(session, "document.querySelector('#sentence')?.textContent")
        assert page.text("#sentence") == "My <b>parcel</b> is late.  Where is it?"
        page.press("Enter")
        page.wait("!busy")
        assert manner.several or "choose one label" in page.text("#problem")
        if manner.several:
            until(page, "state.answered === 0", "u")
        page.press("2", "1")
        assert page.text("#topics").count("×") == 1 + manner.several
        until(page, "state.answered === 1", "Enter")
        while page.run("entities.length"):  # what is suggested after one answer is no matter
            page.click("#topics .chip")
        page.click("#labels button:nth-child(2)")
        until(page, "state.answered === 2", "Enter")
        colours = page.run("$('colours').textContent.match(/^.*?@media/)[0].replace(/@media/, '')")
        until(page, "state.answered === 3", "x")  # no label, or one for what is about none of these
        assert page.run("$('colours').textContent").startswith(colours)  # a further label changes no other
        rows = [row.get("labels", [row.get("label")]) for row in on_disk(path)]
        assert rows == (
            [["billing", "delivery"], ["billing"], []] if manner.several else [["delivery"], ["billing"], ["other"]]
        )
        page.wait("document.querySelector('#counted').textContent === 'Labels so far'")
        assert page.run("getComputedStyle($('export')).display") == "none" and page.errors() == []


def test_topics_suggested_by_name_say_so_and_come_while_the_page_is_open(opened, tmp_path):
    (tmp_path / "m.txt").write_text("Where is it?\nA wrong invoice.\n")
    found = read_whole(tmp_path / "m.txt", "auto")
    names = {"delivery": np.array([9.0, 0, 0]), "billing": np.array([0, 9.0, 0])}
    with AnswerFile(tmp_path / "answers.jsonl", TOPIC.answer).open() as file:
        session = LabellingSession(found, file, ["delivery", "billing"], order="in-order", manner=TOPIC)
        session.attach([0, 1], WordVectors(np.eye(2, dtype=np.float16), np.arange(3)), start={})
        page = opened(session, "document.querySelector('#sentence')?.textContent")
        assert page.text("#kind") == "nothing suggested"
        with session.lock:
            session.begin(names)  # as it is when labels were added
        page.wait("document.querySelector('#topics')?.textContent.includes('delivery')")
        assert page.text("#kind") == "suggested from the names of the topics"
        assert "100%" in page.text("#topics")
        until(page, "state.answered === 1", "Enter")
        assert page.text("#topics").startswith("billing")


CONTRAST = """(() => {
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = rgb(c).map(v => v / 255)
      .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = n => { for (; n; n = n.parentElement) { const b = getComputedStyle(n).backgroundColor;
    if (rgb(b).length < 4 || rgb(b)[3] > 0) return b; } return getComputedStyle(document.body).backgroundColor; };
  const bad = [];
  for (const n of document.querySelectorAll('body *')) {
    const own = [...n.childNodes].some(c => c.nodeType === 3 && c.textContent.trim());
    if (!own || !n.offsetParent || n.disabled || n.closest('svg')) continue;
    const a = light(getComputedStyle(n).color), b = light(behind(n));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push([n.tagName, n.className, n.textContent.slice(0, 20), ratio.toFixed(2)]);
  }
  return bad;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_read(opened, tmp_path, dark):
    with session_at(tmp_path / "answers.jsonl", labels=("PER", "LOC", "ORG", "MISC", "Disease")) as session:
        for _ in range(8):
            answer(session)
        page = opened(session, dark=dark)
        page.wait("document.querySelectorAll('#counts dd').length === 5")
        page.drag(".w[data-i='0']", ".w[data-i='1']")
        page.press("g")
        page.wait("groups.length")
        page.click("#groups .name")  # left out
        assert page.run(CONTRAST) == []


# Text that does not fit into its own box; of a list, the choice that is shown.
CUT = """[...document.querySelectorAll("button, select, label, p, h1, h2, li, dt, dd")].filter(n => {
  if (n.tagName !== "SELECT") return n.scrollWidth > n.clientWidth + 1 && getComputedStyle(n).display !== "inline";
  const pen = document.createElement("canvas").getContext("2d"), style = getComputedStyle(n);
  pen.font = style.font;
  const room = n.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 16;  // the arrow
  return [...n.options].some(o => pen.measureText(o.text).width > room);
}).map(n => n.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_nothing_is_wider_than_the_window(opened, tmp_path, width):
    with AnswerFile(tmp_path / "answers.jsonl").open() as file:
        session = attach(
            LabellingSession([text("x" * 300 + " and " + "word " * 150 + "."), text("b", 1)], file, ["PER"])
        )
        page = opened(session, width=width)
        wide = "[...document.querySelectorAll('body *')].filter(n => n.getBoundingClientRect().right > innerWidth)"
        assert page.run(f"{wide}.map(n => n.outerHTML.slice(0, 80))") == []
        assert page.run("document.documentElement.scrollWidth") <= width
        assert page.run(CUT) == []


@pytest.mark.parametrize("note", ["", "1 text looks <b>German</b>"])
def test_the_page_says_that_a_language_is_not_read(opened, tmp_path, note):
    with session_at(tmp_path / "answers.jsonl", note=note) as session:
        page = opened(session)
        assert page.text("#language") == note
        assert page.run("document.getElementById('language').hidden") is not bool(note)
