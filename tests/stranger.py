"""Follows README and docs/production.md as a stranger would: a fresh clone, a fresh environment, their lines.

    python tests/stranger.py            # some minutes; installs everything anew

It runs the shell lines of `PAGES` in their order, and compares what it sees with what the pages say. A
service runs in the background until the page ends. It exits with 1 if something differs.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
READY = "http://127.0.0.1:8000/readyz"
PAGES = {"README.md": slice(0, 1), "docs/production.md": slice(None)}
"""The pages, and which of their blocks of shell lines to run."""
SEEN = {
    "rrise certify cifar-10": ["automobile", "certified", "abstained", "at most 0.01"],
    "rrise demo": ["try it:", "report:"],
    "rrise export": ["mean radius"],
    "curl --data-binary": ['"certificates"', '"radius"', '"issued"'],
    "v1/certifier": ["promise", "shape"],
    "readyz": ["ready"],
    "metrics": ["rrise_"],
    "rrise recalibrate": [r"at least \d+ different audited queries"],
}
"""By the beginning or a part of a line: what the page says that it shows, as patterns."""
FAILS = ("rrise recalibrate",)
"""Lines that end with an error, as their page says: there are no audits yet."""


def blocks(page: Path) -> list[list[str]]:
    """Return the lines of each block of shell lines, without comments."""
    found = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [[re.sub(r"\s+#.*", "", line) for line in block.splitlines() if line] for block in found]


def in_environment(line: str) -> list[str]:
    return ["bash", "-c", f"if [ -f .venv/bin/activate ]; then . .venv/bin/activate; fi; {line}"]


def start(line: str, clone: Path) -> subprocess.Popen[bytes]:
    """Start a service and wait until it is ready."""
    running = subprocess.Popen(in_environment(f"exec {line}"), cwd=clone)
    for _ in range(240):
        try:
            with urllib.request.urlopen(READY, timeout=1):
                return running
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        if running.poll() is not None:
            break
    sys.exit(f"not ready: {line}")


def follow(line: str, clone: Path) -> list[str]:
    """Run a line; return what is not as its page says."""
    print(f"$ {line}", flush=True)
    done = subprocess.run(in_environment(line), cwd=clone, capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    print(shown[-600:], flush=True)
    wrong = [] if (done.returncode != 0) == line.startswith(FAILS) else [f"exit code {done.returncode}"]
    for part, patterns in SEEN.items():
        if part in line:
            wrong += [f"nothing like {each!r}" for each in patterns if not re.search(each, shown)]
    return [f"{line}: {each}" for each in wrong]


def main() -> None:
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "rrise"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for name, chosen in PAGES.items():
            service = None
            for line in (line for block in blocks(clone / name)[chosen] for line in block):
                if shlex.split(line)[:2] == ["rrise", "serve"]:
                    service = start(line, clone)
                else:
                    wrong += follow(line, clone)
            if service is not None:
                service.terminate()
                service.wait(30)
    print("\n".join(wrong) or "everything is as the pages say")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
