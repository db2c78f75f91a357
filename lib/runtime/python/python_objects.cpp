#include "runtime/python/python_objects.h"

#include <algorithm>
#include <new>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

using Family = PythonType::Family;

constexpr uint64_t kSizeAt = 16;  // ob_size
constexpr uint64_t kMostItems = 1ULL << 40;
constexpr uint64_t kPointer = 8;

uint64_t magnitude(uint64_t word) {
  return static_cast<int64_t>(word) < 0 ? ~word + 1 : word;
}

// Either no list of the collector, or two links of one: their lowest bits are flags. While the
// collector is at work, the second one is a count of references (gc_reset_refs() of gcmodule.c).
bool are_collector_links(uint64_t next, uint64_t previous) {
  constexpr uint64_t kFlags = 3;
  constexpr uint64_t kCollecting = 2;
  constexpr uint64_t kMostReferences = 1ULL << 40;
  const auto is_link = [](uint64_t word) {
    constexpr uint64_t kFirstPage = 4096;
    return word % 8 == 0 && word >= kFirstPage && word >> 56 == 0;
  };
  if (next == 0) return (previous & ~kFlags) == 0;
  if (!is_link(next & ~kFlags)) return false;
  const bool is_count = (previous & kCollecting) != 0 && previous >> 2 <= kMostReferences;
  return is_link(previous & ~kFlags) || is_count;
}

// Whether a block of `room` bytes is what an object of `bytes` has: rounded up, with an item more
// than it says, or shrunk in place, as obmalloc does by a quarter.
bool fits_in(uint64_t bytes, uint64_t room) {
  constexpr uint64_t kRounding = 48;
  return bytes <= room && (room - bytes < kRounding || room - bytes <= room / 4);
}

}  // namespace

bool PythonObjects::are_references(uint64_t word) {
  constexpr uint64_t kMost = 1ULL << 40;
  constexpr uint64_t kFewReferences = 1 << 16;
  if (layout_.has_object_flags) {
    // refcount.h: the greatest flag is 8; between the two halves is nothing.
    constexpr uint64_t kMostFlags = 0xf;
    const uint64_t flags = word >> 32;
    if (flags >> 16 > kMostFlags || (flags & 0xffff) != 0) return false;
    word &= UINT32_MAX;
    if (flags != 0) return word != 0;
  }
  if (word == 0 || word > kMost) return false;
  if (word < kFewReferences || word % 8 != 0) return true;
  // A program at a fixed place has objects at low addresses. An address of one, and then that of a
  // type: these are items of a list.
  if (space_.find(Address(word)) == nullptr) return true;
  const auto type = cache_.word(Address(word) + kPythonTypeAt, 8);
  return !type || types_.find(*type) == nullptr;
}

const PythonObject* PythonObjects::find(Address at, std::span<const std::byte> bytes,
                                        uint64_t room) {
  for (const uint32_t header : {0U, 16U, 32U}) {
    const uint64_t type_word = python_word(bytes, header + kPythonTypeAt);
    if (type_word < 4096 || type_word % 8 != 0) continue;
    const PythonType* const type = types_.find(type_word);
    if (type == nullptr || type->header != header) continue;
    // Assigned to, it would be zeroed first by an instruction that takes longer than all the rest.
    PythonObject& object = *::new (&found_) PythonObject;
    object.type = type;
    if (type->is_collected) {
      const uint64_t next = python_word(bytes, header - 16);
      if (!are_collector_links(next, python_word(bytes, header - 8))) continue;
      object.is_tracked = next != 0;
    }
    if (header == 32 && !find_values(python_word(bytes, 0), python_word(bytes, 8), object))
      continue;
    if (!are_references(python_word(bytes, header))) continue;
    if (measure(bytes.subspan(header), room - header, object)) {
      object.bytes += header;
      if (type->family == Family::kArray) measure_array(bytes.subspan(header), object);
      if (type->keeps != PythonType::Keeps::kNothing) {
        measure_buffers(at + header, bytes.subspan(header), object);
      }
      return &object;
    }
  }
  return nullptr;
}

// By the two words in front of the collector's.
bool PythonObjects::find_values(uint64_t first, uint64_t second, PythonObject& object) const {
  using Values = PythonLayout::Values;
  const bool is_tagged = layout_.values == Values::kTagged && (second & 1) != 0;
  if (first % 8 != 0 || (second + (is_tagged ? 1 : 0)) % 8 != 0) return false;
  if (is_tagged || (layout_.values == Values::kFirst && first != 0)) {
    object.values_bytes = object.type->values_bytes;
  }
  return true;
}

// Of the values behind an instance. The first ones of a class have room for more than later ones;
// where it is not known for how many, as many as the block has.
uint64_t PythonObjects::inline_bytes(std::span<const std::byte> bytes, uint64_t room,
                                     const PythonType& type) {
  const uint64_t at = type.basic_size;
  if (at >= bytes.size()) {
    const uint64_t most = PythonType::inline_bytes(PythonType::kMostValues);
    return std::clamp(room - std::min(room, at), std::min(type.values_bytes, most), most);
  }
  const auto capacity = static_cast<uint64_t>(bytes[at]);
  return capacity > PythonType::kMostValues ? type.values_bytes
                                            : PythonType::inline_bytes(capacity);
}

bool PythonObjects::measure(std::span<const std::byte> bytes, uint64_t room,
                            PythonObject& object) const {
  const PythonType& type = *object.type;
  object.bytes = type.basic_size + (type.has_inline_values ? inline_bytes(bytes, room, type) : 0);
  // Most strings lack the members of a str whose characters are elsewhere.
  if (object.bytes > room && type.family != Family::kText) return false;
  if (type.item_size != 0 && type.family != Family::kHidden) {
    const uint64_t size = python_word(bytes, kSizeAt);
    const bool is_shifted = type.is_long && layout_.long_size_shift != 0;
    const uint64_t items = is_shifted ? size >> layout_.long_size_shift : magnitude(size);
    if (items > kMostItems) return false;
    object.bytes += items * type.item_size;
  }
  switch (type.family) {
    case Family::kHidden: object.bytes = room; break;
    case Family::kList: {
      const uint64_t allocated = python_word(bytes, layout_.list_allocated);
      if (allocated > kMostItems) return false;
      object.owned_bytes = allocated * kPointer;
      break;
    }
    case Family::kDict:
      object.keys = Address(python_word(bytes, layout_.dict_keys));
      object.values = Address(python_word(bytes, layout_.dict_values));
      break;
    case Family::kSet: {
      const uint64_t slots = python_word(bytes, layout_.set_mask) + 1;
      if (slots == 0 || slots > kMostItems || (slots & (slots - 1)) != 0) return false;
      // Eight slots are in the set itself, as long as they do.
      if (slots > 8) object.owned_bytes = slots * layout_.set_entry;
      break;
    }
    case Family::kByteArray: {
      const uint64_t allocated = python_word(bytes, layout_.bytearray_allocated);
      if (allocated > kMostItems) return false;
      object.owned_bytes = allocated;
      break;
    }
    case Family::kText: measure_text(bytes, room, object); break;
    case Family::kWeak:
    case Family::kModule:
    case Family::kArray:
    case Family::kOther:
    case Family::kSized: break;
  }
  return fits_in(object.bytes, room);
}

// As sys.getsizeof counts: what lies in data of its own, and the sizes and strides.
void PythonObjects::measure_array(std::span<const std::byte> bytes, PythonObject& object) {
  constexpr uint64_t kMostDimensions = 64;
  const uint64_t dimensions = python_word(bytes, PythonArray::kDimensions) & UINT32_MAX;
  if (dimensions == 0 || dimensions > kMostDimensions) return;
  const Address sizes(python_word(bytes, PythonArray::kShape));
  const Address strides(python_word(bytes, PythonArray::kStrides));
  uint64_t data = 0;
  for (uint64_t i = 0; i < dimensions; ++i) {
    const auto size = cache_.word(sizes + i * kPointer, 8);
    const auto stride = cache_.word(strides + i * kPointer, 8);
    if (!size || !stride || *size > kMostItems || magnitude(*stride) > kMostItems) return;
    uint64_t extent = 0;
    if (__builtin_mul_overflow(*size, magnitude(*stride), &extent) || extent > kMostItems) return;
    data = *size == 0 ? 0 : std::max(data, extent);
    if (*size == 0) break;
  }
  const bool owns = (python_word(bytes, PythonArray::kFlags) & PythonArray::kOwnsData) != 0;
  object.array_bytes = owns ? data : 0;
  object.owned_bytes = object.array_bytes + 2 * dimensions * kPointer;
  object.owns_block = true;
}

void PythonObjects::measure_buffers(Address at, std::span<const std::byte> bytes,
                                    PythonObject& object) {
  const PythonBuffer buffer = python_buffer(cache_, space_, *object.type, at, bytes);
  object.buffer = buffer.at;
  object.owned_bytes += buffer.bytes;
  object.nodes = python_nodes(space_, *object.type, bytes);
  const bool is_deque = object.type->keeps == PythonType::Keeps::kDeque;
  if (is_deque && object.nodes.count != 0 && !layout_.is_before_311()) {
    object.free_nodes =
        std::min(python_word(bytes, PythonDeque::kFreeCount), PythonDeque::kMostFree);
  }
}

void PythonObjects::measure_text(std::span<const std::byte> bytes, uint64_t room,
                                 PythonObject& object) const {
  // unicodeobject.h since 3.9: interned 2 bits, kind 3, compact 1, ascii 1.
  const uint64_t state = python_word(bytes, layout_.text_state) & 0xffffffff;
  const uint64_t kind = state >> 2 & 7;
  const bool is_compact = (state >> 5 & 1) != 0;
  const bool is_ascii = (state >> 6 & 1) != 0;
  const uint64_t length = python_word(bytes, layout_.text_length);
  if (length > kMostItems) return;
  if (!is_compact) {
    object.owned_bytes = (length + 1) * kind;
    return;
  }
  const uint64_t width = is_ascii ? 1 : kind;
  object.bytes =
      (is_ascii ? layout_.text_ascii_size : layout_.text_compact_size) + (length + 1) * width;
  if (!is_ascii && object.bytes <= room && python_word(bytes, layout_.text_utf8) != 0) {
    const uint64_t utf8 = python_word(bytes, layout_.text_utf8_length);
    if (utf8 < kMostItems) object.owned_bytes = utf8 + 1;
  }
}

// Whether values are a part of an instance, which counts them.
bool PythonObjects::are_embedded(Address values) {
  if (layout_.values != PythonLayout::Values::kInline) return false;
  std::byte embedded{0};
  return cache_.read(values + layout_.values_embedded, {&embedded, 1}) == 1 &&
         embedded != std::byte{0};
}

uint64_t PythonObjects::table_bytes(const PythonTable& table, Address values) {
  uint64_t own = 0;
  if (!values.is_null() && !are_embedded(values)) {
    // Of a class's own keys, as many as there are in them and will be.
    const uint64_t count = layout_.keys_size != 0 ? table.most : table.usable + table.entries;
    if (count <= kMostItems) own += count * kPointer;
  }
  return table.references == 1 ? own + table.bytes : own;
}

}  // namespace heapsnap
