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
  snapshot   server.hsnap (12.0 KiB)
  taken      2026-01-31T23:59:59.123Z on box
  freeze     fork: 2 threads stood still for 1.9 ms, later for 40.0 µs
  malloc     glibc 2.36 in /usr/lib/x86_64-linux-gnu/libc.so.6, found by
             debug-symbol, layout from debug info

Where 24.1 MiB of resident memory are
                                          resident    share  in swap
  used by the program (malloc)             5.9 MiB   24.8 %      0 B
  used by the program (mmapped chunks)  1023.9 KiB    4.1 %      0 B
  malloc's own structures and headers     16.0 KiB   <0.1 %      0 B
  free in threads' caches (tcache)         1.0 MiB    4.1 %      0 B
  free in bins                             7.0 MiB   29.0 %      0 B
  free at the ends of arenas (top)         4.0 MiB   16.6 %  2.0 MiB
  heap that could not be walked            4.0 MiB   16.6 %      0 B
  stacks of threads                      128.0 KiB    0.5 %      0 B
  libraries and mapped files             960.0 KiB    3.9 %      0 B
  private data of libraries and files     64.0 KiB    0.3 %      0 B
  all                                     24.1 MiB  100.0 %  2.0 MiB
  The process's own counter said 30.0 MiB at the freeze.

What can be done
  1. malloc_trim(0) would give back 7.9 MiB: whole free pages that malloc keeps.
     → heapsnap trim 4242 does it once; to keep it low, call malloc_trim(0) in
     the program after it freed much.
  2. 2.0 MiB lie free in arenas of threads (2 arenas for 2 threads), where no
     other arena can use them.
     → start the program with MALLOC_ARENA_MAX=1: saves nothing where all
     threads need it at the same time, and about 2.0 MiB where they need it one
     after the other; threads then wait for each other.
  3. 1.0 MiB lie free in threads' caches (1,024 chunks); each keeps up to 7 a
     size.
     → let idle threads end, or start the program with
     GLIBC_TUNABLES=glibc.malloc.tcache_count=2 and compare: the chunks then go
     to the arenas, and how many whole pages come free there cannot be foretold.
  4. 1.0 MiB are free but share their pages with chunks in use: fragmentation,
     which no trim gives back.
     → look for long-lived blocks that are allocated between short-lived ones.

Mind
  - 1 place of the heap did not make sense: see "Damage" in the full report
  - one thread slept in epoll_wait
)");
}

TEST_CASE("the whole report has all sections") {
  const std::string text = whole(SampleReport(test::sample_snapshot()));
  CHECK(text.starts_with(first_screen(SampleReport(test::sample_snapshot()))));
  CHECK(contains(text,
                 "  arena   system  used  tcache  bins   top    free  resident  trim\n"
                 "  0 main   16.0M  4.0M    1.0M  7.0M  4.0M  66.7 %     14.0M  7.9M\n"
                 "  1         8.0M  2.0M       0     0  2.0M   0.0 %      4.0M     0\n"));
  CHECK(contains(text,
                 "  malloc_trim(0) gives back, from bins  6.0 MiB\n"
                 "  malloc_trim(0) gives back, from top   1.9 MiB\n"
                 "  stays: threads' caches                1.0 MiB\n"
                 "  stays: shares pages with used chunks  1.0 MiB\n"
                 "  stays: end of the main arena          4.0 KiB\n"
                 "  stays: ends of other arenas           2.0 MiB\n"));
  CHECK(contains(text, "  1.0K - 2.0K  2,048  2.0 MiB  28.6 %  2,048  2.0 MiB\n"));
  CHECK(contains(text, "  0x7f0000000010  1.0 MiB  1,048,576  mmapped  mmapped\n"));
  CHECK(contains(text, "    4243  worker   none       0      0 B\n"));
  CHECK(contains(text, "  arena 1, locked   4.0 MiB   8.0 MiB  walk lacks 4.0 MiB\n"));
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
  CHECK(contains(text, "of address space are (residency is unknown)"));
  CHECK(contains(text, "not needed, read from core.4242"));
  CHECK(contains(text, "malloc_trim(0) would give up"));
  CHECK_FALSE(contains(text, "stood still"));
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
  CHECK(contains(text, "The process's own counter said 40.0 MiB at the freeze."));
  CHECK(contains(text, "1.0 MiB of it are hugetlb pages, which RSS does not count."));
  CHECK(contains(text, "Pages of chunks hold 8.0 MiB more than the kernel's counters"));
  CHECK(contains(text, "stacks of threads other than the first"));
  CHECK(contains(text, "none: the process ran on while it was read"));
}

TEST_CASE("numbers of any size stay whole from 60 columns up") {
  auto sample = test::sample_snapshot();
  for (Arena& arena : sample.metadata.heap.arenas) {
    arena.system_mem = arena.walked = (1024ULL << 40) - 1;
  }
  sample.metadata.heap.instances[0].mmapped_mem = (1024ULL << 50) - 1;
  SampleReport report(sample);
  for (auto& arena : report.summary.arenas) {
    for (auto& state : arena.states) {
      state.chunks = {(1ULL << 50) - 1, (1024ULL << 40) - 1};
      state.pages.resident = (1024ULL << 40) - 1;
    }
  }
  for (auto& state : report.summary.totals) {
    state.chunks = {(1ULL << 50) - 1, (1024ULL << 40) - 1};
    state.pages = {(1024ULL << 40) - 1, (1024ULL << 40) - 1};
  }
  for (unsigned width = 60; width < 120; ++width) {
    CAPTURE(width);
    const std::string text = whole(report, {false, width});
    CHECK(widest_line(text) <= width);
    // What a terminal of that width would show is what was written.
    CHECK(contains(text, "1023.9T"));
  }
}
