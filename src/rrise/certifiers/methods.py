"""Every method that comes with the package, registered by importing it from here."""

from rrise.certifiers.early_stopping import EARLY_STOPPING
from rrise.certifiers.input_specific import INPUT_SPECIFIC
from rrise.certifiers.method import (
    METHODS,
    Method,
    method_by_name,
    methods,
    register_method,
)
from rrise.certifiers.monte_carlo import ONE_STAGE, TWO_STAGE
from rrise.certifiers.predictions import JENSEN_SHANNON, RRISE
from rrise.certifiers.sequential import SEQUENTIAL

__all__ = [
    "EARLY_STOPPING",
    "INPUT_SPECIFIC",
    "JENSEN_SHANNON",
    "METHODS",
    "ONE_STAGE",
    "RRISE",
    "SEQUENTIAL",
    "TWO_STAGE",
    "Method",
    "method_by_name",
    "methods",
    "register_method",
]
