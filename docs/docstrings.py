"""What the API pages read differently: the section `Example` of a docstring is shown as code."""

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:\n(?P<code>(?:(?: {4}.*)?\n?)+)", re.MULTILINE)


def as_code(docstring: str) -> str:
    """Return a docstring whose example is a section that griffe knows, with code that Markdown knows."""

    def section(found: re.Match[str]) -> str:
        code = textwrap.dedent(found["code"]).strip("\n")
        if ">>> " not in code:
            code = f"```python\n{code}\n```"
        return f"Examples:\n{textwrap.indent(code, '    ')}\n\n"

    return _EXAMPLE.sub(section, docstring).rstrip("\n")


class Examples(griffe.Extension):
    """Lets examples of docstrings be shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_code(obj.docstring.value)
