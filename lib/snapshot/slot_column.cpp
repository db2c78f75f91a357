#include "snapshot/slot_column.h"

#include <vector>

#include "base/byte_reader.h"
#include "base/count_bits.h"
#include "snapshot/byte_writer.h"
#include "snapshot/table_check.h"

namespace heapsnap {
namespace {

constexpr size_t kFullSection = 1U << 20;
constexpr uint64_t kLeastSlot = 8;

}  // namespace

SlotPageBuilder::SlotPageBuilder(SectionSink& sink) : sink_(sink) {
  section_.kind = format::SectionKind::kSlots;
  section_.columns.resize(2);
  section_.columns[0].id = format::kSlotPages;
  section_.columns[1].id = format::kSlotUsedBits;
}

void SlotPageBuilder::add(const SlotPage& page) {
  Bytes& pages = section_.columns[0].bytes;
  Bytes& bits = section_.columns[1].bytes;
  if (bits.size() + pages.size() >= kFullSection) flush();
  if (pages.empty()) {
    section_.begin = page.begin;
    end_ = Address();
  }
  append_varint(pages, page.begin - end_);
  append_varint(pages, page.slot_bytes);
  append_varint(pages, page.slots);
  for (uint32_t slot = 0; slot < page.slots; slot += 8) {
    bits.push_back(static_cast<std::byte>(page.used[slot / 64] >> (slot % 64)));
  }
  for (const uint64_t used : page.used) {
    section_.items += count_bits(used);
  }
  end_ = page.begin + uint64_t{page.slots} * page.slot_bytes;
}

void SlotPageBuilder::flush() {
  if (section_.columns[0].bytes.empty()) return;
  sink_.add(section_);
  section_.items = 0;
  for (Section::Column& column : section_.columns) column.bytes.clear();
}

void read_slot_pages(std::span<const std::byte> pages, std::span<const std::byte> used_bits,
                     uint32_t used, Address begin, const std::string& source, Address* end,
                     const ReceiveSlots& receive) {
  ByteReader reader(pages, source);
  ByteReader bits(used_bits, source);
  std::vector<uint64_t> words;
  Address last;
  uint64_t count = 0;
  while (!reader.at_end()) {
    const Address at = last + reader.read_varint();
    const uint64_t slot_bytes = reader.read_varint();
    const uint64_t slots = reader.read_varint();
    check_table(slot_bytes >= kLeastSlot && slot_bytes <= SlotMap::kMostPage && slots != 0 &&
                    slots <= SlotMap::kMostPage / slot_bytes,
                source, "a page has slots that do not fit in it");
    check_table((last.is_null() ? at == begin : at >= last) && at >= *end &&
                    at.value() <= ~uint64_t{0} - SlotMap::kMostPage,
                source, "pages are not where they should be");
    words.assign((slots + 63) / 64, 0);
    const auto of_page = bits.take((slots + 7) / 8);
    for (size_t i = 0; i < of_page.size(); ++i) {
      words[i / 8] |= static_cast<uint64_t>(of_page[i]) << (i % 8 * 8);
    }
    check_table(slots % 64 == 0 || words.back() >> (slots % 64) == 0, source,
                "a slot behind the last one is used");
    for (const uint64_t word : words) count += count_bits(word);
    last = at + slots * slot_bytes;
    *end = last;
    receive({at, static_cast<uint32_t>(slot_bytes), static_cast<uint32_t>(slots), words});
  }
  check_table(bits.at_end() && count == used, source, "used slots do not match their number");
}

}  // namespace heapsnap
