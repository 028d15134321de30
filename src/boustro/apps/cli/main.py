"""The command line: maps names to functions, and exceptions to sentences and exit codes.

0 done; 1 the input or the state found is at fault; 2 usage; 101 an internal error. A command's module is
imported when the command is chosen, and imports torch when the command runs, so that no help waits for it.
"""

import contextlib
import errno
import io
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from types import FrameType
from typing import Any

from boustro.apps.cli.known import COMMANDS, called, pages, usage
from boustro.choose import nearest
from boustro.errors import lacks_memory, lacks_package, of_system, reason
from boustro.options import OptionError, command_line
from boustro.output import warnings_as_notes

SAME = {"train": "fit"}
"""Words that run a command of another name."""
MEANT = {
    "tag": "predict",
    "eval": "evaluate",
    "test": "evaluate",
    "annotate": "label",
    "finetune": "fit",
}
"""Words that name a command in other programs."""
OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF)
"""What `print` raises where standard output cannot be written; of a file, the error names it."""
# 128 + the signal for what ended by one, as shells have it; 101 is no code of a shell
EXIT_INPUT, EXIT_USAGE, EXIT_BUG, EXIT_INTERRUPT, EXIT_PIPE, EXIT_TERMINATED = 1, 2, 101, 130, 141, 143


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (to the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():  # which shows what it can
            sys.stdout.reconfigure(errors="backslashreplace")
        elif sys.stdout.encoding.lower() != "utf-8":  # what goes to a file or a program is UTF-8, as JSON must be
            sys.stdout.reconfigure(encoding="utf-8")
    try:
        asked = _asked(sys.argv[1:] if arguments is None else arguments)
        code = asked if isinstance(asked, int) else run(*asked)
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


def _asked(arguments: list[str]) -> tuple[str, list[str]] | int:
    """Return the command and its arguments, or the exit code where all is said here."""
    if arguments[:1] == ["help"] and (page := pages().get("".join(arguments[1:2]))):
        print(page.read_text("utf-8"), end="")
        return 0
    if arguments[:1] == ["help"]:  # `boustro help fit`
        arguments = [*arguments[1:], "--help"]
    is_of_lab = arguments[:1] == ["lab"]
    arguments = arguments[1:] if is_of_lab else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage(is_of_lab))
        return 0 if arguments else EXIT_USAGE
    if arguments[0] in ("-V", "--version", "version"):
        from boustro.version import __version__

        print(f"boustro {__version__}")
        return 0
    name, *rest = arguments
    name = SAME.get(name, name)
    if name not in COMMANDS or is_of_lab != COMMANDS[name].is_of_lab:
        meant = MEANT.get(name) or nearest(name, COMMANDS)
        near = f"; did you mean {called(meant)!r}?" if meant else ""
        where = "boustro lab --help" if is_of_lab else "boustro help"
        said = f"there is no command {'lab ' * is_of_lab + name!r}{near}"
        print(f"boustro: {_joined(said, f'`{where}` lists the commands')}", file=sys.stderr)
        return EXIT_USAGE
    return name, rest


class Terminated(KeyboardInterrupt):
    """SIGTERM, which stops a command as Ctrl-C does."""


@contextlib.contextmanager
def interruptions() -> Iterator[None]:
    """Yield a block that Ctrl-C stops by `KeyboardInterrupt` and SIGTERM by `Terminated`, if in the main thread; a
    signal that is ignored stays so. Before and after it Ctrl-C is `__main__`'s: there is nothing to put away."""
    pid = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() == pid:
            raise Terminated
        os._exit(EXIT_TERMINATED)  # a process of its own, which a library ends

    before = {}
    if threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            before[signal.SIGTERM] = signal.signal(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None):
            before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def set_environment(environment: MutableMapping[str, str]) -> None:
    """Set the variables that libraries read once, when they are loaded; a value that the user has set stands."""
    environment.setdefault("TOKENIZERS_PARALLELISM", "true")
    environment.setdefault("TRANSFORMERS_VERBOSITY", "error")  # what it warns of is either ours to say, or of no use
    if not sys.stderr.isatty():  # else unset: the hub's client warns where 0 is set and bars are turned off in the code
        environment.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def run(name: str, arguments: list[str]) -> int:
    """Parse the arguments with the function's own signature, call it, and turn what it raises into words."""
    known, prog = COMMANDS[name], f"boustro {called(name)}"
    set_environment(os.environ)
    warnings.filterwarnings("ignore", category=FutureWarning)
    for logger in ("torchao", "torch.utils._pytree"):  # where installed, torchao tells of kernels for other machines
        logging.getLogger(logger).setLevel(logging.ERROR)
    from boustro.apps.cli.arguments import ALL, HELP, Line, check_places, resolved
    from boustro.store import record_options

    try:
        command, example = known.function(), known.examples[0]
        line = Line.read(command, arguments, prog)
        if asked := {*HELP} & {*arguments}:
            from boustro.apps.cli.help import help_of

            print(help_of(name, known, line.table, everything=ALL in asked))
            return 0
        values = line.values(prog, example)
        with interruptions(), warnings_as_notes():
            filled = line.table.call_with(values)
            check_places(line, values, example)
            record_options(resolved(filled))  # which the manifests of the folders that it writes hold
            command(**filled)
        sys.stdout.flush()
        first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
        said = known.next if not known.after or values.get(known.after) else ""
        if any(f"{{{option}}}" in said for option, value in values.items() if value is None):
            said = ""  # about a folder that there is not: predict --labels
        if said and first and not values.get("quiet") and not values.get("dry-run"):
            print(f"next: {next_command(said, values)}", file=sys.stderr)
    except SystemExit as stop:  # a dry run, which ends where the work would begin
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    except KeyboardInterrupt as stop:
        kept = "; ".join(getattr(stop, "__notes__", ["no result was written"]))
        print(f"boustro: interrupted: {kept}", file=sys.stderr)
        return EXIT_TERMINATED if isinstance(stop, Terminated) else EXIT_INTERRUPT
    except OptionError as error:
        print(f"boustro: {_joined(str(error), f'`{prog} --help` lists the options')}", file=sys.stderr)
        return EXIT_USAGE
    except (ValueError, OSError, ImportError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT_ERRORS:
            return _say_unwritten(error)
        lacking = lacks_package(error) if isinstance(error, ImportError) else None
        print(f"boustro: {lacking or _sentence(error)}", file=sys.stderr)
        return EXIT_INPUT
    except Exception as error:
        if lacks_memory(error):
            advice = "take smaller values, or a larger machine"
            print(f"boustro: not enough memory ({reason(error)}); {advice}", file=sys.stderr)
            return EXIT_INPUT
        with tempfile.NamedTemporaryFile("w", prefix="boustro-", suffix=".log", delete=False) as log:
            traceback.print_exc(file=log)
        said = traceback.format_exception_only(error)[-1].strip().rpartition("\n")[2]
        print(f"boustro: this is an internal error ({said}); please report it with {log.name}", file=sys.stderr)
        return EXIT_BUG
    return 0


CARRIED = ("task", "scheme", "delimiter", "word-column", "tag-column", "text-column", "label-column")
"""Options that say how labelled data are read, which the next command reads too."""


def next_command(said: str, values: dict[str, Any]) -> str:
    """Return the command that a `Known.next` says, with the values of the line before, and those of `CARRIED` where
    `fit` reads the same data."""
    carried = CARRIED if said.startswith("fit --train {data") else ()
    words: list[str] = []
    for word in said.split():
        value = values.get(word[1:-1]) if word[:1] == "{" else None  # several folders are several words
        words += map(str, value) if isinstance(value, tuple) else [word.format_map(_Values(values))]
    return command_line(*words, **{name: values.get(name) for name in carried})


class _Values(dict[str, Any]):
    """The values of a command line; what is not given is named in capitals."""

    def __missing__(self, name: str) -> str:
        return name.upper()


def _joined(said: str, advice: str) -> str:
    return f"{said}{' ' if said.endswith('?') else '; '}{advice}"


def _sentence(error: BaseException) -> str:
    return of_system(error) or "; ".join([str(error) or type(error).__name__, *getattr(error, "__notes__", ())])


if __name__ == "__main__":
    sys.exit(main())
