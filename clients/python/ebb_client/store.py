"""A checkpoint directory: written under a temporary name, synced, then renamed."""

import hashlib
import json
import os
import shutil


def temporary_of(path):
    """Make the empty directory to write into, beside the final place."""
    base, name = os.path.split(path)
    if not os.path.isdir(base):
        os.makedirs(base, exist_ok=True)
        os.chmod(base, 0o777)
    temporary = os.path.join(base, "." + name + ".tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    os.mkdir(temporary)
    return temporary


def write_metadata(directory, job, work):
    meta = {
        "uuid": work.message["uuid"],
        "experiment_id": job.experiment_id,
        "trial_id": job.trial_id,
        "step_id": work.step,
        "hparams": job.hparams,
        "format": "python",
    }
    with open(os.path.join(directory, "metadata.json"), "w", encoding="utf-8") as f:
        json.dump(meta, f, indent=2)


def _sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _walk(root):
    """(relative path, size); directories end in '/' and have size 0."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        inner = os.path.relpath(folder, root)
        prefix = "" if inner == "." else inner + "/"
        if prefix:
            yield prefix, 0
        for name in sorted(files):
            yield prefix + name, os.path.getsize(os.path.join(folder, name))


def write_manifest(directory):
    rows = []
    for path, size in _walk(directory):
        if path.endswith("/"):
            continue
        digest = hashlib.sha256()
        with open(os.path.join(directory, path), "rb") as f:
            for block in iter(lambda: f.read(1 << 20), b""):
                digest.update(block)
        rows.append({"path": path, "bytes": size, "sha256": digest.hexdigest()})
    with open(os.path.join(directory, "manifest.json"), "w", encoding="utf-8") as f:
        json.dump({"files": rows}, f, indent=1)


def publish(temporary, path, uuid):
    """Sync everything, rename to its place, say what is in it."""
    if not os.path.isdir(temporary):
        raise RuntimeError("checkpoint did not create a storage directory")
    write_manifest(temporary)
    resources = dict(_walk(temporary))
    for name in resources:
        _sync(os.path.join(temporary, name))
    _sync(temporary)
    os.rename(temporary, path)
    _sync(os.path.dirname(path))
    return {"uuid": uuid, "resources": resources}
