"""Search for the best surrogate: train variants of the strategy `distill`, and store what they predict.

    python benchmarks/distillation.py RUN --out OUT --data-root DATA --seconds 600

RUN is the folder of a run with a base classifier, or published evidence whose recipe names its weights. A
variant is a line of JSON: its name, settings of `rrise.SurrogateTraining`, and what only this benchmark knows
(`Variant`). `--variants FILE` replaces the list
below. With `--follow`, lines may be added to the file while this runs, until one says `{"name": "stop"}`.
Every variant averages its weights over steps, and stores the class probabilities of its last weights and of
the average, for each image, or for the image with one draw of query noise. Finished variants are skipped.
`--votes N` also collects N votes of each validation image. `benchmarks/distillation_table.py` compares all.
"""

import argparse
import copy
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from machine import hardware
from rrise.certifiers.query_noise import QueryNoise
from rrise.data.inputs import check_input_range
from rrise.data.pool import Pool
from rrise.files import write_bytes, write_json
from rrise.models.evaluating import evaluating
from rrise.models.folder import load_model
from rrise.models.weights import load_tensors, load_weights, save_tensors
from rrise.runs.data import RunData
from rrise.runs.networks import Network, given_base
from rrise.runs.recipe import Recipe, read_recipe
from rrise.seeds import derive_seed
from rrise.statistics import Threat
from rrise.training import distillation as library
from rrise.training.checkpoint import Checkpoint
from rrise.training.loop import train
from rrise.training.settings import SurrogateTraining
from rrise.training.strategies import starting_network
from rrise.training.team import Team
from rrise.training.views import Views
from rrise.votes.collect import collect_votes
from rrise.votes.inputs import ShardedInputs

AUGMENTATIONS = {
    "cifar-10": ("crop-4", "flip", "randaugment"),
    "fashion-mnist": ("crop-2", "flip", "randaugment"),
    "cifar-100": ("crop-4", "flip", "randaugment"),
    "digits": ("crop-1",),
}
REFERENCE = {"epochs": 60, "learning_rate": 1e-3, "weight_decay": 5e-4, "averaging": 0.999}
WIDE = {"cifar-10": {"width": 128}, "fashion-mnist": {"width": 384}, "digits": {"width": 32}}
VARIANTS: tuple[dict[str, Any], ...] = (
    {"name": "reference"},
    {"name": "wide", "wide": True},
    {"name": "rate-2e-3", "learning_rate": 2e-3},
    {"name": "rate-5e-4", "learning_rate": 5e-4},
    {"name": "votes-16", "fresh_votes": 16},
    {"name": "all-mixed", "mixed": 1.0},
    {"name": "epochs-150", "epochs": 150},
    {"name": "votes-1", "fresh_votes": 1, "epochs": 120},
    {"name": "cut", "mixing": "cut"},
    {"name": "dirichlet", "loss": "dirichlet", "fresh_votes": 8},
)
SPLITS = ("validation", "calibration", "test")
_BATCH = 1_000


class CutViews(Views):
    """A box of each mixed image is its partner's, as in CutMix."""

    def mix(self, own: torch.Tensor, partner: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Replace a square that has `1 - share` of the area; later digits of the share give its place."""
        height, width = own.shape[2:]
        side = (1 - share).sqrt()
        rows, columns = (
            (torch.arange(size, device=own.device) + 0.5) / size - (share * factor % 1) * (1 - side)
            for size, factor in ((height, 997.0), (width, 99_991.0))
        )
        down, across = ((place >= 0) & (place < side) for place in (rows, columns))
        return torch.where(down.transpose(2, 3) & across, partner, own)


def dirichlet(votes: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the Dirichlet-multinomial likelihood of votes, with concentrations `exp(logits)`."""

    def loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        alpha, counts = logits.float().clamp(-8, 12).exp(), votes * targets.float()
        total = alpha.sum(dim=1)
        each = torch.lgamma(alpha) - torch.lgamma(alpha + counts)
        return (torch.lgamma(total + votes) - torch.lgamma(total) + each.sum(dim=1)).mean()

    return loss


class BothViews(CutViews):
    """Every other mixed image is blended, the others are cut."""

    def mix(self, own: torch.Tensor, partner: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Blend the first half of the mixed images, and cut the second."""
        half = len(share) // 2
        blended = Views.mix(self, own[:half], partner[:half], share[:half])
        return torch.cat([blended, super().mix(own[half:], partner[half:], share[half:])])


MIXING = {"blend": Views, "cut": CutViews, "both": BothViews}


@dataclass(frozen=True)
class Variant:
    """A surrogate to try."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    wide: bool = False
    """A wider network from random weights."""
    network: dict[str, Any] = field(default_factory=dict)
    """Options of the base classifier's architecture, for another network from random weights."""
    teacher: str = ""
    """The weights of a surrogate whose answers are the targets."""
    start: str = ""
    """The weights of a surrogate to start from."""
    frozen: tuple[str, ...] = ()
    """Parts of the network whose convolutions keep the base classifier's weights."""
    mixing: str = "blend"
    loss: str = "cross-entropy"
    unlabelled: tuple[str, ...] = ()
    """Other datasets whose training images are added, without their labels."""

    @classmethod
    def of(cls, line: dict[str, Any]) -> "Variant":
        """Read a line of JSON."""
        names = ("wide", "network", "teacher", "start", "frozen", "mixing", "loss", "unlabelled")
        own = {name: line[name] for name in names if name in line}
        settings = {k: v for k, v in line.items() if k not in {"name", *own}}
        lists = {name: tuple(own.get(name, ())) for name in ("frozen", "unlabelled")}
        return cls(line["name"], settings, **{**own, **lists})


def saved_base(run: Path, recipe: Recipe) -> tuple[Network, nn.Module]:
    """Return the base classifier of a run, or the one whose weights the recipe names."""
    folder = run / "base"
    return (Network.saved(folder), load_model(folder)) if folder.is_dir() else given_base(recipe.base)


def spent(variant: Variant, what: str) -> int:
    """Return what the training took whose weights a variant starts from: its record is beside them."""
    if not variant.start:
        return 0
    weights = Path(variant.start)
    return int(json.loads((weights.parent.parent / f"{weights.stem}.json").read_text())[what])


class OutOfTimeError(Exception):
    """The time limit has passed."""


class Search:
    """A run's base classifier and data, and the variants trained on them."""

    def __init__(
        self, run: Path, out: Path, data_root: Path | None, deadline: float, train: int | None = None
    ) -> None:
        changes = {} if train is None else {"data.train": train}
        self.recipe: Recipe = read_recipe(run / "recipe.toml", None, changes)
        self.out, self.deadline, self.data_root = out, deadline, data_root
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.data = RunData(self.recipe.data, data_root)
        self.network, base = saved_base(run, self.recipe)
        self.base = base.to(self.device).eval()
        few = ShardedInputs(self.data.values("train")[:64], check_input_range((0.0, 1.0)))
        self.pools: dict[tuple[str, ...], Pool] = {}
        votes = self.recipe.votes
        self.smoothing = library.smoothing_to_distill(self.base, few, None, votes.sigma, votes.precision)
        library._validation_votes = _once_per_pool(library._validation_votes)
        out.mkdir(parents=True, exist_ok=True)

    def try_out(self, variant: Variant) -> None:
        """Train a variant, unless it is there, and store its predictions."""
        place = self.out / f"{variant.name}.npz"
        if place.exists():
            return
        source = self.data.settings.source
        settings = SurrogateTraining(strategy="distill", seed=self.recipe.surrogate.seed).changed(
            **{**REFERENCE, "augmentations": AUGMENTATIONS.get(source, ()), **variant.settings}
        )
        before = {name: spent(variant, name) for name in ("passes", "votes")}
        start, times = time.perf_counter(), []
        options = WIDE[source] if variant.wide else variant.network
        student = starting_network(
            self.base, self._other(options) if options else None, "distill", settings.seed
        )
        if variant.start:
            student = self._surrogate(variant.start)
        freeze(student, self.base, variant.frozen)
        library.cross_entropy = (
            dirichlet(settings.fresh_votes) if variant.loss == "dirichlet" else _CROSS_ENTROPY
        )
        pool = self._pool(variant.unlabelled)
        views = MIXING[variant.mixing](settings, pool.shape, (0.0, 1.0))
        how: dict[str, Any] = {"views": views, "settings": settings, "team": Team()}
        how["teacher"] = self._surrogate(variant.teacher) if variant.teacher else None
        lesson = library.distillation(self.base, student, pool, self.smoothing, **how)
        last: dict[str, torch.Tensor] = {}

        def on_epoch(epoch: int, measured: dict[str, float]) -> None:
            times.append(time.perf_counter() - start)
            if epoch == settings.epochs:
                last.update({name: value.clone() for name, value in student.state_dict().items()})
            if epoch in (1, 2) or epoch % 5 == 0 or settings.epochs < 10:
                print(variant.name, epoch, f"{times[-1]:.1f} s", _rounded(measured), flush=True)
            if time.time() > self.deadline:
                raise OutOfTimeError

        identity = json.loads(json.dumps(asdict(variant)))
        checkpoint = Checkpoint(self.out / "checkpoints" / variant.name, identity, seconds=60)
        history = train(lesson.task, settings, checkpoint=checkpoint, on_epoch=on_epoch)
        found = self._predicted(student, "average", settings.query_noise)
        weights = {name: value.bfloat16() for name, value in student.state_dict().items()}
        if last:
            student.load_state_dict(last)
            found |= self._predicted(student, "last", settings.query_noise)
        (self.out / "weights").mkdir(exist_ok=True)
        save_tensors(self.out / "weights" / f"{variant.name}.safetensors", weights)
        record = {
            "variant": asdict(variant),
            "settings": asdict(settings),
            "passes": lesson.passes_until(settings.epochs) + before["passes"],
            "votes": lesson.votes_until(settings.epochs) + before["votes"],
            "weights": sum(parameter.numel() for parameter in student.parameters()),
            "seconds": time.perf_counter() - start,
            "seconds_of_epochs": times,
            "history": asdict(history),
            "hardware": hardware(self.device.type),
        }
        write_json(self.out / f"{variant.name}.json", record)
        _save(place, found)
        checkpoint.clear()
        print(variant.name, f"done in {record['seconds']:.1f} s", _rounded(history.selected), flush=True)

    def vote(self, n: int) -> None:
        """Collect votes of the validation images, unless they are there."""
        place = self.out / "votes-validation.npy"
        if n and not place.exists():
            votes = collect_votes(
                self.base,
                self.data.values("validation"),
                sigma=self.smoothing.noise,
                n=n,
                seed=self.recipe.votes.seed,
                split="validation",
                precision=self.smoothing.precision,
            )
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(votes))
            write_bytes(place, buffer.getvalue())
            print(f"{n} votes of {len(votes)} validation images", flush=True)

    def _pool(self, unlabelled: tuple[str, ...]) -> Pool:
        """Return the training images, with those of other datasets if some are named."""
        if unlabelled not in self.pools:
            data = RunData(replace(self.recipe.data, unlabelled=unlabelled), self.data_root)
            self.pools[unlabelled] = Pool(data.training_values(), device=self.device)
        return self.pools[unlabelled]

    def _other(self, options: dict[str, Any]) -> nn.Module:
        other = replace(self.network, options={**self.network.options, **options})
        seed = derive_seed(self.recipe.surrogate.seed, "surrogate")
        return other.build(seed, self.data, self.device, "surrogate")

    def _surrogate(self, weights: str) -> nn.Module:
        surrogate = copy.deepcopy(self.base).float()
        load_weights(surrogate, load_tensors(Path(weights)), weights)
        return surrogate.eval().requires_grad_(False)

    def _predicted(self, network: nn.Module, which: str, level: float) -> dict[str, np.ndarray]:
        """Return class probabilities for every split, of images with query noise of this level."""
        found = {}
        threat = Threat(0.0, level, self.smoothing.sigma) if level else None
        with evaluating(network):
            for split in SPLITS:
                values, parts = self.data.values(split), []
                noise = QueryNoise(threat, (0.0, 1.0), seed=derive_seed(self.recipe.votes.seed, split))
                for first in range(0, len(values), _BATCH):
                    seen = noise.seen(torch.from_numpy(values[first : first + _BATCH])).to(self.device)
                    parts.append(network(seen).float().softmax(dim=1).cpu())
                found[f"{which}.{split}.image"] = torch.cat(parts).numpy()
                found[f"labels.{split}"] = self.data.labels(split).numpy()
        return found


def freeze(student: nn.Module, base: nn.Module, parts: tuple[str, ...]) -> None:
    """Give convolutions in these parts the base classifier's weights, as buffers: nothing trains them."""
    named = dict(base.named_modules())
    for name, layer in student.named_modules():
        kept = any(part in name.split(".") for part in parts) and "downsample" not in name
        if kept and isinstance(layer, nn.Conv2d):
            del layer._parameters["weight"]
            layer.register_buffer("weight", named[name].weight.detach().to(torch.float32, copy=True))


_CROSS_ENTROPY = library.cross_entropy


def _once_per_pool(collect: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a function that collects the votes of the held-out images once for all variants of one pool."""
    kept: dict[int, torch.Tensor] = {}

    def collected(base: nn.Module, inputs: torch.Tensor, *arguments: Any) -> torch.Tensor:
        key = hash(inputs.cpu().numpy().tobytes())
        if key not in kept:
            kept[key] = collect(base, inputs, *arguments)
        return kept[key]

    return collected


def _rounded(measured: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in measured.items()}


def _save(place: Path, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(place, buffer.getvalue())


def wanted(file: Path | None, follow: bool, deadline: float) -> Iterator[Variant]:
    """Yield the variants, in order; while following a file, wait for more lines."""
    done = 0
    while time.time() < deadline:
        lines = [*VARIANTS] if file is None else [json.loads(x) for x in file.read_text().splitlines()]
        if done < len(lines):
            if lines[done]["name"] == "stop":
                return
            yield Variant.of(lines[done])
            done += 1
        elif not follow:
            return
        else:
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--variants", type=Path)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--votes", type=int, default=0)
    parser.add_argument("--train", type=int, help="how many training images; default: as the recipe says")
    options = parser.parse_args()
    deadline = time.time() + options.seconds
    torch.backends.cudnn.benchmark = True
    search = Search(options.run, options.out, options.data_root, deadline, options.train)
    print("ready", flush=True)
    search.vote(options.votes)
    try:
        for variant in wanted(options.variants, options.follow, deadline):
            search.try_out(variant)
    except OutOfTimeError:
        print("out of time: run again to continue", flush=True)


if __name__ == "__main__":
    main()
