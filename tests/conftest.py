"""What every test stands on: no network, temporary caches, and tiny models made on the spot.

Shapes are checked here too: jaxtyping's import hook runs beartype on every function of the packages that
move tensors. It must be installed before they are imported, so this file imports boustro in its fixtures only.
"""

import contextlib
import gc
import hashlib
import os
import socket
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

CACHES = tempfile.TemporaryDirectory(prefix="boustro-tests-", ignore_cleanup_errors=True)
os.environ["BOUSTRO_CACHE"] = f"{CACHES.name}/features"
os.environ["HF_HOME"] = f"{CACHES.name}/huggingface"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("BOUSTRO_BF16", "0")  # the same on every machine; `make test-bf16` sets 1
os.environ.setdefault("OMP_NUM_THREADS", "1")  # on tensors this small, threads cost more than they bring

gc.disable()  # until all is imported: what stays to the end need not be looked through again and again

import pytest  # noqa: E402
from filelock import FileLock  # noqa: E402
from hypothesis import settings  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402

settings.register_profile("short", deadline=None, max_examples=25)  # a busy machine is no failure
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile("short")
CHECKED = ["boustro.lab.objectives", "boustro.models", "boustro.heads", "boustro.lab.generation"]
import boustro.heads.options  # noqa: E402, F401 (before the hook: options have rules of their own, and no tensors)

install_import_hook(CHECKED, "beartype.beartype")

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
REAL_LM = os.environ.get("BOUSTRO_REAL_LM") or None
KINDS = ("gpt2", "llama", "qwen3", "gpt_neox")
SENTENCES = [
    "The ferry to Vellmar leaves at seven, and Ada Brandt is never on time.",
    "Mr Okonkwo sold 1,250 umbrellas in Port Lisse last winter; it rained for 40 days.",
    "“Nobody reads the harbour bulletin,” said the harbour master, who wrote it.",
    "In Vellmar the baker closes on Mondays, the bank on Tuesdays and the library whenever it snows.",
    "Professor Ines Calloway teaches geology at the University of Port Lisse.",
    "The Calloway report cost 3.5 million and was read by nine people.",
    "Brandt & Sons build small boats: two a year, sometimes three.",
    "Élodie Müller flew from Zürich to Vellmar with a crate of black cherries.",
    "When the wind turns north, the fishermen of Lisse mend their nets and argue about football.",
    "Okonkwo United beat Vellmar Rovers 4-2 after being two goals behind at half time.",
]

WORDS = ["Ada", "Brandt", "sold", "1,250", "umbrellas", "in", "Vellmar", "."]


class NetworkBlocked(RuntimeError):
    """A test tried to reach the network."""


def _guard(method: str) -> Callable:
    original = getattr(socket.socket, method)

    def guarded(self, *arguments):
        address = arguments[-1]  # sendto takes it last
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise NetworkBlocked(f"a test tried to reach {address[0]}; tests run without the network")
        return original(self, *arguments)

    return guarded


def _guard_lookup(host, *arguments, _original=socket.getaddrinfo, **options):
    if host not in (None, "", "127.0.0.1", "::1", "localhost", "0.0.0.0", "::"):
        if options.get("flags", 0) & socket.AI_PASSIVE:  # an address of this machine to listen on; nothing is reached
            raise socket.gaierror(f"tests know no address named {host}")
        raise NetworkBlocked(f"a test tried to look up {host}; tests run without the network")
    return _original(host, *arguments, **options)


for _method in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, _method, _guard(_method))
socket.getaddrinfo = _guard_lookup


def pytest_collection_modifyitems(items) -> None:
    if REAL_LM is None:
        skip = pytest.mark.skip(reason="needs a folder of an LM in $BOUSTRO_REAL_LM")
        for item in items:
            if item.get_closest_marker("real_lm"):
                item.add_marker(skip)
    if SHARED_DATA.is_dir():
        return
    for item in items:
        if item.get_closest_marker("shared_data"):
            item.add_marker(pytest.mark.skip(reason=f"needs {SHARED_DATA}, which is not here"))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter) -> None:
    """Say of each wing how its tests ended, and the seconds that they took, all processes together."""
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for outcome in ("passed", "failed", "skipped", "error"):
        for report in terminalreporter.getreports(outcome):
            wing = report.nodeid.removeprefix("tests/").partition("/")[0]
            ended[wing][outcome] += 1
    for report in chain(*terminalreporter.stats.values()):
        if hasattr(report, "duration"):
            seconds[report.nodeid.removeprefix("tests/").partition("/")[0]] += report.duration
    for wing, counts in sorted(ended.items()):
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        terminalreporter.write_line(f"{wing:4}  {outcomes}; {seconds[wing]:.0f} s")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """made_once(name, make) → a path at which `make` has written something: once for all processes of a run."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make_once(name: str, make: Callable[[Path], object]) -> Path:
        path, done = folder / name, folder / f"{name}.made"
        with FileLock(folder / f"{name}.lock"):
            if not done.exists():
                make(path)
                done.touch()
        return path

    return make_once


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """../shared/data; a test that asks for it carries the marker `shared_data`."""
    return SHARED_DATA


@pytest.fixture
def real_lm() -> str:
    """The folder in `$BOUSTRO_REAL_LM`; a test that asks for it carries the marker `real_lm`."""
    assert REAL_LM is not None
    return REAL_LM


@pytest.fixture
def file(tmp_path):
    """file(name, content) → the path of a new file."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(scope="session")
def tiny_tokenizer(tmp_path_factory) -> Path:
    """The folder of a byte-level BPE of 400 pieces, learned from `SENTENCES`."""
    return _write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tiny", 400)


@pytest.fixture(scope="session")
def tiny_lm(tiny_tokenizer, tmp_path_factory) -> Callable[..., Path]:
    """tiny_lm(kind, direction="forward", seed=0, vocab=None, sentinel=None) → a model folder, made once.

    `kind` is one of `KINDS`. `vocab` is the size of a vocabulary other than the tiny tokenizer's; its
    tokenizer is learned from the same sentences. `direction`, and `sentinel` where given, go into config.json.
    """
    made: dict[tuple, Path] = {}

    def make(
        kind: str, direction="forward", seed: int = 0, vocab: int | None = None, sentinel: bool | None = None
    ) -> Path:
        key = (kind, direction, seed, vocab, sentinel)
        if key not in made:
            tokenizer = tiny_tokenizer
            if vocab is not None:
                tokenizer = _write_tokenizer(tmp_path_factory.mktemp("tokenizer") / str(vocab), vocab)
            made[key] = _write_lm(tmp_path_factory.mktemp(kind) / "model", kind, tokenizer, seed)
            _set_config(made[key], direction, sentinel)
        return made[key]

    return make


@pytest.fixture(scope="session")
def lm(tiny_lm) -> str:
    """The folder of a forward LM with a sentinel, to be read only."""
    return str(tiny_lm("llama", sentinel=True))


@pytest.fixture(scope="session")
def tiny_pair(tiny_lm) -> str:
    """The spec of a forward and a backward LM over one vocabulary, with sentinels."""
    return f"{tiny_lm('llama', sentinel=True)}+{tiny_lm('llama', 'backward', seed=1, sentinel=True)}"


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    """A tiny BERT with a WordPiece vocabulary of its own."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    trained = BertWordPieceTokenizer(lowercase=False)
    trained.train_from_iterator([" ".join(WORDS)] * 3, vocab_size=60)
    tokenizer = BertTokenizerFast(tokenizer_object=trained._tokenizer)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tagger_folder(made_once, tiny_pair) -> Path:
    """The folder of a tagger that has learned `labelled.DATA`; to be read only."""
    from boustro import Tagger
    from labelled import DATA, longer

    tagger = Tagger(tiny_pair, "mlp", epochs=60, mix_epochs=4, lr=1e-2, dropout=0.0, hidden=64)
    return made_once("ner", lambda path: tagger.fit(DATA, longer(DATA), seed=1).save_pretrained(path))


@pytest.fixture(scope="session")
def exported(made_once, tagger_folder) -> Path:
    """The export of `tagger_folder`, with weights in float32; to be read only."""
    from boustro.apps.export.command import ExportOptions
    from boustro.apps.export.folder import export_folder

    with _traced_once(made_once):
        return made_once("exported", lambda path: export_folder(tagger_folder, path, ExportOptions(sentences=40)))


@pytest.fixture
def traced_once(made_once):
    """A module that is equal to an earlier one, of this process or another, has its graph: to trace an LM is slow."""
    with _traced_once(made_once):
        yield


@contextlib.contextmanager
def _traced_once(made_once):
    import onnx
    import torch

    trace = torch.onnx.export

    def plain(owner: object) -> list[str]:
        kinds = (bool, int, float, str, tuple)
        return [f"{name}={value}" for name, value in sorted(vars(owner).items()) if isinstance(value, kinds)]

    def once(module: torch.nn.Module, given: tuple, **how):
        (lm,) = vars(module).get("_lm", [None])
        said = [str(module), *(word for part in module.modules() for word in plain(part)), str(how["dynamic_shapes"])]
        said += [] if lm is None else [str(lm.model.config), str(lm.scales), *plain(lm)]
        said += [f"{tensor.shape}" for tensor in given] + how["input_names"] + how["output_names"]
        key = hashlib.sha256("\n".join(said).encode())
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            key.update(name.encode() + tensor.detach().contiguous().numpy().tobytes())
        made = made_once(
            f"graph-{key.hexdigest()}", lambda path: onnx.save(trace(module, given, **how).model_proto, path)
        )
        return SimpleNamespace(model_proto=onnx.load(made))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.onnx.export", once)
        yield


@pytest.fixture(scope="session")
def world(made_once, tiny_lm):
    """One valid thing of every kind that Boustro reads or writes; to be read only."""
    from world import World, make_world

    return World(made_once("world", lambda path: make_world(path, tiny_lm)))


def _write_tokenizer(folder: Path, size: int) -> Path:
    from boustro.text.tokenizers import save_tokenizer, train_tokenizer

    save_tokenizer(train_tokenizer(SENTENCES, size), folder)
    return folder


def _write_lm(folder: Path, kind: str, tokenizer_folder: Path, seed: int) -> Path:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    end = tokenizer.eos_token_id
    common = {"vocab_size": len(tokenizer), "bos_token_id": end, "eos_token_id": end}
    if kind == "gpt2":
        shape = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    else:
        shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
        shape |= {"max_position_embeddings": 64}
        if kind == "qwen3":
            shape |= {"num_key_value_heads": 1, "head_dim": 16}
    lm = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **shape, **common), dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.ndim > 1:  # at the usual 0.02 all states look alike
                parameter.normal_(0, 0.3, generator=generator)
    lm.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def stopped_before(monkeypatch):
    """`with stopped_before(5):` a training run raises `error` in place of its sixth step."""
    from boustro.lab.pretrain.trainer import PretrainTrainer

    @contextlib.contextmanager
    def at(step: int, error: Exception = RuntimeError("stopped")):  # noqa: B008
        advance = PretrainTrainer.training_step

        def stop(trainer, *arguments, **options):
            if trainer.state.global_step == step:
                raise error
            return advance(trainer, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(PretrainTrainer, "training_step", stop)
            yield

    return at


@pytest.fixture
def small_chunks(monkeypatch):
    """Losses compute the logits of three rows at a time."""
    for module in ("models.loss", "lab.masked"):
        monkeypatch.setattr(f"boustro.{module}.best_chunk_rows", lambda device: 3)


def _set_config(folder: Path, direction: str, sentinel: bool | None) -> None:
    import json

    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"direction": direction}
    if sentinel is not None:
        config["sentinel"] = sentinel
    path.write_text(json.dumps(config, indent=1), "utf-8")
