"""Trials as classes: say how one batch is trained; the loop is here."""

import importlib
import os
import sys
import traceback

from .session import EXIT_LOST, connect
from .link import MasterLost


class Trial:
    """Derive from it. ``self.context`` is the session: hparams, data, seed, checkpoint, ...

    train_batch, validate, save and load are required; save gets an empty directory.
    """

    def __init__(self, context):
        self.context = context

    def train_batch(self, batch):
        """Train batch number `batch` (from 0 over the whole trial); return metrics with ``loss``."""
        raise NotImplementedError

    def validate(self):
        """Return the validation metrics."""
        raise NotImplementedError

    def save(self, directory):
        raise NotImplementedError

    def load(self, directory, is_own):
        """Restore. Not is_own: another trial's checkpoint, so only weights make sense."""
        raise NotImplementedError


def _find(entrypoint):
    """The class "package.module:Class" names."""
    module, _, name = entrypoint.partition(":")
    made = importlib.import_module(module)
    for part in name.split("."):
        made = getattr(made, part)
    return made


def run_trial(make):
    """Serve workloads with ``make(session)`` until told to terminate. `make` may be an entrypoint
    as text: it is imported when the master already knows that this process is alive."""
    with connect() as session:
        if isinstance(make, str):
            make = _find(make)
        trial = make(session)
        if session.checkpoint:
            trial.load(session.checkpoint.path, session.checkpoint.is_own)
        for work in session.workloads():
            if work.is_train:
                for batch in work.batches():
                    work.report(trial.train_batch(batch))
            elif work.is_validation:
                work.report(trial.validate())
            else:
                trial.save(work.directory)


def main(argv):
    if len(argv) != 2 or ":" not in argv[1]:
        print("usage: python3 -m ebb_client MODULE:CLASS (started by ebb)", file=sys.stderr)
        return 2
    sys.path.insert(0, os.getcwd())
    try:
        run_trial(argv[1])
        return 0
    except MasterLost:
        return EXIT_LOST
    except Exception:  # the reason was reported; the log gets the rest
        traceback.print_exc()
        return 1
