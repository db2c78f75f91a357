#include "report/text_report.h"

#include <doctest/doctest.h>

#include "report/terminal_text.h"
#include "tests/unit/report/sample_snapshot.h"

using namespace heapsnap;
using test::SampleReport;

namespace {

std::string first_screen(const SampleReport& report, TextStyle style = {}) {
  std::string text;
  Writer out(text);
  print_first_screen(out, report.input(), style);
  out.flush();
  return text;
}

std::string whole(const SampleReport& report, TextStyle style = {}) {
  std::string text;
  Writer out(text);
  print_report(out, report.input(), style);
  out.flush();
  return text;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    widest = std::max(widest, display_width(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

}  // namespace

TEST_CASE("the first screen, as it stands") {
  CHECK(first_screen(SampleReport(test::sample_snapshot())) == R"(Process 4242: server
  program    /opt/server
  snapshot   server.hsnap (12.1 KiB)
  taken      2026-01-31T23:59:59.123Z on box
  paused     1.9 ms (2 threads) to fork it, then 40.0 µs to reap the fork
  malloc     glibc 2.36 in /usr/lib/x86_64-linux-gnu/libc.so.6, found by
             debug-symbol, layout from debug info

Resident memory: 24.1 MiB
                                         resident    share  in swap
  used by the program (malloc)            6.0 MiB   24.8 %      0 B
  used by the program (mmapped chunks)    1.0 MiB    4.1 %      0 B
  malloc's own structures and headers    16.0 KiB   <0.1 %      0 B
  free in thread caches (tcache)          1.0 MiB    4.1 %      0 B
  free in bins                            7.0 MiB   29.0 %      0 B
  free in top chunks                      4.0 MiB   16.6 %  2.0 MiB
  heap that could not be walked           4.0 MiB   16.6 %      0 B
  thread stacks                         128.0 KiB    0.5 %      0 B
  libraries and other mapped files      960.0 KiB    3.9 %      0 B
  private pages of files (.data, .bss)   64.0 KiB    0.3 %      0 B
  total                                  24.1 MiB  100.0 %  2.0 MiB
  The kernel's counter for the whole process was 30.0 MiB at the freeze.

Blocks in use, by size (malloc's header included)
  57.1 %  4.0 MiB      2 blocks  of 2.0 MiB to 4.0 MiB
  28.6 %  2.0 MiB  2,048 blocks  of 1,024 B
  14.3 %  1.0 MiB       1 block  of 1.0 MiB

What can be done
  1. malloc_trim(0) would give back 8.0 MiB in whole free pages.
     → heapsnap trim 4242 does it once; to keep it low, call malloc_trim(0) in
     the program after it has freed a lot.
  2. 1.0 MiB is free in thread caches (1,024 chunks); each keeps up to 7 chunks
     of a size.
     → let idle threads end, or start the program with
     GLIBC_TUNABLES=glibc.malloc.tcache_count=2 and compare: the chunks then go
     back to the arenas; how many whole pages that frees cannot be predicted.

Notes
  - one thread slept in epoll_wait

What next
  The heap is inconsistent in 1 place. To see where, and what is wrong there
  (under "Damage"):
    heapsnap report server.hsnap
)");
}

TEST_CASE("the whole report has all sections") {
  const std::string text = whole(SampleReport(test::sample_snapshot()));
  // What the first screen has, the rest, and the next step at the end.
  const std::string screen = first_screen(SampleReport(test::sample_snapshot()));
  const size_t next = screen.find("\nWhat next\n");
  REQUIRE(next != std::string::npos);
  CHECK(text.starts_with(screen.substr(0, next)));
  CHECK(text.ends_with(screen.substr(next)));
  CHECK(contains(text,
                 "  arena   system  used  tcache  bins   top    free  resident  trim\n"
                 "  0 main   16.0M  4.0M    1.0M  7.0M  4.0M  66.7 %     14.0M  8.0M\n"
                 "  1         8.0M  2.0M       0     0  2.0M   0.0 %      4.0M     0\n"));
  CHECK(contains(text,
                 "  given back by malloc_trim(0), from bins  6.0 MiB\n"
                 "  given back by malloc_trim(0), from top   2.0 MiB\n"
                 "  kept in thread caches                    1.0 MiB\n"
                 "  kept in pages shared with used chunks    1.0 MiB\n"
                 "  kept in top of the main arena            4.0 KiB\n"
                 "  kept in tops of other arenas             2.0 MiB\n"));
  CHECK(contains(text, "  1.0K - 2.0K  2,048  2.0 MiB  28.6 %  2,048  2.0 MiB\n"));
  CHECK(contains(text, "  0x7f0000000010  1.0 MiB  1,048,576  mmapped  mmapped\n"));
  CHECK(contains(text, "    4243  worker   none       0      0 B\n"));
  CHECK(contains(text, "  arena 1, locked   4.0 MiB   8.0 MiB  4.0 MiB not walked\n"));
  CHECK(contains(text, "  0x7e0000400000  arena 1: the chunk's size is 0\n"));
  CHECK(contains(text, "  main_arena 0x7f0000100000\n"));
  CHECK(contains(text, "  note       one thread slept in epoll_wait\n"));
}

TEST_CASE("lines keep to the width") {
  const SampleReport report(test::sample_snapshot());
  CHECK(widest_line(whole(report, {false, 80})) <= 80);
  CHECK(widest_line(whole(report, {false, 100})) <= 100);
  CHECK(contains(whole(report, {false, 100}), "0x7e0000000030"));
}

TEST_CASE("without colour no byte controls the terminal, whatever the target is called") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  std::string hostile;
  for (int byte = 0; byte < 256; ++byte) hostile += static_cast<char>(byte);
  hostile += "\xe2\x80\xae";
  SnapshotMetadata& metadata = snapshot.metadata;
  metadata.process.comm = metadata.process.exe = metadata.process.hostname = hostile;
  metadata.freeze.why = hostile;
  metadata.freeze.notes = metadata.notes = {hostile};
  metadata.threads[0].name = hostile;
  metadata.writer = hostile;
  metadata.heap.foreign_allocator = hostile;
  metadata.heap.corruptions[0].what = hostile;
  MallocInstance& libc = metadata.heap.instances[0];
  libc.module = libc.build_id = libc.layout_source = hostile;
  libc.notes = {hostile};
  const SampleReport report(snapshot);
  const ReportInput input{
      report.snapshot.metadata, report.summary, report.account, report.advice, hostile, 1};
  std::string text;
  Writer out(text);
  print_report(out, input, {});
  out.flush();
  for (const char byte : text) {
    const bool is_harmless = byte == '\n' || static_cast<unsigned char>(byte) >= ' ';
    if (!is_harmless || byte == 0x7f) FAIL("control character " << static_cast<int>(byte));
  }
  CHECK_FALSE(contains(text, "\xe2\x80\xae"));
  // What is left is valid text: printing it again would escape nothing but backslashes.
  CHECK_FALSE(contains(printable(text), "\\xff\\xff"));
}

TEST_CASE("colour adds escape sequences and nothing else") {
  const SampleReport report(test::sample_snapshot());
  std::string colored = whole(report, {true, 80});
  CHECK(contains(colored, "\x1b[1m"));
  for (size_t begin = colored.find('\x1b'); begin != std::string::npos;
       begin = colored.find('\x1b')) {
    colored.erase(begin, colored.find('m', begin) - begin + 1);
  }
  CHECK(colored == whole(report));
}

TEST_CASE("a core says that residency is unknown") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.usage.clear();
  snapshot.pages.clear();
  snapshot.metadata.freeze = {};
  snapshot.metadata.freeze.method = FreezeMethod::kCore;
  snapshot.metadata.freeze.why = "read from core.4242";
  const std::string text = whole(SampleReport(snapshot));
  CHECK(contains(text, "Address space: "));
  CHECK(contains(text, "  paused     not at all: read from core.4242\n"));
  CHECK(contains(text, "malloc_trim(0) would give back at most"));
  CHECK(contains(text, "(which pages were resident is not known)"));
}

TEST_CASE("a process without malloc says so") {
  test::HandmadeSnapshot snapshot;
  snapshot.metadata.heap.instances.clear();
  snapshot.add_mapping(0x1000, 0x2000, "[stack]", {.rss = 0x1000});
  const std::string text = whole(SampleReport(snapshot));
  CHECK(contains(text, "no glibc malloc was found"));
  CHECK_FALSE(contains(text, "Arenas"));
}

TEST_CASE("what differs is said: counters, hugetlb pages, stacks of threads that ran on") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.process.rss = 40 * test::kMiB;
  snapshot.metadata.usage[2].rss = 0;
  snapshot.metadata.usage[3].rss = 0;
  snapshot.metadata.usage[3].hugetlb = test::kMiB;
  snapshot.metadata.freeze.method = FreezeMethod::kNone;
  const std::string text = first_screen(SampleReport(snapshot));
  CHECK(contains(text, "The kernel's counter for the whole process was 40.0 MiB at the freeze."));
  CHECK(contains(text, "Of the total, 1.0 MiB is in hugetlb pages, which RSS does not count."));
  CHECK(contains(text, "The pages of chunks add up to 8.0 MiB more than the kernel's counters"));
  CHECK(contains(text, "the stacks of all threads but the first"));
  CHECK(contains(text, "  paused     not at all: the process kept running while it was read\n"));
}

TEST_CASE("a large row is followed by what it consists of, and the parts add up to it") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  const auto add = [&](uint64_t begin, uint64_t size, const std::string& path) {
    auto& mappings = snapshot.metadata.mappings;
    const Address last = mappings.back().range.begin;
    snapshot.add_mapping(begin, begin + size, path, {.rss = size});
    // Before [stack], which stays the last.
    if (begin < last.value()) {
      std::swap(mappings[mappings.size() - 2], mappings.back());
      auto& usage = snapshot.metadata.usage;
      std::swap(usage[usage.size() - 2], usage.back());
    }
  };
  for (uint64_t i = 0; i < 4; ++i) add(0x7f1000000000 + i * (8 << 20), 4 << 20, "");
  add(0x7f2000000000, 1 << 20, "/usr/lib/libpython3.11.so.1.0");
  add(0x7f3000000000, 3 << 20, "/var/lib/data.db");
  const std::string text = first_screen(SampleReport(snapshot));
  CAPTURE(text);
  CHECK(contains(text,
                 "  libraries and other mapped files        4.9 MiB   11.2 %      0 B\n"
                 "    /var/lib/data.db                      3.0 MiB    6.8 %      0 B\n"
                 "    /usr/lib/libpython3.11.so.1.0         1.0 MiB    2.3 %      0 B\n"
                 "    /opt/server                         960.0 KiB    2.1 %      0 B\n"));
  CHECK(contains(text,
                 "  other anonymous memory                 16.0 MiB   36.3 %      0 B\n"
                 "    4 of 4.0 MiB, like pymalloc arenas   16.0 MiB   36.3 %      0 B\n"));
  CHECK(contains(text, "  Like pymalloc arenas: libpython3.11.so.1.0 is mapped, and their sizes"));
  CHECK(widest_line(text) <= 80);
}

TEST_CASE("the largest owners are named, and what is leaked") {
  SampleReport report(test::sample_snapshot());
  report.owners = test::sample_owners();
  const std::string text = first_screen(report);
  CAPTURE(text);
  CHECK(contains(text, R"(
What keeps the blocks in use (usable bytes)
  60.0 %  60.0 MiB  1,204,118 blocks  g_cache\x1b in server
  20.0 %  20.0 MiB         30 blocks  g_index and 3 more roots, together
  10.0 %  10.0 MiB           1 block  thread 4243 (worker), in handle_request()
  To see what these consist of, and the other owners:
    heapsnap owners server.hsnap
  1.0 MiB in 2 blocks (1.0 %) are leaked: nothing leads to them. To list them:
    heapsnap leaks server.hsnap
)"));
  CHECK(!contains(text, " 9 blocks"));  // the fourth
  for (const uint32_t place : report.owners->groups.front()) {
    report.owners->places[place].kind = RootKind::kVariable;
  }
  CHECK(contains(first_screen(report), "g_index and 3 more variables, together\n"));
  for (const unsigned width : {60U, 72U, 100U}) {
    CHECK(widest_line(first_screen(report, {false, width})) <= width);
  }
  const std::vector<uint32_t> few = report.owners->groups.front();
  while (report.owners->groups.front().size() < 20) {
    report.owners->groups.front().push_back(report.owners->groups.front().front());
  }
  CHECK(contains(first_screen(report),
                 "  20.0 %  20.0 MiB         30 blocks  g_index and 19 more roots, together\n"));
  report.owners->groups.front() = few;
  report.owners->leaked = {2, 4096};
  CHECK(contains(first_screen(report),
                 "  4.0 KiB in 2 blocks (<0.1 %) are leaked: nothing leads to them.\n"));
  CHECK(!contains(first_screen(report), "heapsnap leaks"));
  CHECK(!contains(text, "garbage"));
  report.owners->garbage = {300, 25 << 20};
  CHECK(
      contains(first_screen(report),
               "  25.0 % of them, 25.0 MiB in 300 blocks, is garbage: objects that no root leads\n"
               "  to, freed by the next full garbage collection.\n"));
  report.owners->leaked = {};
  CHECK(contains(first_screen(report), "\n  Nothing is leaked.\n"));
  CHECK(!contains(first_screen(report), "heapsnap leaks"));
  report.snapshot.metadata.runtimes.classes.emplace_back().count = 70;
  CHECK(contains(first_screen(report),
                 "\nWhat keeps the memory in use (usable bytes; objects count as blocks)\n"));
}

TEST_CASE("why owners are not known is said, unless nobody asked for them") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  CHECK(!contains(first_screen(SampleReport(snapshot)), "What keeps"));
  ReferenceRecord& record = snapshot.metadata.references.emplace();
  record.why_not = "it would have taken 2 s";
  CHECK(contains(first_screen(SampleReport(snapshot)), R"(
What keeps the blocks in use (usable bytes)
  Not looked at: it would have taken 2 s. To have it looked at:
    heapsnap attach --references yes 4242
)"));
  snapshot.metadata.freeze.method = FreezeMethod::kCore;
  CHECK(contains(first_screen(SampleReport(snapshot)),
                 "\n    heapsnap core --references yes CORE\n"));
  record.why_not = kReferencesNotAskedFor;
  CHECK(!contains(first_screen(SampleReport(snapshot)), "What keeps"));
}

TEST_CASE("a row of less than 5 % is not taken apart") {
  CHECK_FALSE(contains(first_screen(SampleReport(test::sample_snapshot())), "\n    /opt/server"));
}

TEST_CASE("one of anything is one") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.freeze.threads = 1;
  snapshot.metadata.freeze.threads_in_malloc = 1;
  snapshot.metadata.freeze.steps = 1;
  snapshot.metadata.threads.resize(1);
  const std::string text = whole(SampleReport(snapshot));
  CAPTURE(text);
  CHECK(contains(text, "1.9 ms (1 thread) to fork it"));
  CHECK(contains(text, "1 thread, stepped out in 1 step\n"));
  CHECK(contains(text, "  1 block  of 1.0 MiB"));
  for (const char* plural : {" 1 threads", " 1 blocks", " 1 chunks", " 1 places", " 1 steps"}) {
    CHECK_FALSE(contains(text, plural));
  }
}

TEST_CASE("advice on the same memory ends with what it saves together") {
  const test::HandmadeSnapshot snapshot = test::sample_snapshot();
  SampleReport report(snapshot);
  Advice trim;
  trim.bytes = trim.saves_least = trim.saves_most = 8 << 20;
  Advice arenas;
  arenas.kind = AdviceKind::kArenaMax;
  arenas.bytes = 9 << 20;
  arenas.saves_most = arenas.overlap = 6 << 20;
  arenas.overlaps = {0};
  arenas.count = 5;
  arenas.other_count = 1;
  report.advice = {trim, arenas};
  CHECK(contains(first_screen(report), "(5 arenas\n     for 1 thread)"));
  CHECK_FALSE(contains(first_screen(report), "Together"));
  report.together = {{0, 1}, 8 << 20, 9 << 20};
  CHECK(contains(first_screen(report),
                 "  Together, 1 and 2 save between 8.0 MiB and 9.0 MiB: memory that more than one\n"
                 "  of them would free is counted once.\n"));
}

TEST_CASE("each screen ends with a next step") {
  test::HandmadeSnapshot snapshot = test::sample_snapshot();
  snapshot.metadata.heap.corruptions.clear();
  const std::string text = first_screen(SampleReport(snapshot));
  CHECK(
      text.ends_with("\nWhat next\n"
                     "  12.0 MiB is free in malloc's heaps. To give its whole free pages back to "
                     "the\n  kernel:\n"
                     "    heapsnap trim 4242\n"));
}

TEST_CASE("numbers of any size stay whole from 60 columns up") {
  auto sample = test::sample_snapshot();
  for (Arena& arena : sample.metadata.heap.arenas) {
    arena.system_mem = arena.walked = (1ULL << 50) - (1ULL << 36);
  }
  sample.metadata.heap.instances[0].mmapped_mem = (1024ULL << 50) - 1;
  SampleReport report(sample);
  for (auto& arena : report.summary.arenas) {
    for (auto& state : arena.states) {
      state.chunks = {(1ULL << 50) - 1, (1ULL << 50) - (1ULL << 36)};
      state.pages.resident = (1ULL << 50) - (1ULL << 36);
    }
  }
  for (auto& state : report.summary.totals) {
    state.chunks = {(1ULL << 50) - 1, (1ULL << 50) - (1ULL << 36)};
    state.pages = {(1ULL << 50) - (1ULL << 36), (1ULL << 50) - (1ULL << 36)};
  }
  for (unsigned width = 60; width < 120; ++width) {
    CAPTURE(width);
    const std::string text = whole(report, {false, width});
    CHECK(widest_line(text) <= width);
    // What a terminal of that width would show is what was written.
    CHECK(contains(text, "1023.9T"));
  }
}
