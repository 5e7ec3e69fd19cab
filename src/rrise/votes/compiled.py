"""The function of one batch, compiled, and checked before it is trusted."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from rrise.models.compiling import take_signals_back, with_own_code
from rrise.models.inspection import uncompiled
from rrise.models.logits import logits_of

NAN = -1
"""The answer for a noisy copy with a NaN among its logits."""

Step = Callable[..., torch.Tensor]
"""Takes the inputs of a shard, the key of its noise, draws and owners; returns classes."""


def compiled_step(
    module: nn.Module,
    copies: Step,
    classes_of: Step,
    batches: Sequence[tuple[torch.Tensor, ...]],
    options: dict[str, Any],
) -> Step | None:
    """Return the compiled function of a batch; if it fails on one of these, warn and return None.

    A CUDA graph is recorded during the first two calls and replayed from the third on, so three batches test
    it.
    """

    def step(*arguments: torch.Tensor) -> torch.Tensor:
        return classes_of(inner(copies(*arguments)))

    inner = uncompiled(module)
    logits_of(module, copies(*batches[0]), "base classifier", copy=False)  # raises what eager mode raises
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's, about its own code
            compiled: Step = torch.compile(
                with_own_code(step), fullgraph=True, dynamic=False, options=options
            )
            wrong = 0
            for batch in batches:
                logits = logits_of(module, copies(*batch), "base classifier", copy=False)
                wrong += clearly_wrong(compiled(*batch), logits)
        reason = f"{wrong} answers differ from the eager ones" if wrong else None
    except Exception as error:  # compilers raise anything
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    finally:
        take_signals_back()
    if reason is None:
        return compiled
    warnings.warn(
        f"the base classifier does not compile ({reason}): votes are collected in eager mode, slower",
        RuntimeWarning,
        stacklevel=4,
    )
    return None


def clearly_wrong(answers: torch.Tensor, logits: torch.Tensor) -> int:
    """Count the answers that are not the top class of these logits, even allowing for rounding."""
    given = logits.gather(1, answers.long().clamp(min=0)[:, None])[:, 0]
    slack = (1e-3 if logits.dtype in (torch.float32, torch.float64) else 0.05) * logits.abs().amax(dim=1)
    broken = torch.isnan(logits).any(dim=1)
    return int(torch.where(broken, answers != NAN, logits.amax(dim=1) - given > slack).sum())
