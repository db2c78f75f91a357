// How many blocks of each type a program keeps, and how large they are: what it says of itself, a
// line for each.
//
//   exact COUNT BYTES NAME   blocks of that type, and their usable bytes
//   count COUNT NAME         the same, without bytes
#pragma once

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace typed_block_count {

struct Line {
  const char* name;
  long count;
  size_t bytes;
  bool has_bytes;
};

inline Line g_count_lines[64];

inline Line& line_of(const char* name) {
  for (Line& line : g_count_lines) {
    if (line.name == nullptr) line = {name, 0, 0, true};
    if (std::strcmp(line.name, name) == 0) return line;
  }
  std::abort();
}

template <typename T>
T* one(const char* name, T* block) {
  Line& line = line_of(name);
  ++line.count;
  line.bytes += malloc_usable_size(const_cast<void*>(static_cast<const void*>(block)));
  return block;
}

inline void some(const char* name, long count) {
  Line& line = line_of(name);
  line.count += count;
  line.has_bytes = false;
}

inline void print() {
  for (const Line& line : g_count_lines) {
    if (line.name == nullptr) continue;
    if (line.has_bytes) {
      std::printf("exact %ld %zu %s\n", line.count, line.bytes, line.name);
    } else {
      std::printf("count %ld %s\n", line.count, line.name);
    }
  }
}

}  // namespace typed_block_count
