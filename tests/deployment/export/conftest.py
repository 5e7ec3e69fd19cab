"""A small calibrated certifier to export, made once per process."""

import pytest
import torch

from rrise.models.catalogue import SmallConvNet

from .small_exports import Calibrated, calibrated


@pytest.fixture(scope="session")
def made() -> Calibrated:
    torch.manual_seed(0)
    return calibrated(SmallConvNet(), (1, 8, 8))
