# The front door. CMake and Ninja do the work; each target here is one or two commands.
#
#   make          build/ebb                         make asan|tsan  tests under sanitizers
#   make demo     install, build, show it           make fuzz       every fuzz target, FUZZ_SECONDS each
#   make test     install, build, run every test    make bench      measure the hot paths
#   make check    what a commit must pass           make golden     rewrite golden files: review the diff
#   make format   clang-format in place             make clean      remove build folders
#   make soak     SOAK_SECONDS of the crash test    make tidy       clang-tidy over all of src
#   make toys     add one of each kind to a copy, build and use it
#   make slow     every test in full (EBB_TEST_LONG=1: more budgets, seeds, models, kills); hours
#   make identity one hash for a model, whatever memory it gets
#   make web-test the page in a real browser, alone and behind nginx with TLS
#   make store-test  checkpoints in real object stores; store-full: with speeds, kills, outages and large files (hours)
#   make onnx-test ONNX files and weights against torch, and the format's own tests
#   make web-scale a state of 10^5 experiments and 10^8 values (some GB), and how long pages take with it

FUZZ_SECONDS ?= 5
SOAK_SECONDS ?= 1800
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
CMAKE = cmake -G Ninja -S .
QUIET = >/dev/null
MARGS = --no-print-directory

.PHONY: slow onnx-test web-test web-scale store-test store-full toys identity all demo test check format tidy asan tsan fuzz bench golden soak size clean
.DEFAULT_GOAL := all

all:
	@tools/setup --check run
	@$(CMAKE) -B build $(QUIET)
	@ninja -C build $$(tools/targets build ebb)

demo:
	@tools/setup run
	@$(MAKE) $(MARGS) all
	@if [ -x tools/demo ]; then tools/demo build/ebb; else echo "no demo in this tree yet"; fi

test:
	@tools/setup
	@tools/test

slow:
	@tools/setup --check
	@$(CMAKE) -B build $(QUIET)
	@ninja -C build --quiet
	@EBB_TEST_LONG=1 ctest --test-dir build -j "$$(nproc)" --output-on-failure --timeout 36000
	@tools/toys

check:
	@tools/setup --check
	@tools/check

format:
	@tools/sources | xargs clang-format -i

tidy:
	@tools/setup --check
	@tools/tidy

asan:
	@tools/sanitize address,undefined build-asan gcc

tsan:
	@tools/sanitize thread build-tsan clang

fuzz:
	@tools/fuzz $(FUZZ_SECONDS)

bench:
	@tools/setup --check run
	@$(CMAKE) -B build $(QUIET)
	@tools/bench build

golden: all
	@tools/golden build

soak:
	@tools/setup --check
	@$(CMAKE) -B build $(QUIET)
	@ninja -C build test_exp_soak
	@EBB_SOAK_SECONDS=$(SOAK_SECONDS) EBB_SOAK_SEED=$${EBB_SOAK_SEED:-$$(date +%s)} build/tests/test_exp_soak

# Checkpoints in real servers (Swift, ...): tests/store/run says which parts there are; store-full adds those that take long.
store-test:
	@tools/setup store
	@$(MAKE) $(MARGS) all
	@ninja -C build --quiet store_tool net_wire
	@tests/store/run build

store-full:
	@tools/setup store
	@$(MAKE) $(MARGS) all
	@ninja -C build --quiet store_tool net_wire
	@tests/store/run build all

# ONNX files against torch, torchvision and python3-onnx, and the format's own test models.
onnx-test:
	@tools/setup onnx
	@$(MAKE) $(MARGS) all
	@build/ebb dev onnx /usr/share/libonnx-testdata/data
	@python3 tests/models/onnx_export.py build/ebb
	@python3 tests/models/onnx_torch.py build/ebb
	@python3 tests/models/weights_torch.py build/ebb

toys:
	@tools/toys

identity: all
	@tools/identity build/ebb

web-test:
	@tools/setup web
	@$(MAKE) $(MARGS) all
	@tests/web/run build/ebb
	@EBB_WEB_PROXY=1 tests/web/run build/ebb

web-scale:
	@tools/setup --check run
	@$(CMAKE) -B build $(QUIET)
	@ninja -C build --quiet ebb web_scale
	@build/bench/web_scale $${EBB_WEB_SCALE:-build/web-scale}
	@EBB_WEB_SUITE=scale EBB_WEB_STATE=$${EBB_WEB_SCALE:-build/web-scale} tests/web/run build/ebb

size:
	@tools/size

clean:
	@rm -rf build build-asan build-tsan build-fuzz build-clang
