# The front door. The build itself is CMake's: see CMakePresets.json and CONTRIBUTING.md.

# One compiler a core, but no more than one for each 2 GiB of memory.
JOBS := $(shell memory=$$(awk '/^MemTotal/ {print int($$2 / 2097152)}' /proc/meminfo); \
                cores=$$(nproc); [ $$memory -lt $$cores ] && cores=$$memory; \
                [ $$cores -lt 1 ] && cores=1; echo $$cores)
BENCHES := $(notdir $(shell find benchmarks -maxdepth 1 -type f -executable 2>/dev/null | sort))

.PHONY: help build demo test bench check check-layout asan tsan fuzz packages check-packages
.DEFAULT_GOAL := help

help:
	@echo 'make build       build/release/hethub, after installing the Debian packages that are missing'
	@echo 'make demo        train a model across two kinds of accelerator, from nothing, in some minutes'
	@echo 'make test        build everything and run every test'
	@echo 'make bench       run every benchmark, or one with make bench-NAME:'
	@echo '                 $(BENCHES)'
	@echo 'make check       layout, includes, lengths and clang-tidy (make check TIDY=changed for a short one)'
	@echo 'make asan        the unit tests with address and undefined-behaviour checks'
	@echo 'make tsan        the tests of what runs on several threads, with data-race checks'
	@echo 'make fuzz        what reads bytes from peers, fed with random ones for some seconds'

packages:
	@tools/install_packages build

check-packages:
	@tools/install_packages build check

configure-%: packages
	@mkdir -p build
	@cmake --preset $* > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }

build: configure-release
	@cmake --build --preset release --parallel $(JOBS) --target hethub

demo: build
	@tools/demo

test: configure-release
	@cmake --build --preset release --parallel $(JOBS)
	@ctest --preset release --parallel $(JOBS)

bench: $(addprefix bench-,$(BENCHES))

bench-%: configure-release
	@test -x benchmarks/$* || { echo "make bench-$*: no such benchmark; there are: $(BENCHES)" >&2; exit 64; }
	@cmake --build --preset release --parallel $(JOBS)
	@mkdir -p build/bench
	@benchmarks/$*

TIDY ?= all
check: check-layout configure-release
	@tools/check_tidy $(TIDY)

check-layout: check-packages
	@tools/check_format
	@tools/check_includes
	@tools/check_lengths

# ONLY="base data" builds and runs just these tests.
asan tsan: %: configure-%
	@cmake --build --preset $@ --parallel $(JOBS) --target $(if $(ONLY),$(addsuffix _test,$(ONLY)),$@_tests)
	@ctest --preset $@ --parallel $(JOBS) $(if $(ONLY),-R '^($(subst $(eval ) ,|,$(strip $(ONLY))))$$')

fuzz:
	@tools/install_packages build fuzz
	@$(MAKE) --no-print-directory configure-fuzz
	@cmake --build --preset fuzz --parallel $(JOBS)
	@ctest --preset fuzz
