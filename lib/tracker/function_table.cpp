#include "tracker/function_table.h"

#include "tracker/function_texts.h"
#include "tracker/futex_lock.h"
#include "tracker/table_space.h"
#include "tracker/text_space.h"

namespace heapsnap::tracker {

namespace {

constexpr uint64_t kFirstIndexSize = 1024;
constexpr uint32_t kChunkShift = 6;
constexpr uint32_t kFunctionChunks = 1U << (20 - kChunkShift);

constinit FutexLock lock;
constinit TextSpace texts;
// Functions by their identity; 0 is free.
uint32_t* index = nullptr;
uint64_t index_mask = 0;

ChunkedTable& functions() {
  return control.directory->functions;
}

bool make_index_room() {
  const uint64_t size = index_mask + 1;
  if (functions().count < size / 2) return true;
  auto* larger = static_cast<uint32_t*>(map_working_memory(size * 2 * sizeof(uint32_t)));
  if (larger == nullptr) return functions().count < size - size / 8;
  const uint64_t mask = size * 2 - 1;
  for (uint64_t i = 0; i < size; ++i) {
    if (index[i] == 0) continue;
    uint64_t at = entry<FunctionRecord>(functions(), index[i]).identity & mask;
    while (larger[at] != 0) at = (at + 1) & mask;
    larger[at] = index[i];
  }
  unmap_working_memory(index, size * sizeof(uint32_t));
  index = larger;
  index_mask = mask;
  return true;
}

CopiedText copy(CheckedMemory& memory, const TextPlace& from) {
  void* const to = from.size != 0 ? texts.take(from.size) : nullptr;
  if (to == nullptr || !memory.read(from.address, to, from.size)) return {0, 0, 0};
  return {reinterpret_cast<uint64_t>(to), from.size, from.width};
}

uint32_t add_function(const InterpreterLayout& layout, CheckedMemory& memory,
                      const InterpreterCall& call, const FunctionTexts& from, uint64_t identity) {
  ChunkedTable& table = functions();
  const uint64_t id = table.count;
  if (!make_index_room() || chunk_for(table, id, kRegionFunctions, kLimitFunctions) == nullptr) {
    return kUnknownFunction;
  }
  auto& function = entry<FunctionRecord>(table, id);
  function = {};
  function.language = layout.kind;
  function.first_line = call.first_line;
  function.identity = identity;
  function.name = copy(memory, from.name);
  function.file = copy(memory, from.file);
  function.lines = copy(memory, from.lines);
  function.line_index = copy(memory, from.line_index);
  function.code_words = from.code_words;
  function.line_count = from.line_count;
  store_release(table.count, id + 1);
  return static_cast<uint32_t>(id);
}

}  // namespace

bool create_function_table() {
  ChunkedTable& table = functions();
  if (table.chunks == 0 &&
      !create_chunked_table(table, sizeof(FunctionRecord), kChunkShift, kFunctionChunks)) {
    return false;
  }
  if (index == nullptr) {
    index = static_cast<uint32_t*>(map_working_memory(kFirstIndexSize * sizeof(uint32_t)));
    if (index == nullptr) return false;
    index_mask = kFirstIndexSize - 1;
  }
  if (table.count != 0) return true;
  if (chunk_for(table, 0, kRegionFunctions, kLimitFunctions) == nullptr) return false;
  store_release(table.count, kFirstFunction);
  return true;
}

void clear_function_table() {
  if (index != nullptr) unmap_working_memory(index, (index_mask + 1) * sizeof(uint32_t));
  index = nullptr;
  texts.clear();
  reset_function_table_lock();
}

bool lock_function_table_soon() {
  return lock.lock_soon();
}
bool lock_function_table() {
  return lock.lock();
}
void unlock_function_table() {
  lock.unlock();
}
void reset_function_table_lock() {
  lock = FutexLock();
}

uint32_t index_of_function(const InterpreterLayout& layout, CheckedMemory& memory,
                           const InterpreterCall& call) {
  const FunctionTexts from = find_function_texts(layout, memory, call);
  const uint64_t identity = identity_of(layout, memory, call, from);
  uint64_t at = identity & index_mask;
  for (; index[at] != 0; at = (at + 1) & index_mask) {
    if (entry<FunctionRecord>(functions(), index[at]).identity == identity) return index[at];
  }
  const uint32_t id = add_function(layout, memory, call, from, identity);
  if (id == kUnknownFunction) {
    add(control.directory->dropped_functions, 1);
    return id;
  }
  // It may have grown, and with it all places.
  at = identity & index_mask;
  while (index[at] != 0) at = (at + 1) & index_mask;
  index[at] = id;
  return id;
}

}  // namespace heapsnap::tracker
