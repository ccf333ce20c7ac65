# SPDX-License-Identifier: MIT
# Thin front: Meson and Ninja do the work. Each target sets up a fresh machine by itself.
.PHONY: all check install clean help

PREFIX ?= /usr/local

all: build/build.ninja ## build the library
	@ninja -C build

build/build.ninja:
	@scripts/setup build check
	@meson setup build --prefix=$(PREFIX)

check: ## build with gcc and clang, run every fast test
	@scripts/setup build check
	@scripts/check

install: all ## install to PREFIX below DESTDIR
	@meson configure build --prefix=$(PREFIX)
	@DESTDIR="$(DESTDIR)" meson install -C build

clean: ## remove what was built
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST))
