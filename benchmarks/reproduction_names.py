"""Plain names of methods and surrogates for the tables of docs/reproduction."""

from published import Entry

WEIGHTS = {
    "trainhead_initbase": " `head`",
    "trainall_initbase": " `all`",
    "trainall_initrandom": " `all-random`",
    "init0": ", random weights",
    "init1": ", base weights",
}
"""Which weights a surrogate trains, or from which it starts, by the first part of its variant."""

SETTINGS = {"_decline": ", decline ", "_tol": ", tolerance "}
"""The setting of a method that chooses its votes per query, by its name in the variant."""


def plain(method: str, variant: str) -> str:
    """Return the name of a method and its variant, without the budget.

    >>> plain("RRISE", "trainhead_initbase_n1000"), plain("Baseline 4", "init0_n1000")
    ('RRISE `head`', 'Baseline 4, random weights')
    >>> plain("Baseline 1", "n10000"), plain("Baseline 3", "n10000_tol0.01")
    ('Baseline 1', 'Baseline 3, tolerance 0.01')
    """
    for setting, words in SETTINGS.items():
        if setting in variant:
            return method + words + variant.partition(setting)[2]
    return method + WEIGHTS.get(variant.rpartition("_n")[0], "")


def entry_name(entry: Entry) -> str:
    return plain(entry["method"], entry["variant"])
