// Groups of mappings in words: what they look like, and why.
#pragma once

#include <string>

#include "analysis/mapping_groups.h"

namespace heapsnap {

// "23 mappings, like pymalloc arenas", "8 of 4.0 MiB", "/var/lib/data.db": harmless text.
std::string mapping_group_label(const MappingGroup& group);

// What the likeness rests on, a sentence; "" where the label says it all.
std::string mapping_group_evidence(const MappingGroup& group);

}  // namespace heapsnap
