"""Every reader of files in the library, with real files for it and what it makes of them.

A reader is *checked* if its files carry checksums: damaged files then give the same result as before, or a
sentence. The others may accept a change that makes sense, such as another number in a recipe.
"""

import gzip
import io
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from torch import nn

import rrise
from rrise.certifiers.folder import load_certifier
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.catalogue import load_dataset
from rrise.data.files import read_inputs
from rrise.data.layouts import read_idx
from rrise.data.sources import load_images
from rrise.deployment.export.exporting import export_certifier
from rrise.deployment.export.folder import load_exported
from rrise.deployment.monitor.monitor import Monitor
from rrise.deployment.monitor.recalibration import read_audited
from rrise.evaluation.measure.evidence_files import read_evidence
from rrise.evaluation.query.stored_certificates import StoredCertificates
from rrise.files import parse_json, read_signed_json, write_bytes, write_json, write_signed_json, write_table
from rrise.models.catalogue import build_model
from rrise.models.folder import load_model, save_model
from rrise.models.program import Program
from rrise.models.weights import load_tensors
from rrise.runs.journal import read_journal
from rrise.runs.recipe import packaged_recipes, read_recipe
from rrise.runs.steps import run_step
from rrise.runs.vote_recipe import VoteRecipe
from rrise.training.checkpoint import Checkpoint, State
from tests.deployment.export.small_exports import calibrated
from tests.deployment.monitor.watched_certifier import queries, watched_half_space

Make = Callable[[Path], object]
Read = Callable[[Path], Any]
RANGE = (0.0, 1.0)
EVIDENCE = Path(__file__).parents[2] / "results" / "fashion-mnist" / "seed-200"
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)


@dataclass(frozen=True)
class Reader:
    """A reader: `make` writes undamaged files into a folder, and `read` returns what is in them.

    `weight` is its share of the cases: a slow reader has fewer. `edited` names a file that holds its own
    checksum: instead of damage, its content is edited, and gets a new checksum.
    """

    name: str
    make: Make
    read: Read
    checked: bool
    weight: float = 1.0
    edited: str | None = None


def png(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def image(kind: str) -> tuple[Make, Read]:
    name = f"x.{kind.lower()}"
    return (
        lambda folder: (folder / name).write_bytes(png(PIXELS[0], kind)),
        lambda folder: read_inputs(folder / name, (1, 8, 8), RANGE).numpy(),
    )


def make_class_folders(folder: Path) -> None:
    for part in ("train", "test"):
        for index, name in enumerate(("cat", "dog")):
            (folder / part / name).mkdir(parents=True)
            (folder / part / name / "0.png").write_bytes(png(PIXELS[index]))


def read_dataset(source: str) -> Any:
    data = load_dataset(source)
    parts = (data.train, data.test)
    return [array for part in parts for array in (part.images, part.labels)], data.class_names


def make_npz(folder: Path) -> None:
    arrays = {"x_train": PIXELS, "y_train": [0, 1, 1], "x_test": PIXELS[:2], "y_test": [0, 1]}
    np.savez_compressed(folder / "data.npz", **arrays, class_names=np.array(["cat", "dog"]))


def make_idx(folder: Path) -> None:
    content = b"\0\0\x08\x03" + np.array(PIXELS.shape, ">u4").tobytes() + PIXELS.tobytes()
    (folder / "images-idx3-ubyte.gz").write_bytes(gzip.compress(content, mtime=0))


def make_plain_idx(folder: Path) -> None:
    make_idx(folder)
    packed = folder / "images-idx3-ubyte.gz"
    (folder / "images-idx3-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()


def make_votes(folder: Path) -> None:
    inputs = np.random.default_rng(1).random((70, 4), dtype=np.float32)
    plan = rrise.VotePlan(0.25, n=40, seed=0, split="calibration")
    torch.manual_seed(0)
    rrise.VoteStore(folder, nn.Linear(4, 3), inputs, plan).collect()


def read_votes(folder: Path) -> Any:
    votes = rrise.read_votes(folder)
    return np.asarray(votes), votes.smoothing, votes.digests.tolist()


def read_vote_sequence(folder: Path) -> Any:
    sequence = rrise.read_sequence(folder)
    return [sequence.counts(first, first + 10) for first in range(0, 40, 10)]


SMALL = {"image_size": 4, "width": 4, "classes": 3}


def read_state(folder: Path) -> Any:
    return {name: tensor.numpy() for name, tensor in load_model(folder).state_dict().items()}


def make_checkpoint(folder: Path) -> None:
    tensors = {"weights.a": torch.arange(6.0), "moments.a": torch.ones(2, 3)}
    Checkpoint(folder, {"seed": 1}).save(State(tensors, {"epoch": 3, "rates": [0.1, 0.2]}))


def read_checkpoint(folder: Path) -> Any:
    """A damaged checkpoint is named in a warning and not used."""
    state = Checkpoint(folder, {"seed": 1}).load()
    if state is None:
        raise rrise.RriseError("the training starts over")
    return state.record, {name: tensor.numpy() for name, tensor in state.tensors.items()}


def small_certifier() -> SurrogateCertifier:
    torch.manual_seed(0)
    return calibrated(build_model("small-convnet", seed=0, **SMALL), (1, 4, 4), inputs=60).certifier


QUERIES = np.random.default_rng(2).random((5, 1, 4, 4), dtype=np.float32)


def answers(certifier: Any) -> Any:
    found = certifier.certify(QUERIES)
    return found.label, found.radius, found.issued, certifier.guarantee.to_json(), certifier.class_names


def make_exported(folder: Path) -> None:
    torch.manual_seed(0)
    made = calibrated(build_model("small-convnet", seed=0, **SMALL), (1, 4, 4), inputs=60)
    export_certifier(made.certifier, made.images, made.votes, folder)


def make_program(folder: Path) -> None:
    make_certifier(folder)
    for path in folder.iterdir():
        if path.name not in ("program.json", "surrogate.safetensors"):
            path.unlink()


def make_certifier(folder: Path) -> None:
    small_certifier().save(folder)


def read_program(folder: Path) -> Any:
    """Only built: a program that was edited may crash the process when it runs."""
    tensors = load_tensors(folder / "surrogate.safetensors")
    graph = parse_json((folder / "program.json").read_bytes(), "program.json")
    return str(Program(graph, tensors).module())


WATCHED, BASE = watched_half_space(size=60, votes=30)


def make_monitor(folder: Path) -> None:
    inputs = queries(12)
    with Monitor(WATCHED, folder / "m.db", base=BASE, fraction=1.0, keep_inputs=True) as monitor:
        monitor.observe(inputs, WATCHED.certify(inputs))
        assert monitor.flush(audits=True)


def read_monitor(folder: Path) -> Any:
    with Monitor(WATCHED, folder / "m.db") as monitor:
        return str(monitor.state())


def make_certificates(folder: Path) -> None:
    table = pa.table({"index": np.arange(50), "radius": np.linspace(0, 1, 50), "issued": np.arange(50) > 9})

    def make(new: Path) -> dict[str, Any]:
        write_table(new / "certificates.parquet", table)
        return {}

    run_step(folder / "evaluation", {}, make)


def read_certificates(folder: Path) -> Any:
    return (
        StoredCertificates(folder / "evaluation" / "certificates.parquet").select("radius > 0.5").to_pydict()
    )


def make_journal(folder: Path) -> None:
    (folder / "journal.jsonl").write_text('{"step": "base", "seconds": 1.5}\n{"step": "votes"}\n')


def copied(source: Any, name: str) -> Make:
    return lambda folder: write_bytes(folder / name, source.read_bytes())


def read_vote_recipe(folder: Path) -> Any:
    return asdict(VoteRecipe.read(folder / "votes.toml"))


def make_vote_recipe(folder: Path) -> None:
    (folder / "votes.toml").write_text(
        '[votes]\ndata = "x.npy"\nbase = "small-convnet"\nsplit = "test"\nsigma = 0.25\nn = 100\n'
        'out = "votes"\ninput_range = [0.0, 1.0]\noptions = { classes = 3 }\n'
    )


READERS = (
    Reader("PNG", *image("PNG"), checked=True),
    Reader("JPEG", *image("JPEG"), checked=False),
    Reader("image folders", make_class_folders, lambda f: read_dataset(str(f)), checked=True),
    Reader(
        "npy",
        lambda f: np.save(f / "x.npy", PIXELS[:, None] / np.float32(255)),
        lambda f: read_inputs(f / "x.npy", (1, 8, 8), RANGE).numpy(),
        checked=False,
    ),
    Reader(
        "npy, mapped",
        lambda f: np.save(f / "x.npy", PIXELS),
        lambda f: load_images(str(f / "x.npy"), "test")[:],
        checked=False,
    ),
    Reader("npz", make_npz, lambda f: read_dataset(f"npz:{f / 'data.npz'}"), checked=True),
    Reader("IDX, packed", make_idx, lambda f: read_idx(f / "images-idx3-ubyte"), checked=True),
    Reader("IDX", make_plain_idx, lambda f: read_idx(f / "images-idx3-ubyte"), checked=False),
    Reader("votes", make_votes, read_votes, checked=True),
    Reader("votes in order", make_votes, read_vote_sequence, checked=True),
    Reader(
        "model folder",
        lambda f: save_model(f, "small-convnet", build_model("small-convnet", seed=0, **SMALL), **SMALL),
        read_state,
        checked=True,
    ),
    Reader("checkpoint", make_checkpoint, read_checkpoint, checked=True),
    Reader("program", make_program, read_program, checked=False),
    Reader("certifier", make_certifier, lambda f: answers(load_certifier(f)), checked=True, weight=0.5),
    Reader("exported", make_exported, lambda f: answers(load_exported(f)), checked=True, weight=0.5),
    Reader(
        "certifier, edited",
        make_certifier,
        lambda f: answers(load_certifier(f)),
        checked=False,
        weight=0.5,
        edited="certifier.json",
    ),
    Reader(
        "exported, edited",
        make_exported,
        lambda f: answers(load_exported(f)),
        checked=False,
        weight=0.5,
        edited="certifier.json",
    ),
    Reader("votes, edited", make_votes, read_votes, checked=False, weight=0.5, edited="manifest.json"),
    Reader(
        "evidence",
        lambda f: shutil.copytree(EVIDENCE, f, dirs_exist_ok=True),
        lambda f: str(read_evidence(f)),
        checked=True,
        weight=0.5,
    ),
    Reader(
        "evidence, edited",
        lambda f: shutil.copytree(EVIDENCE, f, dirs_exist_ok=True),
        lambda f: str(read_evidence(f)),
        checked=False,
        weight=0.5,
        edited="evidence.json",
    ),
    Reader("certificates", make_certificates, read_certificates, checked=True),
    Reader("monitor", make_monitor, read_monitor, checked=False, weight=0.5),
    Reader("audits", make_monitor, lambda f: str(read_audited(f / "m.db")), checked=False),
    Reader(
        "recipe",
        copied(packaged_recipes()["digits"], "r.toml"),
        lambda f: asdict(read_recipe(f / "r.toml", "quick")),
        checked=False,
    ),
    Reader("vote recipe", make_vote_recipe, read_vote_recipe, checked=False),
    Reader(
        "signed JSON",
        lambda f: write_signed_json(f / "x.json", {"a": [1, 2.5, "x"], "b": {"c": None}}),
        lambda f: read_signed_json(f / "x.json"),
        checked=True,
    ),
    Reader(
        "JSON",
        lambda f: write_json(f / "x.json", {"a": [1, 2.5, "x"], "b": {"c": None}}),
        lambda f: parse_json((f / "x.json").read_bytes(), "x.json"),
        checked=False,
    ),
    Reader("journal", make_journal, read_journal, checked=False),
)
