"""An answer for each of many items, or the error of those that have none; one odd item does not spoil the others."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from boustro.errors import lacks_memory

Item = TypeVar("Item")


def answer_each(
    items: Sequence[Item], parse: Callable[[Item], Any], answer: Callable[[list[Any]], list[Any]]
) -> list[Any | Exception]:
    """What `answer` says of the inputs that `parse` makes of items, in order.

    In its place stands the `ValueError` of an item that is no input, and what `answer` raises for an item; where it
    raises for many, each is asked alone. Too little memory is raised.
    """
    found: list[Any] = []
    for item in items:
        try:
            found.append(parse(item))
        except ValueError as error:
            found.append(error)
    rest = iter(_alone(answer, [given for given in found if not isinstance(given, Exception)]))
    return [given if isinstance(given, Exception) else next(rest) for given in found]


def _alone(answer: Callable[[list[Any]], list[Any]], inputs: list[Any]) -> list[Any | Exception]:
    try:
        return answer(inputs)
    except Exception as error:
        if lacks_memory(error):
            raise
        return [error] if len(inputs) == 1 else [_alone(answer, [given])[0] for given in inputs]
