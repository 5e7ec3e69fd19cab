"""What is said when a Ray cluster cannot be reached; Ray itself is not needed."""

from types import SimpleNamespace
from typing import Any

import pytest

from rrise.errors import SettingError
from rrise.votes.cluster import Cluster, _connect, workers_in


class AuthenticationError(Exception):
    """Stands for Ray's error of this name."""


def ray_that_raises(error: Exception) -> Any:
    def init(**_: Any) -> None:
        raise error

    return SimpleNamespace(init=init, exceptions=SimpleNamespace(RayError=AuthenticationError))


def quoted(text: str) -> Exception:
    error = ConnectionError("Failed to connect")
    error.__cause__ = RuntimeError(text)
    return error


TOKEN = r"the Ray cluster at head:6379 wants its token: set RAY_AUTH_MODE=token, and copy ~/\.ray/auth_token"


@pytest.mark.parametrize(
    "error", [AuthenticationError("no token"), quoted("…\nray.exceptions.AuthenticationError: RPC error")]
)
def test_a_missing_token_is_named(error: Exception) -> None:
    with pytest.raises(SettingError, match=TOKEN):
        _connect(ray_that_raises(error), "head:6379")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [("head:6379", "the Ray cluster at head:6379 does not"), (None, "a local Ray cluster does not")],
)
def test_a_cluster_that_does_not_answer_is_named(address: str | None, sentence: str) -> None:
    with pytest.raises(SettingError, match=f"{sentence} answer: Failed to connect"):
        _connect(ray_that_raises(quoted("time out")), address)


def test_no_more_workers_than_fit() -> None:
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 3.0})
    assert workers_in(ray, Cluster()) == 3
    with pytest.warns(UserWarning, match="5 workers were requested, but only 3 fit"):
        assert workers_in(ray, Cluster(workers=5)) == 3
    with pytest.raises(SettingError, match="no worker fits into this cluster"):
        workers_in(ray, Cluster(gpus_per_worker=1))
