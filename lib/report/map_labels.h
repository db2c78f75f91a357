// What the colours of a picture of the heap mean, in a few words each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/map_classes.h"
#include "references/block_type.h"

namespace heapsnap {

// Columns that a label takes at most.
inline constexpr size_t kMapLabelWidth = 32;

// As `classes`, printable. `types` names those of kind kType; `names` has a label of
// kMapLabelWidth columns for each of kind kStack or kAge, in their order.
std::vector<std::string> map_labels(std::span<const MapClass> classes,
                                    std::span<const BlockType> types,
                                    std::span<const std::string> names);

}  // namespace heapsnap
