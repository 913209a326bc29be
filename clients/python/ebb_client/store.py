"""A checkpoint directory: the trial writes it; the master makes it durable and publishes it."""

import os
import shutil


def make_directory(path):
    """The empty directory to write into; leftovers of an interrupted attempt go away."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def resources_of(root):
    """{relative path: size}; directories end in '/' and have size 0."""
    if not os.path.isdir(root):
        raise RuntimeError("checkpoint did not create a storage directory")
    resources = {}
    for folder, folders, files in os.walk(root):
        folders.sort()
        inner = os.path.relpath(folder, root)
        prefix = "" if inner == "." else inner + "/"
        if prefix:
            resources[prefix] = 0
        for name in sorted(files):
            path = os.path.join(folder, name)
            resources[prefix + name] = os.path.getsize(path)
    return resources
