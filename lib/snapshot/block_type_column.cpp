#include "snapshot/block_type_column.h"

#include <algorithm>
#include <utility>

#include "base/byte_reader.h"
#include "snapshot/byte_writer.h"
#include "snapshot/table_check.h"

namespace heapsnap {

template <>
struct EnumRange<TypeSource> {
  static constexpr auto kFirst = TypeSource::kUnknown;
  static constexpr auto kLast = TypeSource::kRuntime;
  static constexpr auto kUnknown = TypeSource::kUnknown;
};

namespace {

constexpr size_t kTypesInSection = 64U << 10;

}  // namespace

BlockTypeBuilder::BlockTypeBuilder(SectionSink& sink) : sink_(sink) {
  section_.kind = format::SectionKind::kBlockTypes;
  section_.columns.resize(2);
  section_.columns[0].id = format::kTypesFirstBlock;
  section_.columns[1].id = format::kTypesOfBlocks;
}

void BlockTypeBuilder::add(std::span<const TypeNumber> types) {
  while (!types.empty()) {
    const size_t take = std::min(types.size(), kTypesInSection - types_.size());
    types_.insert(types_.end(), types.begin(), types.begin() + static_cast<ptrdiff_t>(take));
    types = types.subspan(take);
    if (types_.size() == kTypesInSection) flush();
  }
}

void BlockTypeBuilder::flush() {
  if (types_.empty()) return;
  section_.columns[0].bytes.clear();
  append_varint(section_.columns[0].bytes, first_);
  write_planes(section_.columns[1].bytes, types_);
  section_.items = static_cast<uint32_t>(types_.size());
  sink_.add(section_);
  first_ += static_cast<BlockNumber>(types_.size());
  types_.clear();
}

void BlockTypeBuilder::finish(std::span<const BlockType> names) {
  flush();
  write_table(names, sink_, format::SectionKind::kTypeNames);
}

void read_block_types(
    std::span<const std::byte> first_block, std::span<const std::byte> planes, uint32_t items,
    size_t types, const std::string& source, BlockNumber* next,
    const std::function<void(BlockNumber, std::span<const TypeNumber>)>& receive) {
  ByteReader head(first_block, source);
  check_table(head.read_varint() == *next && head.at_end(), source,
              "its blocks do not follow those before it");
  check_table(
      items != 0 && planes.size() == items * sizeof(TypeNumber) && items <= kNoBlock - *next,
      source, "types do not match the number of blocks");
  std::vector<TypeNumber> numbers(items);
  const std::byte* in = planes.data();
  for (unsigned plane = 0; plane < 32; plane += 8) {
    for (TypeNumber& number : numbers) number |= static_cast<TypeNumber>(*in++) << plane;
  }
  check_table(*std::max_element(numbers.begin(), numbers.end()) < types, source,
              "a block of a type that does not exist");
  receive(*next, numbers);
  *next += items;
}

void read_type_names(std::span<const std::byte> bytes, const std::string& source,
                     std::vector<BlockType>& types) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<BlockType>::kName) return;
  for (BlockType type; table.next(type); type = BlockType{}) {
    check_table(types.size() < format::kMaxTypes, source, "it has too many types");
    types.push_back(std::move(type));
  }
}

}  // namespace heapsnap
