/* SPDX-License-Identifier: MIT */
/* Assertions of the library's sources end the simulation, see os/assert.h. */
#include "os/assert.h"

#include "sim/sim.h"

bool os_assert_off;
unsigned int os_asserting;

void os_assert_failed(const char *what)
{
	sim_fail("%s", what);
}
