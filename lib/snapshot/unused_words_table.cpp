#include "snapshot/unused_words_table.h"

#include <algorithm>

#include "snapshot/table_check.h"

namespace heapsnap {

void write_unused_words(std::span<const UnusedWord> words, SectionSink& sink) {
  TableWriter<UnusedWordRow> table(format::SectionKind::kTypeNames, sink);
  for (const UnusedWord& one : words.first(std::min(words.size(), format::kMaxUnusedWords))) {
    table.add(UnusedWordRow{Address(one.block), one.word});
  }
  table.finish();
}

void read_unused_words(std::span<const std::byte> bytes, const std::string& source,
                       BlockNumber blocks, std::vector<UnusedWord>& words) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<UnusedWordRow>::kName) return;
  for (UnusedWordRow row; table.next(row); row = UnusedWordRow{}) {
    check_table(words.size() < format::kMaxUnusedWords, source, "it has too many unused words");
    check_table(row.block.value() < blocks, source, "unused words of blocks that do not exist");
    const UnusedWord one{static_cast<BlockNumber>(row.block.value()), row.word};
    check_table(words.empty() || words.back() < one, source, "unused words that do not ascend");
    words.push_back(one);
  }
}

}  // namespace heapsnap
