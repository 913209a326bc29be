"""A training script that keeps its own loop. Any script becomes a trial in this way.

A line is fitted to noisy points; replace the class by your model.
"""

import json
import os
import random

import ebb_client


class Line:
    def __init__(self, rate, seed):
        self.a, self.b = 0.0, 0.0
        self.rate, self.seed = rate, seed

    def train(self, batch, size):
        rng = random.Random(self.seed * 1000003 + batch)
        loss = da = db = 0.0
        for _ in range(size):
            x = rng.uniform(-1, 1)
            e = self.a * x + self.b - (2.0 * x + 0.5 + rng.gauss(0, 0.01))
            loss, da, db = loss + e * e, da + 2 * e * x, db + 2 * e
        self.a -= self.rate * da / size
        self.b -= self.rate * db / size
        return loss / size

    def error(self):
        return (self.a - 2.0) ** 2 / 3 + (self.b - 0.5) ** 2


with ebb_client.connect() as ebb:
    line = Line(ebb.hparam("learning_rate"), ebb.seed)
    if ebb.checkpoint:
        with open(os.path.join(ebb.checkpoint.path, "line.json"), encoding="utf-8") as f:
            line.a, line.b = json.load(f)
        print("started from %s" % ebb.checkpoint, flush=True)
    for work in ebb.workloads():
        if work.is_train:
            for batch in work.batches():
                work.report(loss=line.train(batch, ebb.hparam("global_batch_size")))
        elif work.is_validation:
            work.report(validation_error=line.error())
        else:
            with open(os.path.join(work.directory, "line.json"), "w", encoding="utf-8") as f:
                json.dump([line.a, line.b], f)
