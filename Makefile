# SPDX-License-Identifier: MIT
# A short front to CMake. Everything is built in $(BUILD); `make help` lists the targets.

BUILD  ?= build
PREFIX ?= /usr/local
MODEL  ?=
PROMPT ?= Once upon a time
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=

.PHONY: all build deps run test bench check install help clean

all: build

deps:
	@tools/install_deps.sh

build: deps
	@$(if $(strip $(CMAKE_FLAGS)),,test -e "$(BUILD)/build.ninja" ||) cmake -G Ninja -S . -B "$(BUILD)" \
	  -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DHEARTH_WERROR=OFF $(CMAKE_FLAGS)
	@cmake --build "$(BUILD)" -j $(JOBS)

# The prompt goes through the environment as it was given: the shell would read its quotes, and make
# and the shell its dollars.
unexport PROMPT
run: export HEARTH_PROMPT := $(value PROMPT)
run: build
	@printf '%s' "$$HEARTH_PROMPT"; "$(BUILD)/hearth" run $(if $(MODEL),"$(MODEL)") -p "$$HEARTH_PROMPT"

# One more than there are cores, since some tests mostly wait.
test: build
	@rc=0; ctest --test-dir "$(BUILD)" --no-tests=error --output-on-failure -j $$(($(JOBS) + 1)) || rc=$$?; \
	tools/test_counts.py "$(BUILD)"; exit $$rc

bench: build
	@"$(BUILD)/hearth" bench "$(or $(MODEL),data/spark.gguf)"

check: build
	@tools/check_lengths.py
	@tools/check_layering.py
	@tools/check_links.py
	@tools/check_symbols.sh "$(BUILD)"
	@tools/check_tile.py "$(BUILD)"
	@tools/check_format

install: build
	@cmake --install "$(BUILD)" --prefix "$(PREFIX)"

clean:
	@rm -rf "$(BUILD)"

help:
	@echo "make           build the library and the program into $(BUILD)/ (installs what is missing)"
	@echo "make run       build, and let the built-in model write: PROMPT=\"...\" MODEL=file.gguf"
	@echo "make test      build and run every test; the last line counts them"
	@echo "make bench     measure tokens a second: MODEL=file.gguf"
	@echo "make check     format, lengths, layering, links, exported symbols, writable data, tiles"
	@echo "make install   PREFIX=$(PREFIX) DESTDIR="
	@echo "make clean     remove $(BUILD)/"
	@echo "CMAKE_FLAGS=... is handed to cmake, which keeps it; options: docs/building.md"
