// The section that accounts for the resident set, row by row, and for what the rows consist of.
#include <fmt/format.h>

#include "analysis/bounded_sum.h"
#include "analysis/context_account.h"
#include "report/mapping_group_text.h"
#include "report/number_text.h"
#include "report/rss_row_text.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

using Align = TextTable::Align;

// A row is explained by groups when it is more than one part in twenty (5 %), and it is said why a
// group looks like what it is when that is one part in a hundred.
constexpr uint64_t kExplainedShare = 20;
constexpr uint64_t kReasonedShare = 100;

std::string rss_title(const RssAccount& account) {
  const std::string total = size_text(account.total.resident);
  return account.basis == RssBasis::kResident
             ? "Resident memory: " + total
             : "Address space: " + total + " (which pages were resident is not known)";
}

bool is_much(const RssAccount& account, RssRow row) {
  return account[row].resident > account.total.resident / kExplainedShare;
}

const std::vector<MappingGroup>* groups_of(const RestGroups& groups, RssRow row) {
  switch (row) {
    case RssRow::kFiles: return &groups.files;
    case RssRow::kFileData: return &groups.file_data;
    case RssRow::kShared: return &groups.shared;
    case RssRow::kOtherAnonymous: return &groups.other_memory;
    default: return nullptr;
  }
}

// How wide a name may be that leaves the numbers their room.
size_t label_width(const TextPage& page, bool has_swap) {
  const size_t numbers = has_swap ? 37 : 25;
  return page.width - numbers;
}

void print_remarks(TextPage& page) {
  const RssAccount& account = page.input.account;
  if (is_much(account, RssRow::kOtherAnonymous)) {
    for (const MappingGroup& group : page.input.rest_groups.other_memory) {
      const std::string evidence = mapping_group_evidence(group);
      const bool matters = group.amount.resident >= account.total.resident / kReasonedShare;
      if (!evidence.empty() && matters) page.sentence(evidence);
    }
  }
  if (is_much(account, RssRow::kShared)) {
    page.sentence("A page of shared memory counts in each process that has touched it.");
  }
  if (account.hugetlb != 0) {
    page.sentence(fmt::format("Of the total, {} is in hugetlb pages, which RSS does not count.",
                              size_text(account.hugetlb)));
  }
  if (!account.agrees_with_process()) {
    page.sentence(fmt::format("The kernel's counter for the whole process was {} at the freeze.",
                              size_text(account.process_rss)));
  }
  const SnapshotMetadata& metadata = page.input.metadata;
  if (metadata.freeze.method == FreezeMethod::kNone && metadata.threads.size() > 1) {
    page.sentence(
        "No thread was stopped, so the stacks of all threads but the first count as other "
        "anonymous memory.");
  }
  std::vector<uint64_t> in_malloc(metadata.runtimes.runtimes.size());
  for (const RuntimeClass& row : metadata.runtimes.classes) {
    if (row.malloc_bytes == 0) continue;
    in_malloc[row.runtime] = bounded_sum(in_malloc[row.runtime], row.malloc_bytes);
  }
  for (size_t i = 0; i < in_malloc.size(); ++i) {
    if (in_malloc[i] == 0) continue;
    const Runtime& runtime = metadata.runtimes.runtimes[i];
    page.sentence(
        fmt::format("Of what malloc has in use, {} are {} of {}.", size_text(in_malloc[i]),
                    runtime.areas == 0 ? "objects and their buffers" : "larger objects and buffers",
                    name_of(runtime.kind)));
  }
  for (const RuntimeArea& area : metadata.runtimes.areas) {
    if (!area.is_transient || !area.is_in_malloc) continue;
    const bool is_known = account.basis == RssBasis::kResident;
    const uint64_t resident = area.used.resident + area.free_in_area.resident;
    page.sentence(fmt::format(
        "One of the mmapped chunks is Ruby's transient heap, for buffers of young objects: {}.",
        size_text(is_known ? resident : area.range.size())));
  }
  if (!metadata.runtimes.contexts.empty()) {
    page.sentence(
        fmt::format("heapsnap objects lists all {} memory contexts of PostgreSQL, with what is "
                    "free in them.",
                    count_text(metadata.runtimes.contexts.size())));
  }
  if (account.disagreement != 0) {
    page.sentence(
        fmt::format("The pages of chunks add up to {} more than the kernel's counters, which were "
                    "read a moment later; the rows are scaled to the counters.",
                    size_text(account.disagreement)));
  }
}

}  // namespace

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
    std::vector<std::string> cells = {text, size_text(amount.resident),
                                      percent_text(amount.resident, account.total.resident)};
    if (has_swap) cells.push_back(size_text(amount.swapped));
    table.add_row(std::move(cells));
  };
  const ContextAccount contexts = account_contexts(account, page.input.metadata.runtimes);
  for (int i = 0; i < kRssRowCount; ++i) {
    const RssRow row = static_cast<RssRow>(i);
    const RssAccount::Amount& amount = row == RssRow::kProgram   ? contexts.program
                                       : row == RssRow::kMmapped ? contexts.mmapped
                                                                 : account[row];
    const bool is_empty = amount == RssAccount::Amount{};
    if (!is_empty || row == RssRow::kProgram) add(rss_row_text(row), amount);
    if (row == RssRow::kMmapped) {
      for (const ContextAccount::Row& part : contexts.rows) {
        std::string text =
            "PostgreSQL contexts: " + (part.name.empty() ? "others" : printable(part.name));
        if (!part.name.empty() && part.contexts > 1) text += " and below";
        add(clipped(text, label_width(page, has_swap)), part.amount);
      }
    }
    const std::vector<MappingGroup>* const groups = groups_of(page.input.rest_groups, row);
    if (groups == nullptr || !is_much(account, row)) continue;
    for (const MappingGroup& group : *groups) {
      add("  " + clipped(mapping_group_label(group), label_width(page, has_swap) - 2),
          group.amount);
    }
  }
  add("total", account.total);
  table.set_sum();
  page.table(table);
  print_remarks(page);
}

}  // namespace heapsnap
