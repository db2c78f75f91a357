#include "tracker/function_table.h"

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
// Functions by what they are known by; 0 is free.
uint32_t* index = nullptr;
uint64_t index_mask = 0;

ChunkedTable& functions() {
  return control.directory->functions;
}

uint64_t hash_of(uint64_t code, uint64_t name, uint64_t file, uint64_t lines) {
  uint64_t hash = code * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 29) ^ name) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 29) ^ file) * 0x94d049bb133111eb;
  hash = (hash ^ (hash >> 29) ^ lines) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

uint64_t hash_of(const FunctionRecord& function) {
  return hash_of(function.code, function.name_object, function.file_object, function.line_object);
}

bool is_of(const FunctionRecord& function, const InterpreterCall& call) {
  return function.code == call.code && function.name_object == call.name_object &&
         function.file_object == call.file_object && function.line_object == call.line_object &&
         function.first_line == call.first_line;
}

bool make_index_room() {
  const uint64_t size = index_mask + 1;
  if (functions().count < size / 2) return true;
  auto* larger = static_cast<uint32_t*>(map_working_memory(size * 2 * sizeof(uint32_t)));
  if (larger == nullptr) return functions().count < size - size / 8;
  const uint64_t mask = size * 2 - 1;
  for (uint64_t i = 0; i < size; ++i) {
    if (index[i] == 0) continue;
    uint64_t at = hash_of(entry<FunctionRecord>(functions(), index[i])) & mask;
    while (larger[at] != 0) at = (at + 1) & mask;
    larger[at] = index[i];
  }
  unmap_working_memory(index, size * sizeof(uint32_t));
  index = larger;
  index_mask = mask;
  return true;
}

CopiedText copy(CheckedMemory& memory, uint64_t from, uint64_t size, uint32_t width) {
  void* const to = size != 0 ? texts.take(size) : nullptr;
  if (to == nullptr || !memory.read(from, to, size)) return {0, 0, 0};
  return {reinterpret_cast<uint64_t>(to), static_cast<uint32_t>(size), width};
}

constexpr uint64_t kTypeMask = 0x1f;  // of Ruby's objects

uint64_t word_of(CheckedMemory& memory, uint64_t address) {
  uint64_t word = 0;
  memory.read(address, &word, sizeof word);
  return word;
}

// A str, its first or last `most` bytes. Its state: two bits, how many bytes each character has,
// whether they follow, whether they are ASCII (unicodeobject.h).
CopiedText copy_text(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object,
                     uint32_t most, bool keeps_end) {
  constexpr uint64_t kType = 8;
  constexpr uint64_t kMostCharacters = 1ULL << 32;
  if (word_of(memory, object + kType) != layout.text_type) return {0, 0, 0};
  uint32_t state = 0;
  memory.read(object + layout.text_state, &state, sizeof state);
  const uint32_t width = state >> 2 & 7;
  const bool is_compact = (state >> 5 & 1) != 0;
  const bool is_ascii = (state >> 6 & 1) != 0;
  const uint64_t length = word_of(memory, object + layout.text_length);
  if (!is_compact || length > kMostCharacters || (width != 1 && width != 2 && width != 4)) {
    return {0, 0, 0};
  }
  const uint64_t kept = length * width <= most ? length : most / width;
  const uint64_t first = object + (is_ascii ? layout.text_ascii : layout.text_wide);
  return copy(memory, first + (keeps_end ? (length - kept) * width : 0), kept * width, width);
}

// A String of Ruby, its first or last `most` bytes.
CopiedText copy_string(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object,
                       uint32_t most, bool keeps_end) {
  constexpr uint64_t kString = 5;
  constexpr uint64_t kApart = 1ULL << 13;    // RSTRING_NOEMBED
  constexpr unsigned kShortLength = 12 + 2;  // FL_USER2 to 6
  const uint64_t flags = word_of(memory, object);
  if ((flags & kTypeMask) != kString) return {0, 0, 0};
  uint64_t length = flags >> kShortLength & 0x1f;
  uint64_t first = object + 16;
  if ((flags & kApart) != 0 || layout.text_has_length != 0) {
    length = word_of(memory, object + 16);
    first = object + 24;
  }
  if ((flags & kApart) != 0) first = word_of(memory, object + 24);
  const uint64_t kept = length <= most ? length : most;
  return copy(memory, first + (keeps_end ? length - kept : 0), kept, 0);
}

// A String, or an Array of the path as it was asked for, and the real one.
CopiedText copy_path(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object) {
  constexpr uint64_t kArray = 7;
  constexpr uint64_t kEmbedded = 1ULL << 13;  // RARRAY_EMBED_FLAG
  const uint64_t flags = word_of(memory, object);
  if ((flags & kTypeMask) == kArray) {
    const uint64_t items = (flags & kEmbedded) != 0 ? object + 16 : word_of(memory, object + 32);
    object = word_of(memory, items);
  }
  return copy_string(layout, memory, object, kLongestFile, true);
}

// Where its lines are in its body (struct rb_iseq_constant_body).
void copy_ruby_lines(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t iseq,
                     FunctionRecord& function) {
  const uint64_t body = word_of(memory, iseq + layout.code_body);
  uint32_t words = 0;
  uint32_t lines = 0;
  memory.read(body + layout.code_size, &words, sizeof words);
  memory.read(body + layout.code_line_count, &lines, sizeof lines);
  const uint64_t bytes = uint64_t{lines} * layout.line_bytes;
  if (bytes > kLongestLineTable) return;
  function.code_words = words;
  function.line_count = lines;
  function.lines = copy(memory, function.line_object, bytes, 1);
  // Seven bits for each of the first words, nine of them to a word, then blocks of 512 words.
  constexpr uint64_t kBlockWords = 512;
  const uint64_t counted = layout.line_index_blocks / 8 * 9;
  const uint64_t blocks = words > counted ? (words - counted + kBlockWords - 1) / kBlockWords : 0;
  const uint64_t index = layout.line_index_blocks + blocks * layout.line_index_block_bytes;
  if (lines <= 1 || index > kLongestLineTable) return;
  function.line_index = copy(memory, word_of(memory, body + layout.code_line_index), index, 1);
}

// A bytes object, whole or not at all.
CopiedText copy_lines(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object) {
  constexpr uint64_t kType = 8;
  constexpr uint64_t kSize = 16;
  constexpr uint64_t kBytes = 32;
  if (word_of(memory, object + kType) != layout.bytes_type) return {0, 0, 0};
  const uint64_t size = word_of(memory, object + kSize);
  return size <= kLongestLineTable ? copy(memory, object + kBytes, size, 1) : CopiedText{0, 0, 0};
}

uint32_t add_function(const InterpreterLayout& layout, CheckedMemory& memory,
                      const InterpreterCall& call) {
  ChunkedTable& table = functions();
  const uint64_t id = table.count;
  if (!make_index_room() || chunk_for(table, id, kRegionFunctions, kLimitFunctions) == nullptr) {
    return kUnknownFunction;
  }
  auto& function = entry<FunctionRecord>(table, id);
  function = {};
  function.language = layout.kind;
  function.first_line = call.first_line;
  function.code = call.code;
  function.name_object = call.name_object;
  function.file_object = call.file_object;
  function.line_object = call.line_object;
  if (layout.kind == kInterpreterRuby) {
    function.name = copy_string(layout, memory, call.name_object, kLongestName, false);
    function.file = copy_path(layout, memory, call.file_object);
    copy_ruby_lines(layout, memory, call.code, function);
  } else {
    function.name = copy_text(layout, memory, call.name_object, kLongestName, false);
    function.file = copy_text(layout, memory, call.file_object, kLongestFile, true);
    function.lines = copy_lines(layout, memory, call.line_object);
  }
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
  uint64_t at =
      hash_of(call.code, call.name_object, call.file_object, call.line_object) & index_mask;
  for (; index[at] != 0; at = (at + 1) & index_mask) {
    if (is_of(entry<FunctionRecord>(functions(), index[at]), call)) return index[at];
  }
  const uint32_t id = add_function(layout, memory, call);
  if (id == kUnknownFunction) {
    add(control.directory->dropped_functions, 1);
    return id;
  }
  // It may have grown, and with it all places.
  at = hash_of(entry<FunctionRecord>(functions(), id)) & index_mask;
  while (index[at] != 0) at = (at + 1) & index_mask;
  index[at] = id;
  return id;
}

}  // namespace heapsnap::tracker
