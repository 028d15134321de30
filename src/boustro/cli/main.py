"""The command line: maps names to functions, and exceptions to sentences and exit codes.

0 done; 1 the input or the state found is at fault; 2 usage; 101 a bug of ours. A command's module is
imported when the command is chosen, and imports torch when the command runs, so that no help waits for it.
"""

import contextlib
import errno
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from types import FrameType

from boustro.choose import unknown
from boustro.errors import lacks_memory, reason
from boustro.names import expand_home
from boustro.options import OptionError

COMMANDS = {
    "demo": ("boustro.cli.demo", "demo", "train, compare and look at taggers on the shipped sample"),
    "tokenize": ("boustro.text.shards", "tokenize", "turn a corpus into token shards"),
    "pretrain": ("boustro.pretrain.config", "pretrain", "train a forward or a backward LM on token shards"),
    "backward": ("boustro.roads.commands", "backward", "train a small backward LM for an LM, from raw text"),
    "fuse": ("boustro.roads.commands", "fuse", "train a fusion of a forward and a backward LM on token shards"),
    "adapt": ("boustro.roads.commands", "adapt", "train a causal LM to read without its mask (needs peft)"),
    "elmo": ("boustro.roads.commands", "elmo", "train an ELMo on a corpus"),
    "distill-states": ("boustro.roads.commands", "distill_states", "an encoder's word vectors into a smaller LM"),
    "memory": ("boustro.roads.commands", "memory", "what words are in raw text, for an encoder that remembers it"),
    "weak": ("boustro.tasks.weak.command", "weak", "silver labels for text, from a gazetteer or an LLM's lists"),
    "language": ("boustro.studies.language.command", "language", "raw text and labels to tokenizer, pair and tagger"),
    "fit": ("boustro.cli.commands", "fit", "train a tagger or a classifier on labelled examples"),
    "distill": ("boustro.tasks.distill.command", "distill", "a trained folder into one with a smaller encoder"),
    "evaluate": ("boustro.cli.commands", "evaluate", "score a trained folder on labelled examples"),
    "predict": ("boustro.cli.commands", "predict", "label text"),
    "batch": ("boustro.serve.batch.command", "batch", "label a folder of shards, here or on a Ray cluster"),
    "serve": ("boustro.serve.command", "serve", "trained folders over HTTP, with a page (needs fastapi)"),
    "label": ("boustro.cli.label", "label", "label text on a page, with a tagger that learns from it"),
    "wsd": ("boustro.cli.aliases", "wsd", "name the senses of words (fit, evaluate, predict)"),
    "infill": ("boustro.generation.both_ends.command", "infill", "fill the gaps of texts from both ends"),
    "harness": ("boustro.generation.harness.command", "harness", "multiple choice without training (needs lm-eval)"),
    "seq2seq": ("boustro.roads.commands", "seq2seq", "fine-tune an LM on pairs of a prompt and a text"),
    "generate": ("boustro.generation.command", "generate", "continue prompts with a masked or a causal LM"),
    "prompt": ("boustro.generation.prompts.command", "prompt", "label texts by the words that an LM would write"),
    "rate": ("boustro.generation.rating", "rate", "ROUGE, BLEU, METEOR and repetition of written texts"),
    "score": ("boustro.generation.command", "score", "score texts after prompts"),
    "compare": ("boustro.studies.compare.command", "compare", "encoders x heads x seeds, as a table and a report"),
    "fewshot": ("boustro.studies.fewshot.command", "fewshot", "encoders with few labelled sentences, as curves"),
    "scaling": ("boustro.studies.scaling.command", "scaling", "sizes x budgets of pretraining, with loss curves"),
    "embed": ("boustro.tasks.embed.commands", "embed", "write one vector per text"),
    "embed-fit": ("boustro.cli.aliases", "embed_fit", "statistics or a trained head for vectors of texts"),
    "similarity": ("boustro.tasks.embed.commands", "similarity", "find the texts most like a query"),
    "geometry": ("boustro.studies.geometry.command", "geometry", "measure and draw how word vectors lie"),
    "cache": ("boustro.cli.cache", "cache", "list or clear the cached features"),
    "check": ("boustro.tasks.check", "check", "report on labelled data before training on it"),
    "doctor": ("boustro.cli.doctor", "doctor", "print what a bug report should say"),
}
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF)
"""What `print` raises where standard output cannot be written; of a file, the error names it."""
EXIT_INPUT, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPT, EXIT_PIPE, EXIT_TERMINATED = 1, 2, 101, 130, 141, 143


def usage() -> str:
    """What `boustro --help` prints."""
    rows = "\n".join(f"  {name:<14} {summary}" for name, (_, _, summary) in COMMANDS.items())
    return (
        "usage: boustro COMMAND ...\n\nGive a language model the other half of the sentence.\n\n"
        f"{rows}\n\n`boustro COMMAND --help` lists a command's options; `boustro --version` prints the version."
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (to the end)
    try:
        code = _main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except OSError as error:  # what was printed cannot be written
        return _say_unwritten(error)
    return code


def _say_unwritten(error: OSError) -> int:
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left at its end
    if error.errno == errno.EPIPE:  # `boustro predict ... | head`: the reader has seen enough
        return EXIT_PIPE
    print(f"boustro: standard output: {error.strerror}", file=sys.stderr)
    return EXIT_INPUT


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if arguments else EXIT_USAGE
    if arguments[0] in ("-V", "--version"):
        from boustro import __version__

        print(f"boustro {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"boustro: {unknown(name, COMMANDS, 'command')}", file=sys.stderr)
        return EXIT_USAGE
    module, function, _ = COMMANDS[name]
    return run(module, function, rest, prog=f"boustro {name}")


class Terminated(KeyboardInterrupt):
    """SIGTERM, which stops a command as Ctrl-C does."""


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """A block in which SIGTERM raises `Terminated`; only the main thread may ask for that."""
    own = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() == own:
            raise Terminated
        os._exit(EXIT_TERMINATED)  # a process of its own, which a library ends

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def set_environment(environment: MutableMapping[str, str]) -> None:
    """What libraries read from the environment once, when they are loaded; what the user has set there stands."""
    environment.setdefault("TOKENIZERS_PARALLELISM", "true")
    if not sys.stderr.isatty():  # else unset: the hub's client warns where 0 is set and bars are turned off in the code
        environment.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def run(module: str, function: str, arguments: list[str], prog: str) -> int:
    """Parse the arguments with the function's own signature, call it, and turn what it raises into words."""
    set_environment(os.environ)
    warnings.filterwarnings("ignore", category=FutureWarning)
    for name in ("torchao", "torch.utils._pytree"):  # where installed, torchao tells of kernels for other machines
        logging.getLogger(name).setLevel(logging.ERROR)
    import tyro

    from boustro.cli.arguments import call, describe, prepare

    try:
        command = getattr(import_module(module), function)
        form, words = prepare(command, [*map(_expand_home, arguments)], prog)
        # --x and --no-x for every boolean, also for one without a default of its own.
        config = (tyro.conf.DisallowNone, tyro.conf.OmitArgPrefixes)
        with sigterm_interrupts():
            values = vars(tyro.cli(form, args=words, prog=prog, description=describe(form), config=config))
            call(command, values)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    except KeyboardInterrupt as stop:
        kept = "; ".join(getattr(stop, "__notes__", ["no result was written"]))
        print(f"boustro: interrupted: {kept}", file=sys.stderr)
        return EXIT_TERMINATED if isinstance(stop, Terminated) else EXIT_INTERRUPT
    except OptionError as error:
        print(f"boustro: {error}; `{prog} --help` lists the options", file=sys.stderr)
        return EXIT_USAGE
    except (ValueError, OSError, ImportError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT_ERRORS:
            return _say_unwritten(error)
        print(f"boustro: {_sentence(error)}", file=sys.stderr)
        return EXIT_INPUT
    except Exception as error:
        if lacks_memory(error):
            advice = "take smaller values, or a larger machine"
            print(f"boustro: not enough memory ({reason(error)}); {advice}", file=sys.stderr)
            return EXIT_INPUT
        with tempfile.NamedTemporaryFile("w", prefix="boustro-", suffix=".log", delete=False) as log:
            traceback.print_exc(file=log)
        said = traceback.format_exception_only(error)[-1].strip().splitlines()[-1]
        print(f"boustro: this is a bug of ours ({said}); please report it with {log.name}", file=sys.stderr)
        return EXIT_BUG
    return 0


def _expand_home(word: str) -> str:
    """`~/lm` and `--out=~/lm` with the home folder, which a shell fills in only at the head of a word."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + expand_home(value)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
