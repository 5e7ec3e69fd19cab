"""How the passes of a vote store are computed: chosen once, and stored beside the votes."""

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from rrise.errors import FolderError
from rrise.files import Json, parse_signed_json, signed_json_bytes
from rrise.votes.engine import Execution
from rrise.votes.storage import Storage

EXECUTION = "execution.json"

Wishes = dict[str, Any]
"""Values for some fields of an `Execution`."""


def read_execution(storage: Storage) -> Json | None:
    """Return the stored choice, or None if there is none; a changed file is a `FolderError`."""
    content = storage.read(EXECUTION)
    if content is None:
        return None
    try:
        execution: Json = parse_signed_json(content, f"{storage}/{EXECUTION}")["execution"]
    except (FolderError, KeyError) as error:
        reason = str(error) if isinstance(error, FolderError) else f"{storage}/{EXECUTION} is damaged"
        raise FolderError(
            f"{reason}. The votes have checksums of their own; delete this file if you do not need to know "
            f"how they were computed"
        ) from None
    return execution


def settled_execution(storage: Storage, wishes: Wishes, choose: Callable[[Wishes], Execution]) -> Execution:
    """Return the stored choice, changed by the wishes; without one, `choose` by the wishes, and store it."""
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    with storage.claim(EXECUTION, wait=True):
        found = read_execution(storage)
        if found is None:
            chosen = choose(given)
            storage.write(EXECUTION, signed_json_bytes({"execution": asdict(chosen)}))
            return chosen
    if changed := {name: wish for name, wish in given.items() if found.get(name) != wish}:
        warnings.warn(
            f"the votes in {storage} were started with {found} and resume with {changed}: rounding may "
            f"differ between shards",
            stacklevel=4,
        )
    return Execution(**{**found, **given})
