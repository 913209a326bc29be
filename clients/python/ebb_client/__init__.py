"""ebb_client: what a Python training script needs to be a trial of an ebb experiment.

Only the standard library is used. Two ways:

* A class. ``entrypoint: model:MyTrial`` in the experiment file; MyTrial derives from
  :class:`Trial` and says how to train one batch, validate, save and load. ebb drives it.

* Your own loop. ``entrypoint: [python3, train.py]``; the script calls :func:`connect` and answers
  one workload after another::

      with ebb_client.connect() as ebb:
          model = build(ebb.hparams)
          if ebb.checkpoint:
              model.load(ebb.checkpoint.path)
          for work in ebb.workloads():
              if work.is_train:
                  for batch in work.batches():
                      work.report(loss=model.step(batch))
              elif work.is_validation:
                  work.report(validation_loss=model.evaluate())
              else:
                  model.save(work.directory)

What is printed goes to the log of the trial. docs/trial-protocol.md has the messages themselves.
"""

from .job import Checkpoint, Job
from .session import Failed, InvalidHP, MasterLost, Session, UserCanceled, Workload, connect
from .trial import Trial, run_trial

__all__ = [
    "Checkpoint",
    "Failed",
    "InvalidHP",
    "Job",
    "MasterLost",
    "Session",
    "Trial",
    "UserCanceled",
    "Workload",
    "connect",
    "run_trial",
]

__version__ = "0.1.0"
