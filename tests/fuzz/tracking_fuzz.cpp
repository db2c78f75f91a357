// The tracker's tables, damaged by the input, read by all that reads them. Reading ends, every id
// that comes out leads to something, and a snapshot of it can be read.
//
//   strokes of 10 bytes: place (1 byte), word in it (2), what the rest means (1), value (6)
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/metadata_tables.h"
#include "tests/unit/tracking/synthetic_tracker.h"
#include "tracking/live_slots.h"
#include "tracking/tracker_directory.h"
#include "tracking/tracking_reader.h"

namespace {

using namespace heapsnap;

void require(bool condition) {
  if (!condition) std::abort();
}

// Takes what a writer makes straight to the reader's checks.
class Reread final : public SectionSink {
 public:
  explicit Reread(size_t modules) : stacks_(modules) {}
  void add(const Section& section) override {
    if (section.kind == format::SectionKind::kTable) {
      metadata_.add(section.columns.front().bytes, "fuzz");
    } else {
      stacks_.add(section.columns.front().bytes, "fuzz");
    }
  }
  SnapshotMetadata metadata() { return metadata_.take("fuzz"); }
  RecordedStacks stacks() { return stacks_.take("fuzz"); }

 private:
  MetadataBuilder metadata_;
  CallStackBuilder stacks_;
};

void check_snapshot_of(const Tracking& tracking) {
  SnapshotMetadata metadata;
  metadata.tracker = tracking.record;
  Reread reread(tracking.record.modules.size());
  write_metadata(metadata, reread);
  write_call_stacks(tracking.stacks, reread);
  require(reread.metadata().tracker == tracking.record);
  require(reread.stacks().stacks.sites == tracking.stacks.sites);
}

void build(SyntheticTracker& made) {
  made.module("/bin/program", 0x400000, {Address(0x400000), Address(0x500000)}, {1, 2, 3});
  made.module("/lib/a.so", 0x7fff0000, {Address(0x7fff0000), Address(0x7fff8000)});
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t parent = i < 4 ? 1 + i : tracker::kFirstNode + i / 2;
    const uint32_t node = made.node(parent, i % 3 == 2 ? tracker::kNoModule : i % 3, 0x401000 + i);
    const uint32_t stack = made.stack({node, 3, 0, i, i / 2, i * 100, i * 50});
    made.slot(SyntheticTracker::kHeap + 16 + i * 96, stack, i % 32);
  }
  made.function({.name = made.copied("Shop.handle"),
                 .file = made.copied("/app/shop.py"),
                 .lines = made.copied("\xe9\xe9"),
                 .first_line = 12});
  made.directory.interpreter.kind = tracker::kInterpreterPython;
  made.directory.interpreter.loop_begin = 0x401000;
  made.directory.interpreter.loop_end = 0x401010;
  const uint64_t interpreted = tracker::kInterpreterFrame | uint64_t{tracker::kFirstFunction}
                                                                << tracker::kFunctionShift;
  const uint32_t main =
      made.node(tracker::kFirstNode, tracker::kNoModule, interpreted | tracker::kInterpreterEntry);
  made.stack({made.node(main, tracker::kNoModule, interpreted | 2), 3, 0, 1, 0, 10, 0});
  made.thread({.tid = 7, .state = tracker::kThreadSeen},
              {{3, 1, 1, 0, 10, 10}, {4, 1, 1, 0, 10, 10}});
  made.finish();
}

void damage(SyntheticTracker& made, std::span<const uint8_t> stroke) {
  const auto places = made.places();
  const AddressRange& place = places[stroke[0] % places.size()];
  uint16_t index = 0;
  uint64_t value = 0;
  std::memcpy(&index, stroke.data() + 1, sizeof index);
  std::memcpy(&value, stroke.data() + 4, 6);
  switch (stroke[3] % 4) {
    case 0: break;
    case 1: value &= 0xffff; break;
    case 2: value = ~value; break;
    case 3: {
      const AddressRange& target = places[value % places.size()];
      value = (target.begin + (value >> 8) % target.size()).value();
      break;
    }
  }
  made.target.put(place.begin + index % (place.size() / 8) * 8, value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kStroke = 10;
  constexpr size_t kMostStrokes = 100;
  SyntheticTracker made;
  build(made);
  std::span<const uint8_t> rest(data, size);
  for (size_t i = 0; i < kMostStrokes && rest.size() >= kStroke; ++i) {
    damage(made, rest.first(kStroke));
    rest = rest.subspan(kStroke);
  }
  try {
    find_tracker_directory(made.target);
    read_tracker_totals(made.target.memory(), made.directory_address());
    const Tracking tracking = read_tracking(made.target.memory(), made.directory_address(), 12345);
    const TrackerRecord& record = tracking.record;
    const CallStacks& stacks = tracking.stacks;
    for (const CallNode& node : stacks.nodes) {
      require(node.module >= -1 && node.module < static_cast<int64_t>(record.modules.size()));
    }
    for (const AllocationSite& site : stacks.sites) {
      size_t frames = 0;
      stacks.walk(site.node, [&](uint32_t node) {
        require(node < stacks.nodes.size());
        ++frames;
      });
      require(frames <= stacks.nodes.size());
    }
    SourceFrames names;
    name_interpreted_frames(stacks, names);
    check_snapshot_of(tracking);
    if (size < kStroke) require(record.notes.empty() && stacks.sites.size() == 43);
    for (const TrackedModule& module : record.modules) {
      require(module.path.size() <= kMaxModulePath && module.range.begin <= module.range.end);
    }
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kUnsupported || error.kind() == ErrorKind::kNoProcess);
  }
  const auto directory =
      made.target.memory().read_value<tracker::Directory>(made.directory_address());
  LiveSlots slots(made.target.memory(), made.target.residency(), made.target.address_space(),
                  *directory);
  std::vector<Address> blocks;
  for (uint64_t i = 0; i < 60; ++i) blocks.push_back(SyntheticTracker::kHeap + 16 + i * i * 96);
  std::vector<uint32_t> found(blocks.size());
  slots.look_up(blocks, found);
  if (size < kStroke) require(tracker::stack_id_of(found[1]) == 3);
  return 0;
}
