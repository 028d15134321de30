"""A guardrail for LiteLLM's proxy: names are hidden from an LLM, or from the readers of its answers.

    guardrails:                                   # in the proxy's config.yaml
      - guardrail_name: names
        litellm_params:
          guardrail: boustro.integrations.litellm.BoustroGuardrail
          mode: [pre_call, post_call]
          default_on: true
          tagger: ner

Prompts are masked before the call. Answers are redacted, and the names of the prompt put back; of a streamed answer no
character of an entity is released before the tagger is sure of it. LiteLLM speaks to the providers and brings their
answers into one shape; `live/chat.py` knows what of it is text.

It fails closed. What cannot be checked is refused, and so is an answer at which the tagger fails: an exception in any
of the three hooks reaches the client as an error, in a stream as an event `error` before it ends, and what was held is
forgotten. Source: litellm 1.108, `integrations/custom_guardrail.py`, `proxy/utils.py` (`ProxyLogging`) and
`proxy/proxy_server.py` (`async_data_generator`). LiteLLM looks for hooks in the class itself, so it has no subclasses.
"""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

try:
    from litellm.integrations.custom_guardrail import CustomGuardrail  # pyright: ignore[reportMissingImports]
    from litellm.types.guardrails import GuardrailEventHooks, LitellmParams  # pyright: ignore[reportMissingImports]
    from litellm.types.utils import ModelResponse, ModelResponseStream  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError("BoustroGuardrail needs litellm; install it with: pip install 'boustro[litellm]'") from error

from boustro.apps.live.chat import ASKED, ChatStream, Conversation
from boustro.apps.live.masks import TooManyNames
from boustro.apps.live.redactor import Written
from boustro.apps.live.structured import Checker, Unchecked
from boustro.choose import suggestion
from boustro.names import SHIPPED_TAGGER
from boustro.options import OptionError

LOG = logging.getLogger("boustro.litellm")
CHAT = ("completion", "acompletion")
"""What LiteLLM calls chat completions."""


class GuardrailError(Exception):
    """An error for the client, with the attributes of which LiteLLM makes one of OpenAI's shape.

    Not an `HTTPException`: with that LiteLLM breaks a stream's connection off without a word.
    """

    def __init__(self, status: int, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status_code, self.code, self.message, self.param = status, status, message, param
        self.type = "invalid_request_error" if status < 500 else "server_error"


class BoustroGuardrail(CustomGuardrail):
    """Masks prompts, redacts answers and puts names back; see the module.

    Args:
        tagger: A tagger's folder, or its name on the Hub, or from Python a `Tagger`. By default that of the package,
            which knows names without any label.
        labels: Labels of the entities that are removed; by default those of `Redactor`.
        write: mask ([PER_1]) or label ([PER], which cannot be put back).
        delay: Words after an entity of a streamed answer that are read before it is released.
        put_back: Whether the names of a prompt stand in its answer again.
        seconds: How long one piece of text may take the tagger, with its waiting.
        most_characters: Text of a request, and text of a streamed answer that waits.
        pass_fields: Fields of requests that pass unread although they are not known here.
        threshold: See `Redactor`: how probable it is at least that a word is in an entity, for it to be removed.
        live: From Python, see `Redactor`.
        litellm: What LiteLLM gives to every guardrail.

    Raises `OptionError` for a label or an option that there is not.
    """

    def __init__(
        self,
        tagger: Any = SHIPPED_TAGGER,
        labels: Collection[str] | None = None,
        write: Written = "mask",
        delay: int = 8,
        put_back: bool = True,
        seconds: float = 30.0,
        most_characters: int = 1_000_000,
        pass_fields: Collection[str] = (),
        threshold: float | None = None,
        live: Callable[[Any, int | None], Any] | None = None,
        **litellm: Any,
    ) -> None:
        options = ("labels", "write", "delay", "put_back", "seconds", "most_characters", "pass_fields", "threshold")
        for name in litellm.keys() - {*LitellmParams.model_fields, "guardrail_name", "event_hook", "default_on"}:
            raise OptionError(f"{name} is no option of this guardrail{suggestion(name, options)}")
        if write not in ("mask", "label"):
            raise OptionError(f"write must be mask or label, not {write!r}")
        self._checker = Checker(tagger, labels, write, delay, live, threshold)
        self._put_back, self._seconds, self._most, self._passed = put_back, seconds, most_characters, pass_fields
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tagger")
        self._conversations: WeakKeyDictionary[Any, Conversation] = WeakKeyDictionary()
        self._told: set[str] = set()
        """Fields of which the log says that they are left out."""
        hooks: Any = [GuardrailEventHooks.pre_call, GuardrailEventHooks.post_call]
        super().__init__(**litellm, supported_event_hooks=hooks)

    def __init_subclass__(cls, **_: Any) -> None:
        raise TypeError("LiteLLM would not run the hooks of a subclass of BoustroGuardrail, so text would pass unread")

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict, call_type: str) -> dict:
        """The request as it may pass."""
        if call_type not in CHAT:
            raise GuardrailError(400, f"only chat completions are checked here; {call_type} would pass unread")
        sent = (data.get("proxy_server_request") or {}).get("body")
        if not isinstance(sent, dict):
            raise GuardrailError(400, "only requests that come through LiteLLM's proxy are checked here")
        new = Conversation(self._checker, self._most)
        conversation = self._conversations.setdefault(data["litellm_logging_obj"], new)
        asked = {name: value for name, value in data.items() if name in ASKED or name in sent}
        data.update(await self._run(400, conversation.ask, asked, self._passed, self._put_back))
        LOG.info("%s since this guardrail began", self._checker.counted)
        return data

    async def async_post_call_success_hook(self, data: dict, user_api_key_dict: Any, response: Any) -> Any:
        """The answer as the client may have it."""
        if not isinstance(response, ModelResponse):
            raise GuardrailError(
                502, f"the answer is no chat completion but a {type(response).__name__}, which passes unread"
            )
        conversation = self._conversation(data)
        body = await self._run(502, conversation.answer, response.model_dump(exclude_none=True))
        self._tell(conversation)
        made = ModelResponse(**body)
        made._hidden_params = response._hidden_params
        return made

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict
    ) -> AsyncIterator[Any]:
        """Yield the chunks of a streamed answer as the client may have them."""
        conversation = self._conversation(request_data)
        stream = ChatStream(conversation)
        async for chunk in response:
            if not isinstance(chunk, ModelResponseStream):
                raise GuardrailError(502, f"a chunk is none of a chat completion but a {type(chunk).__name__}")
            for body in await self._run(502, stream.take, chunk.model_dump(exclude_none=True)):
                made = ModelResponseStream(**body)
                made._hidden_params = chunk._hidden_params
                yield made
        for body in await self._run(502, stream.end):
            yield ModelResponseStream(**body)
        self._tell(conversation)

    def _conversation(self, data: dict) -> Conversation:
        """Return the request's; `GuardrailError` where it should have been read and was not: its masks are not
        known."""
        call = data.get("litellm_logging_obj")
        conversation = None if call is None else self._conversations.get(call)
        if conversation is None and self._event_hook_is_event_type(GuardrailEventHooks.pre_call):
            raise GuardrailError(500, "the request of this answer was not checked, so the answer cannot be")
        return conversation or Conversation(self._checker, self._most)

    async def _run(self, status: int, work: Callable[..., Any], *given: Any) -> Any:
        """Do some work in the tagger's thread; `GuardrailError` where it fails or takes too long."""
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
        except TimeoutError:
            raise GuardrailError(503, f"the text was not checked within {self._seconds:g} s") from None
        except Unchecked as error:
            raise GuardrailError(status, str(error), error.place or None) from None
        except TooManyNames as error:
            raise GuardrailError(status, str(error)) from None
        except Exception as error:  # its message may quote the text, so neither the client nor the log has it
            frame, kind = traceback.extract_tb(error.__traceback__)[-1], type(error).__name__
            LOG.error("the tagger failed: %s at %s:%s", kind, frame.filename, frame.lineno)
            raise GuardrailError(503, f"the tagger failed ({kind}), so the text was not passed on") from None

    def _tell(self, conversation: Conversation) -> None:
        for name in sorted(conversation.left_out - self._told):
            LOG.warning("the field %s of answers is not known here, so it is left out", name[:80])
        self._told |= conversation.left_out
