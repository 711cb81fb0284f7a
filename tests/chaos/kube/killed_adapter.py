"""The adapter of `orrery cluster kubernetes`, in a Python that extender.py names ORRERY_PYTHON.

ORRERY_KILL_AT=N: kills the command and itself with SIGKILL before the adapter's write N to a pod,
counted from 0. ORRERY_PAUSE=S: waits for S seconds between the commit of a placement and the
release of its pods. Arguments: those of `python -c SCRIPT FOLDER OPTION...`.
"""

import itertools
import os
import signal
import sys
import threading
import time


def kill_at(number):
    from orrery.kube.api import Api

    patch, writes, lock = Api.patch, itertools.count(), threading.Lock()

    def patch_until_killed(self, path, body):
        if "/pods/" not in path:
            return patch(self, path, body)
        with lock:  # one write after the other, so that exactly `number` of them are done
            if next(writes) == number:
                os.kill(os.getppid(), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            return patch(self, path, body)

    Api.patch = patch_until_killed


def pause(seconds):
    from orrery.kube.placing import Placing

    release = Placing._release

    def release_later(self, gang, writes):
        time.sleep(seconds)
        release(self, gang, writes)

    Placing._release = release_later


def main():
    _, script, folder, *options = sys.argv[1:]
    sys.path.insert(0, folder)
    if "ORRERY_KILL_AT" in os.environ:
        kill_at(int(os.environ["ORRERY_KILL_AT"]))
    pause(float(os.environ.get("ORRERY_PAUSE", 0)))
    sys.path.remove(folder)
    sys.argv = ["-c", folder, *options]
    exec(compile(script, "adapter", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
