"""Trials as classes: say how one batch is trained; the loop is here."""

import argparse
import errno
import importlib
import json
import os
import runpy
import sys
import time
import traceback

from .detached import POLICIES, replay
from .link import MasterLost
from .session import EXIT_LOST, connect
from .store import make_directory


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


def _save(trial, work, session):
    """A full disk is waited for: nothing is lost, and no restart is spent on it."""
    has_said = False
    while True:
        try:
            return trial.save(work.directory)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not has_said:
                print("ebb: %s: waiting for room" % error, file=sys.stderr, flush=True)
            has_said = True
        time.sleep(0.5)
        session.link.check()
        make_directory(work.directory)


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
                _save(trial, work, session)


def _parse(argv):
    parser = argparse.ArgumentParser(
        prog="python3 -m ebb_client",
        description="Runs a trial. ebb starts it with MODULE:CLASS alone; --detached runs one without a master, "
        "MODULE:CLASS or a script that calls ebb_client.connect(), and keeps it in a directory.",
    )
    parser.add_argument("what", nargs="?", metavar="MODULE:CLASS|SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the script")
    parser.add_argument("--replay", metavar="DIR", help="answer a master with a finished detached run")
    parser.add_argument("--detached", metavar="DIR", help="no master: keep the run here, or go on with it")
    group = parser.add_argument_group("with --detached")
    group.add_argument("--hparams", type=json.loads, default={}, metavar="JSON", help="hyperparameters")
    group.add_argument("--data", type=json.loads, default={}, metavar="JSON", help="section data of the file")
    group.add_argument("--max-steps", type=int, metavar="N", help="required")
    group.add_argument("--batches-per-step", type=int, default=100, metavar="N")
    group.add_argument("--metric", default="validation_loss", help="decides which validation is the best")
    group.add_argument("--larger-is-better", action="store_true")
    group.add_argument("--min-validation-period", type=int, metavar="STEPS")
    group.add_argument("--min-checkpoint-period", type=int, metavar="STEPS")
    group.add_argument("--checkpoint-policy", default="best", choices=POLICIES)
    group.add_argument("--seed", type=int, default=0)
    group.add_argument("--description")
    args = parser.parse_args(argv[1:])
    if (args.what is None) == (args.replay is None):
        parser.error("give MODULE:CLASS, a script, or --replay DIR")
    if args.detached and args.max_steps is None:
        parser.error("--detached needs --max-steps")
    if not args.detached and args.what and ":" not in args.what:
        parser.error("a script is for --detached; ebb itself starts MODULE:CLASS")
    return args


def _setup_of(args):
    names = "hparams data max_steps batches_per_step metric min_validation_period min_checkpoint_period"
    setup = {name: getattr(args, name) for name in (names + " checkpoint_policy seed description").split()}
    setup["smaller_is_better"] = not args.larger_is_better
    setup["directory"] = os.path.abspath(args.detached)
    return json.dumps(setup)


def _run(args):
    if args.replay:
        with connect() as session:
            replay(session, args.replay)
        return
    if args.detached:
        os.environ["EBB_DETACHED"] = _setup_of(args)
        os.environ.pop("EBB_SOCKET", None)
    if ":" in args.what:
        sys.path.insert(0, os.getcwd())
        run_trial(args.what)
        return
    sys.argv = [args.what] + args.arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(args.what)))
    runpy.run_path(args.what, run_name="__main__")


def main(argv):
    args = _parse(argv)
    try:
        _run(args)
        return 0
    except MasterLost:
        return EXIT_LOST
    except Exception:  # the reason was reported; the log gets the rest
        traceback.print_exc()
        return 1
