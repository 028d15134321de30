"""A labelling session over HTTP, for the page in the browser: JSON in, the whole state of the screen out.

    GET  /                    the page, which holds no secret
    POST /api/claim           be the one page of the session; answers the key that all other requests give
    POST /api/answer …        a step of the session (`STEPS`); answers the state
    GET  /api/panel           counts, learning curve, unsure words, progress; fetched now and then
    POST /api/groups          names of all texts in groups; the steps tell and untell say of one what it is
    POST /api/finish, /api/compare, /api/export, /api/tagger

Every path but the page needs the token that the program printed, as a header: a page of another origin knows it as
little as it may send such a header. Requests of a page that is not the one of the session are refused with 409.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from boustro.apps.drawing import DARK, LIGHT, STYLE, variables
from boustro.apps.label.background import Background
from boustro.apps.label.curve import session_curve
from boustro.apps.label.session import LabellingSession, Stale
from boustro.apps.serve.http import ANY_HOST, PAGE_HEADERS, Guard, HttpOptions, Refused, make_app, read_body
from boustro.errors import count_of
from boustro.metrics.spans import entity_keys, score_entities
from boustro.tasks.render import css, css_class
from boustro.text.words import apart, join_words
from boustro.types import Entity, Sentence

ALIVE_SECONDS = 8.0
"""A page that has not asked for so long is taken for closed; it asks every two seconds."""
UNSURE, DIFFERENCES, GROUPS = 8, 50, 12  # a screen of each; more of them is asked for again when these are answered
WORDS_AROUND, WHOLE_WORDS = 3, 8  # words around a place that is shown, and of a text that is shown whole
OPEN_PATHS = ("/", "/favicon.ico")
MOST_REQUEST_BYTES = 1 << 20  # a request of the page has one answer; more than this is no answer of a person


class LabellingApp:
    """The routes; one page at a time holds the session."""

    def __init__(self, session: LabellingSession, work: Background) -> None:
        self.session, self.work = session, work
        self._key, self._page, self._seen = "", "", 0.0
        self.steps: dict[str, Callable[[dict[str, Any]], Any]] = {
            "state": lambda given: None,
            "answer": lambda given: session.answer(_number(given), _entities(given), _text(given, "note")),
            "skip": lambda given: session.skip(_number(given)),
            "undo": lambda given: session.undo(),
            "redo": lambda given: session.redo(),
            "back": lambda given: session.look_back(),
            "ahead": lambda given: session.look_ahead(),
            "show": lambda given: session.show(_number(given)),
            "label": lambda given: session.add_label(_text(given, "name")),
            "order": lambda given: session.set_order(_text(given, "order")),
            "unskip": lambda given: session.restore_skipped(),
            "tell": lambda given: session.label_group(_names(given), _text(given, "label")),
            "untell": lambda given: session.undo_group(
                _names(given) if "names" in given else (), _text(given, "label")
            ),
        }

    def make(self, http: HttpOptions, token: str) -> Any:
        """Return the FastAPI app."""
        from fastapi import Request
        from fastapi.responses import HTMLResponse

        # A page elsewhere may reach this server by a name of its own, and gets nothing without the token: so a proxy of
        # any name may stand between.
        http = replace(http, allow_hosts=(ANY_HOST,))
        app = make_app("boustro label", http, openapi_url=None)
        app.add_middleware(Guard, http=http, tokens=[token], open_paths=OPEN_PATHS)
        actions = {
            "groups": self._groups,
            "train": self._train,
            "compare": self._compare,
            "export": self._export,
        }

        @app.get("/")
        def page() -> HTMLResponse:
            return HTMLResponse(self.page, headers=PAGE_HEADERS | {"Cache-Control": "no-store"})

        @app.get("/favicon.ico", status_code=204)
        def icon() -> None:
            return None

        @app.post("/api/{name}")
        async def act(name: str, request: Request) -> Any:
            from starlette.concurrency import run_in_threadpool

            given = await _body(request)
            if name == "claim":
                return self._claim(given)
            key = request.headers.get("x-boustro-key", "").encode()
            if not self._key or not secrets.compare_digest(key, self._key.encode()):
                raise Refused(409, "other_page", "this session is open in another tab or window")
            self._seen = time.monotonic()
            if name == "panel":
                return await run_in_threadpool(self._panel)
            if name in actions:
                return await run_in_threadpool(_refusing, actions[name])
            if name not in self.steps:
                raise Refused(404, "not_found", f"there is no {name}")
            return await run_in_threadpool(_refusing, lambda: self._step(name, given))

        return app

    @cached_property
    def page(self) -> str:
        """The page, with the colours of the report."""
        style = f":root{{{variables(LIGHT)}}}@media(prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}{STYLE}"
        html = files("boustro.apps.label").joinpath("page.html").read_text("utf-8")
        return html.replace("/*COLOURS*/", style)

    def _claim(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a key for a page; refused while another one is open, unless the person insists."""
        page = _text(given, "page")
        other = self._key and page != self._page and time.monotonic() - self._seen < ALIVE_SECONDS
        if other and not given.get("insist"):
            raise Refused(409, "other_page", "this session is open in another tab or window")
        self._key, self._page, self._seen = secrets.token_urlsafe(12), page, time.monotonic()
        return {"key": self._key}

    def _step(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        with self.session.lock:
            self.steps[name](given)
            state = self.session.view()
        self.work.answered()
        styles = {
            "css": css(state["labels"], in_order=True),
            "classes": [css_class(label) for label in state["labels"]],
        }
        return {**state, **styles, "problem": self.work.problem, "file": str(self.session.file.path)}

    def _panel(self) -> dict[str, Any]:
        session, work = self.session, self.work
        with session.lock:
            counts, unsure = session.counts(), self._unsure()
            ready, total, gold = len(session.pool), len(session.texts), any(t.gold is not None for t in session.texts)
        trained = work.trained
        return {
            "counts": counts,
            "begun": session.begun,
            "unsure": unsure,
            "ready": ready,
            "total": total,
            "curve": session_curve(work.points),
            "last": work.points[-1].f1 if work.points else None,
            "metric": session.manner.metric,
            "training": work.training,
            "training_problem": work.training_problem,
            "trained": trained
            and {
                "score": trained.estimate.get("score"),
                "why_not": trained.estimate.get("why_not", ""),
                "answers": len(trained.answers),
                "head": trained.head,
            },
            "has_gold": gold,
            "folder": str(work.next_folder),
            "problem": work.problem,
        }

    def _unsure(self) -> list[dict[str, Any]]:
        """Words that the tagger is least sure of, each with the sentence that it stands in; or such texts."""
        session = self.session
        if session.tagger is None or not session.answers:
            return []
        left_out = {*session.answers, *session.skipped, *([] if session.next is None else [session.next])}
        rows = session.pool.unsure(session.tagger, left_out, 10 * UNSURE)
        rows = [row for row in rows if session.told.labels.get((session.texts[row[0]].sentence.words[row[1]],)) != ""]
        sentences = {number: session.texts[number].sentence for number, _, _ in rows}
        first: dict[Any, tuple[int, int]] = {}
        whole = session.manner.whole
        for n, w, _ in rows:
            first.setdefault(n if whole else sentences[n].words[w].lower(), (n, w))
        return [{"number": n, **_around(sentences[n], w, whole)} for n, w in [*first.values()][:UNSURE]]

    def _groups(self) -> dict[str, Any]:
        with self.session.lock:
            groups = self.session.groups()
        shown = [{"names": g.names, "mentions": g.mentions, "label": g.label} for g in groups[:GROUPS]]
        return {"groups": shown, "total": len(groups)}

    def _train(self) -> dict[str, Any]:
        self.work.start_training()
        return {"message": ""}  # the panel says how it goes

    def _compare(self) -> dict[str, Any]:
        """Return the answers, and the tagger on what is not answered, against the gold of the texts."""
        session = self.session
        with session.lock:
            gold = {n: text.gold for n, text in enumerate(session.texts) if text.gold is not None}
            answered = {n: a.entities for n, a in session.answers.items() if n in gold}
            rest = [n for n in gold if n not in session.answers and n in session.pool]
            suggested = dict(zip(rest, session.suggest_all(rest), strict=True))
        if not gold:
            raise Refused(400, "no_gold", "these texts have no labels to compare with")
        different = [n for n, entities in answered.items() if entity_keys(entities) != entity_keys(gold[n] or ())]
        return {
            "answers": _score({n: gold[n] or () for n in answered}, answered),
            "tagger": _score({n: gold[n] or () for n in rest}, suggested),
            "different": [self._difference(n, gold[n] or ()) for n in different[:DIFFERENCES]],
            "num_different": len(different),
        }

    def _difference(self, number: int, gold: tuple[Entity, ...]) -> dict[str, Any]:
        answer = self.session.answers[number]
        words, mine, theirs = answer.sentence.words, entity_keys(answer.entities), entity_keys(gold)

        def named(keys: set[tuple[str, int, int]]) -> list[str]:
            if self.session.manner.whole:
                return sorted(label for label, _, _ in keys)
            return [
                f"{join_words(words[start:end])} ({label})" for label, start, end in sorted(keys, key=lambda k: k[1:])
            ]

        return {"number": number, "only_answer": named(mine - theirs), "only_gold": named(theirs - mine)}

    def _export(self) -> dict[str, Any]:
        if self.session.manner.whole:
            raise ValueError(
                f"labels of whole texts have no CoNLL columns; the answers are in {self.session.file.path}"
            )
        with self.session.lock:
            path, notes = self.session.file.export_conll([*self.session.answers.values()])
        left = f"; {count_of(len(notes), 'entities that overlap others are not in it')}" if notes else ""
        return {"message": f"wrote {path}{left}"}


def _around(sentence: Sentence, place: int, whole: bool) -> dict[str, str]:
    """Return a word between its neighbours as they were written; of a whole text its beginning, and no word."""
    words = sentence.words
    spaces = sentence.spaces or apart(words)
    if whole:
        return {
            "before": join_words(words[:WHOLE_WORDS], spaces) + "…" * (len(words) > WHOLE_WORDS),
            "word": "",
            "after": "",
        }

    def written(start: int, stop: int) -> str:
        return "".join(" " * (i > 0 and spaces[i]) + words[i] for i in range(max(start, 0), min(stop, len(words))))

    shown = written(place, place + 1)
    before = written(place - WORDS_AROUND, place) + shown[: len(shown) - len(words[place])]
    return {"before": before, "word": words[place], "after": written(place + 1, place + 1 + WORDS_AROUND)}


def _refusing(act: Callable[[], Any]) -> Any:
    """Return the result of an act; what a person can mend is an answer with a sentence, not an error of the server."""
    try:
        return act()
    except Stale as error:
        raise Refused(409, "stale", str(error)) from error
    except ValueError as error:
        raise Refused(400, "refused", str(error)) from error
    except OSError as error:
        raise Refused(507, "disk", f"not written: {error.filename}: {error.strerror}; nothing has changed") from error


async def _body(request: Any) -> dict[str, Any]:
    """Return the JSON object of a request; an empty body is an empty one."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > MOST_REQUEST_BYTES:
            raise Refused(413, "too_large", f"a request has at most {MOST_REQUEST_BYTES:,} bytes")
    given = read_body(bytes(raw) or b"{}")
    if not isinstance(given, dict):
        raise Refused(422, "not_valid", "the body is not a JSON object")
    return given


def _number(given: dict[str, Any]) -> int:
    if type(given.get("number")) is not int:
        raise Refused(422, "not_valid", "number must be the number of a sentence")
    return given["number"]


def _names(given: dict[str, Any]) -> list[str]:
    names = given.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused(422, "not_valid", "names must be a list of texts")
    return names


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name, "")
    if not isinstance(value, str) or len(value) > 10_000:
        raise Refused(422, "not_valid", f"{name} must be a text of at most 10,000 characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused(422, "not_valid", f"{name} holds half a character") from error
    return value


def _entities(given: dict[str, Any]) -> list[Entity]:
    rows, entities = given.get("entities"), []
    for row in rows if isinstance(rows, list) else [None]:
        parts: list[Any] = [row.get(name) for name in ("start", "end", "label")] if isinstance(row, dict) else []
        if [type(part) for part in parts] != [int, int, str]:
            raise Refused(422, "not_valid", "entities must be a list of objects with start, end and label")
        entities.append(Entity(parts[2], parts[0], parts[1]))
    return entities


def _score(gold: dict[int, tuple[Entity, ...]], answers: dict[int, tuple[Entity, ...]]) -> dict[str, Any] | None:
    if not gold:
        return None
    score = score_entities([*gold.values()], [answers[n] for n in gold], {}).to_dict()
    return {"sentences": len(gold), **{name: round(score[name], 1) for name in ("precision", "recall", "f1")}}
