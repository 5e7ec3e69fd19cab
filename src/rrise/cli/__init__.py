"""The command line: one file per command, no logic."""

import os
import sys

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait in a loop starve a busy machine


def main() -> None:
    """Run the `rrise` command; an interrupt, even during imports, exits with code 130."""
    try:
        from rrise.cli.app import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
