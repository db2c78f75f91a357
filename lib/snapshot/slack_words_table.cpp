#include "snapshot/slack_words_table.h"

#include <algorithm>

#include "snapshot/table_check.h"

namespace heapsnap {

void write_slack_words(std::span<const SlackWords> words, SectionSink& sink) {
  TableWriter<SlackRow> table(format::SectionKind::kTypeNames, sink);
  for (const SlackWords& one : words.first(std::min(words.size(), format::kMaxSlackRows))) {
    table.add(SlackRow{Address(one.block), one.first, one.used_from, one.spare});
  }
  table.finish();
}

void read_slack_words(std::span<const std::byte> bytes, const std::string& source,
                      BlockNumber blocks, std::vector<SlackWords>& words) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<SlackRow>::kName) return;
  for (SlackRow row; table.next(row); row = SlackRow{}) {
    check_table(words.size() < format::kMaxSlackRows, source, "it has too many slack words");
    check_table(
        row.block.value() < blocks && (words.empty() || row.block.value() > words.back().block),
        source, "slack words of blocks that do not ascend or do not exist");
    words.push_back(
        {static_cast<BlockNumber>(row.block.value()), row.first, row.used_from, row.spare});
  }
}

}  // namespace heapsnap
