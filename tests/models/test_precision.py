"""The switches of float32 arithmetic, which all threads share."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from rrise.models.inference import class_probabilities
from rrise.models.precision import matrix_products


def current() -> str:
    return str(torch.backends.cuda.matmul.fp32_precision)


def test_threads_with_different_wishes_never_see_each_others() -> None:
    before, wrong = current(), []

    def work(wish: str) -> None:
        for _ in range(40):
            with matrix_products(wish):
                for _ in range(3):
                    if current() != {"tf32": "tf32", "float32": "ieee"}[wish]:
                        wrong.append(wish)
                    time.sleep(1e-4)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, ["tf32", "float32"] * 3))
    assert not wrong
    assert current() == before


def test_those_with_the_same_wish_compute_side_by_side() -> None:
    both = threading.Barrier(2, timeout=20)

    def work() -> None:
        with matrix_products("tf32"):
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(2)]:
            done.result()


def test_nesting_and_failure_put_the_switches_back() -> None:
    before = current()

    def fail() -> None:
        with matrix_products("tf32"), matrix_products("tf32"):
            assert current() == "tf32"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert current() == before


def test_a_surrogate_computes_float32_in_full_whatever_is_switched_on() -> None:
    """Else its certificates would round otherwise than its calibration did."""
    seen, switch = [], torch.backends.mkldnn.matmul

    class Looks(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(torch.backends.mkldnn.matmul.fp32_precision)
            return inputs

    before = switch.fp32_precision
    switch.fp32_precision = "bf16"
    try:
        class_probabilities(Looks(), torch.rand(3, 2), 2)
    finally:
        switch.fp32_precision = before
    assert set(seen) == {"ieee"}
