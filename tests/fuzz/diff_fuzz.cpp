// What grew between heaps of any shape: rows agree with each other and with the totals, and the
// text and the JSON of it come out whole.
#include <string>
#include <vector>

#include "analysis/snapshot_diff.h"
#include "base/error.h"
#include "report/diff_report.h"
#include "tests/fuzz/fuzzed_heap.h"

namespace {

using namespace heapsnap;
using test::require;

void check_section(const DiffSection& section, size_t snapshots) {
  require(section.lacks.size() == snapshots && section.total.values.size() == snapshots);
  for (const uint32_t row : section.ranked) require(row < section.rows.size());
  for (const DiffRow& row : section.rows) {
    require(row.values.size() == snapshots && row.steps_up <= section.steps);
    require(!row.only_grows || row.growth >= 0);
    for (const uint32_t held : row.held) require(held < section.rows.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr unsigned kMostHeaps = 4;
  test::FuzzedBytes bytes(data, size);
  std::vector<std::unique_ptr<test::HandmadeHeap>> heaps;
  std::vector<Process> processes;
  const unsigned count = 2 + bytes.next() % (kMostHeaps - 1);
  for (unsigned i = 0; i < count; ++i) {
    heaps.push_back(test::fuzzed_heap(bytes));
    const uint8_t what = bytes.next();
    Process& process = heaps.back()->snapshot.metadata.process;
    process.taken_at_ns = (what % 64) * int64_t{1'000'000'000};
    process.build_id = what >= 128 ? "aa" : "bb";
    processes.push_back(process);
  }
  try {
    std::vector<DiffBy> all;
    for (int i = 0; i < kDiffByCount; ++i) all.push_back(static_cast<DiffBy>(i));
    SnapshotDiffBuilder builder(all, scope_of(processes));
    for (const auto& heap : heaps) builder.add({heap->finish(), &heap->streams, nullptr});
    const SnapshotDiff diff = builder.finish();
    require(diff.snapshots.size() == count && diff.sections.size() == all.size());
    for (const DiffSection& section : diff.sections) check_section(section, count);
    const DiffReportInput input{diff, std::vector<std::string>(count, "a.hsnap"), {}, {}};
    std::string printed;
    Writer out(printed);
    print_diff(out, input, 0, TextStyle{});
    print_json_diff(out, input);
    out.flush();
    require(printed.find("\"version\":1") != std::string::npos);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  return 0;
}
