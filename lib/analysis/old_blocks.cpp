#include "analysis/old_blocks.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "analysis/live_blocks.h"

namespace heapsnap {

namespace {

// Larger blocks are few, and seldom of one size.
constexpr uint64_t kLargestSize = 64 << 10;
constexpr uint64_t kStep = 8;  // the smallest alignment of any malloc that we read

// What allocates: the function that a stack is charged to, by name, or by its return address where
// it has none.
class Places {
 public:
  Places(const RecordedStacks& recorded, const PassedFrames& passed)
      : recorded_(recorded), passed_(passed), of_sites_(recorded.stacks.sites.size()) {}

  // Two stacks have the same number if and only if they have the same place. kUnknown: none.
  static constexpr uint32_t kUnknown = 1;
  uint32_t of(uint32_t stack) {
    if (stack >= of_sites_.size()) return kUnknown;
    uint32_t& number = of_sites_[stack];
    if (number == 0) number = number_of(name_of(recorded_.stacks.sites[stack].node));
    return number;
  }

 private:
  std::string name_of(uint32_t node) const {
    std::vector<std::string> names;
    std::vector<FrameRole> roles;
    const auto add = [&](std::string name, FrameRole role) {
      names.push_back(std::move(name));
      roles.push_back(role);
    };
    recorded_.stacks.walk(node, [&](uint32_t id) {
      const CallNode& call = recorded_.stacks.nodes[id];
      const auto frames = recorded_.symbols.at(call.module, call.return_address);
      if (frames.empty()) {
        add(std::to_string(call.module) + ":" + std::to_string(call.return_address.value()),
            FrameRole::kOwn);
      }
      for (const SourceFrame& frame : frames) {
        const std::string& name = recorded_.symbols.text(frame.function);
        add(name, passed_.role_of(name, frame.language));
      }
    });
    // Of a way to malloc alone, nothing follows: it allocates for all.
    const size_t charged = charged_frame(roles);
    if (roles.empty() || !is_own(roles[charged])) return {};
    return names[charged];
  }
  uint32_t number_of(const std::string& name) {
    if (name.empty()) return kUnknown;
    const auto next = static_cast<uint32_t>(kUnknown + 1 + numbers_.size());
    return numbers_.try_emplace(name, next).first->second;
  }

  const RecordedStacks& recorded_;
  const PassedFrames& passed_;
  std::unordered_map<std::string, uint32_t> numbers_;
  std::vector<uint32_t> of_sites_;  // 0: not looked up yet
};

// What was seen of one size.
struct SizeRecord {
  Tally old;
  uint64_t newer = 0;
  uint32_t stack = 0;
  uint32_t place = 0;  // 0: none yet
  bool has_one_place = true;

  void add_place(uint32_t other) {
    if (place == 0) place = other;
    has_one_place &= other != Places::kUnknown && other == place;
  }
  bool is_conclusive() const {
    return has_one_place && newer >= kEnoughNewerBlocks && newer >= old.count / kMostOldToNewer &&
           old.count >= kEnoughOldBlocks;
  }
};

// Whether each block without a stack is one from before: the tracker saw all others.
bool saw_all(const TrackerRecord& tracker, const CallStacks& stacks) {
  return tracker.sample_bytes == 0 && tracker.limit_reached_ns == 0 && tracker.dropped_slots == 0 &&
         std::all_of(stacks.sites.begin(), stacks.sites.end(),
                     [](const AllocationSite& site) { return site.sample_bytes == 0; });
}

// The chunk that malloc makes for a request.
uint64_t chunk_size(uint64_t request, unsigned word) {
  const uint64_t alignment = 2 * word;
  const uint64_t size = (request + word + alignment - 1) / alignment * alignment;
  return std::max<uint64_t>(size, 4 * word);
}

// Sizes of which a place frees blocks all the time has that place, too, if it keeps none. Only the
// mean of what a stack freed is known: it is the size where all are of one size.
void add_freeing_places(std::vector<SizeRecord>& sizes, const CallStacks& stacks, Places& places,
                        unsigned word) {
  for (uint32_t stack = 0; stack < stacks.sites.size(); ++stack) {
    const AllocationSite& site = stacks.sites[stack];
    if (site.frees == 0) continue;
    const uint64_t mean = site.freed_bytes / site.frees;
    if (mean > kLargestSize) continue;
    const uint64_t size = chunk_size(mean, word);
    if (size > kLargestSize || !sizes[size / kStep].is_conclusive()) continue;
    sizes[size / kStep].add_place(places.of(stack));
  }
}

}  // namespace

std::vector<OldBlocks> attribute_old_blocks(const SnapshotStreams& streams,
                                            const RecordedStacks& recorded,
                                            const PassedFrames& passed, size_t most) {
  if (!saw_all(*streams.metadata->tracker, recorded.stacks)) return {};
  const unsigned word = word_size(streams.metadata->process.machine);
  Places places(recorded, passed);
  std::vector<SizeRecord> sizes(kLargestSize / kStep + 1);
  Tally all_old;
  each_live_block(streams, [&](uint32_t stack, uint64_t, uint64_t usable) {
    const uint64_t size = usable + word;
    if (stack == tracker::kNoStack) all_old.add(size);
    if (size > kLargestSize) return;
    SizeRecord& record = sizes[size / kStep];
    if (stack == tracker::kNoStack) {
      record.old.add(size);
      return;
    }
    ++record.newer;
    record.stack = stack;
    record.add_place(places.of(stack));
  });
  add_freeing_places(sizes, recorded.stacks, places, word);

  std::vector<OldBlocks> found;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const SizeRecord& record = sizes[i];
    if (!record.is_conclusive() || record.old.bytes < all_old.bytes / 100) continue;
    found.push_back({i * kStep, record.old, record.newer, record.stack});
  }
  std::stable_sort(found.begin(), found.end(), [](const OldBlocks& a, const OldBlocks& b) {
    return a.old.bytes > b.old.bytes;
  });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace heapsnap
