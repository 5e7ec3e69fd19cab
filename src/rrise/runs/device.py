"""The device to compute on."""

import torch

from rrise.errors import SettingError


def choose_device(name: str | None) -> torch.device:
    """Return the named device, if it works here. Default: a GPU if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingError(f"cannot compute on {name}: {str(error).splitlines()[0]}") from None
    return device
