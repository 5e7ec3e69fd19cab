import copy

import torch
from torch import nn

from rrise.training.averaging import RunningAverage


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def moved(module: nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))
    module(torch.rand(8, 3))


def test_weights_and_statistics_are_averaged_with_a_decay_that_rises() -> None:
    module = network()
    average = RunningAverage(module, decay=0.3)
    expected = {name: value.double().clone() for name, value in module.state_dict().items()}
    for step in range(8):
        moved(module)
        average.update()
        decay = min(0.3, (1 + step) / (10 + step))
        for name, value in module.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * value.double()
    for name, value in average.weights.items():
        if name.endswith("num_batches_tracked"):
            assert int(value) == 8
        else:
            torch.testing.assert_close(value.double(), expected[name], rtol=1e-5, atol=1e-6)


def test_the_network_has_the_averages_only_for_a_while() -> None:
    module = network()
    average = RunningAverage(module, decay=0.9)
    moved(module)
    average.update()
    moved(module)
    own, places = copy.deepcopy(module.state_dict()), [value.data_ptr() for value in module.parameters()]
    with average.in_network():
        for name, value in module.state_dict().items():
            assert torch.equal(value, average.weights[name])
    for name, value in module.state_dict().items():
        assert torch.equal(value, own[name])
    assert [value.data_ptr() for value in module.parameters()] == places
