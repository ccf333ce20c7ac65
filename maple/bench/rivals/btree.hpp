/* SPDX-License-Identifier: MIT */
/* absl::btree_map. */
#include <absl/container/btree_map.h>

#include "ordered.hpp"

using btree = absl::btree_map<unsigned long, range_rest>;
using btree_by_start = ordered<btree, false>;
using btree_by_end = ordered<btree, true>;
