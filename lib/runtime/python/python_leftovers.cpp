#include "runtime/python/python_leftovers.h"

#include <algorithm>

#include "heap/struct_bytes.h"
#include "runtime/python/python_table.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLeftWord = 8;
// Of all interpreters: free objects (one has 2,000 tuples of each of 20 lengths at most, and some
// more), and ranges of words.
constexpr size_t kMostFree = 1 << 18;
constexpr size_t kMostWords = 1 << 20;
// Before 3.14 all types of which any are kept have the collector's header, but tables of dicts have
// none.
constexpr uint32_t kFreeHeader = PythonLayout::kCollectorHeader;

}  // namespace

PythonLeftovers::PythonLeftovers(Target& target, const PythonLayout& layout,
                                 std::span<const Address> interpreters)
    : layout_(layout), cache_(target.memory()) {
  const auto arrays = {&layout.free_lists, &layout.free_dicts, &layout.free_values,
                       &layout.free_sends, &layout.free_keys};
  for (const Address interpreter : interpreters) {
    add_collector(interpreter);
    const bool are_right = std::all_of(
        arrays.begin(), arrays.end(),
        [&](const PythonLayout::FreeArray* array) { return fits(interpreter, *array); });
    if (!are_right) continue;
    for (const auto* array : arrays) add_array(interpreter, *array, array != &layout.free_keys);
    for (const auto* list : {&layout.free_tuples, &layout.free_slices, &layout.free_frames}) {
      add_lists(interpreter, *list);
    }
    add_chains(interpreter, layout.chained_numbers, true, false);
    add_chains(interpreter, layout.chained_ranges, true, false);
    add_chains(interpreter, layout.chained_keys, false, false);
    for (const auto* chain : {&layout.chained_containers, &layout.chained_slices,
                              &layout.chained_contexts, &layout.chained_functions}) {
      add_chains(interpreter, *chain, true, true);
    }
    add_caches(interpreter);
    add_frames(interpreter);
    if (words_.size() >= kMostWords) break;
  }
}

bool PythonLeftovers::is_free(Address at) {
  return !at.is_null() && at.is_aligned(kLeftWord) && cache_.word(at, kLeftWord) == uint64_t{0};
}

void PythonLeftovers::add_free(Address object, bool is_object, uint32_t object_at, uint32_t link) {
  const Address block = object - object_at;
  free_[block.value()] = {is_object, object_at, link == kNoLink ? kNoLink : link + object_at};
  filter_.set(filter_bit(block));
}

bool PythonLeftovers::is_free_in(const PythonLayout::FreeArray& array, Address at) {
  return &array == &layout_.free_keys ? is_free_table(at) : is_free(at);
}

// The smallest there are. What a dict had before it grew keeps its count of references, which was
// one (Objects/dictobject.c, dictresize()).
bool PythonLeftovers::is_free_table(Address at) {
  constexpr uint64_t kSmallest = 8;
  if (at.is_null() || !at.is_aligned(kLeftWord)) return false;
  const auto table = python_table(cache_, layout_, at);
  return table && table->most == kSmallest * 2 / 3 && table->references <= 1;
}

uint64_t PythonLeftovers::count_of(Address interpreter, const PythonLayout::FreeArray& array) {
  return cache_.word(interpreter + array.count, 4).value_or(UINT32_MAX);
}

bool PythonLeftovers::fits(Address interpreter, const PythonLayout::FreeArray& array) {
  const uint64_t count = count_of(interpreter, array);
  if (array.capacity == 0) return true;
  if (count > array.capacity) return false;
  // One that is being put there just now may be missing yet.
  uint64_t others = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = cache_.word(interpreter + array.array + i * kLeftWord, kLeftWord);
    if (!at || !is_free_in(array, Address(*at))) ++others;
  }
  return others <= 1;
}

void PythonLeftovers::add_array(Address interpreter, const PythonLayout::FreeArray& array,
                                bool are_objects) {
  if (array.capacity == 0 || free_.size() >= kMostFree) return;
  const uint64_t count = count_of(interpreter, array);
  const Address first = interpreter + array.array;
  for (uint64_t i = 0; i < count; ++i) {
    const auto at = cache_.word(first + i * kLeftWord, kLeftWord);
    if (at && is_free_in(array, Address(*at))) {
      add_free(Address(*at), are_objects, are_objects ? kFreeHeader : 0, kNoLink);
    }
  }
  if (count != array.capacity) {
    words_.push_back({first + count * kLeftWord, first + array.capacity * kLeftWord});
  }
}

void PythonLeftovers::add_lists(Address interpreter, const PythonLayout::FreeList& list) {
  for (uint64_t i = 0; i < list.lists; ++i) {
    auto next = cache_.word(interpreter + list.first + i * kLeftWord, kLeftWord);
    while (next && is_free(Address(*next)) && free_.size() < kMostFree) {
      const Address at(*next);
      if (free_.contains((at - kFreeHeader).value())) break;
      add_free(at, true, kFreeHeader, list.next == 0 ? kNoLink : list.next);
      if (list.next == 0) break;
      next = cache_.word(at + list.next, kLeftWord);
    }
  }
}

// A list counts only where it has as many as it says: struct _Py_freelist.
void PythonLeftovers::add_chains(Address interpreter, const PythonLayout::FreeChain& chain,
                                 bool are_objects, bool have_header) {
  constexpr uint64_t kChainBytes = 2 * kLeftWord;
  const uint32_t object_at = have_header ? kFreeHeader : 0;
  for (uint64_t i = 0; i < chain.lists; ++i) {
    const Address list = interpreter + chain.first + i * kChainBytes;
    const auto count = cache_.word(list + kLeftWord, kLeftWord);
    if (!count || *count > links_left_) continue;
    links_left_ -= *count;
    std::vector<Address> found;
    auto next = cache_.word(list, kLeftWord);
    while (next && *next != 0 && *next % kLeftWord == 0 && found.size() < *count) {
      found.emplace_back(*next);
      next = cache_.word(found.back(), kLeftWord);
    }
    if (found.size() != *count || next != uint64_t{0}) continue;
    for (const Address at : found) add_free(at, are_objects, object_at, 0);
  }
}

// Of an attribute, the cache owns the name but not the value; of a function it owns nothing
// (Objects/typeobject.c, funcobject.c).
void PythonLeftovers::add_caches(Address interpreter) {
  constexpr uint64_t kEntry = 3 * kLeftWord;  // version, name, value
  const Address types = interpreter + layout_.type_cache.begin;
  for (uint64_t at = 0; at + kEntry <= layout_.type_cache.size; at += kEntry) {
    words_.push_back({types + at + 2 * kLeftWord, types + at + kEntry});
  }
  const Address functions = interpreter + layout_.function_cache.begin;
  if (layout_.function_cache.size != 0) {
    words_.push_back({functions, functions + layout_.function_cache.size});
  }
}

// The collector's lists of all objects that it looks at, which own none of them: each is a ring, of
// which the first word of an object's header leads to the next one, and the second one, with two
// bits of another meaning, to the one before (struct gc_generation).
void PythonLeftovers::add_collector(Address interpreter) {
  constexpr uint64_t kMostState = 256 << 10;  // before there are tables of caches
  constexpr uint64_t kFlags = 3;
  std::vector<std::byte> state(kMostState);
  state.resize(cache_.read(interpreter, state));
  const StructBytes words(state, kLeftWord);
  for (uint64_t offset = 0; offset + 2 * kLeftWord <= state.size(); offset += kLeftWord) {
    const Address head = interpreter + offset;
    const Address next(words.word_at(offset) & ~kFlags);
    const Address last(words.word_at(offset + kLeftWord) & ~kFlags);
    if (next.is_null() || last.is_null() || next == head || !next.is_aligned(kLeftWord)) continue;
    const auto before_next = cache_.word(next + kLeftWord, kLeftWord);
    if (!before_next || Address(*before_next & ~kFlags) != head) continue;
    const auto behind_last = cache_.word(last, kLeftWord);
    if (!behind_last || Address(*behind_last & ~kFlags) != head) continue;
    words_.push_back({head, head + 2 * kLeftWord});
  }
}

// Each thread has chunks of memory for its frames, the last one not full.
void PythonLeftovers::add_frames(Address interpreter) {
  constexpr uint64_t kMostBytes = 1ULL << 32;
  if (layout_.thread_stack_chunk == 0) return;
  size_t seen = words_.size();
  auto thread = cache_.word(interpreter + layout_.interpreter_threads, kLeftWord);
  for (; thread && *thread != 0 && seen < kMostWords; ++seen) {
    const Address at(*thread);
    auto top = cache_.word(at + layout_.thread_stack_top, kLeftWord);
    auto chunk = cache_.word(at + layout_.thread_stack_chunk, kLeftWord);
    for (; chunk && *chunk != 0 && seen < kMostWords; ++seen) {
      const Address begin(*chunk);
      const auto size = cache_.word(begin + layout_.chunk_size, kLeftWord);
      if (!top || !size || *size > kMostBytes) break;
      const AddressRange unused{Address(*top), begin + *size};
      if (unused.begin < begin + layout_.chunk_data || !unused.begin.is_aligned(kLeftWord)) break;
      if (unused.begin < unused.end) words_.push_back(unused);
      chunk = cache_.word(begin + layout_.chunk_previous, kLeftWord);
      if (!chunk || *chunk == 0) break;
      const auto used = cache_.word(Address(*chunk) + layout_.chunk_top, kLeftWord);
      if (!used || *used > kMostBytes) break;
      top = (Address(*chunk) + layout_.chunk_data + *used * kLeftWord).value();
    }
    thread = cache_.word(at + layout_.thread_next, kLeftWord);
  }
}

}  // namespace heapsnap
