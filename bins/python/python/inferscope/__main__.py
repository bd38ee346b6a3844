"""The command `inferscope`: the same command line as that of the executable, from the library of this package."""

from __future__ import annotations

import signal
import sys

from . import _native


def main() -> int:
    """Run the command line of this process. Returns the exit code."""
    # As for any command: an interrupt ends it at once, and so does a closed terminal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["inferscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
