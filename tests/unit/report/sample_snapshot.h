// A small process with a bit of everything, for the printers to print.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/advice.h"
#include "analysis/heap_summary.h"
#include "analysis/rss_account.h"
#include "report/report_input.h"
#include "tests/unit/analysis/handmade_snapshot.h"
#include "tests/unit/byte_units.h"

namespace heapsnap::test {

inline HandmadeSnapshot sample_snapshot() {
  HandmadeSnapshot sample;
  SnapshotMetadata& metadata = sample.metadata;
  metadata.writer = "heapsnap test";
  metadata.process.pid = 4242;
  metadata.process.comm = "server";
  metadata.process.exe = "/opt/server";
  metadata.process.command_line = "/opt/server --port 80";
  metadata.process.hostname = "box";
  metadata.process.rss = 30 * kMiB;
  metadata.process.swap = 2 * kMiB;
  metadata.process.taken_at_ns = 1769903999123456789;
  metadata.freeze.method = FreezeMethod::kFork;
  metadata.freeze.why = "a copy stops it for 2 ms, reading would for 9 ms";
  metadata.freeze.pause_ns = 1900000;
  metadata.freeze.reap_pause_ns = 40000;
  metadata.freeze.threads = 2;
  metadata.freeze.notes = {"one thread slept in epoll_wait"};
  Thread main_thread;
  main_thread.tid = 4242;
  main_thread.name = "server";
  main_thread.registers = Registers{{}, Address(0x7ffe00001000), {}};
  Thread worker;
  worker.tid = 4243;
  worker.name = "worker";
  metadata.threads = {main_thread, worker};

  MallocInstance& libc = metadata.heap.instances[0];
  libc.module = "/usr/lib/x86_64-linux-gnu/libc.so.6";
  libc.build_id = "abcdef";
  libc.version = {2, 36};
  libc.strategy = DiscoveryStrategy::kDebugSymbol;
  libc.layout_source = "debug info";
  libc.main_arena = Address(0x7f0000100000);
  libc.malloc_par = Address(0x7f0000101000);
  libc.n_mmaps = 1;
  libc.mmapped_mem = kMiB;
  libc.tcache_count = 7;

  sample.add_arena(true);
  sample.add_arena(false);
  metadata.heap.arenas[0].address = Address(0x7f0000100000);
  metadata.heap.arenas[0].system_mem = metadata.heap.arenas[0].walked = 16 * kMiB;
  metadata.heap.arenas[1].address = Address(0x7e0000000030);
  metadata.heap.arenas[1].system_mem = 8 * kMiB;
  metadata.heap.arenas[1].walked = 4 * kMiB;
  metadata.heap.arenas[1].was_locked = true;

  sample.add_mapping(0x400000, 0x500000, "/opt/server", {.rss = kMiB, .anonymous = 64 << 10});
  sample.add_mapping(0x10000000, 0x11000000, "[heap]", {.rss = 14 * kMiB, .swap = 2 * kMiB});
  sample.add_mapping(0x7e0000000000, 0x7e0000800000, "", {.rss = 8 * kMiB});
  sample.add_mapping(0x7f0000000000, 0x7f0000100000, "", {.rss = kMiB});
  sample.add_mapping(0x7ffe00000000, 0x7ffe00020000, "[stack]", {.rss = 128 << 10});

  HandmadeSnapshot::Chunks chunks;
  for (int i = 0; i < 2048; ++i) {
    chunks.push_back({0x400, ChunkState::kUsed});
    chunks.push_back({0x400, i % 2 == 0 ? ChunkState::kTcache : ChunkState::kSmallbin});
  }
  chunks.push_back({6 * kMiB, ChunkState::kLargebin});
  chunks.push_back({2 * kMiB, ChunkState::kUsed});
  chunks.push_back({4 * kMiB, ChunkState::kTop});
  sample.add_segment(0, SegmentKind::kBrk, 0x10000000, chunks);
  sample.add_pages(0x10000000, 0x10000000 + 14 * kMiB, PageState::kResident);
  sample.add_pages(0x10000000 + 14 * kMiB, 0x11000000, PageState::kSwapped);

  sample.add_segment(1, SegmentKind::kThreadHeap, 0x7e0000000000,
                     {{2 * kMiB, ChunkState::kUsed}, {2 * kMiB, ChunkState::kTop}});
  metadata.heap.segments.back().range.end = Address(0x7e0000800000);
  sample.add_pages(0x7e0000000000, 0x7e0000800000, PageState::kResident);
  metadata.heap.corruptions.push_back({Address(0x7e0000400000), 1, 1, "the chunk's size is 0"});

  sample.add_pages(0x7f0000000000, 0x7f0000100000, PageState::kResident);
  sample.mmapped.push_back({Address(0x7f0000000000), Address(0x7f0000000000), kMiB, kMiB, kMiB - 16,
                            ChunkState::kMmapped, 0});
  metadata.heap.thread_caches = {{4242, Address(), 0, 1024, kMiB}, {4243, Address(), -1, 0, 0}};
  return sample;
}

// All that a printer needs, kept alive.
struct SampleReport {
  explicit SampleReport(HandmadeSnapshot made)
      : snapshot(std::move(made)),
        summary(summarize(snapshot.streams())),
        account(account_rss(snapshot.metadata, summary)),
        advice(advise(snapshot.metadata, summary, account)) {}

  // `process_runs` and `is_whole_report`: see NextStepFacts.
  ReportInput input(bool process_runs = true, bool is_whole_report = false) const {
    ReportInput input{snapshot.metadata, summary, account, advice, "server.hsnap", 12345};
    input.rest_groups = group_rests(snapshot.metadata, summary, account);
    NextStepFacts facts{snapshot.metadata, account, advice, input.rest_groups.other_memory};
    facts.process_runs = process_runs;
    facts.is_whole_report = is_whole_report;
    input.next = next_step(facts);
    input.saved_together = together;
    input.owners = owners ? &*owners : nullptr;
    return input;
  }

  HandmadeSnapshot snapshot;
  HeapSummary summary;
  RssAccount account;
  std::vector<Advice> advice;
  SavedTogether together;
  std::optional<OwnerSums> owners;
};

// Four owners of 99 MiB, and a MiB that is leaked.
inline OwnerSums sample_owners() {
  OwnerSums sums;
  RootPlace place;
  place.kind = RootKind::kVariable;
  place.module = "/opt/server";
  for (const char* name : {"g_cache\x1b", "g_index", "g_names"}) {
    place.name = name;
    place.module_offset += 0x10;
    sums.places.push_back(place);
  }
  place.kind = RootKind::kStack;
  place.tid = 4243;
  place.name = "handle_request()";
  sums.places.push_back(place);
  sums.threads.assign(sums.places.size(), 1);
  sums.groups = {{1, 2, 0, 3}};
  sums.owners = {{false, 0, {1'204'118, 60 * kMiB}},
                 {true, 0, {30, 20 * kMiB}},
                 {false, 3, {1, 10 * kMiB}},
                 {false, 1, {9, 9 * kMiB}}};
  sums.in_use = {1'204'160, 100 * kMiB};
  sums.leaked = {2, kMiB};
  return sums;
}

}  // namespace heapsnap::test
