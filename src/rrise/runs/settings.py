"""What determines a demo run."""

from dataclasses import asdict, dataclass
from typing import Any

from rrise._version import __version__
from rrise.statistics import check_budget, conformal_rank, conformal_share, score_by_name
from rrise.training.strategies import check_strategy


@dataclass(frozen=True)
class DemoSettings:
    """Everything that determines a demo run; noise levels and failure split follow the paper."""

    train: int = 897
    validation: int = 150
    calibration: int = 350
    test: int = 400
    sigma_base: float = 0.5
    sigma: float = 0.25
    base_epochs: int = 60
    base_learning_rate: float = 2e-3
    batch_size: int = 64
    target_votes: int = 1_000
    calibration_votes: int = 10_000
    test_votes: int = 10_000
    selection_votes: int = 100
    strategy: str = "head"
    surrogate_epochs: int = 200
    surrogate_learning_rate: float = 5e-3
    failure: float = 0.05
    beta: float = 0.001
    score: str = "probit"
    seed: int = 100

    def __post_init__(self) -> None:
        """Refuse now what would fail after a minute of training and voting."""
        gamma = conformal_share(self.failure, self.beta)
        conformal_rank(self.calibration, gamma)
        score_by_name(self.score)
        check_budget(self.calibration_votes, self.beta, "beta")
        check_budget(self.test_votes, self.failure, "failure")
        check_strategy(self.strategy)

    @classmethod
    def quick(cls, **changes: Any) -> "DemoSettings":
        """Return a smaller demo, for tests: seconds instead of a minute or two."""
        small: dict[str, Any] = {
            "train": 300,
            "validation": 50,
            "calibration": 100,
            "test": 100,
            "base_epochs": 15,
            "surrogate_epochs": 40,
            "target_votes": 200,
            "calibration_votes": 500,
            "test_votes": 500,
        }
        return cls(**{**small, **changes})

    def to_toml(self) -> str:
        """Write the settings as the run's recipe."""
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            for name, value in asdict(self).items()
        ]
        return "\n".join([f"# rrise demo {__version__}", 'dataset = "digits"', *lines, ""])
