"""The model card of a certifier folder."""

from rrise._version import __version__
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.data.inputs import describe_range
from rrise.statistics import Calibration, exactly, format_down, format_up, level_text


def model_card(certifier: SurrogateCertifier) -> str:
    """Return the card in Markdown: what the certifier does and promises, its calibration and its use."""
    calibration, guarantee, smoothing = certifier.calibration, certifier.guarantee, certifier.smoothing
    shape = " x ".join(str(size) for size in certifier.input_shape)
    facts, words = guarantee.calibration, guarantee.words
    assert facts is not None
    clipping = "nothing" if smoothing.noise_range is None else describe_range(smoothing.noise_range)
    return f"""# RRISE certifier

One forward pass per input returns one of {len(certifier.class_names)} classes and a certified radius
({smoothing.noise.norm}). Within that radius, the smoothed classifier does not change its answer.
Otherwise the certifier abstains.

## What is promised

{words.promise}

Assumed:

{bullets(words.assumptions)}

Not promised:

{bullets(words.not_promised)}

## Inputs

| | |
|---|---|
| shape | {shape} |
| values | {describe_range(smoothing.input_range)} |
| classes | {", ".join(certifier.class_names)} |

## Smoothed classifier

| | |
|---|---|
| base classifier (fingerprint) | `{smoothing.base}` |
| noise level sigma | {exactly(smoothing.sigma)} |
| noise clipped to | {clipping} |
| precision | {smoothing.precision} |

## Calibration

| | |
|---|---|
{calibration_rows(calibration)}
| issued on calibration inputs | {format_down(100 * facts.issued_share, 1)} % |

## Use

```python
import rrise

certifier = rrise.load_certifier("this folder")
certificates = certifier.certify(images)  # .label .radius .lower_bound .issued .guarantee
```

```sh
rrise certify FOLDER IMAGE...
```

Guarantee `{guarantee.id}`, made with rrise {__version__}.
"""


def calibration_rows(calibration: Calibration) -> str:
    """Return the rows of a table about a calibration, in Markdown."""
    offsets = ", ".join(format_up(offset, 6) for offset in calibration.offsets)
    ranks = ", ".join(map(str, calibration.ranks))
    levels = ", ".join(map(level_text, (calibration.beta, calibration.gamma, calibration.failure)))
    sure = calibration.confidence
    rows = {
        "score": calibration.score.name,
        "rule": f"{calibration.rule.name}: failure = {calibration.rule.formula}",
        "promise": calibration.promise.value
        + ("" if sure is None else f", with confidence {level_text(sure)}"),
        "offset": f"{offsets} {calibration.score.unit}",
        "calibration inputs": f"{calibration.size}, rank {ranks}",
        "votes per input": str(calibration.n),
        "beta, gamma, failure": levels,
    }
    if (threat := calibration.threat) is not None:
        tries = "one try" if threat.tries == 1 else f"{threat.tries} tries"
        rows["attack radius"] = f"{exactly(threat.radius)}, with {tries} per input"
        rows["query noise"] = f"{exactly(threat.query_noise)}, drawn in secret for each query"
        rows["failure on inputs that nobody moved"] = format_up(float(calibration.natural_failure), 6)
    if calibration.groups is not None:
        rows["group of each class"] = ", ".join(map(str, calibration.groups))
    return "\n".join(f"| {name} | {text} |" for name, text in rows.items())


def bullets(sentences: tuple[str, ...]) -> str:
    """Return sentences as a Markdown list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)
