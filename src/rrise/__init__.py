"""RRISE: certified robustness radii from one forward pass.

    certifier = rrise.fit(base, images, sigma=0.25)
    certificates = certifier.certify(new_images)

`fit` collects votes of the base classifier, trains a surrogate on them and calibrates it. The pieces are
`collect_votes`, `train_surrogate` and `calibrate`. Bounds and radii as functions of arrays are in
`rrise.statistics`.

Names are imported on first use, so `import rrise` does not load torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rrise._version import __version__

if TYPE_CHECKING:
    from rrise.certifiers.calibrating import calibrate as calibrate
    from rrise.certifiers.cascade import Cascade as Cascade
    from rrise.certifiers.certificates import Certificates as Certificates
    from rrise.certifiers.certifier import Certifier as Certifier
    from rrise.certifiers.early_stopping import EarlyStopping as EarlyStopping
    from rrise.certifiers.fit import fit as fit
    from rrise.certifiers.folder import load_certifier as load_certifier
    from rrise.certifiers.guarantee import Guarantee as Guarantee
    from rrise.certifiers.input_specific import InputSpecificBudget as InputSpecificBudget
    from rrise.certifiers.monte_carlo import MonteCarlo as MonteCarlo
    from rrise.certifiers.monte_carlo import monte_carlo_certificates as monte_carlo_certificates
    from rrise.certifiers.sequential import Sequential as Sequential
    from rrise.certifiers.surrogate import SurrogateCertifier as SurrogateCertifier
    from rrise.certifiers.with_votes import SurrogateWithVotes as SurrogateWithVotes
    from rrise.deployment.bulk.run import certify_dataset as certify_dataset
    from rrise.deployment.export.exporting import export_certifier as export_certifier
    from rrise.deployment.loading import load_deployed as load_deployed
    from rrise.deployment.monitor.monitor import Monitor as Monitor
    from rrise.deployment.service.app import create_app as create_app
    from rrise.errors import RriseError as RriseError
    from rrise.models.fingerprint import fingerprint as fingerprint
    from rrise.training.base import train_base as train_base
    from rrise.training.settings import SurrogateTraining as SurrogateTraining
    from rrise.training.settings import TrainingSettings as TrainingSettings
    from rrise.training.surrogate import Surrogate as Surrogate
    from rrise.training.surrogate_training import train_surrogate as train_surrogate
    from rrise.votes.array import Votes as Votes
    from rrise.votes.collect import collect_votes as collect_votes
    from rrise.votes.live import LiveVotes as LiveVotes
    from rrise.votes.noise import Gaussian as Gaussian
    from rrise.votes.noise import UnclippedGaussian as UnclippedGaussian
    from rrise.votes.plan import VotePlan as VotePlan
    from rrise.votes.reading import read_sequence as read_sequence
    from rrise.votes.reading import read_votes as read_votes
    from rrise.votes.store import VoteStore as VoteStore

_HOMES = {
    "Cascade": "rrise.certifiers.cascade",
    "Certificates": "rrise.certifiers.certificates",
    "Certifier": "rrise.certifiers.certifier",
    "EarlyStopping": "rrise.certifiers.early_stopping",
    "Gaussian": "rrise.votes.noise",
    "Guarantee": "rrise.certifiers.guarantee",
    "InputSpecificBudget": "rrise.certifiers.input_specific",
    "LiveVotes": "rrise.votes.live",
    "Monitor": "rrise.deployment.monitor.monitor",
    "MonteCarlo": "rrise.certifiers.monte_carlo",
    "RriseError": "rrise.errors",
    "Sequential": "rrise.certifiers.sequential",
    "Surrogate": "rrise.training.surrogate",
    "SurrogateCertifier": "rrise.certifiers.surrogate",
    "SurrogateTraining": "rrise.training.settings",
    "SurrogateWithVotes": "rrise.certifiers.with_votes",
    "TrainingSettings": "rrise.training.settings",
    "UnclippedGaussian": "rrise.votes.noise",
    "VotePlan": "rrise.votes.plan",
    "VoteStore": "rrise.votes.store",
    "Votes": "rrise.votes.array",
    "calibrate": "rrise.certifiers.calibrating",
    "certify_dataset": "rrise.deployment.bulk.run",
    "collect_votes": "rrise.votes.collect",
    "create_app": "rrise.deployment.service.app",
    "export_certifier": "rrise.deployment.export.exporting",
    "fingerprint": "rrise.models.fingerprint",
    "fit": "rrise.certifiers.fit",
    "load_certifier": "rrise.certifiers.folder",
    "load_deployed": "rrise.deployment.loading",
    "monte_carlo_certificates": "rrise.certifiers.monte_carlo",
    "read_sequence": "rrise.votes.reading",
    "read_votes": "rrise.votes.reading",
    "train_base": "rrise.training.base",
    "train_surrogate": "rrise.training.surrogate_training",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rrise' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
