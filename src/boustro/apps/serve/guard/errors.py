"""Errors of the upstream for the client: their status, their code, and their message as far as it has been checked."""

from typing import TYPE_CHECKING, Any

from boustro.apps.serve.guard.reading import PLAIN, Slot
from boustro.apps.serve.http import Refused

if TYPE_CHECKING:
    from boustro.apps.serve.guard.conversation import Conversation

MOST_MESSAGE = 4000


def upstream_error(status: int, body: Any, conversation: "Conversation | None" = None) -> Refused:
    """The refusal that says what an upstream's error says; in the tagger's thread where there is a conversation.

    Without one, and where the message is no text, it says only the status. An error may quote the prompt or the answer,
    so its message is a text like any other.
    """
    own = body.get("error") if isinstance(body, dict) else None
    message = own.get("message") if isinstance(own, dict) else own
    said = ""
    if conversation and isinstance(message, str) and 0 < len(message) <= MOST_MESSAGE:
        slot = Slot(message.encode("utf-8", "replace").decode(), "error.message")
        conversation.fill_answer([slot])
        said = f": {slot.result}"
    code = own.get("code") or own.get("type") if isinstance(own, dict) else None
    named = code if isinstance(code, str) and PLAIN.fullmatch(code) else "upstream_error"
    return Refused(status, named, f"the upstream answered with an error{said or f' ({status})'}")
