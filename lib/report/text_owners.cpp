// The section about what keeps the blocks in use: the largest roots, and how much is leaked.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "report/garbage_text.h"
#include "report/largest_owners.h"
#include "report/number_text.h"
#include "report/owner_labels.h"
#include "report/reference_labels.h"
#include "report/text_page.h"

namespace heapsnap {

namespace {

constexpr const char* kOwnersHeading = "What keeps the blocks in use (usable bytes)";

void print_owner_table(TextPage& page, const OwnerSums& sums) {
  using Align = TextTable::Align;
  constexpr size_t kLeastRoot = 24;
  TextTable table;
  for (int i = 0; i < 3; ++i) table.add_column("", Align::kRight);
  const OwnerLabels labels(page.input.metadata, sums.places, sums.threads, sums.groups);
  const std::span<const OwnerSum> owners = largest_owners(sums);
  const auto labels_in = [&](size_t width) {
    std::vector<std::string> fitted;
    for (const OwnerSum& owner : owners) {
      fitted.push_back(owner.is_several ? labels.of_several(owner.place, width)
                                        : labels.of_place(owner.place, width));
    }
    return fitted;
  };
  table.add_column("", kLeastRoot, [&labels_in](const std::vector<std::string>&, size_t width) {
    return labels_in(width);
  });
  const std::vector<std::string> whole = labels_in(page.width);
  for (size_t i = 0; i < whole.size(); ++i) {
    const OwnerSum& owner = owners[i];
    table.add_row({percent_text(owner.retained.bytes, sums.in_use.bytes),
                   size_text(owner.retained.bytes),
                   count_text(owner.retained.count, "block", "blocks"), whole[i]});
  }
  page.table(table);
}

void print_command(TextPage& page, const std::string& why, const std::string& command) {
  page.sentence(why);
  page.out.write("    " + page.ink.green(command) + "\n");
}

void print_why_no_owners(TextPage& page) {
  constexpr uint64_t kWorthAsking = 1 << 20;  // bytes in use
  const std::string why = why_no_owners(page.input.metadata);
  if (why.empty() || used_figures(page.input.summary.totals).chunks.bytes < kWorthAsking) return;
  page.heading(kOwnersHeading);
  print_command(page, "Not looked at: " + printable(why) + ". To have it looked at:",
                with_references_command(page.input.metadata));
}

// A few blocks that a library leaks once are not where the memory went.
bool is_worth_a_look(const OwnerSums& sums) {
  constexpr uint64_t kMuch = 1 << 20;
  return sums.leaked.bytes >= std::min(kMuch, sums.in_use.bytes / 100);
}

}  // namespace

void print_largest_owners(TextPage& page) {
  if (page.input.owners == nullptr) return print_why_no_owners(page);
  const OwnerSums& sums = *page.input.owners;
  if (sums.in_use.count == 0) return;
  page.heading(page.input.metadata.runtimes.classes.empty()
                   ? kOwnersHeading
                   : "What keeps the memory in use (usable bytes; objects count as blocks)");
  print_owner_table(page, sums);
  if (sums.garbage.count != 0) {
    page.sentence(fmt::format(
        "{} of them, {} in {}, is garbage: {}.",
        percent_text(sums.garbage.bytes, sums.in_use.bytes), size_text(sums.garbage.bytes),
        count_text(sums.garbage.count, "block", "blocks"),
        garbage_text(page.input.metadata.runtimes, sums.garbage, sums.in_use)));
  }
  const OwnerCommands commands = owner_commands(page.input);
  if (!sums.owners.empty()) {
    print_command(page, "To see what these consist of, and the other owners:", commands.owners);
  }
  if (sums.leaked.count == 0) {
    page.sentence("Nothing is leaked.");
    return;
  }
  std::string leaked =
      fmt::format("{} in {} ({}) are leaked: nothing leads to them.", size_text(sums.leaked.bytes),
                  count_text(sums.leaked.count, "block", "blocks"),
                  percent_text(sums.leaked.bytes, sums.in_use.bytes));
  if (sums.leaked.bytes > sums.in_use.bytes / 4) {
    leaked += " If the program tags or packs its addresses, they are in use.";
  }
  if (is_worth_a_look(sums)) {
    print_command(page, leaked + " To list them:", commands.leaks);
  } else {
    page.sentence(leaked);
  }
}

}  // namespace heapsnap
