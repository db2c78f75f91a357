#include "runtime/python/python_buffers.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "runtime/python/python_objects.h"

namespace heapsnap {

namespace {

using Keeps = PythonType::Keeps;

constexpr uint64_t kSize = 16;  // ob_size
constexpr uint64_t kMostItems = 1ULL << 40;
constexpr uint64_t kWord = 8;

// Whether an object may have got `bytes` there from its allocator. They may lie in several mappings
// that the kernel made of one.
bool is_memory(const AddressSpace& space, Address at, uint64_t bytes) {
  if (at.is_null() || bytes == 0 || !at.is_aligned(kWord)) return false;
  const AddressRange run = space.writable_run(at);
  return run.contains(at) && bytes <= run.end - at;
}

PythonBuffer buffer_at(const AddressSpace& space, uint64_t at, uint64_t items, uint64_t item) {
  if (items > kMostItems || !is_memory(space, Address(at), items * item)) return {};
  return {Address(at), items * item};
}

// arrayobject and the begin of arraydescr: Modules/arraymodule.c.
PythonBuffer array_items(PageCache& cache, const AddressSpace& space,
                         std::span<const std::byte> bytes) {
  constexpr uint64_t kItems = 24;
  constexpr uint64_t kAllocated = 32;
  constexpr uint64_t kDescription = 40;
  constexpr std::string_view kCodes = "bBuwhHiIlLqQfdFD";
  constexpr uint64_t kLargestItem = 16;
  const uint64_t allocated = python_word(bytes, kAllocated);
  const auto description = cache.word(Address(python_word(bytes, kDescription)), kWord);
  if (!description || python_word(bytes, kSize) > allocated) return {};
  const char code = static_cast<char>(*description & 0xff);
  const uint64_t item = *description >> 32;
  if (kCodes.find(code) == std::string_view::npos || item == 0 || item > kLargestItem) return {};
  return buffer_at(space, python_word(bytes, kItems), allocated, item);
}

// CDataObject: Modules/_ctypes/ctypes.h. One that is a part of another has that one's bytes.
PythonBuffer foreign_bytes(const AddressSpace& space, const PythonType& type, Address at,
                           std::span<const std::byte> bytes) {
  constexpr uint64_t kPointer = 16;
  constexpr uint64_t kNeedsFree = 24;
  constexpr uint64_t kBytes = 40;
  const Address data(python_word(bytes, kPointer));
  const bool is_inside = AddressRange{at, at + type.basic_size}.contains(data);
  if ((python_word(bytes, kNeedsFree) & UINT32_MAX) != 1 || is_inside) return {};
  return buffer_at(space, data.value(), python_word(bytes, kBytes), 1);
}

// stringio: Modules/_io/stringio.c.
PythonBuffer characters(const AddressSpace& space, std::span<const std::byte> bytes) {
  constexpr uint64_t kBuffer = 16;
  constexpr uint64_t kUsed = 32;
  constexpr uint64_t kRoom = 40;
  const uint64_t room = python_word(bytes, kRoom);
  if (python_word(bytes, kUsed) > room) return {};
  return buffer_at(space, python_word(bytes, kBuffer), room, sizeof(uint32_t));
}

// buffered: Modules/_io/bufferedio.c.
PythonBuffer file_buffer(const AddressSpace& space, std::span<const std::byte> bytes) {
  constexpr uint64_t kBuffer = 56;
  constexpr uint64_t kBytes = 120;
  return buffer_at(space, python_word(bytes, kBuffer), python_word(bytes, kBytes), 1);
}

PythonNodes deque_blocks(const AddressSpace& space, std::span<const std::byte> bytes) {
  using Deque = PythonDeque;
  const uint64_t items = python_word(bytes, kSize);
  const uint64_t first = python_word(bytes, Deque::kFirstIndex);
  const uint64_t last = python_word(bytes, Deque::kLastIndex);
  if (first >= Deque::kItems || items > kMostItems) return {};
  if ((first + items + Deque::kItems - 1) % Deque::kItems != last) return {};
  const Address block(python_word(bytes, Deque::kFirstBlock));
  if (!is_memory(space, block, Deque::kBlockBytes)) return {};
  return {block, (first + items + Deque::kItems - 1) / Deque::kItems, Deque::kBlockBytes,
          Deque::kNext};
}

PythonNodes ordered_nodes(const AddressSpace& space, std::span<const std::byte> bytes) {
  using Dict = PythonOrderedDict;
  const uint64_t nodes = python_word(bytes, Dict::kUsed);
  const Address first(python_word(bytes, Dict::kFirst));
  if (nodes > kMostItems || !is_memory(space, first, Dict::kNodeBytes)) return {};
  return {first, nodes, Dict::kNodeBytes, Dict::kNext};
}

}  // namespace

PythonBuffer python_buffer(PageCache& cache, const AddressSpace& space, const PythonType& type,
                           Address at, std::span<const std::byte> bytes) {
  switch (type.keeps) {
    case Keeps::kNumbers: return array_items(cache, space, bytes);
    case Keeps::kOrder:
      return buffer_at(space, python_word(bytes, PythonOrderedDict::kTable),
                       python_word(bytes, PythonOrderedDict::kTableSize), kWord);
    case Keeps::kForeign: return foreign_bytes(space, type, at, bytes);
    case Keeps::kCharacters: return characters(space, bytes);
    case Keeps::kFile: return file_buffer(space, bytes);
    case Keeps::kDeque:
    case Keeps::kNothing: break;
  }
  return {};
}

PythonNodes python_nodes(const AddressSpace& space, const PythonType& type,
                         std::span<const std::byte> bytes) {
  if (type.keeps == Keeps::kDeque) return deque_blocks(space, bytes);
  if (type.keeps == Keeps::kOrder) return ordered_nodes(space, bytes);
  return {};
}

}  // namespace heapsnap
