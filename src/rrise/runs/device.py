"""Where to compute."""

import torch

from rrise.errors import SettingError


def choose_device(name: str | None) -> torch.device:
    """Return the device of a name, if it works here; without a name, a GPU where there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingError(f"cannot compute on {name}: {str(error).splitlines()[0]}") from None
    return device
