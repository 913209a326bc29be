"""Answering workloads: the loop a training script drives itself."""

import json
import logging
import math
import os
import shutil
import sys
import time

from .detached import LocalJob, LocalLink, Run, Setup
from .job import Job
from .link import Link, MasterLost
from .store import make_directory, resources_of

EXIT_LOST = 75
BATCH_METRICS_MAX = 12 << 20  # bytes of JSON; a message may have 16 MiB
log = logging.getLogger("ebb_client")


class Failed(Exception):
    """Ends the trial with a reason; it is restarted from its last checkpoint."""

    kind = "ERRORED"


class InvalidHP(Failed):
    """This sample of hyperparameters makes no sense; do not try it again."""

    kind = "INVALID_HP"


class UserCanceled(Failed):
    """The user ended it."""

    kind = "USER_CANCELED"


def _number(value):
    """A number as it travels; None stays null. TypeError, ValueError: it is none."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)):
        raise TypeError("a text")
    value = float(value)  # numpy and torch scalars, too
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _value(value):
    """Whatever a metric is: numbers, texts, lists and mappings of them, arrays."""
    try:
        return _number(value)
    except (TypeError, ValueError):
        pass
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {str(name): _value(inner) for name, inner in value.items()}
    if hasattr(value, "tolist"):  # numpy, torch
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_value(inner) for inner in value]
    raise TypeError("neither a number nor something JSON can hold: %r" % type(value).__name__)


def _metrics(metrics):
    made = {}
    for name, value in metrics.items():
        try:
            made[str(name)] = _value(value)
        except TypeError as error:
            raise Failed("metric %r is %s" % (name, error)) from None
    return made


def _average(rows):
    """Of every metric over the batches: nulls are skipped, what is no number averages to null."""
    sums, counts, others = {}, {}, set()
    for row in rows:
        for name, value in row.items():
            sums.setdefault(name, 0.0)
            if value is None:
                continue
            try:
                if isinstance(value, (str, bytes)):
                    raise TypeError
                sums[name] += float(value)
                counts[name] = counts.get(name, 0) + 1
            except (TypeError, ValueError):
                others.add(name)
    return {
        str(name): _number(total / counts[name]) if name in counts and name not in others else None
        for name, total in sums.items()
    }


class Workload:
    """One job: ``kind`` is RUN_STEP, COMPUTE_VALIDATION_METRICS or CHECKPOINT_MODEL."""

    def __init__(self, session, message):
        self._session = session
        self._rows = []
        self._inputs = 0
        self.message = message["workload"]
        self.kind = self.message["kind"]
        self.step = int(self.message.get("step_id") or 0)
        self.batch_count = int(self.message.get("num_batches") or session.job.batches_per_step)
        self.is_train = self.kind == "RUN_STEP"
        self.is_validation = self.kind == "COMPUTE_VALIDATION_METRICS"
        self.is_checkpoint = self.kind == "CHECKPOINT_MODEL"
        self.directory = None  # of a checkpoint: write files here
        self._recorded = None  # the answer of a run that is imported

    def batches(self):
        """Numbers of the batches to train, counted from 0 over the whole trial."""
        first = (self.step - 1) * self._session.job.batches_per_step
        for i in range(self.batch_count):
            self._session.link.batch = first + i
            yield first + i
            self._session.link.check()

    def report(self, metrics=None, num_inputs=None, **more):
        """Metrics of one batch (a train step), or of the validation set."""
        row = dict(metrics or {}, **more)
        if self.is_train and "loss" not in row:
            raise Failed("training metrics have no 'loss'")
        if num_inputs is None:
            num_inputs = self._session.job.global_batch_size if self.is_train else 0
        self._inputs += int(num_inputs)
        self._rows.append({name: value for name, value in row.items()})

    def replay(self, recorded):
        """Answer with a message of an earlier run, times included."""
        self._recorded = recorded

    def _batch_metrics(self):
        """One row for each batch, or none at all when a message could not hold them."""
        rows, length = [], 0
        for row in self._rows:
            rows.append(_metrics(row))
            length += len(json.dumps(rows[-1])) + 1
            if length > BATCH_METRICS_MAX:
                if not self._session.is_warned:
                    print("ebb_client: metrics of %d batches are too long: only averages are kept"
                          % len(self._rows), flush=True)
                self._session.is_warned = True
                return []
        return rows

    def result(self):
        if self._recorded is not None:
            return self._recorded["metrics"]
        if self.is_train:
            if len(self._rows) != self.batch_count:
                raise Failed("%d batches were reported, %d asked for" % (len(self._rows), self.batch_count))
            return {
                "num_inputs": self._inputs,
                "batch_metrics": self._batch_metrics(),
                "avg_metrics": _average(self._rows),
            }
        if self.is_validation:
            if len(self._rows) != 1:
                raise Failed("a validation must be reported once, not %d times" % len(self._rows))
            return {"num_inputs": self._inputs, "validation_metrics": _metrics(self._rows[0])}
        return {"uuid": self.message["uuid"], "resources": resources_of(self.directory)}


class Session:
    """The trial's side of one connection. Use it as a context manager: see :func:`connect`."""

    def __init__(self, job=None, link=None):
        self.job = job or Job()
        self.hparams = self.job.hparams
        self.config = self.job.config
        self.data = self.job.data
        self.seed = self.job.seed
        self.checkpoint = self.job.checkpoint
        self.link = link or Link(self.job)
        self._step = self.checkpoint.step if self.checkpoint else 0
        self._count = 0
        self._current = None  # (Workload, start)
        self._last = None  # the last DONE
        self.is_warned = False

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _traceback):
        """An exception is reported before the process dies of it; a lost master is exit code 75."""
        if isinstance(error, MasterLost):
            self.link.close()
            sys.stdout.flush()
            os._exit(EXIT_LOST)
        if isinstance(error, Exception):
            self.fail(error)
        self.link.close()
        return False

    @property
    def should_stop(self):
        """The master would like the slots back soon; finishing the step is fine."""
        return self.link.should_stop

    def hparam(self, name):
        return self.job.hparam(name)

    def get_hparam(self, name):
        """A hyperparameter by name; the error lists those that exist."""
        return self.job.hparam(name)

    def get_global_batch_size(self):
        """Records of one batch, over all slots of the trial."""
        return self.job.global_batch_size

    def get_per_slot_batch_size(self):
        """Records of one batch that this slot trains."""
        return self.job.per_slot_batch_size

    def workloads(self):
        """Yields workloads until the trial is told to terminate; each is answered when the next is asked for."""
        while True:
            message = self.link.next()
            work = message.get("workload") or {}
            if work.get("kind") == "TERMINATE":
                return
            if self._last is not None and self._last["workload"] == work:
                self.link.answer(self._last["seq"], self._last)  # asked again after a reconnect
                continue
            yield self._begin(message)
            self._finish()

    def _begin(self, message):
        work = Workload(self, message)
        self._current = (work, time.time())
        log.debug("begin %s, step %d", work.kind, work.step)
        if work.is_train and work.step != self._step + 1:
            raise Failed("protocol: step %d was asked for after step %d" % (work.step, self._step))
        if work.is_checkpoint:
            work.directory = make_directory(work.message["path"])
        return work

    def _finish(self):
        work, start = self._current
        answer = {
            "type": "DONE",
            "seq": self._count + 1,
            "workload": work.message,
            "start": start,
            "metrics": work.result(),
            "end": time.time(),
        }
        if work._recorded is not None:
            answer["start"], answer["end"] = work._recorded["start"], work._recorded["end"]
        log.debug("done %s, step %d, %.3f s", work.kind, work.step, answer["end"] - start)
        self._current = None
        if work.is_train:
            self._step = work.step
        self._count += 1
        self._last = answer
        self.link.answer(answer["seq"], answer)

    def fail(self, error):
        """Report a failure of the workload in progress; the process should end then."""
        work = self._current[0] if self._current else None
        if work is not None and work.directory:
            shutil.rmtree(work.directory, ignore_errors=True)
        message = {
            "type": "FAILED",
            "seq": self._count + 1,
            "workload": work.message if work else None,
            "reason": "%s: %s" % (type(error).__name__, error),
            "kind": getattr(error, "kind", "ERRORED"),
        }
        self._current = None
        self.link.answer(0, message)


def connect(detached=None, **setup):
    """Connect to the master that started this process.

    Without one, ``detached`` names a directory where the run is kept instead; ``setup`` says what a
    master would: hparams, max_steps, metric, smaller_is_better, batches_per_step,
    min_validation_period, min_checkpoint_period, checkpoint_policy, data, seed, description. Under a
    master both are ignored, so that a script works either way. ``python3 -m ebb_client --detached``
    does the same for a script as it is.

    With ``debug: true`` in the experiment file the root logger is set to DEBUG, and workloads are
    logged.
    """
    if os.environ.get("EBB_LOG_LEVEL") == "debug":
        logging.basicConfig(level=logging.DEBUG, format="%(name)s: %(levelname)s: %(message)s")
    given = os.environ.get("EBB_DETACHED")
    if os.environ.get("EBB_SOCKET") or (detached is None and not given):
        return Session()
    if given:
        setup = json.loads(given)
        detached = setup.pop("directory")
    run = Run(detached, Setup(**setup))
    return Session(LocalJob(run), LocalLink(run))
