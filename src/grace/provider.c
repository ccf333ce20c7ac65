/* SPDX-License-Identifier: MIT */
/* See provider.h. */
#include "grace/provider.h"

#include "os/sized.h"

#define SIZE_MOST 4096 /* a larger value is not a size, but bytes that were on the stack */

const char *provider_read(struct sheaf_rcu_ops *ours, const struct sheaf_rcu_ops *given)
{
	if (!given)
		return "there is no provider (NULL)";
	if (given->size < sizeof(given->size) || given->size > SIZE_MOST ||
	    !os_sized_whole(given->size))
		return "the provider's size is wrong; set it to sizeof(struct sheaf_rcu_ops)";
	if (!os_sized_copy(ours, sizeof(*ours), given, given->size))
		return "the provider has calls that this version does not know; use the library of "
		       "the header that the program was built with";
	if (!ours->call || !ours->barrier || !ours->name || !ours->poll != !ours->start_poll)
		return "a provider needs a name, call() and barrier(), and both of start_poll() "
		       "and poll() or none";
	return NULL;
}
