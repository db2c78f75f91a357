#include "tracking/tracking_reader.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/tracking/synthetic_tracker.h"
#include "tracking/tracker_directory.h"
#include "tracking/tracker_memory.h"

using namespace heapsnap;

namespace {

// Two stacks of three frames that share the outermost, in two modules.
struct Sample {
  SyntheticTracker made;
  uint32_t outer = 0, first_node = 0, second_node = 0;
  uint32_t first = 0, second = 0;

  Sample() {
    const uint32_t program =
        made.module("/bin/program", 0x400000, {Address(0x400000), Address(0x500000)}, {0xab, 0x0c});
    const uint32_t library =
        made.module("/lib/a.so", 0x7fff0000, {Address(0x7fff0000), Address(0x7fff8000)});
    outer = made.node(tracker::kRootComplete, program, 0x401000);
    const uint32_t middle = made.node(outer, program, 0x402000);
    first_node = made.node(middle, library, 0x7fff1000);
    second_node = made.node(outer, tracker::kNoModule, 0x1234);
    made.record(tracker::kStackNotTaken).allocations = 7;
    first = made.stack({first_node, 3, 0, 100, 40, 6400, 2000});
    second = made.stack({second_node, 2, 0, 5, 0, 500, 0});
  }
};

std::vector<uint32_t> frames_of(const CallStacks& stacks, uint32_t id, StackEnd* end = nullptr) {
  std::vector<uint32_t> nodes;
  const StackEnd found =
      stacks.walk(stacks.sites.at(id).node, [&](uint32_t node) { nodes.push_back(node); });
  if (end != nullptr) *end = found;
  return nodes;
}

}  // namespace

TEST_CASE("the memory of the tables is listed by address, touching mappings as one") {
  SyntheticTracker made;
  made.region({Address(0x7f0000800000), Address(0x7f0000801000)}, tracker::kRegionNodes);
  made.region({Address(0x7f0000002000), Address(0x7f0000003000)}, tracker::kRegionLiveLeaf);
  made.region({Address(0x7f0000000000), Address(0x7f0000002000)}, tracker::kRegionLiveRoot);
  made.region({Address(0x7f0000004000), Address(0x7f0000005000)}, 0);  // being written
  made.region({Address(0xfffffffffffff000), Address(0x1000)}, tracker::kRegionNodes);  // damaged
  made.finish();
  const Tracking tracking = read_tracking(made.target.memory(), made.directory_address(), 0);
  CHECK(tracking.record.memory ==
        std::vector<AddressRange>{{Address(0x7f0000000000), Address(0x7f0000003000)},
                                  {Address(0x7f0000800000), Address(0x7f0000801000)}});
  // A hook whose displaced instructions lie in a page of their own, and one that leads nowhere.
  const Address hooks(0x7f2000080000);
  made.target.put(hooks, tracker::HookEntry{"malloc", 0x1000, hooks.value() + 0x100});
  made.target.put(hooks + sizeof(tracker::HookEntry), tracker::HookEntry{"free", 0x1000, 0x10});
  made.target.put(hooks + 0x100, uint64_t{0x7f0000600123});
  made.directory.hooks = hooks.value();
  made.directory.hook_count = 2;
  made.directory.hook_entry_size = sizeof(tracker::HookEntry);
  const std::vector<AddressRange> with_hooks = tracker_memory(made.target.memory(), made.directory);
  REQUIRE(with_hooks.size() == 3);
  CHECK(with_hooks[1] == AddressRange{Address(0x7f0000600000), Address(0x7f0000601000)});
  made.directory.regions.entry_size = 8;
  CHECK(tracker_memory(made.target.memory(), made.directory).empty());
}

TEST_CASE("tables come out as they were put in") {
  Sample sample;
  sample.made.thread({.tid = 42, .state = tracker::kThreadSeen, .allocations = 9});
  sample.made.directory.limits = tracker::kLimitNodes | tracker::kLimitMemory;
  sample.made.directory.dropped_slots = 11;
  sample.made.finish();
  const auto [record, stacks] =
      read_tracking(sample.made.target.memory(), sample.made.directory_address(), 5000);

  CHECK(record.notes.empty());
  CHECK(record.recording);
  CHECK(record.pid == 42);
  CHECK(record.recorded_ns == 4000);
  CHECK(record.dropped_slots == 11);
  CHECK(limit_names(record.limits) == std::vector<std::string>{"memory", "frames"});
  REQUIRE(record.modules.size() == 2);
  CHECK(record.modules[0].path == "/bin/program");
  CHECK(record.modules[0].build_id == "ab0c");
  CHECK(record.modules[1].bias == 0x7fff0000);
  CHECK(record.modules[1].build_id.empty());
  REQUIRE(record.threads.size() == 1);
  CHECK(record.threads[0].allocations == 9);

  REQUIRE(stacks.sites.size() == 4);
  CHECK(stacks.sites[tracker::kStackNotTaken].allocations == 7);
  CHECK(stacks.sites[sample.first].allocated_bytes == 6400);
  StackEnd end{};
  CHECK(frames_of(stacks, sample.first, &end) ==
        std::vector<uint32_t>{sample.first_node, sample.outer + 1, sample.outer});
  CHECK(end == StackEnd::kComplete);
  CHECK(stacks.nodes[sample.first_node].module == 1);
  CHECK(stacks.nodes[sample.second_node].module == -1);
}

TEST_CASE("what threads have not yet added counts") {
  Sample sample;
  sample.made.thread(
      {.tid = 42, .state = tracker::kThreadSeen},
      {{sample.first, 3, 1, 0, 300, 100}, {0, 99, 99, 0, 99, 99}, {sample.second, 1, 0, 0, 10, 0}});
  sample.made.thread({.tid = 43, .state = tracker::kThreadSeen},
                     {{sample.first, 2, 0, 0, 20, 0}, {12345, 1, 1, 0, 1, 1}});
  sample.made.finish();
  const auto tracking =
      read_tracking(sample.made.target.memory(), sample.made.directory_address(), 0);
  const AllocationSite& first = tracking.stacks.sites[sample.first];
  CHECK(first.allocations == 105);
  CHECK(first.frees == 41);
  CHECK(first.allocated_bytes == 6720);
  CHECK(first.freed_bytes == 2100);
  CHECK(tracking.stacks.sites[sample.second].allocations == 6);
  CHECK(tracking.record.recorded_ns == 0);
}

TEST_CASE("threads of the parent have exited in a forked child") {
  Sample sample;
  sample.made.directory.process_generation = 2;
  sample.made.thread({.tid = 42, .state = tracker::kThreadSeen, .generation = 1});
  sample.made.thread({.tid = 50, .state = tracker::kThreadSeen, .generation = 2});
  sample.made.finish();
  const auto tracking =
      read_tracking(sample.made.target.memory(), sample.made.directory_address(), 0);
  REQUIRE(tracking.record.threads.size() == 2);
  CHECK(tracking.record.threads[0].exited);
  CHECK_FALSE(tracking.record.threads[1].exited);
}

TEST_CASE("totals are those of the threads, or of the stacks when sampled") {
  Sample sample;
  sample.made.thread({.tid = 1,
                      .state = tracker::kThreadSeen,
                      .allocations = 10,
                      .frees = 4,
                      .allocated_bytes = 1000,
                      .freed_bytes = 300});
  sample.made.thread({.tid = 2,
                      .state = tracker::kThreadExited,
                      .allocations = 1,
                      .frees = 6,
                      .allocated_bytes = 10,
                      .freed_bytes = 2000});
  sample.made.finish();
  TrackerTotals totals =
      read_tracker_totals(sample.made.target.memory(), sample.made.directory_address());
  CHECK(totals.allocations == 11);
  CHECK(totals.churn() == 3310);
  CHECK(totals.growth() == -1290);
  CHECK(totals.recording);

  Sample sampled;
  sampled.made.directory.sample_bytes = 4096;
  sampled.made.stack({sampled.first_node, 3, 4096, 256 * 30, 256 * 10, 9000, 4000});
  sampled.made.finish();
  totals = read_tracker_totals(sampled.made.target.memory(), sampled.made.directory_address());
  CHECK(totals.allocations == 7 - 7 + 100 + 5 + 30 + 7);
  CHECK(totals.allocated_bytes == 6400 + 500 + 9000);
}

TEST_CASE("the directory is found by name, by magic, and not where there is none") {
  Sample named;
  named.made.finish();
  CHECK(find_tracker_directory(named.made.target) == named.made.directory_address());
  Sample unnamed;
  unnamed.made.finish("");
  CHECK(find_tracker_directory(unnamed.made.target) == unnamed.made.directory_address());
  CHECK_FALSE(
      is_shared_memory(unnamed.made.target.address_space(), unnamed.made.directory_address()));

  Sample elsewhere;  // a copy of a directory in another place is none
  elsewhere.made.finish("");
  elsewhere.made.directory.self += 0x1000;
  elsewhere.made.write_directory();
  CHECK_FALSE(find_tracker_directory(elsewhere.made.target));
  CHECK_THROWS_AS(
      read_tracking(elsewhere.made.target.memory(), elsewhere.made.directory_address(), 0), Error);

  Sample dormant;
  dormant.made.finish();
  dormant.made.directory.state = tracker::kStateDormant;
  dormant.made.directory.stacks.count = 0;
  dormant.made.write_directory();
  CHECK_FALSE(find_tracker_directory(dormant.made.target));
}

TEST_CASE("the directory is found by the library's data, inside of a larger mapping") {
  Sample sample;
  sample.made.target.map(
      "7f5000000000-7f5000002000 rw-p 00000000 00:01 7 /memfd:heapsnap_tracker (deleted)");
  sample.made.target.map("7f5000002000-7f5000003000 rw-p 00000000 00:00 0");
  sample.made.finish("", 0x7f3000000000 - 0x3000);
  CHECK_FALSE(find_tracker_directory(sample.made.target));
  sample.made.target.put(Address(0x7f5000000100), uint64_t{0x7f5000001000});  // leads elsewhere
  sample.made.target.put(Address(0x7f5000002340), sample.made.directory_address().value());
  CHECK(find_tracker_directory(sample.made.target) == sample.made.directory_address());
}

TEST_CASE("nothing is read of a process that has no tracker") {
  Sample sample;
  sample.made.target.map("400000-401000 r--p 00000000 00:01 7 /bin/program");
  sample.made.finish("");
  const uint64_t before = sample.made.target.bytes_read();
  CHECK_FALSE(find_tracker_directory(sample.made.target));
  CHECK(sample.made.target.bytes_read() == before);
  sample.made.target.map("500000-501000 r--p 00000000 00:01 8 /opt/libheapsnap_tracker.so");
  CHECK(find_tracker_directory(sample.made.target) == sample.made.directory_address());
}

TEST_CASE("the directory is found in any page of a raw image") {
  Sample sample;
  sample.made.finish("", 0x7f3000000000 - 0x3000);
  CHECK(find_tracker_directory(sample.made.target) == sample.made.directory_address());
}

TEST_CASE("another version is an error that says so") {
  Sample sample;
  sample.made.directory.version = 9;
  sample.made.finish();
  try {
    find_tracker_directory(sample.made.target);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUnsupported);
    CHECK(error.why().find("version 9") != std::string::npos);
  }
}

TEST_CASE("damaged tables are noted and never believed") {
  const auto read_damaged = [](auto damage) {
    Sample sample;
    sample.made.finish();
    damage(sample.made.directory);
    sample.made.write_directory();
    return read_tracking(sample.made.target.memory(), sample.made.directory_address(), 0);
  };
  SUBCASE("an entry size below that of the struct") {
    const auto all = read_damaged([](tracker::Directory& d) { d.nodes.entry_size = 8; });
    CHECK(all.stacks.nodes.empty());
    CHECK(all.record.notes.size() == 2);  // and the stacks lead nowhere
    StackEnd end{};
    CHECK(frames_of(all.stacks, 2, &end).empty());
    CHECK(end == StackEnd::kBadFrame);
  }
  SUBCASE("a count beyond the chunks") {
    const auto all = read_damaged([](tracker::Directory& d) { d.stacks.count = ~0ULL; });
    CHECK(all.stacks.sites.size() == 4);  // one chunk of stacks; the next addresses are 0
    CHECK(all.record.notes.size() == 1);
  }
  SUBCASE("chunks at the end of the address space") {
    const auto all = read_damaged([](tracker::Directory& d) { d.modules.chunks = ~0ULL - 8; });
    CHECK(all.record.modules.empty());
    CHECK(all.stacks.nodes[tracker::kFirstNode].module == -1);
    CHECK_FALSE(all.record.notes.empty());
  }
  SUBCASE("a shift that would overflow") {
    const auto all = read_damaged([](tracker::Directory& d) {
      d.threads.count = 1;
      d.threads.chunk_shift = 63;
    });
    CHECK(all.record.notes.size() == 1);
  }
}

TEST_CASE("a parent that is not older than its child ends the walk") {
  SyntheticTracker made;
  const uint32_t loop = made.node(tracker::kFirstNode + 1, tracker::kNoModule, 1);
  const uint32_t other = made.node(loop, tracker::kNoModule, 2);
  const uint32_t stack = made.stack({other, 2, 0, 1, 0, 1, 0});
  made.finish();
  const auto all = read_tracking(made.target.memory(), made.directory_address(), 0);
  StackEnd end{};
  CHECK(frames_of(all.stacks, stack, &end) == std::vector<uint32_t>{other, loop});
  CHECK(end == StackEnd::kBadFrame);
  CHECK(all.record.notes.size() == 1);
}

TEST_CASE("weights of samples are unbiased") {
  AllocationSite site;
  CHECK(site.weight(100) == 1);
  site.sample_bytes = 1000;
  CHECK(site.weight(1000) == doctest::Approx(1 / (1 - 0.36787944)));
  CHECK(site.weight(1) == doctest::Approx(1000.5).epsilon(0.001));
  CHECK(site.weight(1 << 30) == doctest::Approx(1));
  CHECK(site.weight(0) == 1);
  site.allocations = 512;
  CHECK(site.allocation_count() == 2);
}
