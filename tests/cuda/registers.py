#!/usr/bin/env python3
"""registers.py BUILD NVCC SOURCE [--update]: what the compiler said of every kernel (BUILD/src/cuda/*.ptxas) against tests/cuda/registers.txt: no
register is spilled, none takes more registers than there. The list is of one version of nvcc: with another the test is skipped."""
import glob
import os
import re
import subprocess
import sys

ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([^']+)'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"ptxas info\s*: Used (\d+) registers")


def version(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", text).group(1)


def plain(names):
    """Names as they are written, without parameters and without what stands for the file."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    found = []
    for name in text.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|_INTERNAL_\w+::", "", name)
        depth, end = 0, len(name)
        for i, c in enumerate(name):  # the parenthesis outside of template arguments
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                end = i
                break
        found.append(re.sub(r"^void ", "", name[:end]).replace(" ", ""))
    return found


def read(build):
    """{"file:kernel": registers}, kernels that spill"""
    kernels, spilled = {}, []
    for path in sorted(glob.glob(os.path.join(build, "src/cuda/*.ptxas"))):
        names, used, name = [], [], None
        with open(path) as f:
            for line in f:
                if m := ENTRY.search(line):
                    name = m.group(1)
                elif (m := SPILL.search(line)) and name and (int(m.group(1)) or int(m.group(2))):
                    spilled.append(name)
                elif (m := USED.search(line)) and name:
                    names.append(name)
                    used.append(int(m.group(1)))
        file = os.path.basename(path).removesuffix(".ptxas")
        for name, registers in zip(plain(names), used):
            key = f"{file}:{name}"
            kernels[key] = max(registers, kernels.get(key, 0))
    return kernels, spilled


def main():
    build, nvcc, source = sys.argv[1:4]
    path = os.path.join(source, "tests/cuda/registers.txt")
    found, spilled = read(build)
    if not found:
        sys.exit(f"registers: {build}/src/cuda has no *.ptxas: build ebb_cuda first")
    if "--update" in sys.argv:
        with open(path, "w") as f:
            f.write(f"# Registers of every kernel (registers.py --update writes them).\nnvcc {version(nvcc)}\n")
            f.writelines(f"{found[k]} {k}\n" for k in sorted(found))
    with open(path) as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    for name in spilled:
        print(f"registers: {name} spills")
    if lines[0][1] != version(nvcc):
        print(f"skipped: the list is of nvcc {lines[0][1]}, this is {version(nvcc)}")
        sys.exit(bool(spilled))
    listed, wrong = {name: int(n) for n, name in lines[1:]}, len(spilled)
    for name in sorted(found.keys() | listed.keys()):
        if found.get(name, 0) > listed.get(name, 0) or name not in found:
            wrong += 1
            print(f"registers: {name}: {found.get(name, 'not there')}, listed {listed.get(name, 'not at all')}")
    print(f"registers: {len(found)} kernels, at most {max(found.values())} registers, {len(spilled)} spill, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
