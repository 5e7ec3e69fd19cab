"""Export: a certifier in another runtime, calibrated again in that form.

The guarantee concerns the numbers that the deployed surrogate returns. In another runtime or precision, it
is another surrogate. Its offset is therefore fitted again, to its answers for the calibration inputs.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import check_certifier
from rrise.certifiers.query_noise import QueryNoise
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import InputRange, as_inputs, input_digests
from rrise.deployment.export.bound_table import BoundTable
from rrise.deployment.export.exported import Export, ExportedCertifier, ExportProbe
from rrise.deployment.export.folder import check_free, load_exported, save_exported
from rrise.deployment.export.runtimes import ONNX_RUNTIME, Form, open_model, run_in_batches, runtime_by_name
from rrise.errors import InputError, MismatchError, SettingError, as_path, described
from rrise.files import Json
from rrise.models.inference import BATCH_SIZE, top_prediction
from rrise.statistics import Threat, refit_calibration
from rrise.votes.array import Votes, check_same_inputs, check_votes, votes_for

RANGE_INPUTS = 128
"""How many inputs choose the int8 ranges."""
_NEEDED = ("onnx", "onnxscript", "onnxruntime")
_SPLIT_SEED = 0


@dataclass(frozen=True, eq=False)
class _Held:
    """Calibration inputs in order, with the vote counts of each class."""

    inputs: NDArray[np.float32]
    counts: NDArray[np.int64]
    n: int

    def __getitem__(self, rows: NDArray[np.int64]) -> "_Held":
        return _Held(self.inputs[rows], self.counts[rows], self.n)


def export_certifier(
    certifier: SurrogateCertifier,
    images: Any,
    votes: Any,
    folder: str | Path,
    *,
    int8: bool = False,
    runtime: str = ONNX_RUNTIME.name,
    range_inputs: Any = None,
    allow_seen: bool = False,
) -> ExportedCertifier:
    """Write a certifier as an ONNX graph with its calibration inside, fitted again in that form.

    Guarantee: that of `calibrate`, for the exported certifier in its runtime.

    Args:
        certifier: a certifier from `calibrate` or `load_certifier`.
        images: the certifier's calibration inputs, in their order.
        votes: their votes.
        folder: where to write the export.
        int8: quantise the surrogate to 8-bit numbers.
        runtime: the runtime to calibrate for: `onnxruntime` or `openvino`.
        range_inputs: inputs that choose the int8 ranges; they must not be calibration inputs. Default:
            `RANGE_INPUTS` random calibration inputs, which then have no part in fitting the offset.
        allow_seen: accept range inputs that equal calibration inputs, if equal inputs occur naturally in
            this data.

    Returns:
        The exported certifier, loaded.

    Raises:
        MismatchError: the certifier was calibrated on other inputs or votes.
        SettingError: the runtime is not installed, or the surrogate cannot be exported.

    Example:
        exported = rrise.export_certifier(certifier, images, votes, "certifier-int8", int8=True)
    """
    _check_surrogate(certifier)
    form, target = _form(int8, runtime), as_path(folder, "a folder to write")
    _check_installed(form)
    check_free(target)
    from rrise.deployment.export.graph import opset_of, surrogate_graph, with_certificates

    held = _held_out(certifier, images, votes)
    limits, ranges = certifier.smoothing.input_range, None
    threat = certifier.calibration.threat
    surrogate = surrogate_graph(certifier.network, _sample(held.inputs))
    if int8:
        from rrise.deployment.export.quantisation import quantised

        chosen, held, ranges = _choose_ranges(certifier, held, range_inputs, allow_seen)
        surrogate = quantised(surrogate, _seen(chosen, threat, limits))
    seen = _seen(held.inputs, threat, limits)
    first = open_model(form, with_certificates(surrogate, limits).SerializeToString())
    probabilities = run_in_batches(first, seen)["probabilities"]
    export = _calibrated(certifier, form, held, probabilities, ranges)
    table = BoundTable.of(export.calibration, certifier.smoothing.noise)
    model = with_certificates(surrogate, limits, table, export.identity, noisy=threat is not None)
    content = model.SerializeToString()
    runner = open_model(form, content)
    answers = run_in_batches(runner, seen)
    _check_final(export, probabilities, answers)
    probe_inputs = ExportProbe.inputs_from(held.inputs)
    probe = ExportProbe(probe_inputs, dict(runner.run(probe_inputs)))
    more = {"opset": opset_of(model), "cost": _cost(certifier.answers(torch.from_numpy(seen)), answers)}
    save_exported(target, export, content, probe, more)
    return load_exported(target)


def folder_beside(certifier: Path, *, int8: bool = False, runtime: str = ONNX_RUNTIME.name) -> Path:
    """Return the default folder of an export, such as `certifier-onnxruntime-int8`."""
    return certifier.with_name(f"{certifier.resolve().name}-{_form(int8, runtime).name}")


def _check_surrogate(certifier: object) -> None:
    if not isinstance(certifier, SurrogateCertifier):
        check_certifier(certifier)
        raise InputError(f"expected a calibrated surrogate in torch to export, got {described(certifier)}")


def _form(int8: bool, runtime: str) -> Form:
    return Form(runtime_by_name(runtime).name, "int8" if int8 else "fp32")


def _check_installed(form: Form) -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SettingError(f"exporting needs {', '.join(missing)}: pip install 'rrise[onnx]'")
    form.version  # noqa: B018  raises if the runtime is missing


def _held_out(certifier: SurrogateCertifier, images: Any, votes: Any) -> _Held:
    """Return calibration inputs and votes; refuse any but those of the certifier's calibration."""
    smoothing, evidence = certifier.smoothing, certifier.evidence
    inputs = as_inputs(images, shape=certifier.input_shape, input_range=smoothing.input_range)
    counts, n = check_votes(votes, len(inputs), len(certifier.class_names))
    check_same_inputs(votes, input_digests(inputs))
    if isinstance(votes, Votes) and votes.smoothing is not None:
        smoothing.check_same(votes.smoothing, "the certifier", "the votes")
    if (n, len(inputs)) != (certifier.calibration.n, certifier.calibration.size):
        raise MismatchError(
            f"expected the {certifier.calibration.size} calibration inputs of the certifier with "
            f"{certifier.calibration.n} votes each, got {len(inputs)} with {n}"
        )
    if certifier.calibration.threat is None:
        label, top = top_prediction(certifier.network, inputs, BATCH_SIZE)
        same = np.isclose(top, evidence.top_probability, rtol=0, atol=1e-4)
    else:  # the query noise of the calibration is not kept; the classes are
        assert evidence.label is not None
        label, same = evidence.label, np.ones(len(inputs), dtype=np.bool_)
    same &= votes_for(counts, label) == evidence.agreeing
    if not same.all():
        raise MismatchError(
            f"expected the inputs and votes that the certifier was calibrated on, in the same order: "
            f"{int((~same).sum())} of {len(inputs)} differ, first input {int(np.argmin(same))}"
        )
    return _Held(inputs.numpy(), counts, n)


def _seen(inputs: NDArray[np.float32], threat: Threat | None, limits: InputRange) -> NDArray[np.float32]:
    """Return what the surrogate sees of inputs: themselves, or with one draw of query noise each."""
    return np.asarray(QueryNoise(threat, limits).seen(torch.from_numpy(inputs)).numpy())


def _sample(inputs: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([inputs[:4], inputs[:1]]))


def _choose_ranges(
    certifier: SurrogateCertifier, held: _Held, range_inputs: Any, allow_seen: bool
) -> tuple[NDArray[np.float32], _Held, Json]:
    """Return the inputs for the ranges, the calibration inputs for the offset, and a description."""
    if range_inputs is None:
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(held.inputs))
        ranges, rest = order[:RANGE_INPUTS], np.sort(order[RANGE_INPUTS:])
        if len(rest) == 0:
            raise SettingError(
                f"{len(order)} calibration inputs are too few: {RANGE_INPUTS} of them choose the int8 "
                f"ranges, and the others fit the offset; pass range_inputs"
            )
        words = {"inputs": len(ranges), "from": "of the certifier's calibration inputs"}
        return held.inputs[ranges], held[rest], words
    chosen = as_inputs(
        range_inputs,
        shape=certifier.input_shape,
        input_range=certifier.smoothing.input_range,
        name="range inputs",
    )
    if len(chosen) == 0:
        raise InputError("expected range_inputs for the int8 ranges, got none")
    calibration = set(input_digests(torch.from_numpy(held.inputs)))
    common = sum(digest in calibration for digest in input_digests(chosen))
    if common and not allow_seen:
        raise MismatchError(
            f"{common} of {len(chosen)} range inputs are calibration inputs: the offset needs inputs that "
            f"had no part in making the surrogate (pass allow_seen=True if equal inputs occur naturally in "
            f"this data)"
        )
    return chosen.numpy(), held, {"inputs": len(chosen), "from": "inputs apart from the calibration inputs"}


def _calibrated(
    certifier: SurrogateCertifier,
    form: Form,
    held: _Held,
    probabilities: NDArray[np.float32],
    ranges: Json | None,
) -> Export:
    """Fit the offset to the exported surrogate's answers for the calibration inputs."""
    if np.isnan(probabilities).any():
        raise InputError(
            f"in {form.name}, the surrogate returns NaN for calibration inputs: it cannot be exported"
        )
    top = np.minimum(probabilities.max(axis=1).astype(np.float64), 1.0)
    label = probabilities.argmax(axis=1)
    agreeing = votes_for(held.counts, label)
    calibration, evidence = refit_calibration(certifier.calibration, top, agreeing, label)
    facts = certifier.guarantee.calibration
    seen, source = (None, None) if facts is None else (facts.seen_in_training, facts.source)
    return Export(
        form=form,
        input_shape=certifier.input_shape,
        class_names=certifier.class_names,
        smoothing=certifier.smoothing,
        calibration=calibration,
        evidence=evidence,
        seen_in_training=None if seen is None else min(seen, calibration.size),
        ranges=ranges,
        source=source,
    )


def _check_final(
    export: Export, probabilities: NDArray[np.float32], answers: dict[str, NDArray[Any]]
) -> None:
    """Refuse a graph that does not compute the numbers that the offset was fitted to."""
    exact = export.calibration.lower_bound(export.evidence.top_probability, export.evidence.label)
    radius = export.smoothing.noise.radius(exact)
    if not (
        np.array_equal(answers["probabilities"], probabilities)
        and np.array_equal(answers["label"], probabilities.argmax(axis=1))
        and (answers["lower_bound"] <= exact).all()
        and (answers["radius"] <= radius).all()
        and np.array_equal(answers["issued"], exact > 0.5)
    ):
        raise MismatchError(
            f"in {export.form.name}, the graph does not compute the numbers that its offset was fitted to: "
            f"nothing was exported"
        )


def _cost(before: Certificates, answers: dict[str, NDArray[Any]]) -> Json:
    """Return radii and issued shares before and after, on the calibration inputs of the export."""
    lost = before.radius - answers["radius"]
    return {
        "calibration_inputs": len(before),
        "torch": {"issued_share": float(before.issued.mean()), "mean_radius": float(before.radius.mean())},
        "exported": {
            "issued_share": float(answers["issued"].mean()),
            "mean_radius": float(answers["radius"].mean(dtype=np.float64)),
        },
        "mean_radius_lost": float(lost.mean()),
        "largest_radius_lost": float(lost.max()),
        "labels_changed": int((before.label != answers["label"]).sum()),
    }
