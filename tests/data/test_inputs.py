import numpy as np
import pytest
import torch

from rrise.data.inputs import as_inputs, check_input_range, input_digests, inputs_fingerprint


@pytest.mark.parametrize(
    ("values", "keywords", "sentence"),
    [
        (
            np.zeros((2, 3), np.uint8),
            {},
            r"numbers in \[0, 1\], got uint8: divide 8-bit images by 255",
        ),
        (np.zeros((2, 3), np.int64), {}, "got int64$"),
        (np.zeros((2, 3), bool), {}, "got bool"),
        (np.array([["a", "b"]]), {}, "got <U1"),
        ([[1.0, 2.0], [3.0]], {}, "got a ragged list"),
        (np.full((2, 3), 1.5), {}, r"inputs in \[0, 1\], got values from 1.5 to 1.5"),
        (np.full((2, 3), -0.1), {}, "got values from -0.1 to -0.1"),
        (np.array([[0.0, 0.5], [0.1, np.nan]]), {}, "finite inputs, got NaN or infinity in input 1"),
        (np.array([[np.inf, 0.5]]), {"input_range": None}, "NaN or infinity in input 0"),
        (np.array([[1e300, 0.5]]), {"input_range": None}, "NaN or infinity in input 0"),
        (np.zeros(3), {}, r"as a batch \[inputs, \.\.\.\], got an array of shape \(3,\)"),
        (np.zeros((2, 4)), {"shape": (3,)}, r"shape \(inputs, 3\), got \(2, 4\)"),
        (np.zeros((1, 8, 8)), {"shape": (1, 8, 8)}, r"single input needs a leading axis, x\[None\]"),
        (np.zeros((2, 3)), {"shape": (3, 1)}, r"shape \(inputs, 3, 1\), got \(2, 3\)"),
    ],
)
def test_says_what_was_expected_and_what_came(
    values: object, keywords: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        as_inputs(values, **keywords)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_takes_floating_point_arrays_of_any_shape(dtype: type) -> None:
    for shape in [(2, 3), (2, 1, 8, 8), (2, 4, 5), (2, 1, 2, 3, 4)]:
        got = as_inputs(np.full(shape, 0.5, dtype))
        assert got.dtype == torch.float32
        assert got.shape == shape


def test_takes_tensors_lists_and_other_ranges() -> None:
    assert as_inputs(torch.full((2, 3), 0.5, dtype=torch.bfloat16)).tolist() == [[0.5] * 3] * 2
    assert as_inputs([[0.1, 0.2]]).shape == (1, 2)
    assert as_inputs(np.full((1, 2), -7.0), input_range=None).tolist() == [[-7.0, -7.0]]
    assert as_inputs(np.full((1, 2), -7.0), input_range=(-8, 8)).tolist() == [[-7.0, -7.0]]


@pytest.mark.parametrize("limits", [(1, 0), (0, 0), (0, float("inf")), (float("nan"), 1), (0,), "ab", 3])
def test_refuses_an_empty_or_endless_range(limits: object) -> None:
    with pytest.raises(ValueError, match="expected input_range"):
        check_input_range(limits)  # type: ignore[arg-type]


def test_digests_tell_inputs_apart() -> None:
    inputs = torch.rand(50, 4)
    assert len(set(input_digests(inputs))) == 50
    assert input_digests(inputs) == input_digests(inputs.clone())
    assert inputs_fingerprint(inputs) != inputs_fingerprint(inputs.reshape(50, 2, 2))


def test_the_end_of_a_range_belongs_to_it_in_single_precision() -> None:
    assert as_inputs(np.full((1, 2), 0.1, np.float32), input_range=(0, 0.1)).shape == (1, 2)


def test_never_shares_memory_with_what_it_was_given() -> None:
    for values in (np.zeros((2, 3), np.float32), torch.zeros(2, 3)):
        as_inputs(values).add_(1)
        assert float(values.sum()) == 0
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    as_inputs(frozen)


def test_a_value_just_outside_is_not_rounded_into_the_range() -> None:
    outside = np.full((1, 4), np.nextafter(np.float32(1), np.float32(2)))
    with pytest.raises(ValueError, match=r"in \[0, 1\], got values from 1\.0000001 to 1\.0000001$"):
        as_inputs(outside)
    with pytest.raises(ValueError, match=r"in \[0, 0\.1234567\], got values from 1\.0000001"):
        as_inputs(outside, input_range=(0, 0.1234567))
