"""What the API pages read differently: griffe calls the section `Example` of our docstrings `Examples`."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Lets examples of docstrings be shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
