"""A trial as a class: logistic regression on two rings, in plain Python.

`entrypoint: model:RingTrial` in exp.yaml names it; ebb calls the four methods.
"""

import json
import math
import os
import random

import ebb_client


def ring_point(rng):
    """A point and its class: 1 inside the circle of radius 0.7."""
    x, y = rng.uniform(-1, 1), rng.uniform(-1, 1)
    return (1.0, x, y, x * x, y * y), 1.0 if math.hypot(x, y) < 0.7 else 0.0


class RingTrial(ebb_client.Trial):
    def __init__(self, context):
        super().__init__(context)
        self.rate = context.hparam("learning_rate")
        self.decay = context.hparam("decay")
        self.size = context.hparam("global_batch_size")
        self.weights = [0.0] * 5

    def predict(self, x):
        z = sum(w * v for w, v in zip(self.weights, x))
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))

    def train_batch(self, batch):
        # Seeded by the batch number: a resumed trial sees the same data.
        rng = random.Random(self.context.seed * 1000003 + batch)
        gradient, loss = [0.0] * 5, 0.0
        for _ in range(self.size):
            x, y = ring_point(rng)
            p = self.predict(x)
            loss -= math.log(max(p if y else 1.0 - p, 1e-12))
            for i, v in enumerate(x):
                gradient[i] += (p - y) * v
        for i in range(5):
            self.weights[i] -= self.rate * (gradient[i] / self.size + self.decay * self.weights[i])
        return {"loss": loss / self.size}

    def validate(self):
        rng = random.Random(7)
        loss = hits = 0.0
        for _ in range(200):
            x, y = ring_point(rng)
            p = self.predict(x)
            loss -= math.log(max(p if y else 1.0 - p, 1e-12))
            hits += (p > 0.5) == bool(y)
        return {"validation_loss": loss / 200, "accuracy": hits / 200}

    def save(self, directory):
        with open(os.path.join(directory, "weights.json"), "w", encoding="utf-8") as f:
            json.dump(self.weights, f)

    def load(self, directory, is_own):
        with open(os.path.join(directory, "weights.json"), encoding="utf-8") as f:
            self.weights = json.load(f)
