"""RRISE: certified robustness radii from one forward pass.

    votes = rrise.collect_votes(base, images, sigma=0.25, n=1000, seed=100)
    surrogate = rrise.train_surrogate(base, images, votes)
    certifier = rrise.calibrate(surrogate, held_out_images, held_out_votes, sigma=0.25, failure=0.05)
    certificates = certifier(new_images)

Names are imported on first use, so `import rrise` does not load torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rrise._version import __version__

if TYPE_CHECKING:
    from rrise.certifiers.certificates import Certificates as Certificates
    from rrise.certifiers.early_stopping import EarlyStopping as EarlyStopping
    from rrise.certifiers.folder import load_certifier as load_certifier
    from rrise.certifiers.guarantee import Guarantee as Guarantee
    from rrise.certifiers.input_specific import InputSpecificBudget as InputSpecificBudget
    from rrise.certifiers.monte_carlo import MonteCarlo as MonteCarlo
    from rrise.certifiers.monte_carlo import monte_carlo_certificates as monte_carlo_certificates
    from rrise.certifiers.sequential import Sequential as Sequential
    from rrise.certifiers.surrogate import Certifier as Certifier
    from rrise.certifiers.surrogate import calibrate as calibrate
    from rrise.errors import RriseError as RriseError
    from rrise.models.fingerprint import fingerprint as fingerprint
    from rrise.statistics import anytime_lower as anytime_lower
    from rrise.statistics import certified_radius as certified_radius
    from rrise.statistics import clopper_pearson_interval as clopper_pearson_interval
    from rrise.statistics import clopper_pearson_lower as clopper_pearson_lower
    from rrise.statistics import clopper_pearson_upper as clopper_pearson_upper
    from rrise.statistics import conformal_rank as conformal_rank
    from rrise.training.surrogate import Surrogate as Surrogate
    from rrise.training.surrogate_training import train_surrogate as train_surrogate
    from rrise.votes.array import Votes as Votes
    from rrise.votes.collect import collect_votes as collect_votes
    from rrise.votes.live import LiveVotes as LiveVotes
    from rrise.votes.plan import VotePlan as VotePlan
    from rrise.votes.reading import read_sequence as read_sequence
    from rrise.votes.reading import read_votes as read_votes
    from rrise.votes.store import VoteStore as VoteStore

_HOMES = {
    "Certificates": "rrise.certifiers.certificates",
    "Certifier": "rrise.certifiers.surrogate",
    "EarlyStopping": "rrise.certifiers.early_stopping",
    "Guarantee": "rrise.certifiers.guarantee",
    "InputSpecificBudget": "rrise.certifiers.input_specific",
    "LiveVotes": "rrise.votes.live",
    "MonteCarlo": "rrise.certifiers.monte_carlo",
    "RriseError": "rrise.errors",
    "Sequential": "rrise.certifiers.sequential",
    "Surrogate": "rrise.training.surrogate",
    "VotePlan": "rrise.votes.plan",
    "VoteStore": "rrise.votes.store",
    "Votes": "rrise.votes.array",
    "anytime_lower": "rrise.statistics",
    "calibrate": "rrise.certifiers.surrogate",
    "certified_radius": "rrise.statistics",
    "clopper_pearson_interval": "rrise.statistics",
    "clopper_pearson_lower": "rrise.statistics",
    "clopper_pearson_upper": "rrise.statistics",
    "collect_votes": "rrise.votes.collect",
    "conformal_rank": "rrise.statistics",
    "fingerprint": "rrise.models.fingerprint",
    "load_certifier": "rrise.certifiers.folder",
    "monte_carlo_certificates": "rrise.certifiers.monte_carlo",
    "read_sequence": "rrise.votes.reading",
    "read_votes": "rrise.votes.reading",
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
