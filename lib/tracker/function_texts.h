// What names a function of an interpreted program, and its lines: bytes of the interpreter's own
// objects, which stay where they are while the thread has its lock.
#pragma once

#include <cstdint>

#include "tracker/checked_memory.h"
#include "tracker/interpreter_walk.h"

namespace heapsnap::tracker {

struct TextPlace {
  uint64_t address;  // 0: there is none, or none that can be read
  uint32_t size;     // bytes
  uint32_t width;    // as that of CopiedText
};

struct FunctionTexts {
  TextPlace name;
  TextPlace file;
  TextPlace lines;
  TextPlace line_index;
  uint64_t code_words;
  uint64_t line_count;
};

FunctionTexts find_function_texts(const InterpreterLayout& layout, CheckedMemory& memory,
                                  const InterpreterCall& call);

// A number for all that is known of the function. An address would not do: code is freed, and other
// code takes its place, whose name, file and lines often take the places of the former ones.
uint64_t identity_of(const InterpreterLayout& layout, CheckedMemory& memory,
                     const InterpreterCall& call, const FunctionTexts& texts);

}  // namespace heapsnap::tracker
