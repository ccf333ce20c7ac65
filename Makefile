# SPDX-License-Identifier: MIT
# A thin front end: Meson and Ninja do the work. Each target sets up a fresh machine.
.PHONY: all demo check check-quick check-deep check-fresh bench docs install single-file clean help

PREFIX ?= /usr/local
# Debian's library directory, which Meson knows only if dpkg-dev is installed; elsewhere Meson's choice.
LIBDIR ?= $(patsubst /usr/%,%,$(wildcard /usr/lib/$(shell uname -m)-linux-gnu))

all: build/build.ninja ## build the library and the sheaf command
	@ninja -C build

build/build.ninja:
	@scripts/setup build
	@meson setup build --prefix=$(PREFIX) -Dtests=disabled

demo: ## on one screen: the example on libsheaf and on malloc, a benchmark, a bug found
	@scripts/setup build demo
	@scripts/demo

check: ## build with gcc and clang, run every fast test
	@scripts/setup build check
	@scripts/check

check-quick: ## an incremental build, static checks, the tests of what changed: a minute
	@scripts/setup build check
	@scripts/check-quick

check-deep: ## sanitizers, valgrind, AArch64, long storms, in stages: what this tree has not passed
	@scripts/setup build check deep
	@scripts/check-deep

check-fresh: ## as root: what new users do, on a fresh Debian 12 and a fresh Debian 13
	@scripts/setup fresh
	@scripts/check-fresh

bench: ## run every benchmark; the report is build/report/index.html
	@scripts/setup build bench
	@$(MAKE) --no-print-directory build/build.ninja
	@[ -e build/bench/batch-harness ] || meson configure build -Dbench=true
	@ninja -C build
	@bench/peers/fetch
	@tools/sheaf bench all

docs: ## build the documents and man pages as a site: build/docs/index.html
	@scripts/setup docs
	@scripts/make-docs

install: all ## install to PREFIX below DESTDIR
	@meson configure build --prefix=$(PREFIX) $(if $(LIBDIR),--libdir=$(LIBDIR))
	@DESTDIR="$(DESTDIR)" meson install -C build
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	@[ -n "$(DESTDIR)" ] || packaging/show-exports build

single-file: ## write the library as one source and one header: build/sheaf.c, build/sheaf.h
	@mkdir -p build
	@packaging/make-single-file build
	@echo "build/sheaf.c and build/sheaf.h: cc -O2 -c build/sheaf.c"

clean: ## remove all built files
	@rm -rf build

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST))
