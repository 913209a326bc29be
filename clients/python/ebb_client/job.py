"""What the master tells a trial before it starts: the environment and the file EBB_CONFIG."""

import json
import os


class Checkpoint:
    """A checkpoint to start from.

    ``is_own``: it is this trial's, so everything is restored (weights, optimizer, generators) and
    ``step`` steps are done. Otherwise it comes from another trial (population based training, warm
    start): take the weights, begin at step 0.
    """

    def __init__(self, uuid, path, is_own, step):
        self.uuid = uuid
        self.path = path
        self.is_own = is_own
        self.step = step if is_own else 0

    def __repr__(self):
        return "Checkpoint(%r, is_own=%r, step=%r)" % (self.path, self.is_own, self.step)


class Job:
    """Everything a trial may want to know about itself."""

    def __init__(self, environ=None):
        environ = os.environ if environ is None else environ
        missing = [n for n in ("EBB_SOCKET", "EBB_CONFIG", "EBB_ALLOCATION_ID") if not environ.get(n)]
        if missing:
            raise RuntimeError(
                "%s is not set: this process was not started by ebb; run the experiment with 'ebb run "
                "FILE', or without a master: python3 -m ebb_client --detached DIR ..." % ", ".join(missing)
            )
        with open(environ["EBB_CONFIG"], encoding="utf-8") as f:
            root = json.load(f)
        # Absolute: the script may change its working directory and must still find the master.
        self.socket_path = os.path.abspath(environ["EBB_SOCKET"])
        self.allocation = environ["EBB_ALLOCATION_ID"]
        self.patience = float(environ.get("EBB_PATIENCE_S") or 60.0)
        self.config = root["config"]
        self.hparams = root["hparams"]
        self.data = self.config.get("data") or {}
        self.seed = int(root.get("trial_seed") or 0)
        self.experiment_id = int(root.get("experiment_id") or environ.get("EBB_EXPERIMENT_ID") or 0)
        self.trial_id = int(root.get("trial_id") or environ.get("EBB_TRIAL_ID") or 0)
        self.slots = root.get("slots") or []
        self.rank = int(environ.get("EBB_RANK") or 0)
        self.size = int(environ.get("EBB_SIZE") or 1)
        self.batches_per_step = int(self.config.get("batches_per_step") or 100)
        self.global_batch_size = int(self.hparams.get("global_batch_size") or 1)
        is_native = (self.config.get("resources") or {}).get("native_parallel", False)
        self.per_slot_batch_size = self.global_batch_size if is_native else self.global_batch_size // self.size
        latest = root.get("latest_checkpoint")
        self.checkpoint = None
        if latest:
            self.checkpoint = Checkpoint(
                latest.get("uuid"),
                latest["path"],
                not latest.get("is_warm_start", int(latest.get("trial_id") or 0) != self.trial_id),
                int(latest.get("step_id") or 0),
            )

    def hparam(self, name):
        """A hyperparameter by name; the error lists those that exist."""
        if name not in self.hparams:
            raise KeyError(
                "section 'hyperparameters' has no %r; it has %s" % (name, ", ".join(sorted(self.hparams)))
            )
        return self.hparams[name]
