# Fleet. `make demo` and `make test` do all their own set-up; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CPP_BUILD := build/cpp
NATIVE_SOURCES := CMakeLists.txt pyproject.toml $(wildcard csrc/*/*.h csrc/*/*.cc)
CPP_SOURCES := $(wildcard csrc/*/*.h csrc/*/*.cc)
SEEDS ?= ../shared/seeds
# PyTorch's own index has builds without CUDA, which is several gigabytes; `make TORCH_INDEX= setup` takes pip's default.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: FORCE help setup ready data demo demo-collective demo-static test test-all test-cpp test-seeds public engines check format proto docs site site-serve fuzz fuzz-journals fuzz-copies chaos model bench coverage sanitize pythons torches wheels sbom clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Side by side: what is large comes by pip while the compiler works, which needs the tools of .build alone.
setup: $(VENV)/.build  ## Make .venv, install the pinned requirements, build the native core
	@$(MAKE) --silent --jobs=2 $(VENV)/.native $(VENV)/.compat

# As much of it as a job needs, without the tools of `make check` and `make test`.
ready: $(VENV)/.build
	@$(MAKE) --silent --jobs=2 $(VENV)/.native $(VENV)/.demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "make: $(PYTHON) is not Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.build: requirements/build.txt | $(BIN)/python
	@$(BIN)/python -m pip install --quiet -r $<
	@touch $@

$(VENV)/.demo: requirements/demo.txt requirements/runtime.txt | $(VENV)/.build
	@echo "installing torch and what a job needs (about a minute)"
	@test -z "$(TORCH_INDEX)" || $(BIN)/python -m pip install --quiet --retries 1 --timeout 15 --no-deps \
		--index-url $(TORCH_INDEX) $$(grep '^torch==' requirements/runtime.txt) 2>/dev/null || \
		echo "make: no torch from $(TORCH_INDEX); taking the one that pip finds, which may bring gigabytes of CUDA"
	@$(BIN)/python -m pip install --quiet -r $<
	@touch $@

$(VENV)/.requirements: requirements/dev.txt requirements/native.txt $(VENV)/.demo
	@echo "installing the tools of make check and make test"
	@$(BIN)/python -m pip install --quiet -r $<
	@touch $@

# The editable install knows every Python file by name, so it is made anew when one is added, moved or removed.
$(VENV)/.files: FORCE | $(BIN)/python
	@find src -name '*.py' | sort | cmp -s - $@ || find src -name '*.py' | sort > $@

$(VENV)/.native: $(VENV)/.build $(VENV)/.files $(NATIVE_SOURCES)
	@command -v $${CXX:-c++} >/dev/null || \
		{ echo "make: no C++ compiler; install one (apt-get install g++), or set CXX, for example to a script that runs"; \
		  echo "      python -m ziglang c++ (pip install ziglang)"; exit 1; }
	@echo "building the native core (a minute of one processor)"
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@$(BIN)/python -m compileall -q src compat/src  # as an ordinary install does
	@touch $@

# One folder, which the interpreter reads by path: a new file needs no new install.
$(VENV)/.compat: compat/pyproject.toml $(VENV)/.requirements
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable compat
	@touch $@

demo: ready  ## Train a click model from files: 2 servers hold its rows, 2 workers train it
	@rm -rf build/demo
	$(BIN)/fleetrun --quiet --server_num 2 --worker_num 2 --log_dir build/demo-log examples/recommenders/train.py \
		--model dnn --dim 10 --mode async --lr 5e-4 --data synthetic:1000000:build/demo-data --eval-every 250 \
		--out build/demo

demo-collective: ready  ## Train a small dense model on 2 CPU processes, by all-reduce
	$(BIN)/fleetrun --quiet --nproc_per_node 2 --device cpu --log_dir build/demo-log examples/quickstart/train.py

demo-static: ready  ## Train a click model as a static program, with 2 servers and 2 workers
	PYTHONPATH=compat/src $(BIN)/fleetrun --quiet --server_num 2 --worker_num 2 --log_dir build/demo-log examples/static_ctr.py

# MovieLens-100k lies in the wheel of RecBole, which is downloaded and not installed.
MOVIELENS := build/data/ml-100k
data: $(MOVIELENS)/ml-100k.inter  ## Put MovieLens-100k into build/data, from the wheel of RecBole on PyPI

$(MOVIELENS)/ml-100k.inter: requirements/data.txt | $(BIN)/python
	@mkdir -p build/wheels $(MOVIELENS)
	@$(BIN)/python -m pip download --quiet --no-deps --dest build/wheels --requirement requirements/data.txt
	@$(BIN)/python -c 'import glob, sys, zipfile; wheel = zipfile.ZipFile(glob.glob("build/wheels/recbole-*.whl")[0]); \
		[open(f"{sys.argv[1]}/ml-100k.{kind}", "wb").write(wheel.read(f"recbole/dataset_example/ml-100k/ml-100k.{kind}")) \
		for kind in ("user", "item", "inter")]' $(MOVIELENS)
	@echo "MovieLens-100k is in $(MOVIELENS)"

# In parts, the longest first, and one more of them at a time than there are cores: tests often wait.
PARTS := multi fault unit e2e others cpp parity compat programs
OTHERS := $(filter-out $(PARTS:%=tests/%) tests/support tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/)))
LOGS := build/test-logs
# Tests write and sync many small files: into memory, where the system has some to spare for files.
export PYTEST_DEBUG_TEMPROOT := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000000 2>/dev/null && echo /dev/shm)

test: setup  ## Run the tests; of long sweeps a sample
	@rm -rf $(LOGS); mkdir -p $(LOGS)
	@begin=$$(date +%s); trap 'kill $$!' TERM; export FLEET_TEST_WARM=fleet-tests-$$$$; \
	OPENBLAS_NUM_THREADS=1 FLEET_VERIFY_PROGRAMS=1 $(BIN)/python tests/support/warm_server.py --at $$FLEET_TEST_WARM & \
	trap "kill $$!" EXIT; \
	echo "parts run side by side, and each is shown when it is done; until then see $(LOGS)"; \
	$(MAKE) --no-print-directory --keep-going --output-sync=target --jobs=$$(($$(nproc) + 1)) \
		CMAKE_BUILD_PARALLEL_LEVEL=1 SELECT='$(SELECT)' $(PARTS:%=part-%) & wait $$!; status=$$?; \
	grep -hE '^(FAILED|ERROR) ' $(LOGS)/*.log; \
	for part in $(PARTS); do printf '%-7s %s\n' $$part "$$(grep -aE '(passed|failed|error).* in |Total Test time' $(LOGS)/$$part.log | tail -n 1)"; done; \
	echo "$$(($$(date +%s) - begin)) s in all; $$(test $$status = 0 && echo passed || echo FAILED)"; exit $$status

part-%: RUN = $(BIN)/python -m pytest -p no:cacheprovider $(SELECT) $(or $(FOLDERS),tests/$*)
part-compat: FOLDERS := compat/tests --ignore=compat/tests/static
part-programs: FOLDERS := compat/tests/static
part-others: FOLDERS := $(OTHERS)
part-cpp: RUN = MAKEFLAGS= $(MAKE) --no-print-directory test-cpp
part-%: FORCE
	@trap 'kill $$!' TERM; $(RUN) >$(LOGS)/$*.log 2>&1 & wait $$!; status=$$?; cat $(LOGS)/$*.log; exit $$status

test-all: SELECT := -m ""
test-all: test  ## Run every test, with the sweeps of which `make test` runs a sample

# The core is the one that `setup` has built last, if its objects are still there: to build it again takes over a minute.
test-cpp: setup  ## Run the tests of the C++ core alone
	@core=$$(ls -t build/cp3*/libfleet_core.a 2>/dev/null | head -n 1); \
	$(BIN)/cmake -S . -B $(CPP_BUILD) -G Ninja -DFLEET_BUILD_PYTHON=OFF -DFLEET_BUILD_TESTS=ON \
		-DFLEET_CORE=$${core:+$(CURDIR)/$$core} -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null
	@$(BIN)/cmake --build $(CPP_BUILD)
	@$(BIN)/ctest --test-dir $(CPP_BUILD) --output-on-failure

test-seeds: setup  ## Run the samples of PaddlePaddle's guides, where their folder lies beside this one
	@if [ -f $(SEEDS)/run_samples.py ]; then bash tests/support/samples.sh $(BIN)/python $(SEEDS)/run_samples.py --bin $(BIN); \
		else echo "no $(SEEDS)/run_samples.py here; compat/tests has scripts of the same kind"; fi

# Packages of engines lie apart from ours, and see ours behind their own: build/engines/bin/python has both.
build/%/.done: requirements/%.txt | $(BIN)/python
	@begin=$$(date +%s); rm -rf $(@D); $(PYTHON) -m venv $(@D) && \
	$(@D)/bin/python -m pip install --quiet -r $< && \
	$(@D)/bin/python -c 'import site, sys; open(site.getsitepackages()[0] + "/ours.pth", "w").write( \
		"import site; site.addsitedir(%r)" % sys.argv[1])' "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')" && \
	echo "the packages of $< were installed in $$(($$(date +%s) - begin)) s" && touch $@

engines: setup build/engines/.done build/engines-ray/.done  ## Check what other engines are given, and run it where that is possible
	$(BIN)/python -m pytest -p no:cacheprovider --durations=10 -m "" -rP tests/engines

# SCRIPTS is the folder that holds them; their lists are in compat/tests/public/lists.
# DOCUMENTATION is a folder with PaddlePaddle's sources or .rst files, whose examples are run, too.
public: setup  ## Run public scripts of PaddlePaddle, unchanged: make public SCRIPTS=folder [NAMES="book rec/dnn"]
	@FLEET_PUBLIC_SCRIPTS=$(or $(SCRIPTS),$(FLEET_PUBLIC_SCRIPTS)) \
		FLEET_PUBLIC_DOCUMENTATION=$(or $(DOCUMENTATION),$(FLEET_PUBLIC_DOCUMENTATION)) \
		$(BIN)/python compat/tests/public/run.py $(NAMES)

check: setup  ## Lint, types, format, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_SOURCES)
	$(BIN)/python -m pytest -q tests/unit/test_layering.py

format: setup  ## Rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

proto: setup  ## Make the Python messages from the files of proto/
	$(BIN)/python proto/generate.py src/fleet/ps/proto ps
	$(BIN)/python proto/generate.py src/fleet_serve/proto serve

docs: setup  ## Rewrite the pages and stubs that are made from the code
	$(BIN)/python website/strategy_page.py > docs/strategy.md.new && mv docs/strategy.md.new docs/strategy.md
	$(BIN)/python website/settings_page.py > docs/settings.md.new && mv docs/settings.md.new docs/migrate/settings.md
	$(BIN)/python tests/support/pages/error_page.py  # src/fleet/error_texts.json, from docs/errors.md
	$(BIN)/python website/plots.py
	$(BIN)/python website/figures.py
	@write() { $(BIN)/python -W ignore -m $$2 > build/table.pyi && $(BIN)/ruff format -q build/table.pyi && \
		mv build/table.pyi $$1/table.pyi; }; \
	write compat/src/fleet_programs/layers fleet_programs.layers.building.from_rows && \
	write compat/src/fleet_paddle/imperative/functions "fleet_paddle.rows.stubs functions" && \
	write compat/src/fleet_paddle/imperative/nn/functional "fleet_paddle.rows.stubs functional" && \
	write compat/src/fleet_paddle/programs/layers "fleet_paddle.rows.stubs layers" && \
	write compat/src/fleet_paddle/imperative/nn "fleet_paddle.rows.stubs classes"

# mkdocs itself is not part of .venv until it is needed: neither training nor the tests take it.
$(VENV)/.site: requirements/site.txt $(VENV)/.demo
	@$(BIN)/python -m pip install --quiet -r requirements/site.txt
	@touch $@

MKDOCS = NO_MKDOCS_2_WARNING=1 PYTHONPATH=compat/src $(BIN)/mkdocs
site: ready $(VENV)/.site  ## Build the documentation as a site in build/site; a dead link fails
	@$(MKDOCS) build --strict --quiet
	@echo "open build/site/index.html"

site-serve: ready $(VENV)/.site  ## Show the site on a port of this machine, and build it again when a page changes
	@$(MKDOCS) serve

fuzz: setup  ## Nonsense for FUZZ_S seconds (60), then FUZZ_MESSAGES mutated messages (10,000) and CHECKPOINTS damaged ones (1,000)
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_service.py
	PYTHONPATH=tests $(BIN)/python tests/fuzz/mutated.py
	PYTHONPATH=tests:compat/tests $(BIN)/python tests/fuzz/fuzz_checkpoints.py
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_text.py

chaos: setup  ## Kill, tear and lose in 520 seeded runs of jobs; none may come out differently (two hours)
	PYTHONPATH=tests $(BIN)/python tests/chaos/sweep.py $(CHAOS)
	$(if $(CHAOS),,$(BIN)/python -m pytest -q -p no:cacheprovider -m "" tests/fault/publishing/test_killed_together.py)

model: setup  ## Go through every state of small jobs in a model of how servers are changed (NAMES=some of them)
	PYTHONPATH=tests $(BIN)/python -m modelled $(NAMES)

fuzz-journals: setup  ## Damage 1,000 journals, and recover a server from each
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_journals.py

fuzz-copies: setup  ## Damage files of servers and their copies 1,000 times: each is found, and mended from the other
	PYTHONPATH=tests $(BIN)/python tests/fuzz/fuzz_copies.py

bench: setup  ## Measure, and write benchmarks/results
	$(BIN)/python benchmarks/keys.py --json benchmarks/results/keys.json
	$(BIN)/python benchmarks/launch.py --json benchmarks/results/launch.json
	$(BIN)/python benchmarks/table.py --json benchmarks/results/table.json
	$(BIN)/python benchmarks/ctr.py --json benchmarks/results/ctr.json
	$(BIN)/python benchmarks/collective.py --json benchmarks/results/collective.json
	$(BIN)/python benchmarks/slow_link.py --json benchmarks/results/slow_link.json
	$(BIN)/python benchmarks/static.py --json benchmarks/results/static.json
	$(BIN)/python benchmarks/calls.py --json benchmarks/results/calls.json
	$(BIN)/python benchmarks/words.py --json benchmarks/results/words.json
	$(BIN)/python benchmarks/plane.py --json benchmarks/results/plane.json
	$(BIN)/python benchmarks/meetings.py --json benchmarks/results/meetings.json
	$(BIN)/python benchmarks/tls.py --json benchmarks/results/tls.json
	$(BIN)/python benchmarks/modes_auc.py --json benchmarks/results/modes_auc.json
	$(BIN)/python benchmarks/data.py --json benchmarks/results/data.json
	$(BIN)/python benchmarks/images.py --json benchmarks/results/images.json

# What runs in this process alone: of what a job's processes run, nothing would be counted.
coverage: setup  ## Show which lines of src/fleet the tests in one process leave out
	@mkdir -p build
	$(BIN)/python -m coverage run -m pytest -p no:cacheprovider tests/unit tests/native
	$(BIN)/python -m coverage report

sanitize: setup  ## Run the C++ tests under ASan + UBSan, then TSan
	@for kind in address,undefined thread; do \
		$(BIN)/cmake -S . -B build/cpp-$${kind%%,*} -G Ninja -DFLEET_BUILD_PYTHON=OFF -DFLEET_BUILD_TESTS=ON -DFLEET_SANITIZE=$$kind \
			-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null && \
		$(BIN)/cmake --build build/cpp-$${kind%%,*} --parallel && \
		$(BIN)/ctest --test-dir build/cpp-$${kind%%,*} --output-on-failure || exit 1; \
	done

pythons:  ## Build and test the native core on every Python in PYTHONS (default 3.11, 3.12 and 3.13)
	@for python in $${PYTHONS:-python3.11 python3.12 python3.13}; do \
		venv=build/venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
		$$python -m venv $$venv && \
		$$venv/bin/python -m pip install --quiet -r requirements/native.txt && \
		$$venv/bin/python -m pip install --quiet --no-build-isolation --no-deps . && \
		echo "$$($$venv/bin/python --version):" && $$venv/bin/python -m pytest -q tests/native || exit 1; \
	done

# One after the other, since each brings its CUDA packages, several gigabytes, and goes again.
TORCH_TESTS := tests/native tests/unit/nn/test_nn_embedding.py tests/unit/runtime/test_as_in_torch.py
torches:  ## Try every torch in TORCHES (default 2.11.0 to 2.15.0): the README's program, the native core, embeddings
	@$(PYTHON) -m venv build/venv-wheel && build/venv-wheel/bin/python -m pip install --quiet -r requirements/build.txt
	@rm -rf build/torches && build/venv-wheel/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/torches .
	@sed -n '/^```python/,/^```/{/^```/!p}' README.md >build/torches/train.py
	@for torch in $${TORCHES:-2.11.0 2.12.1 2.13.0 2.14.1 2.15.0}; do \
		venv=build/venv-torch-$$torch && rm -rf $$venv && $(PYTHON) -m venv $$venv && echo "torch $$torch:" && \
		{ grep -v '^torch==' requirements/runtime.txt; echo torch==$$torch; } >build/torches/requirements.txt && \
		$$venv/bin/python -m pip install --quiet -r build/torches/requirements.txt -r requirements/native.txt build/torches/*.whl && \
		(cd build/torches && ../../$$venv/bin/python train.py && ../../$$venv/bin/fleetrun --server_num 2 --worker_num 2 train.py) && \
		$$venv/bin/python -m pytest -q -p no:cacheprovider $(TORCH_TESTS) && rm -rf $$venv || exit 1; \
	done

# What makes wheels and says what is in them; torch is not among it.
$(VENV)/.wheels: requirements/wheels.txt $(VENV)/.build
	@$(BIN)/python -m pip install --quiet -r $<
	@touch $@

# The wheel of 3.12 serves all later ones. Those of a release, which run on older systems too, are built by
# .github/workflows/wheels.yml.
wheels: $(VENV)/.wheels  ## Build sdists and wheels into dist/, with every Python in PYTHONS (default 3.11 and 3.12)
	@rm -rf build/linux dist/*.whl dist/*.tar.gz
	@$(BIN)/python -m build --no-isolation --sdist --outdir dist .
	@$(BIN)/python -m build --no-isolation --outdir dist compat
	@for python in $${PYTHONS:-python3.11 python3.12}; do \
		$$python --version || { echo "make: no $$python here, so there is no wheel by it; PYTHONS names others"; continue; }; \
		venv=build/venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') && \
		$$python -m venv $$venv && $$venv/bin/python -m pip install --quiet -r requirements/build.txt && \
		$$venv/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/linux dist/torch_fleet-*.tar.gz || exit 1; \
	done
	@for wheel in build/linux/*.whl; do PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist $$wheel || exit 1; done
	@ls dist

# The pinned packages of which a wheel was made and with which it is tested.
sbom: $(VENV)/.wheels  ## Write dist/torch_fleet.cdx.json, the bill of materials in CycloneDX
	@mkdir -p build dist
	@version=$$(sed -n 's/__version__ = "\(.*\)"/\1/p' src/fleet/_version.py) && \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >build/pyproject.toml && \
	cat requirements/runtime.txt requirements/build.txt | PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements - \
		--pyproject build/pyproject.toml --mc-type library --output-reproducible --output-file dist/torch_fleet.cdx.json

clean:  ## Remove everything that was built, and .venv
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache log
