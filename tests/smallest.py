"""The smallest data of each task, and what is missing in those from which nothing can be learned."""

NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway", "Zola", "Kim", "Noor", "Pia"]
TEXTS = [f"{name} sold boats number {n} today." for n, name in enumerate(NAMES)]
NO_ENTITY = "no word is labelled with an entity, so there is nothing to learn"
ONE_CLASS = "only the label a, so there is nothing to learn"
NO_LABEL = "no label, so there is nothing to learn"


def entities(*counts):
    """Sentences with so many entities each."""
    labels = ("PER", "LOC")
    named = [[{"start": 0, "end": len(NAMES[n]), "label": labels[n % 2]}][:count] for n, count in enumerate(counts)]
    return [{"text": text, "entities": own} for text, own in zip(TEXTS, named, strict=False)]


def texts(key, *labels):
    return [{"text": text, key: label} for text, label in zip(TEXTS, labels, strict=False)]


def pairs(*labels):
    rows = zip(TEXTS, reversed(TEXTS), labels, strict=False)
    return [{"sentence1": one, "sentence2": other, "label": label} for one, other, label in rows]


def of_one_word(rows):
    return [
        {k: NAMES[n] if isinstance(v, str) and " " in v else v for k, v in row.items()} for n, row in enumerate(rows)
    ]


A_LABEL_EACH, SETS = [*"abababacbc"], [["a"], ["a", "b"], []]
CASES = {
    "1 sentence": ("tag", entities(1), ""),
    "2 sentences": ("tag", entities(1, 1), ""),
    "3 sentences": ("tag", entities(1, 1, 1), ""),
    "10 sentences": ("tag", entities(*[1] * 10), ""),
    "entities in one sentence": ("tag", entities(1, *[0] * 9), ""),
    "no entity": ("tag", entities(*[0] * 10), NO_ENTITY),
    "sentences of one word": ("tag", of_one_word(entities(*[1] * 10)), ""),
    "1 text": ("classify", texts("label", "a"), ONE_CLASS),
    "2 texts": ("classify", texts("label", *"ab"), ""),
    "3 texts": ("classify", texts("label", *"aba"), ""),
    "10 texts": ("classify", texts("label", *A_LABEL_EACH), ""),
    "one class": ("classify", texts("label", *"aaaaaaaaaa"), ONE_CLASS),
    "a class of one text": ("classify", texts("label", *"abbbbbbbbb"), ""),
    "texts of one word": ("classify", of_one_word(texts("label", *A_LABEL_EACH)), ""),
    "1 text of several": ("classify", texts("labels", ["a"]), ""),
    "3 texts of several": ("classify", texts("labels", *SETS), ""),
    "texts without one of several": ("classify", texts("labels", *[[]] * 10), NO_LABEL),
    "one of several once": ("classify", texts("labels", ["a"], *[[]] * 9), ""),
    "1 pair": ("pair", pairs("a"), ONE_CLASS),
    "2 pairs": ("pair", pairs(*"ab"), ""),
    "10 pairs": ("pair", pairs(*A_LABEL_EACH), ""),
    "pairs of one class": ("pair", pairs(*"aaa"), ONE_CLASS),
    "a class of one pair": ("pair", pairs(*"abbbbbbbbb"), ""),
    "pairs of one word": ("pair", of_one_word(pairs(*A_LABEL_EACH)), ""),
}  # fmt: skip
