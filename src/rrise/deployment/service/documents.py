"""The OpenAPI description of request bodies and answers."""

import math
from importlib.metadata import PackageNotFoundError, metadata
from typing import Any

from pydantic import BaseModel, Field

from rrise.certifiers.certifier import Certifier
from rrise.deployment.service.requests import ARRAY_TYPE, FORM_TYPE, IMAGE_TYPES, JSON_TYPE
from rrise.deployment.service.samples import takes_images
from rrise.files import Json

LARGEST_EXAMPLE = 4096
"""The most values of an input that the document shows in full."""


class Certificate(BaseModel):
    """What is certified for one input."""

    label: int = Field(examples=[3])
    class_name: str = Field(examples=["cat"])
    radius: float = Field(
        description="Distance within which the smoothed classifier keeps its answer, rounded down; 0 if "
        "abstained.",
        examples=[0.412345],
    )
    lower_bound: float = Field(
        description="Lower bound on the smoothed probability of the label, rounded down.", examples=[0.950123]
    )
    issued: bool = Field(description="False: the certifier abstained.", examples=[True])
    method: str | None = Field(
        default=None, description="With a wanted radius: the method that certified this input."
    )
    guarantee: str = Field(
        description="Which guarantee it is under: an id in GET /v1/certifier.", examples=["0123456789ab"]
    )
    probabilities: list[float] | None = Field(
        default=None,
        description="If asked for: the surrogate's class distribution before calibration; the shares of the "
        "votes where a certificate comes from Monte Carlo.",
    )


class CertifyResponse(BaseModel):
    """The certificates of a request's inputs, in their order."""

    certificates: list[Certificate]
    warning: str | None = Field(
        default=None, description="Set once the monitor has raised an alarm: the guarantee may not hold."
    )
    guarantee: dict[str, Any] | None = Field(
        default=None, description="With votes or a wanted radius: the guarantee of these certificates."
    )
    passes: list[int] | None = Field(
        default=None, description="With votes or a wanted radius: forward passes for each input."
    )


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str = Field(examples=["expected inputs in [0, 1], got values from -1 to 2"])


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries for refusals."""
    return {status: {"model": Problem, "description": _WORDS[status]} for status in statuses}


_WORDS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    404: "This service does not have it.",
    408: "The request took too long to arrive.",
    413: "Too large, or too many inputs.",
    415: "Unknown Content-Type.",
    422: "Not an input that this certifier takes, or an impossible setting.",
    429: "Too many certificates for this client: try again after the seconds that Retry-After names.",
    503: "Busy: try again after the seconds that Retry-After names.",
    504: "The answer took too long.",
}


def input_body(certifier: Certifier, many: bool) -> Json:
    """Return the entry for a body of one input, or of one or more."""
    one = _array_schema(certifier.input_shape, certifier)
    batch = {"type": "array", "minItems": 1, "items": one}
    content: Json = {
        JSON_TYPE: {"schema": {"oneOf": [one, batch]} if many else one, **_example(certifier)},
        ARRAY_TYPE: {"schema": {"type": "string", "format": "binary"}},
    }
    if takes_images(certifier.input_shape, certifier.smoothing.input_range):
        for kind in IMAGE_TYPES:
            content[kind] = {"schema": {"type": "string", "format": "binary"}}
    files: Json = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    if not many:
        files["maxItems"] = 1
    form = {"type": "object", "properties": {"file": files}, "required": ["file"]}
    content[FORM_TYPE] = {
        "schema": form,
        "encoding": {"file": {"contentType": ", ".join([*IMAGE_TYPES, ARRAY_TYPE])}},
    }
    return {"requestBody": {"required": True, "content": content}}


def _array_schema(shape: tuple[int, ...], certifier: Certifier) -> Json:
    schema: Json = {"type": "number"}
    if certifier.smoothing.input_range is not None:
        schema["minimum"], schema["maximum"] = certifier.smoothing.input_range
    for size in reversed(shape):
        schema = {"type": "array", "minItems": size, "maxItems": size, "items": schema}
    return schema


def _example(certifier: Certifier) -> Json:
    if math.prod(certifier.input_shape) > LARGEST_EXAMPLE:
        return {}
    low, high = certifier.smoothing.input_range or (0.0, 1.0)
    example: Any = (low + high) / 2
    for size in reversed(certifier.input_shape):
        example = [example] * size
    return {"example": example}


def card(certifier: Certifier, **more: Any) -> Json:
    """Return the answer of GET /v1/certifier: what is promised, and for what inputs."""
    return {
        "guarantee": certifier.guarantee.to_json(),
        "class_names": list(certifier.class_names),
        "input": {
            "shape": list(certifier.input_shape),
            "range": None
            if certifier.smoothing.input_range is None
            else list(certifier.smoothing.input_range),
            "image": takes_images(certifier.input_shape, certifier.smoothing.input_range),
        },
        "sigma": certifier.smoothing.sigma,
        "runtime": certifier.runtime,
        **more,
    }


def project_url() -> str | None:
    """Return the address of the project, as the metadata of the installed package tells it, or None."""
    try:
        declared = metadata("rrise").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    urls = {name.strip().lower(): url.strip() for name, _, url in (line.partition(",") for line in declared)}
    ranked = [urls[name] for name in ("homepage", "repository", "source") if name in urls]
    return next((url for url in [*ranked, *urls.values()] if url.startswith("https://")), None)
