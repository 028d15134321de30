"""The first sentences of a report: which system to use, what it does, and whether its lead is real, without statistics.

Use starter. It finds 72 of 100 entities; its lead over starter-backward is probably real.
"""

from collections.abc import Mapping
from typing import Any

LEVEL = 0.05


def does(own: Mapping[str, Any], score: float, task: Mapping[str, Any], total: int = 100) -> str:
    """`finds 72 of 100 entities`, from the mean of recall or of accuracy in percent, else the score.

    Of fewer than 100 in `total` it says how many there were.
    """
    total = min(total, 100)
    recall = own.get("recall", {}).get("mean") if task.get("has_spans") else None
    if recall is not None:
        return f"finds {recall * total / 100:.0f} of {total} {task['units']}"
    if task["metric"] == "accuracy":
        return f"is right for {score * total / 100:.0f} of {total} {task['units']}"
    return f"reaches {score:.1f} {task['metric']}"


def lead(points: float, rival: str, reliable: bool) -> str:
    """What a tested difference says; `points` below 0 is behind."""
    if reliable:
        return f"its lead over {rival} is probably real" if points > 0 else f"it is probably worse than {rival}"
    return f"its lead over {rival} may be chance" if points > 0 else f"whether it is better than {rival} is open"


def told(name: str, what: str, rest: str) -> str:
    """The sentences; `rest` is empty where there is nothing to compare with."""
    return f"Use {name}. It {what}; {rest}." if rest else f"{name} {what}."
