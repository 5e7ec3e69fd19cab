"""Checks of what `create_app` is given, so that a wrong argument fails at once and in words."""

from collections.abc import Mapping

from rrise.certifiers.certifier import check_certifier
from rrise.deployment.service.samples import Sample
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import SettingError, described


def check_parts(certifier: object, settings: object, monitor: object, samples: object) -> None:
    """Refuse names of folders and other things that are not what a service is made of."""
    check_certifier(certifier)
    if settings is not None and not isinstance(settings, ServiceSettings):
        raise SettingError(f"expected settings as ServiceSettings, got {described(settings)}")
    if monitor is not None and not (hasattr(monitor, "observe") and hasattr(monitor, "state")):
        raise SettingError(f"expected a monitor such as rrise.Monitor, got {described(monitor)}")
    if samples is None:
        return
    if not isinstance(samples, Mapping) or not all(isinstance(one, Sample) for one in samples.values()):
        raise SettingError(
            f"expected samples as read_samples returns them, by name, got {described(samples)}"
        )
