#include "runtime/ruby/ruby_objects.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr uint64_t kWord = 8;
constexpr uint64_t kEmbedded = RubyValue::user_flag(1);  // RARRAY_EMBED_FLAG, ROBJECT_EMBED

// `count` items of a word, if there can be that many.
uint64_t words(uint64_t count) {
  return count < kMostBytes / kWord ? count * kWord : 0;
}

// Bytes that end a string: as wide as the narrowest character of its encoding (encindex.h).
uint64_t terminator(uint64_t flags) {
  const uint64_t encoding = flags >> 22 & 0x7f;
  constexpr std::array<uint8_t, 9> kWidths = {1, 1, 1, 2, 2, 4, 4, 2, 4};
  return encoding < kWidths.size() ? kWidths[encoding] : 1;
}

void measure_variables(const StructBytes& slot, const RubyLayout& layout, const RubyShapes& shapes,
                       RubyObject& object) {
  constexpr uint64_t kTransient = RubyValue::user_flag(13);
  const uint64_t flags = slot.word_at(0);
  if (layout.object_count != RubyLayout::kNone) {
    if ((flags & kEmbedded) != 0) return;
    object.owned_bytes = words(slot.int_at(layout.object_count));
    object.is_transient = (flags & kTransient) != 0;
    return;
  }
  const uint32_t capacity = shapes.capacity(RubyValue::shape_of(flags));
  if (capacity == RubyShapes::kTable) {
    object.table = Address(slot.word_at(16));
  } else if ((flags & kEmbedded) == 0) {
    object.owned_bytes = words(capacity);
    object.is_transient = layout.has_transient_heap() && (flags & kTransient) != 0;
  }
}

}  // namespace

RubyObject measure_ruby_object(const RubyLayout& layout, const RubyShapes& shapes,
                               std::span<const std::byte> bytes) {
  // Flags of each type, in ruby.h and the internal headers.
  constexpr uint64_t kStringElsewhere = RubyValue::user_flag(1);
  constexpr uint64_t kStringNotFreed = RubyValue::user_flag(18);
  constexpr uint64_t kArrayTransient = RubyValue::user_flag(13);
  constexpr uint64_t kHashTable = RubyValue::user_flag(3);
  constexpr uint64_t kHashTransient = RubyValue::user_flag(12);
  constexpr uint64_t kStructTransient = RubyValue::user_flag(3);
  constexpr uint64_t kBignumEmbedded = RubyValue::user_flag(2);
  constexpr uint64_t kSmallTable = 128;  // ar_table
  constexpr uint64_t kHashInSlot = 24;
  constexpr uint64_t kDataEmbedded = 2;

  const StructBytes slot(bytes, kWord);
  const uint64_t flags = slot.word_at(0);
  const bool has_transient_heap = layout.hash_table != RubyLayout::kNone;
  const uint64_t array_root = RubyValue::user_flag(layout.has_wide_slots() ? 12 : 5);
  RubyObject object;
  switch (RubyValue::type_of(flags)) {
    case RubyType::kObject: measure_variables(slot, layout, shapes, object); break;
    case RubyType::kString:
      if ((flags & (kStringElsewhere | layout.flag_shared | kStringNotFreed)) == kStringElsewhere) {
        const uint64_t capacity = slot.word_at(32);
        if (capacity < kMostBytes) object.owned_bytes = capacity + terminator(flags);
      }
      break;
    case RubyType::kArray:
      if ((flags & (kEmbedded | layout.flag_shared)) == 0) {
        object.owned_bytes = words(slot.word_at((flags & array_root) != 0 ? 16 : 24));
        object.is_transient = has_transient_heap && (flags & kArrayTransient) != 0;
      }
      break;
    case RubyType::kHash:
      if (layout.hash_table == RubyLayout::kNone) {
        if ((flags & kHashTable) != 0 && bytes.size() > kHashInSlot) {
          object.owned_bytes = ruby_table_bytes(bytes.subspan(kHashInSlot)) - kRubyTableHeader;
        }
      } else if (slot.word_at(layout.hash_table) != 0) {
        if ((flags & kHashTable) != 0) {
          object.table = Address(slot.word_at(layout.hash_table));
        } else {
          object.owned_bytes = kSmallTable;
          object.is_transient = (flags & kHashTransient) != 0;
        }
      }
      break;
    case RubyType::kStruct:
      if ((flags & layout.struct_length_mask) == 0 && slot.word_at(24) != 0) {
        object.owned_bytes = words(slot.word_at(16));
        object.is_transient = has_transient_heap && (flags & kStructTransient) != 0;
      }
      break;
    case RubyType::kBignum:
      // BDIGIT: half a word.
      if ((flags & kBignumEmbedded) == 0) object.owned_bytes = words(slot.word_at(16)) / 2;
      break;
    case RubyType::kData: {
      const uint64_t typed = slot.word_at(RubyValue::kDataTyped);
      if (typed != (kDataEmbedded | 1))
        object.block = Address(slot.word_at(RubyValue::kDataPointer));
      break;
    }
    case RubyType::kClass:
    case RubyType::kModule:
      if (layout.class_extension != RubyLayout::kNone) {
        object.block = Address(slot.word_at(layout.class_extension));
      }
      break;
    case RubyType::kRegexp:
    case RubyType::kFile: object.block = Address(slot.word_at(16)); break;
    case RubyType::kMatch:
      if (layout.match_extension != RubyLayout::kNone) {
        object.block = Address(slot.word_at(layout.match_extension));
      }
      break;
    default: break;
  }
  return object;
}

RubyShapes::RubyShapes(Target& target, const RubyLayout& layout,
                       std::span<const AddressRange> data) {
  constexpr uint64_t kMostData = 256 << 20;
  if (!layout.has_shapes()) return;
  for (const AddressRange& range : data) {
    std::vector<std::byte> bytes(std::min(range.size(), kMostData));
    bytes.resize(target.memory().read(range.begin, bytes));
    const StructBytes variables(bytes, kWord);
    for (size_t offset = 0; offset + kWord <= bytes.size(); offset += kWord) {
      const Address tree(variables.word_at(offset) + layout.vm_shapes);
      if (read(target, layout, tree)) return;
    }
  }
}

bool RubyShapes::read(Target& target, const RubyLayout& layout, Address tree) {
  constexpr uint64_t kMostShapes = 1 << 20;
  constexpr uint64_t kFirstPage = 4096;
  constexpr uint32_t kNoParent = UINT32_MAX;
  constexpr uint32_t kVariableShape = 1;  // SHAPE_IVAR
  MemoryReader& memory = target.memory();
  if (tree.value() < kFirstPage || !tree.is_aligned(8)) return false;
  if (target.address_space().find(tree) == nullptr) return false;
  // rb_shape_tree_t: the list, and its root, which is the first one.
  const auto list = memory.read_value<uint64_t>(tree);
  if (!list || *list < kFirstPage || *list % kFirstPage != 0) return false;
  if (memory.read_value<uint64_t>(tree + 8) != list) return false;
  const auto count = memory.read_value<uint32_t>(tree + layout.tree_next_shape);
  if (!count || *count == 0 || *count > kMostShapes) return false;
  const Address root(*list);
  if (memory.read_value<uint32_t>(root + layout.shape_parent) != kNoParent) return false;
  if (memory.read_value<uint64_t>(root + layout.shape_edge) != 0) return false;
  std::vector<std::byte> bytes(uint64_t{*count} * layout.shape_bytes);
  bytes.resize(memory.read(root, bytes) / layout.shape_bytes * layout.shape_bytes);
  shapes_.resize(bytes.size() / layout.shape_bytes);
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const auto place = std::span<const std::byte>(bytes).subspan(i * layout.shape_bytes);
    const StructBytes shape(place.first(layout.shape_bytes), 8);
    const uint32_t type = shape.int_at(layout.shape_type) & 0xff;
    const bool is_table = type == layout.shape_type_complex;
    shapes_[i] = {shape.word_at(layout.shape_edge), shape.int_at(layout.shape_parent),
                  is_table ? kTable : shape.int_at(layout.shape_capacity), type == kVariableShape};
    // A parent is older.
    const uint32_t parent = shapes_[i].parent;
    const uint32_t before = parent < i            ? shapes_[parent].variables
                            : parent == kNoParent ? 0
                                                  : kTable;
    const bool is_known = before != kTable;
    shapes_[i].variables = is_known ? before + (shapes_[i].is_variable ? 1 : 0) : kTable;
  }
  return true;
}

}  // namespace heapsnap
