"""Training without a master: the same script, with what it reports kept in a directory.

The directory holds run.json (what is trained), log.jsonl (one answered workload a line) and
checkpoints/. A run that was interrupted goes on from its last checkpoint when it is started again.
A finished one has exp.yaml, too: ``ebb run DIR/exp.yaml`` makes it an experiment like any other,
by answering the master's workloads with what is in the log.
"""

import json
import os
import shutil
import signal
import sys
import threading
import uuid

from .job import Checkpoint, Job

VERSION = 1
POLICIES = ("best", "all", "none")


def _write(path, text):
    """Whole or not at all."""
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, path)


def _number(value):
    """A metric as it is kept: "NaN" and the infinities are texts."""
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else value


class Setup:
    """What run.json says: it cannot change while a run is not finished."""

    def __init__(
        self,
        hparams=None,
        max_steps=None,
        metric="validation_loss",
        smaller_is_better=True,
        batches_per_step=100,
        min_validation_period=None,
        min_checkpoint_period=None,
        checkpoint_policy="best",
        data=None,
        seed=0,
        description=None,
    ):
        if not isinstance(max_steps, int) or max_steps < 1:
            raise ValueError("detached: max_steps must be a number above 0")
        if not isinstance(batches_per_step, int) or batches_per_step < 1:
            raise ValueError("detached: batches_per_step must be a number above 0")
        for period in (min_validation_period, min_checkpoint_period):
            if period is not None and (not isinstance(period, int) or period < 1):
                raise ValueError("detached: a period must be a number above 0")
        if checkpoint_policy not in POLICIES:
            raise ValueError("detached: checkpoint_policy must be one of %s" % ", ".join(POLICIES))
        self.hparams = dict(hparams or {})
        self.hparams.setdefault("global_batch_size", 1)
        self.max_steps = max_steps
        self.metric = metric
        self.smaller_is_better = bool(smaller_is_better)
        self.batches_per_step = batches_per_step
        self.min_validation_period = min_validation_period
        self.min_checkpoint_period = min_checkpoint_period
        self.checkpoint_policy = checkpoint_policy
        self.data = dict(data or {})
        self.seed = int(seed)
        self.description = description

    def text(self):
        return json.dumps(dict(vars(self), version=VERSION), indent=1, sort_keys=True) + "\n"

    def config(self, directory):
        """The experiment file that imports the run."""
        config = {
            "description": self.description or "detached run %s" % os.path.basename(directory),
            "labels": ["detached"],
            "entrypoint": ["python3", "-m", "ebb_client", "--replay", directory],
            "data": self.data,
            "batches_per_step": self.batches_per_step,
            "checkpoint_policy": self.checkpoint_policy,
            "max_restarts": 0,
            "hyperparameters": {n: {"type": "const", "val": v} for n, v in self.hparams.items()},
            "searcher": {
                "name": "single",
                "metric": self.metric,
                "smaller_is_better": self.smaller_is_better,
                "max_steps": self.max_steps,
            },
        }
        for name in ("min_validation_period", "min_checkpoint_period"):
            if getattr(self, name) is not None:
                config[name] = getattr(self, name)
        return config


class Run:
    """The directory, and which workload comes next: the order of a master (train, validate,
    checkpoint), decided from what is in the log alone."""

    def __init__(self, directory, setup, keeps_steps=False):
        self.directory = os.path.abspath(directory)
        self.setup = setup
        self.step = 0
        self.steps, self.validations, self.checkpoints = {}, {}, {}  # by step
        self._keeps_steps = keeps_steps  # their metrics are large, and only an import needs them
        self._walked = (0, 0, 0, None)  # steps, last wanted validation and checkpoint, best metric
        os.makedirs(os.path.join(self.directory, "checkpoints"), exist_ok=True)
        path = os.path.join(self.directory, "run.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                if json.load(f) != json.loads(setup.text()):
                    raise ValueError(
                        "%s is a run with other settings; give another directory, or delete it" % self.directory
                    )
            self._read()
        else:
            _write(path, setup.text())
        self._log = open(os.path.join(self.directory, "log.jsonl"), "a", encoding="utf-8")

    def _read(self):
        """Everything up to the last checkpoint counts; what came after it is done again."""
        lines, is_torn = [], False
        try:
            with open(os.path.join(self.directory, "log.jsonl"), encoding="utf-8") as f:
                for line in f:
                    is_torn = not line.endswith("\n")  # by a crash
                    if not is_torn:
                        lines.append(json.loads(line))
        except FileNotFoundError:
            return
        last = max([_step(m) for m in lines if _kind(m) == "CHECKPOINT_MODEL"] or [0])
        kept = [m for m in lines if _step(m) <= last]
        for message in kept:
            self._take(message)
        if is_torn or len(kept) < len(lines):
            _write(os.path.join(self.directory, "log.jsonl"), "".join(json.dumps(m) + "\n" for m in kept))
        for name in os.listdir(os.path.join(self.directory, "checkpoints")):
            if name not in self.checkpoints.values():
                shutil.rmtree(os.path.join(self.directory, "checkpoints", name), ignore_errors=True)

    def _take(self, message):
        kind, step = _kind(message), _step(message)
        if kind == "RUN_STEP":
            self.step = step
            if self._keeps_steps:
                self.steps[step] = message
        elif kind == "COMPUTE_VALIDATION_METRICS":
            self.validations[step] = message
        else:
            self.checkpoints[step] = message["workload"]["uuid"]

    def value(self, step):
        """The searcher's metric at a step, the smaller the better; None without a validation."""
        if step not in self.validations:
            return None
        value = self.validations[step]["metrics"]["validation_metrics"].get(self.setup.metric)
        if value is None:
            raise RuntimeError("the validation has no %r" % self.setup.metric)
        value = _number(value)
        if value != value:
            return sys.float_info.max
        return value if self.setup.smaller_is_better else -value

    def _walk(self, state):
        """One step on: (state after it, validation wanted, checkpoint wanted), by periods and policy."""
        s = self.setup
        step, last_validation, last_checkpoint, best = state
        step += 1
        period = s.min_validation_period
        validation = step == s.max_steps or (period is not None and step - last_validation >= period)
        period = s.min_checkpoint_period
        checkpoint = period is not None and step - last_checkpoint >= period
        if validation:
            last_validation = step
            value = self.value(step)
            is_best = value is not None and (best is None or value < best)
            best = value if is_best else best
            if s.checkpoint_policy == "all" and value is not None:
                checkpoint = True
            if s.checkpoint_policy == "best" and is_best:
                checkpoint = True
        if checkpoint:
            last_checkpoint = step
        return (step, last_validation, last_checkpoint, best), validation, checkpoint

    def wanted(self, step):
        """(validation, checkpoint) at the last step. Steps before it are settled."""
        while self._walked[0] < step - 1:
            self._walked = self._walk(self._walked)[0]
        return self._walk(self._walked)[1:]

    def next(self, is_stopping):
        """(kind, step) of the next workload; None at the end."""
        step = self.step
        if step > 0:
            validation, checkpoint = self.wanted(step)
            if validation and step not in self.validations and not is_stopping:
                return "COMPUTE_VALIDATION_METRICS", step
            checkpoint = checkpoint or is_stopping or step == self.setup.max_steps
            if checkpoint and step not in self.checkpoints:
                return "CHECKPOINT_MODEL", step
        if is_stopping or step == self.setup.max_steps:
            return None
        return "RUN_STEP", step + 1

    def staging(self, name):
        return os.path.join(self.directory, "checkpoints", "." + name + ".tmp")

    def add(self, message):
        """An answered workload, durable when this returns."""
        if _kind(message) == "CHECKPOINT_MODEL":
            name = message["workload"]["uuid"]
            os.rename(self.staging(name), os.path.join(self.directory, "checkpoints", name))
        self._log.write(json.dumps(message) + "\n")
        self._log.flush()
        os.fsync(self._log.fileno())
        self._take(message)
        if self.next(False) is None:
            ignore = os.path.join(self.directory, ".ebbignore")  # an import needs no files
            _write(ignore, "*\n")
            path = os.path.join(self.directory, "exp.yaml")
            _write(path, json.dumps(self.setup.config(self.directory), indent=1) + "\n")

    def close(self):
        self._log.close()


def _kind(message):
    return message["workload"]["kind"]


def _step(message):
    return int(message["workload"]["step_id"])


class LocalJob:
    """In place of :class:`Job`: what a master would have said."""

    def __init__(self, run):
        s = run.setup
        self.config = s.config(run.directory)
        self.hparams = s.hparams
        self.data = s.data
        self.seed = s.seed
        self.experiment_id = self.trial_id = 0
        self.slots = []
        self.rank, self.size = 0, 1
        self.batches_per_step = s.batches_per_step
        self.global_batch_size = self.per_slot_batch_size = int(s.hparams["global_batch_size"])
        self.checkpoint = None
        if run.checkpoints:
            step = max(run.checkpoints)
            name = run.checkpoints[step]
            self.checkpoint = Checkpoint(name, os.path.join(run.directory, "checkpoints", name), True, step)

    hparam = Job.hparam


class LocalLink:
    """In place of the connection: workloads come from the run, answers go there. SIGTERM and the
    first Ctrl-C end it after the step, with a checkpoint; the second Ctrl-C at once."""

    def __init__(self, run):
        self._run = run
        self.should_stop = False
        self.batch = 0
        self._old = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._old[number] = signal.signal(number, self._on_signal)

    def _on_signal(self, number, _frame):
        if self.should_stop and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.should_stop = True

    def next(self):
        found = self._run.next(self.should_stop)
        work = {"experiment_id": 0, "trial_id": 0, "kind": "TERMINATE"}
        if found is not None:
            work["kind"], work["step_id"] = found
            if work["kind"] == "RUN_STEP":
                work["num_batches"] = self._run.setup.batches_per_step
            elif work["kind"] == "CHECKPOINT_MODEL":
                work["uuid"] = str(uuid.uuid4())
                work["path"] = self._run.staging(work["uuid"])
        return {"type": "RUN", "workload": work}

    def answer(self, _seq, message):
        if message["type"] == "DONE":
            self._run.add(message)

    def check(self):
        pass

    def close(self):
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._run.close()


def replay(session, directory):
    """Answer a master's workloads with what a finished run has recorded."""
    with open(os.path.join(directory, "run.json"), encoding="utf-8") as f:
        values = json.load(f)
    if values.pop("version", None) != VERSION:
        raise RuntimeError("%s was written by another version" % directory)
    run = Run(directory, Setup(**values), keeps_steps=True)
    run.close()
    kinds = {"RUN_STEP": run.steps, "COMPUTE_VALIDATION_METRICS": run.validations}
    for work in session.workloads():
        if work.is_checkpoint:
            name = run.checkpoints.get(work.step)
            if name is None:
                raise RuntimeError("the run has no checkpoint of step %d" % work.step)
            source = os.path.join(run.directory, "checkpoints", name)
            shutil.copytree(source, work.directory, dirs_exist_ok=True)
        elif work.step in kinds[work.kind]:
            work.replay(kinds[work.kind][work.step])
        else:
            raise RuntimeError("the run has no %s of step %d" % (work.kind, work.step))
