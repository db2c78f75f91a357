#include "references/apart_scan.h"

#include <algorithm>

namespace heapsnap {

std::vector<ApartReference> scan_apart(Target& target, const BlockMap& map,
                                       std::vector<RuntimeObjects::Apart> parts,
                                       const std::function<void(const ScannedMemory&)>& scanned) {
  constexpr uint64_t kTogether = 4 << 20;
  constexpr uint64_t kClose = 1 << 12;
  constexpr uint64_t kWord = 8;
  constexpr size_t kMostReferences = 16 << 20;
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.words < b.words; });
  std::vector<ApartReference> found;
  BlockMap::Hint hint;
  for (size_t first = 0, last = 0; first < parts.size(); first = last) {
    // They lie close together: most are read along with their neighbours.
    AddressRange range{parts[first].words, parts[first].words};
    for (; last < parts.size() && parts[last].words < range.end + kClose &&
           parts[last].words < range.begin + kTogether;
         ++last) {
      range.end = std::max(range.end, parts[last].words + parts[last].bytes);
    }
    size_t next = first;
    const auto receive = [&](const FoundWord& word) {
      while (next < last && parts[next].words + parts[next].bytes <= word.at) ++next;
      if (next == last || word.at < parts[next].words) return;
      const RuntimeObjects::Apart& part = parts[next];
      const auto object = map.find(part.object.value(), hint);
      if (!object || found.size() == kMostReferences) return;
      const uint64_t offset = part.offset + (word.at - part.words) / kWord;
      found.push_back({object->block, static_cast<uint32_t>(offset), word.target, word.inside});
    };
    scanned(scan_outside(target, map, range, receive));
  }
  return found;
}

}  // namespace heapsnap
