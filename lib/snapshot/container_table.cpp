#include "snapshot/container_table.h"

#include "snapshot/table_check.h"

namespace heapsnap {

void write_containers(std::span<const ContainerWords> words, SectionSink& sink) {
  if (words.size() > format::kMaxContainers) return;
  TableWriter<ContainerRow> table(format::SectionKind::kTypeNames, sink);
  for (const ContainerWords& one : words) {
    table.add(ContainerRow{Address(one.block), one.word, one.at, one.count});
  }
  table.finish();
}

void read_containers(std::span<const std::byte> bytes, const std::string& source,
                     BlockNumber blocks, std::vector<ContainerWords>& words) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<ContainerRow>::kName) return;
  for (ContainerRow row; table.next(row); row = ContainerRow{}) {
    check_table(words.size() < format::kMaxContainers, source, "it has too many containers");
    const uint64_t block = row.block.value();
    check_table(block < blocks || block == kNoBlock, source,
                "containers in blocks that do not exist");
    const ContainerWords one{static_cast<BlockNumber>(block), row.word, row.at, row.count};
    check_table(words.empty() || words.back() < one, source, "containers that do not ascend");
    const bool is_outside = one.block == kNoBlock;
    check_table(one.count != 0, source, "containers without words");
    check_table(is_outside ? one.word == 0 : one.at.is_null(), source,
                "containers that are in a block and outside");
    words.push_back(one);
  }
}

}  // namespace heapsnap
