"""On the path of a training that is to be killed: SIGTSTP writes down every thread's stack, then stops the process.

The dump is made by faulthandler in the signal handler itself, in the middle of whatever was computed; so what it
says and where the process is then killed are the same place. Nothing of loopmt knows. The report's pictures, which
would be most of such a short run, are left out.
"""

import faulthandler
import os
import signal
import sys
from pathlib import Path

_KEPT = Path(os.environ["STRESS_STACKS"], str(os.getpid())).open("w")  # noqa: SIM115 - as long as the process
faulthandler.register(signal.SIGTSTP, file=_KEPT, all_threads=False, chain=True)
sys.modules["matplotlib"] = None  # type: ignore[assignment]
