"""What goes wrong in a monitor: counted and logged, never raised."""

import logging
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger("rrise.monitor")


class MonitorErrors:
    """Errors since the start, and whether the database could be written to the last time."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.count, self.writes = 0, True

    def failed(self, what: str, error: Exception) -> None:
        """Count an error; the log gets its kind, but not its text, which might hold parts of an input."""
        self.count += 1
        with suppress(Exception):
            _log.error("the monitor %s: %s", what, type(error).__name__)

    def could_not_write(self, error: Exception) -> None:
        """Count an attempt, and log the first of a row: there is one each second."""
        self.count += 1
        if self.writes:
            self.writes = False
            with suppress(Exception):  # the disk of the log may be full too
                _log.error(
                    "the monitor cannot write to %s (%s): free space on its disk, or repair it; until then, "
                    "observations wait in memory, and are missed if there are too many",
                    self.database,
                    error,
                )

    def wrote(self) -> None:
        """Note that writing works, again or still."""
        if not self.writes:
            self.writes = True
            with suppress(Exception):
                _log.warning("the monitor writes to %s again", self.database)
