#include "tracker/function_texts.h"

namespace heapsnap::tracker {

namespace {

constexpr uint64_t kTypeMask = 0x1f;  // of Ruby's objects

TextPlace place(uint64_t address, uint64_t size, uint32_t width) {
  return {address, static_cast<uint32_t>(size), width};
}

uint64_t word_of(CheckedMemory& memory, uint64_t address) {
  uint64_t word = 0;
  memory.read(address, &word, sizeof word);
  return word;
}

// A str, its first or last `most` bytes. Its state: two bits, how many bytes each character has,
// whether they follow, whether they are ASCII (unicodeobject.h).
TextPlace text_place(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object,
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
  return place(first + (keeps_end ? (length - kept) * width : 0), kept * width, width);
}

// A String of Ruby, its first or last `most` bytes.
TextPlace string_place(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object,
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
  return place(first + (keeps_end ? length - kept : 0), kept, 0);
}

// A String, or an Array of the path as it was asked for, and the real one.
TextPlace path_place(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object) {
  constexpr uint64_t kArray = 7;
  constexpr uint64_t kEmbedded = 1ULL << 13;  // RARRAY_EMBED_FLAG
  const uint64_t flags = word_of(memory, object);
  if ((flags & kTypeMask) == kArray) {
    const uint64_t items = (flags & kEmbedded) != 0 ? object + 16 : word_of(memory, object + 32);
    object = word_of(memory, items);
  }
  return string_place(layout, memory, object, kLongestFile, true);
}

// Where its lines are in its body (struct rb_iseq_constant_body).
void find_ruby_lines(const InterpreterLayout& layout, CheckedMemory& memory,
                     const InterpreterCall& call, FunctionTexts& texts) {
  const uint64_t body = word_of(memory, call.code + layout.code_body);
  uint32_t words = 0;
  uint32_t lines = 0;
  memory.read(body + layout.code_size, &words, sizeof words);
  memory.read(body + layout.code_line_count, &lines, sizeof lines);
  const uint64_t bytes = uint64_t{lines} * layout.line_bytes;
  if (bytes > kLongestLineTable) return;
  texts.code_words = words;
  texts.line_count = lines;
  texts.lines = place(call.line_object, bytes, 1);
  // Seven bits for each of the first words, nine of them to a word, then blocks of 512 words.
  constexpr uint64_t kBlockWords = 512;
  const uint64_t counted = layout.line_index_blocks / 8 * 9;
  const uint64_t blocks = words > counted ? (words - counted + kBlockWords - 1) / kBlockWords : 0;
  const uint64_t index = layout.line_index_blocks + blocks * layout.line_index_block_bytes;
  if (lines <= 1 || index > kLongestLineTable) return;
  texts.line_index = place(word_of(memory, body + layout.code_line_index), index, 1);
}

// A bytes object, whole or not at all.
TextPlace lines_place(const InterpreterLayout& layout, CheckedMemory& memory, uint64_t object) {
  constexpr uint64_t kType = 8;
  constexpr uint64_t kSize = 16;
  constexpr uint64_t kBytes = 32;
  if (word_of(memory, object + kType) != layout.bytes_type) return {0, 0, 0};
  const uint64_t size = word_of(memory, object + kSize);
  return size <= kLongestLineTable ? place(object + kBytes, size, 1) : TextPlace{0, 0, 0};
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

// Two halves, so that one does not wait for the other.
uint64_t hash_of_bytes(CheckedMemory& memory, const TextPlace& text, uint64_t hash) {
  constexpr uint64_t kStep = 2 * sizeof(uint64_t);
  const auto* bytes = static_cast<const unsigned char*>(memory.view(text.address, text.size));
  hash = mixed(hash, uint64_t{text.size} << 32 | text.width);
  if (bytes == nullptr) return hash;
  uint64_t other = ~hash;
  uint64_t words[2];
  uint64_t left = text.size;
  for (; left >= kStep; left -= kStep, bytes += kStep) {
    __builtin_memcpy(words, bytes, kStep);
    hash = mixed(hash, words[0]);
    other = mixed(other, words[1]);
  }
  words[0] = words[1] = 0;
  __builtin_memcpy(words, bytes, left);
  return mixed(mixed(hash, words[0]), mixed(other, words[1]));
}

}  // namespace

FunctionTexts find_function_texts(const InterpreterLayout& layout, CheckedMemory& memory,
                                  const InterpreterCall& call) {
  FunctionTexts texts{};
  if (layout.kind == kInterpreterRuby) {
    texts.name = string_place(layout, memory, call.name_object, kLongestName, false);
    texts.file = path_place(layout, memory, call.file_object);
    find_ruby_lines(layout, memory, call, texts);
  } else {
    texts.name = text_place(layout, memory, call.name_object, kLongestName, false);
    texts.file = text_place(layout, memory, call.file_object, kLongestFile, true);
    texts.lines = lines_place(layout, memory, call.line_object);
  }
  return texts;
}

uint64_t identity_of(const InterpreterLayout& layout, CheckedMemory& memory,
                     const InterpreterCall& call, const FunctionTexts& texts) {
  uint64_t hash = mixed(layout.kind, call.first_line);
  hash = mixed(hash, texts.code_words);
  hash = mixed(hash, texts.line_count);
  hash = hash_of_bytes(memory, texts.name, hash);
  hash = hash_of_bytes(memory, texts.file, hash);
  hash = hash_of_bytes(memory, texts.lines, hash);
  return hash_of_bytes(memory, texts.line_index, hash);
}

}  // namespace heapsnap::tracker
