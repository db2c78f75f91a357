// What fits on the first screen: head, resident set, advice, warnings.
#include <fmt/format.h>

#include "report/advice_text.h"
#include "report/number_text.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

constexpr size_t kAdviceOnFirstScreen = 4;

const char* row_text(RssRow row) {
  switch (row) {
    case RssRow::kProgram: return "used by the program (malloc)";
    case RssRow::kMmapped: return "used by the program (mmapped chunks)";
    case RssRow::kOverhead: return "malloc's own structures and headers";
    case RssRow::kTcache: return "free in threads' caches (tcache)";
    case RssRow::kFastbin: return "free in fastbins";
    case RssRow::kBins: return "free in bins";
    case RssRow::kTop: return "free at the ends of arenas (top)";
    case RssRow::kUnwalked: return "heap that could not be walked";
    case RssRow::kStacks: return "stacks of threads";
    case RssRow::kFiles: return "libraries and mapped files";
    case RssRow::kFileData: return "private data of libraries and files";
    case RssRow::kShared: return "shared memory";
    case RssRow::kTracker: return "heapsnap's tracker";
    case RssRow::kOtherAnonymous: return "other anonymous memory";
    case RssRow::kUnknown: return "heap, not known which part";
  }
  return "";
}

std::string snapshot_text(const ReportInput& input) {
  const std::string size = size_text(input.snapshot_bytes);
  return input.snapshot_path.empty() ? size : printable(input.snapshot_path) + " (" + size + ")";
}

std::string freeze_text(const FreezeRecord& freeze) {
  const std::string threads = count_text(freeze.threads, "thread", "threads");
  switch (freeze.method) {
    case FreezeMethod::kNone: return "none: the process ran on while it was read";
    case FreezeMethod::kCore: return "not needed, " + printable(freeze.why);
    case FreezeMethod::kFork:
    case FreezeMethod::kStop: break;
  }
  std::string text = fmt::format("{}: {} stood still for {}", to_string(freeze.method), threads,
                                 duration_text(freeze.pause_ns));
  if (freeze.reap_pause_ns != 0) {
    text += fmt::format(", later for {}", duration_text(freeze.reap_pause_ns));
  }
  return text;
}

std::string malloc_text(const MallocInstance& instance) {
  return fmt::format("glibc {} in {}, found by {}, layout from {}", version_text(instance.version),
                     printable(instance.module), to_string(instance.strategy),
                     printable(instance.layout_source));
}

std::string rss_title(const RssAccount& account) {
  const std::string total = size_text(account.total.resident);
  return account.basis == RssBasis::kResident
             ? "Where " + total + " of resident memory are"
             : "Where " + total + " of address space are (residency is unknown)";
}

}  // namespace

void print_head(TextPage& page) {
  const SnapshotMetadata& metadata = page.input.metadata;
  const Process& process = metadata.process;
  page.out.write(
      page.ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  page.field("program", printable(process.exe));
  page.field("snapshot", snapshot_text(page.input));
  page.field("taken", time_text(process.taken_at_ns, 3) +
                          (process.hostname.empty() ? "" : " on " + printable(process.hostname)));
  page.field("freeze", freeze_text(metadata.freeze));
  for (const MallocInstance& instance : metadata.heap.instances) {
    page.field("malloc", malloc_text(instance));
  }
  if (!metadata.heap.foreign_allocator.empty()) {
    const std::string name = printable(metadata.heap.foreign_allocator);
    page.field("allocator",
               (metadata.heap.foreign_answers_malloc ? "malloc is answered by " + name
                                                     : "the process also has " + name) +
                   ": its memory counts as other anonymous memory");
  }
}

void print_rss_table(TextPage& page) {
  const RssAccount& account = page.input.account;
  page.heading(rss_title(account));
  const bool has_swap = account.total.swapped != 0;
  TextTable table;
  table.add_column("", Align::kLeft);
  table.add_column(account.basis == RssBasis::kResident ? "resident" : "size", Align::kRight);
  table.add_column("share", Align::kRight);
  if (has_swap) table.add_column("in swap", Align::kRight);
  const auto add = [&](const std::string& text, const RssAccount::Amount& amount) {
    table.add_row({text, size_text(amount.resident),
                   percent_text(amount.resident, account.total.resident),
                   size_text(amount.swapped)});
  };
  for (int i = 0; i < kRssRowCount; ++i) {
    const RssRow row = static_cast<RssRow>(i);
    const bool is_empty = account[row] == RssAccount::Amount{};
    if (!is_empty || row == RssRow::kProgram) add(row_text(row), account[row]);
  }
  add("all", account.total);
  table.set_sum();
  page.table(table);
  if (account.hugetlb != 0) {
    page.sentence(fmt::format("{} of it are hugetlb pages, which RSS does not count.",
                              size_text(account.hugetlb)));
  }
  if (!account.agrees_with_process()) {
    page.sentence(fmt::format("The process's own counter said {} at the freeze.",
                              size_text(account.process_rss)));
  }
  const SnapshotMetadata& metadata = page.input.metadata;
  if (metadata.freeze.method == FreezeMethod::kNone && metadata.threads.size() > 1) {
    page.sentence(
        "No thread was stopped, so the stacks of threads other than the first count as "
        "other anonymous memory.");
  }
  if (account.disagreement != 0) {
    page.sentence(
        fmt::format("Pages of chunks hold {} more than the kernel's counters, which were "
                    "read a moment later; the rows are scaled to those.",
                    size_text(account.disagreement)));
  }
}

void print_advice(TextPage& page) {
  if (page.input.advice.empty()) return;
  page.heading("What can be done");
  size_t number = 0;
  for (const Advice& advice : page.input.advice) {
    if (number == kAdviceOnFirstScreen) break;
    const AdviceText text = advice_text(advice, page.input.metadata);
    std::string front = fmt::format("  {}. ", ++number);
    for (const std::string& line : wrapped(text.finding + ".", page.width - front.size())) {
      page.out.write(front + line + "\n");
      front.assign(front.size(), ' ');
    }
    for (const std::string& line : wrapped("→ " + text.action + ".", page.width - front.size())) {
      page.out.write(front + page.ink.green(line) + "\n");
    }
  }
}

void print_warnings(TextPage& page) {
  const SnapshotMetadata& metadata = page.input.metadata;
  std::vector<std::string> warnings;
  if (metadata.heap.instances.empty()) {
    warnings.push_back("no glibc malloc was found: nothing of the heap is known");
  }
  if (!metadata.heap.corruptions.empty()) {
    warnings.push_back(count_text(metadata.heap.corruptions.size(), "place", "places") +
                       " of the heap did not make sense: see \"Damage\" in the full report");
  }
  for (const std::string& note : metadata.freeze.notes) warnings.push_back(printable(note));
  for (const std::string& note : metadata.notes) warnings.push_back(printable(note));
  if (warnings.empty()) return;
  page.heading("Mind");
  for (const std::string& warning : warnings) {
    std::string front = "  - ";
    for (const std::string& line : wrapped(warning, page.width - front.size())) {
      page.out.write(front + page.ink.yellow(line) + "\n");
      front.assign(front.size(), ' ');
    }
  }
}

}  // namespace heapsnap
