/* SPDX-License-Identifier: MIT */
/* std::map. */
#include <map>

#include "ordered.hpp"

using stdmap = std::map<unsigned long, range_rest>;
using map_by_start = ordered<stdmap, false>;
using map_by_end = ordered<stdmap, true>;
