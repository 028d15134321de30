"""The language of a text that is plainly not English, by its script or by words that no English text has.

    language_of("Ich bin mit der Lieferung nicht zufrieden.")     "German": ich, mit, nicht
    language_of("The Bundesliga match in Berlin")                 None: English, or too little to tell

Names of people and places say nothing of the language, so words that stand in names (de, la, van, von) are left out,
and so are those that are English words too (die, was, man). It is for a note, not for a decision about one text.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

FUNCTION_WORDS = {
    "German": "ich und nicht ist das ein eine einen einem einer mit auf für dass wir sie auch sich wurde werden wird "
    "haben aber oder wie nach bei aus zum zur über sind noch nur kann bitte mein meine ihr ihre dem des im zu vom habe "
    "hat keine sehr wenn weil durch unter gegen schon wieder hatte waren er es uns",
    "Spanish": "que los las una por con para pero como más muy está esta este estoy fue también cuando hay sus mi del "
    "ser ha sobre entre hasta desde porque sin todo se lo y su al son era",
    "French": "les des une est pas que qui dans pour avec sur mais vous nous je elle ils sont cette ce ces très été "
    "était aux leur mon ma et ou où plus bien c'est j'ai au du il",
    "Italian": "che non per sono della delle degli dei nel nella con una più anche come ho questo questa molto gli lo "
    "essere stato alla dal mi ma è il e",
    "Portuguese": "que não uma para com os mais mas como muito está são foi também seu sua pelo pela dos das em um ao "
    "você isso meu minha na",
    "Dutch": "het een en niet ik dat zijn met voor ook maar naar bij aan wij deze worden wordt heeft heb hebben om "
    "nog geen meer mijn je ze",
    "Swedish": "och att det inte som på är jag för med har till av ett om kan vi från den var mycket",
    "Danish": "og at det ikke som på er jeg til med har af et kan vi fra den også meget være blev",
    "Finnish": "ja on ei että se oli hän ovat mutta kun myös joka sen mukaan ole minä kuin niin",
    "Polish": "nie się na jest że do jak ale za od przez tak był dla czy po ze są oraz jego i w z",
    "Czech": "je se na že jsem není jak ale byl pro také jako když které která by po ze už od aby a v",
    "Hungarian": "az és hogy nem egy is ez volt csak meg már még vagy mint de ki azt lesz van kell szerint után",
    "Romanian": "și nu este în la un pe cu că din mai pentru care sunt fost am lui dar au",
    "Turkish": "ve bir bu için de çok ile olarak daha değil gibi kadar ama ben var olan sonra",
    "Swahili": "ya wa na kwa ni katika za la cha hiyo huyo yake kuwa hii wake kutoka baada alisema",
    "Indonesian": "yang dan di tidak ini itu dengan untuk dari saya akan pada ada juga sudah karena bisa",
}
ENGLISH = frozenset(
    "the of and to a in is it that for was on you he be are with as i his they at have this from or had by not but "
    "what all were we when your can an which their if do will how about up out them then she so would her has him my "
    "no who me our been just get got its don't i'm it's did one more than there here any some why where could should "
    "u im ur lol please after over into man die am as war do so no".split()
)
IN_NAMES = frozenset(
    "de del della delle dei la las le les los el al van von der den di da das do dos du des y e i".split()
)
WORDS = {name: frozenset(words.split()) - ENGLISH - IN_NAMES for name, words in FUNCTION_WORDS.items()}
SCRIPTS = {
    "CYRILLIC": "Russian or another language in Cyrillic letters",
    "GREEK": "Greek",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CJK": "Chinese",
    "THAI": "Thai",
    "DEVANAGARI": "Hindi",
}
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
FEWEST, SHARE = 2, 0.12
"""Different words of the language that a text has, and the share of its words that they are; by both few English texts
are taken for others (docs/log.md)."""
MOST_LETTERS = 2000  # function words decide within a paragraph; the rest costs time on every text
LEAST = 0.1
"""The share of texts in another language that is worth a note."""


def language_of(text: str) -> str | None:
    """The language of a text, `None` for English and where nothing tells."""
    text = text[:MOST_LETTERS]
    scripts = Counter(unicodedata.name(c, "").split(" ")[0].split("-")[0] for c in text if c > "\u036f" and c.isalpha())
    letters = sum(map(str.isalpha, text))
    others = {name: n for name, n in scripts.items() if name in SCRIPTS}
    if sum(others.values()) > max(letters / 2, 3):
        kana = next((name for name in ("HIRAGANA", "KATAKANA") if name in others), None)
        return SCRIPTS[kana or max(others, key=lambda name: others[name])]
    words = [word.lower().replace("’", "'") for word in WORD.findall(text)]
    found = {name: set(words) & own for name, own in WORDS.items()}
    name = max(found, key=lambda name: len(found[name]))
    count, english = (sum(word in own for word in words) for own in (found[name], ENGLISH))
    plain = len(found[name]) >= FEWEST and count >= SHARE * len(words) and count > 2 * english
    return name if plain else None


def foreign_note(texts: Iterable[str]) -> str:
    """A sentence on texts that models of English do not read; empty where there are few.

    "39 of 80 texts look German; the package's models read English, …"
    """
    languages = [language_of(text) for text in texts]
    counts = Counter(name for name in languages if name)
    if not counts or counts.total() < LEAST * len(languages):
        return ""
    name, count = counts.most_common(1)[0]
    others = f", and {counts.total() - count:,} another language" if counts.total() > count else ""
    return (
        f"{count:,} of {len(languages):,} texts look {name}{others}; the package's models read English, and answer "
        "wrongly there without labels: about 60 help, and a multilingual LM or a pair of your own does more "
        "(docs/languages.md)"
    )
