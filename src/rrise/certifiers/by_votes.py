"""What the certifiers that vote have in common."""

from abc import ABC, abstractmethod

from rrise.certifiers.certificates import Certificates
from rrise.votes.sequence import VoteSequence


class VoteCertifier(ABC):
    """Certifies inputs from their votes, which are stored or drawn as it asks for them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in tables: method and settings."""

    @abstractmethod
    def certify(self, votes: VoteSequence, selection: VoteSequence | None = None) -> Certificates:
        """Return one certificate per input, with the passes it took.

        `selection` are more votes of the same inputs, with noise of their own, to choose the class by.
        """
