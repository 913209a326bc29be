#!/usr/bin/env python3
"""Random trainings: a model of the zoo with a random optimizer, schedule, precision, clipping, accumulation, data order and
batch size, then the promises of every training: the same weights, losses and metrics at every budget, under every policy, with
tiers and after an interruption; the budget kept; refused 256 bytes below the floor, which `ebb explain` names as well.

Usage: train_random.py EBB FIRST COUNT (seeds). A seed that fails is told with its file and can be run alone."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(FOLDER, "train_zoo.py")) as f:  # its table of small models, without its main
    ZOO = {}
    exec(compile(f.read().split("def train(")[0], "train_zoo.py", "exec"), ZOO)

WAYS = ("dtr dtr_eq dtr_local msps lru largest random ab_e_size ab_e ab_eq_stale ab_local ab_stale dtr_unopt best floor all_ap "
        "last chen_sqrtn chen_greedy griewank rotor knapsack joint lp_round").split()
SCHEDULES = [
    None, None, "{name: StepLR, step_size: 2", "{name: CosineAnnealingLR, T_max: 5", "{name: MultiStepLR, milestones: [1, 3]",
    "{name: LinearLR", "{name: CyclicLR, max_lr: 0.02, step_size_up: 3", "{name: ReduceLROnPlateau, patience: 0, factor: 0.5",
    "{name: OneCycleLR, max_lr: 0.01, total_steps: 30", "{name: CosineAnnealingWarmRestarts, T_0: 2, T_mult: 2",
    "{name: SequentialLR, schedulers: [{name: LinearLR, total_iters: 2}, {name: ExponentialLR, gamma: 0.5}], milestones: [2]",
    "{name: GPTCosine, warmup: 2, total: 9", "{name: DeepCAMMultiStep, lr_warmup_steps: 2, milestones: 2"]
LEGAL = ("more than one value per channel", "has diverged", "cycles the momentum")  # refusals that torch has, too


class Broken(Exception):
    pass


def optimizer(r):
    name = r.choice("SGD SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam LARS LAMB".split())
    args = {"lr": r.choice([0.001, 0.01])}
    if name in ("SGD", "RMSprop", "LARS") and r.random() < 0.6:
        args["momentum"] = 0.9
    if name == "SGD" and "momentum" in args and r.random() < 0.4:
        args["nesterov"] = "true"
    flags = {"Adam": "amsgrad", "AdamW": "amsgrad", "RMSprop": "centered"}
    if name in flags and r.random() < 0.4:
        args[flags[name]] = "true"
    if r.random() < 0.5:
        args["weight_decay"] = 0.01
    if r.random() < 0.3:
        args["decay"] = "matrices"
    return "{name: %s, %s}" % (name, ", ".join(f"{k}: {v}" for k, v in args.items()))


def write(r, path):
    """A random file; returns whether its schedule looks at validations."""
    name, options, task, data = r.choice(ZOO["CASES"])
    batch, accumulate = r.randint(2, 6), r.choice([1, 1, 2, 3])
    precision = r.choice(["fp32", "fp32", "bf16", "split", "fp16"])
    if precision == "split":
        precision = "bf16" if name == "unrolled_gan" else "bf16, master_weights: split"
    hparams = {"global_batch_size": batch}
    hparams.update(r.choice([{}, {}, {"clip_grad_l2_norm": r.choice([0.1, 100])}, {"clip_grad_val": 0.01}]))
    if data:
        count = re.search(r"\bsamples: (\d+)", data)
        some = r.randint(batch, 3 * batch + 3)
        data = data[:-1] + (f", train_subset: {some}" if count and int(count.group(1)) >= some else "")
        data += r.choice(["", ", drop_last_batch: false"]) + r.choice(["", ", rng: torch"]) + f", workers: {r.randint(0, 2)}}}"
    schedule = r.choice(SCHEDULES)
    lines = [f"entrypoint: ebb:{task}", f"model: {{name: {name}, {options}}}", f"hyperparameters: {json.dumps(hparams)}",
             f"opt: {optimizer(r)}", f"memory: {{precision: {precision}}}",
             "searcher: {name: single, metric: validation_loss, max_steps: 1}"]
    if data:
        lines.append(f"data: {data}")
    if schedule:
        lines.append(f"lr_schedule: {schedule}" + (", interval: epoch}" if data and r.random() < 0.3 else "}"))
    if accumulate > 1:
        lines.append("optimizations: {aggregation_frequency: %d, average_aggregated_gradients: %s}" %
                     (accumulate, r.choice(["true", "false"])))
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


class Trainer:
    def __init__(self, ebb, path, options):
        self.ebb, self.path, self.options = ebb, path, [str(o) for o in options]

    def command(self, *more):
        return [self.ebb, "train", self.path, "--json", *self.options, *map(str, more)]

    def __call__(self, *more, code=0):
        r = subprocess.run(self.command(*more), capture_output=True, text=True, timeout=120)
        if r.returncode != code:
            raise Broken(f"exit {r.returncode}: {' '.join(map(str, more))}: {r.stderr.strip()[-300:]}")
        return json.loads(r.stdout.strip().splitlines()[-1])


def interrupt(r, train, folder):
    p = subprocess.Popen(train.command("--checkpoint", folder, "--checkpoint-every", 1), stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    time.sleep(r.uniform(0.02, 0.2))
    p.send_signal(r.choice([signal.SIGINT, signal.SIGKILL]))
    p.wait()


def check(ebb, seed, folder):
    r = random.Random(seed)
    path = os.path.join(folder, "random.yaml")
    write(r, path)
    train = Trainer(ebb, path, ["--updates", r.randint(2, 6), "--threads", r.choice([1, 1, 2]), "--seed", r.randint(0, 1 << 31),
                                "--validate-every", r.choice([0, 2])])
    free = train()
    floor, peak = free["floor_bytes"], free["peak_bytes"]

    def compare(got, what, budget):
        if got["weights_sha256"] != free["weights_sha256"]:
            raise Broken(f"{what}: other weights")
        if got["loss"] is not None and (got["loss"], got["metrics"]) != (free["loss"], free["metrics"]):
            raise Broken(f"{what}: other loss or metrics")
        if got["peak_bytes"] > budget:
            raise Broken(f"{what}: peak {got['peak_bytes']}")

    def some_budget():
        return int(floor + (peak - floor) * r.random()) // 256 * 256

    told = subprocess.run([ebb, "explain", path, "--json", "--threads", train.options[3]], capture_output=True, text=True)
    if told.returncode or json.loads(told.stdout)["floor_bytes"] != floor:
        raise Broken(f"explain does not name the floor {floor}: {told.stderr or told.stdout[:200]}")
    refused = train("--budget", floor - 256, code=1)
    if (refused["status"], refused["floor_bytes"]) != ("refused", floor):
        raise Broken(f"refused with {refused['floor_bytes']}, the floor is {floor}")
    for budget in (floor, some_budget()):
        way = r.choice(WAYS)
        compare(train("--budget", budget, "--policy", way), f"{way} at {budget}", budget)
    tier = [r.choice(["--host", "--file"]), r.choice(["7KiB", "64KiB", "1MiB"])]
    budget = train(*tier)["floor_bytes"]
    if budget > floor:
        raise Broken(f"{tier} raises the floor from {floor} to {budget}")
    compare(train(*tier, "--budget", budget), f"{tier} at {budget}", budget)
    checkpoints = os.path.join(folder, "checkpoints")
    interrupt(r, train, checkpoints)
    budget = some_budget()
    again = ["--resume", checkpoints] if os.path.isdir(checkpoints) else []  # killed before the folder was there
    compare(train(*again, "--budget", budget), f"resumed at {budget}", budget)


def main():
    ebb, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    failed = legal = 0
    for seed in range(first, first + count):
        folder = tempfile.mkdtemp(prefix="ebb-random-")
        try:
            check(ebb, seed, folder)
        except (Broken, subprocess.TimeoutExpired) as e:
            if any(text in str(e) for text in LEGAL):
                legal += 1
            else:
                failed += 1
                with open(os.path.join(folder, "random.yaml")) as f:
                    print(f"FAIL seed {seed}: {e}\n{f.read()}")
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{count - failed - legal} passed, {failed} failed, {legal} refused as they should be")
    sys.exit(bool(failed))


main()
