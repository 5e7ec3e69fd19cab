"""`python -m rrise`."""

from rrise.cli import main

main()
