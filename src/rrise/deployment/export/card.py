"""The card of an exported certifier."""

from rrise._version import __version__
from rrise.certifiers.card import bullets, calibration_rows
from rrise.data.inputs import describe_range
from rrise.deployment.export.exported import Export
from rrise.deployment.export.input_names import IMAGES, NOISY_IMAGES
from rrise.deployment.export.runtimes import runtime_by_name
from rrise.files import Json
from rrise.statistics import exactly, format_down


def card(export: Export, more: Json) -> str:
    """Return the card in Markdown: answers, promise, cost of the export, and usage."""
    calibration, guarantee, form = export.calibration, export.guarantee, export.form
    words = guarantee.words
    return f"""# RRISE certifier, exported for {form.runtime} as {form.numbers}

`certifier.onnx` returns a class and a certified radius ({export.smoothing.noise.norm}) for each input, in
one forward pass. Within that radius, the smoothed classifier does not change its answer.
Otherwise the certifier abstains.

## What is promised

{words.promise}

Assumed:

{bullets(words.assumptions)}

Not promised:

{bullets(words.not_promised)}

## Inputs and outputs

| name | type | |
|---|---|---|
| {_input_row(export)} |
| `label` | int64 [batch] | the class, even if it abstained |
| `radius` | float32 [batch] | rounded down; 0 if it abstained |
| `lower_bound` | float32 [batch] | on the smoothed probability of the class, rounded down |
| `issued` | bool [batch] | whether a radius is certified |
| `probabilities` | float32 [batch x {len(export.class_names)}] | the surrogate's own, before calibration |

Classes: {", ".join(export.class_names)}. An input with NaN or a value out of range gets no radius.

## Calibration, in this form

| | |
|---|---|
| runtime | {form.runtime} {form.version}, {form.numbers}, opset {more["opset"]} |
{calibration_rows(calibration)}
| sigma | {exactly(export.smoothing.sigma)} |
| base classifier (fingerprint) | `{export.smoothing.base}` |

{cost_sentence(more["cost"])}

## Use

```python
import numpy as np

images = np.zeros(({", ".join(["1", *map(str, export.input_shape)])}), np.float32)
{_usage(export)}
```

`rrise.load_deployed(folder)` checks the folder and the runtime first. Without it, run `probe.npz` through
the graph and compare: an offset is valid only in the runtime it was fitted to.

Guarantee `{guarantee.id}`, made with rrise {__version__}.
"""


def _input_row(export: Export) -> str:
    shape = " x ".join(["batch", *map(str, export.input_shape)])
    values = describe_range(export.smoothing.input_range)
    if export.calibration.threat is None:
        return f"`{IMAGES}` | float32 [{shape}] | values: {values}"
    return f"`{NOISY_IMAGES}` | float32 [{shape}] | inputs with fresh, secret noise; values: {values}"


def _usage(export: Export) -> str:
    """Return Python lines that compute `answers` without this package, with noise if queries have some."""
    usage, threat = runtime_by_name(export.form.runtime).usage, export.calibration.threat
    if threat is None:
        return f"\n{usage}"
    limits = export.smoothing.input_range
    noisy = f"images + np.float32({exactly(threat.query_noise)}) * noise"
    noisy = noisy if limits is None else f"np.clip({noisy}, {exactly(limits[0])}, {exactly(limits[1])})"
    return f"""
# New noise for every query. Never store, log or return it: the promise for attacked inputs needs it secret.
import secrets
source = np.random.Generator(np.random.Philox(key=secrets.randbits(128)))
noise = source.standard_normal(images.shape, dtype=np.float32)
noisy_images = {noisy}

{usage.replace('"images": images', '"noisy_images": noisy_images')}"""


def cost_sentence(cost: Json) -> str:
    """Say how calibrating in the exported form, or again, changed the radii."""
    former = "torch" if "torch" in cost else "former"
    words = {"torch": "in torch", "former": "with the calibration before"}[former]
    before, now = cost[former], cost["exported"]
    return (
        f"On the calibration inputs the mean radius is {format_down(now['mean_radius'])}, and "
        f"{format_down(before['mean_radius'])} {words}; {format_down(100 * now['issued_share'], 1)} % "
        f"are issued, and {format_down(100 * before['issued_share'], 1)} % {words}."
    )
