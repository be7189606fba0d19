# make demo                 two routers on this machine, the example, what more instances bring
# make check                linters, types and spelling, in seconds
# make test                 everything there is to test; ENGINE=zerotier-one runs the lab with that program
# make test-faults          every fault at 1, 2, 4 and 8 instances, over IPv4 and IPv6; ten minutes on a quiet machine
# make test-fleet           the Ansible role with ten routers of the lab as hosts, and its linter; SITES=10
# make test-attack          all of tests/attack at length: from the underlay, the far end and a local user; SECONDS=1800 SEED=1
# make test-data            checked data through two instances with each offload off, lost and changed packets; GIGABYTES=200 SEED=1
# make test-walk            random commits on a router: what they have made, refuse and leave; SEED=1 STEPS=200 (15 minutes)
# make test-kernels         ztnode on other kernels and processors, emulated; KERNELS="bullseye bookworm trixie /dir" CPUS="max Westmere Nehalem"
# make smoketest            the smoketests in VyOS's style, on a router of the lab
# make reference            writes docs/cli-reference.rst and tests/vyos/golden from the XML definitions
# make changelogs           writes the packages' changelogs from CHANGELOG.md
# make debs                 the Debian packages, in build/debs
# make iso                  the live image of the Debian edition, in build/iso (docs/live-image.md)
# make check-iso            boots that image (or ISO=FILE) in QEMU under BIOS and UEFI, and two of it with traffic
# make test-image           everything there is to test of it: that, installation, NAT, power cuts, smoketest; hours
# make check-vyos-interface whether VYOS="sagitta=DIR ..." has what we take from VyOS (docs/vyos.md)
# make iso-vyos             a VyOS image with all of it; BRANCH=rolling|circinus|sagitta (docs/vyos.md)
# make vyos-packages        an apt repository for it, built from checkouts of VyOS's sources; SOURCES=DIR PACKAGES=DIR VYOS_BUILD=DIR
# make lab                  two routers to work in by hand
# make bench                the product beside what one would pick instead; QUICK=1 in 5 minutes; NAME= goes on with a run;
#                           SCENARIOS=throughput,scaling SUBJECTS="wireguard-go,ztnode x 4" ROUNDS=3 SECONDS=4 ZEROTIER_ONE=/path
# make bench-remote         FAR=HOST [NEAR=HOST]: the same between two real boxes with a bundle, by ssh; REMOTE_ARGS="--raw-link --bundle zt1"
# make bench-engines        one instance of ztnode beside wireguard-go and ZeroTier, forwarded traffic too; NAME= goes on with a run;
#                           ROUNDS=5 ZEROTIER_ONE=/path; ENGINES_ARGS="--write docs/engine.md" for the page; half an hour
# make bench-shell          start of the shell and its own share of a commit
# make bench-faults         what flows notice when a path dies: docs/faults.md, over 20 runs of each kind of death
# make bench-roaming        how long traffic is away when addresses move: docs/roaming.md; RUNS=20 ENGINES="ztnode zerotier-one"
# make bench-chaos          random faults under traffic, and whether anything grows; SECONDS=1800 SEED=1
# make bench-uplinks        what two uneven WANs carry together, with static and with measured weights
# make bench-probes         what probing costs, at 32 paths
# make bench-report         RUN=build/bench/NAME: the HTML page, summary and plot of a run; of the newest without RUN=;
#                           REPORT_ARGS=--docs writes docs/benchmark-results.md, its plot and pictures
# make bench-compare        A=build/bench/NAME B=...: two runs row by row, with significance
# make fuzz                 fuzzers of ztnode's parsers, then all of it with sanitizers; SECONDS=60 each, SEED=1
# Everything runs as root on Debian 12 and installs what it needs.

PYTHON := /usr/bin/python3
ENGINE ?= ztnode
DEBS := build/debs
ROUTER_DEBS := build/router
BRANCH ?= rolling
SECONDS ?= 1800
TOOLS := $(shell cat lab/host-packages.txt) build-essential cppcheck curl debhelper dh-python git gnupg gpgv grub-common libjansson-dev \
	libmicrohttpd-dev minisign netbase openssh-client pkgconf python3 python3-cryptography python3-docutils python3-hypothesis python3-jinja2 python3-lxml python3-matplotlib python3-pexpect python3-pip \
	python3-prompt-toolkit python3-pytest python3-rich python3-systemd shellcheck tmux
export PYTHONPATH := python:packages/ztsh:.
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: bench bench-peers bench-remote bench-uplinks changelogs check demo test test-attack test-faults test-data test-fleet test-walk test-kernels smoketest reference check-vyos-interface debs lab fuzz bench-engines bench-shell bench-faults bench-roaming bench-probes bench-chaos bench-report bench-compare iso iso-vyos vyos-packages check-iso test-image tools clean check-root

check-root:
	@[ "$$(id -u)" = 0 ] || { echo "make: this needs root; use sudo"; exit 1; }
	@. /etc/os-release && [ "$$VERSION_CODENAME" = bookworm ] || { echo "make: this needs Debian 12 (bookworm)"; exit 1; }

# Asks apt only for what is missing, so that a second run works without a network.
tools: check-root
	@missing=$$(for p in $(TOOLS); do dpkg-query -Wf '$${db:Status-Abbrev}' "$$p" 2>/dev/null | grep -q '^ii' || echo "$$p"; done); \
	if [ -n "$$missing" ]; then \
		echo "installing" $$missing; \
		mkdir -p build && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0 install --no-install-recommends --yes $$missing >build/apt.log 2>&1 \
			|| { tail -5 build/apt.log; exit 1; }; \
	fi

build $(DEBS) $(ROUTER_DEBS):
	@mkdir -p $@

# What the package zerotier-multi is made of besides its packaging.
PRODUCT := python src interface-definitions op-mode-definitions smoketest

# A tree that is no checkout, or in which git does not trust its owner, has sources as well.
sources = git ls-files --cached --others --exclude-standard $(1) 2>/dev/null \
	|| find $(1) -type f -not -path '*/build/*' -not -path '*/__pycache__/*'

# After the version: which commit was built, so that apt replaces one build by a later one; nothing for the release itself. Builds before
# the tag of the version (~) are older than the release, those after it (+) newer.
RELEASE = v$(shell sed -n 's/^## \([0-9.]*\) .*/\1/p;T;q' CHANGELOG.md)
BUILT = $(shell [ "$$(git describe --exact-match --match '$(RELEASE)' --dirty 2>/dev/null)" = '$(RELEASE)' ] \
	|| TZ=UTC git log -1 --date=format-local:%Y%m%d.%H%M --format="$$(git tag --list '$(RELEASE)' | grep -q . && echo + || echo '~')git%cd.%h" 2>/dev/null)

# Arguments: name, sources outside packages/NAME, folder of the result. Built in a copy, so that the tree stays clean.
define package
$(3)/$(1).built: $(wildcard $(shell $(call sources,packages/$(1) $(2)))) | build $(3) tools
	@echo "building package $(1)"
	@rm -rf build/tree-$(1) && mkdir -p build/tree-$(1) && cp -r packages $(PRODUCT) README.md docs build/tree-$(1)/
	@rm -rf build/tree-$(1)/packages/*/build && sed -i '1s/(\(.*\))/(\1$$(BUILT))/' build/tree-$(1)/packages/*/debian/changelog
	@cd build/tree-$(1)/packages/$(1) && dpkg-buildpackage --unsigned-changes --unsigned-source --build=binary >../../../$(1).log 2>&1 \
		|| { tail -20 ../../../$(1).log; echo "package $(1) could not be built; the log is build/$(1).log"; exit 1; }
	@rm -f $(3)/$(1)_*.deb && mv build/tree-$(1)/packages/$(1)_*.deb $(3)/ && rm -rf build/tree-$(1) && touch $$@
endef
$(eval $(call package,zerotier-multi,$(PRODUCT) packages/ztsh/ztsh README.md docs,$(DEBS)))
$(eval $(call package,ztsh,,$(DEBS)))
$(eval $(call package,ztnode,,$(DEBS)))
# Only the live image needs this one, so it is not among $(DEBS).
$(eval $(call package,zerotier-router,,$(ROUTER_DEBS)))

debs: $(DEBS)/zerotier-multi.built $(DEBS)/ztsh.built $(DEBS)/ztnode.built

demo: debs
	@$(PYTHON) -m lab.demo $(DEBS)/*.deb

lab: debs
	@$(PYTHON) -m lab up --routers 2 --debs $(DEBS)/*.deb

# Linters from PyPI are pinned; what Debian has comes from there.
CHECKERS := $(CURDIR)/build/check
$(CHECKERS)/.installed: check-requirements.txt | build tools
	@rm -rf $(CHECKERS) && $(PYTHON) -m pip --quiet --disable-pip-version-check install --no-warn-script-location --require-hashes \
		--only-binary=:all: --root-user-action=ignore --target $(CHECKERS) --requirement $<
	@touch $@

check: $(CHECKERS)/.installed
	@$(CHECKERS)/bin/ruff check --quiet
	@$(CHECKERS)/bin/ruff format --check --quiet || { echo "make check: run $(CHECKERS)/bin/ruff format"; exit 1; }
	@PYTHONPATH=$(CHECKERS) $(PYTHON) -m mypy --no-error-summary
	@git grep -lI -E '^#!(/usr)?/bin/(env )?(ba|da)?sh' -- ':!*.md' | xargs shellcheck
	@git ls-files -z | PYTHONPATH=$(CHECKERS) xargs -0 $(PYTHON) -m codespell_lib
	@PYTHONPATH=$(CHECKERS) PATH=$(CHECKERS)/bin:$$PATH $(MAKE) --silent -C packages/ztnode check

# What the tests of the alerts and the dashboard run, beside the packages: installed, it would start a service on :9090.
PROMETHEUS := build/prometheus
$(PROMETHEUS)/.unpacked: | tools
	@rm -rf $(PROMETHEUS) && mkdir -p $(PROMETHEUS)/debs
	@cd $(PROMETHEUS)/debs && { apt-get -qq download prometheus prometheus-node-exporter 2>/dev/null \
		|| { apt-get -qq update && apt-get -qq download prometheus prometheus-node-exporter; }; }
	@for deb in $(PROMETHEUS)/debs/*.deb; do dpkg -x $$deb $(PROMETHEUS) || exit 1; done
	@rm -r $(PROMETHEUS)/debs && touch $@

test: debs $(PROMETHEUS)/.unpacked
	ENGINE=$(ENGINE) $(PYTHON) -m pytest $(PYTEST_ARGS) tests

test-faults: debs
	FAULTS=all ENGINE=$(ENGINE) $(PYTHON) -m pytest $(PYTEST_ARGS) tests/lab/test_faults.py

# Ansible and its linter from PyPI, pinned.
ANSIBLE := $(CURDIR)/build/ansible
$(ANSIBLE)/.installed: ansible/test-requirements.txt | build tools
	@rm -rf $(ANSIBLE) && $(PYTHON) -m pip --quiet --disable-pip-version-check install --no-warn-script-location --require-hashes \
		--only-binary=:all: --root-user-action=ignore --target $(ANSIBLE) --requirement $<
	@touch $@

test-fleet: debs $(ANSIBLE)/.installed
	@cd ansible && PATH=$(ANSIBLE)/bin:$$PATH PYTHONPATH=$(ANSIBLE) ANSIBLE_HOME=$(CURDIR)/build/cache/ansible \
		$(PYTHON) $(ANSIBLE)/bin/ansible-lint --offline
	SITES=$(or $(SITES),10) ENGINE=$(ENGINE) $(PYTHON) -m pytest $(PYTEST_ARGS) tests/fleet

test-attack: debs
	ATTACK=long SECONDS=$(SECONDS) SEED=$(SEED) ENGINE=$(ENGINE) $(PYTHON) -m pytest $(PYTEST_ARGS) tests/attack tests/ztsh/test_properties.py

test-data: debs
	GIGABYTES=$(or $(GIGABYTES),200) SEED=$(SEED) $(PYTHON) -m pytest -v -s $(PYTEST_ARGS) tests/engine/test_checked_data.py

test-walk: debs
	WALK_SEED=$(SEED) WALK_STEPS=$(or $(STEPS),200) ENGINE=$(ENGINE) $(PYTHON) -m pytest -v -s -o faulthandler_timeout=0 $(PYTEST_ARGS) tests/walk

test-kernels: debs
	@apt-get -qq install --no-install-recommends --yes cpio kmod qemu-system-x86 >/dev/null
	@$(PYTHON) -m tests.kernels $(if $(KERNELS),--kernels $(KERNELS)) $(if $(CPUS),--cpus $(CPUS))

BENCH_SELECTION = $(if $(QUICK),--quick) $(if $(SCENARIOS),--scenarios "$(SCENARIOS)") $(if $(SUBJECTS),--subjects "$(SUBJECTS)")

# What these scenarios compare with: Debian's packages, Go modules and crates at pinned versions, built once.
bench-peers: tools
	@needed=$$($(PYTHON) -m bench needed $(BENCH_SELECTION)) && bench/peers/build build/bench/peers $$needed

bench: debs bench-peers
	@$(PYTHON) -m bench run $(BENCH_SELECTION) $(if $(NAME),--name $(NAME)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) \
		$(if $(ZEROTIER_ONE),--zerotier-one $(ZEROTIER_ONE)) $(DEBS)/*.deb
	@$(MAKE) --silent bench-report $(if $(NAME),RUN=build/bench/$(NAME))

# FAR=HOST, or NEAR=HOST FAR=HOST, as ssh knows them; nothing is built, because both boxes have our packages.
bench-remote:
	@[ -n "$(FAR)" ] || { echo "make: say FAR=HOST, the far box as ssh knows it"; exit 1; }
	@$(PYTHON) -m bench.remote $(NEAR) $(FAR) $(if $(QUICK),--quick) $(if $(NAME),--name $(NAME)) $(if $(SCENARIOS),--scenarios "$(SCENARIOS)") \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) $(REMOTE_ARGS)

ENGINES_RUN := $(or $(NAME),engines-$(shell date +%F))
bench-engines: BENCH_SELECTION = --scenarios throughput,forwarded,pinned --subjects "raw,wireguard-go,zerotier,ztnode x 1"
bench-engines: debs bench-peers
	@$(PYTHON) -m bench run $(BENCH_SELECTION) --name $(ENGINES_RUN) --rounds $(or $(ROUNDS),5) $(if $(ZEROTIER_ONE),--zerotier-one $(ZEROTIER_ONE)) $(DEBS)/*.deb
	@$(PYTHON) -m bench engines build/bench/$(ENGINES_RUN) $(ENGINES_ARGS)

bench-shell bench-probes bench-uplinks: bench-%: debs
	@$(PYTHON) -m bench.$* $(DEBS)/*.deb

bench-faults: debs
	@$(PYTHON) -m bench.faults --write docs/faults.md $(DEBS)/*.deb

bench-roaming: debs
	@$(PYTHON) -m bench.roaming --runs $(or $(RUNS),20) --engines "$(or $(ENGINES),ztnode zerotier-one)" --write docs/roaming.md $(DEBS)/*.deb

bench-chaos: debs
	@$(PYTHON) -m bench.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(DEBS)/*.deb

# The newest run where nobody says which.
RUN ?= $(patsubst %/results.json,%,$(firstword $(shell ls -t build/bench/*/results.json 2>/dev/null)))
bench-report: tools
	@[ -n "$(RUN)" ] || { echo "make: build/bench has no run; say RUN=DIRECTORY"; exit 1; }
	@$(PYTHON) -m bench report $(RUN) $(REPORT_ARGS)

bench-compare: tools
	@[ -n "$(A)" ] && [ -n "$(B)" ] || { echo "make: say A=DIRECTORY and B=DIRECTORY of two runs"; exit 1; }
	@$(PYTHON) -m bench compare $(A) $(B) $(COMPARE_ARGS)

smoketest: debs
	@$(PYTHON) -m lab.smoketest $(DEBS)/*.deb

reference: tools
	@mkdir -p build
	@$(PYTHON) -m ztsh.reference interface-definitions op-mode-definitions >build/cli-reference.rst
	@mv build/cli-reference.rst docs/cli-reference.rst
	@rm -rf tests/vyos/golden && $(PYTHON) -m ztsh.templates interface-definitions op-mode-definitions tests/vyos/golden >/dev/null

changelogs:
	@$(PYTHON) packages/changelogs

# VYOS="sagitta=DIR circinus=DIR@REVISION ...": checkouts of vyos-1x, or repositories and a revision.
check-vyos-interface:
	@$(PYTHON) -m tests.vyos.interface $(VYOS)

iso: debs $(ROUTER_DEBS)/zerotier-router.built
	@$(PYTHON) debian-image/build

# Without ISO= the image that make iso has built, or builds now.
ISO = $(wildcard build/iso/*.iso)
IMAGE_TOOLS = $(shell cat debian-image/host-packages.txt)
check-iso: IMAGE_TESTS := -m "not long" tests/image/test_boot.py tests/image/test_pair.py
test-image: IMAGE_TESTS := tests/image
check-iso test-image: $(if $(ISO),,iso)
check-iso test-image: check-root
	@dpkg-query -W $(IMAGE_TOOLS) >/dev/null 2>&1 || { apt-get -qq update && apt-get -qq install --no-install-recommends --yes $(IMAGE_TOOLS) >/dev/null; }
	ISO=$$(ls $(or $(ISO),build/iso/*.iso)) $(PYTHON) -m pytest -v $(PYTEST_ARGS) $(IMAGE_TESTS)

# IMAGE_ARGS=--dry-run goes as far as VyOS's own dry run does.
iso-vyos: $(if $(findstring --dry-run,$(IMAGE_ARGS)),,debs)
	@PYTHONPATH=vyos-build $(PYTHON) -m builder.image --branch $(BRANCH) $(IMAGE_ARGS)

# LEAVE_OUT=all makes the repository without what is missing.
vyos-packages: tools
	@PYTHONPATH=vyos-build $(PYTHON) -m builder.packages --sources "$(SOURCES)" --debs "$(PACKAGES)" --base "$(BASE)" --leave-out "$(LEAVE_OUT)" $(PACKAGES_ARGS)

# A minute each where nobody says otherwise.
FUZZ_SECONDS = $(if $(filter file,$(origin SECONDS)),60,$(SECONDS))
fuzz: tools
	@apt-get -qq install --no-install-recommends --yes clang libclang-rt-14-dev
	@$(MAKE) -s -C packages/ztnode fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) SEED=$(or $(SEED),0)
	@for sanitizer in address thread; do \
		$(PYTHON) -m tests.attack.ztnode.fuzz --sanitizer $$sanitizer --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED)) || exit 1; done

clean:
	rm -rf build packages/ztnode/build
