// A snapshot with references, and what is printed of it.
#pragma once

#include <string>

#include "report/reference_report.h"
#include "tests/unit/analysis/handmade_references.h"

namespace heapsnap::test {

// A table of sessions that a variable holds, each with a name; and a leaked block that holds one.
struct ReportedHeap {
  HandmadeHeap heap;
  RecordedStacks recorded;
  BlockNumber table = 0;
  BlockNumber lost = 0;
  SnapshotStreams streams;

  ReportedHeap() {
    const TypeNumber session = heap.add_type("Session\x1b");
    const uint32_t cache = heap.add_place(RootKind::kVariable, "g_cache");
    heap.streams.places[cache].module = "/opt/server";
    heap.streams.places[cache].module_offset = 0x4010;
    table = heap.add(1016);
    heap.hold(cache, table, 8);
    for (uint32_t i = 0; i < 50; ++i) {
      const BlockNumber one = heap.add(40, session);
      const BlockNumber name = heap.add(24 + 16 * (i % 3));
      heap.link(table, 8 * i, one);
      heap.link(one, 0x18, name);
    }
    lost = heap.add(104);
    heap.link(lost, 16, heap.add(56));
    heap.snapshot.metadata.references.emplace().is_complete = true;
    streams = heap.finish();
  }
  ReferenceReportInput input() const {
    return {heap.snapshot.metadata, heap.streams, recorded, "a.hsnap"};
  }
};

template <typename Print>
std::string printed_by(Print print) {
  std::string text;
  Writer out(text);
  print(out);
  out.flush();
  return text;
}

}  // namespace heapsnap::test
