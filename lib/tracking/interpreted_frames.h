// Frames of interpreted programs in call stacks: where among the native frames they belong, and
// what they are called.
//
// The tracker puts all of them inside of the native ones. Each call of the interpreter's loop,
// which is one native function, runs some of them, and takes their place:
//
//   as recorded                   merged
//   key (app.py:12)      entry    bytes_new            the innermost
//   handle (app.py:31)            key (app.py:12)
//   main (app.py:60)     entry    list_sort
//   bytes_new                     handle (app.py:31)
//   the loop                      main (app.py:60)
//   list_sort                     _start
//   the loop
//   _start
//
// An entry is the outermost frame that a loop runs: here the inner loop runs key(), the outer one
// main() and handle(). Nothing of the tables is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "tracking/ruby_lines.h"

namespace heapsnap {

struct CallStacks;
class SourceFrames;

// The language that a frame's function is written in, where an interpreter runs it.
enum class FrameLanguage : uint8_t {
  kNative = 0,
  kPython = 1,
  kRuby = 2,
};
// "python", "ruby"; "" of native code.
const char* to_string(FrameLanguage language);

struct InterpretedFunction {
  FrameLanguage language = FrameLanguage::kNative;  // kNative: nothing is known of it
  std::string name;
  std::string file;
  uint32_t first_line = 0;
  std::vector<std::byte> lines;       // as python_lines.h or ruby_lines.h has them
  std::vector<std::byte> line_index;  // of Ruby, as the next one
  RubyLineTable line_table;
};

// Whether what a node has for its module and return address is a frame of an interpreter.
bool is_interpreted(int32_t module, Address return_address);
// Whether any frame of these stacks is one.
bool has_interpreted_frames(const CallStacks& stacks);

// Puts frames of an interpreter at their places in all stacks. `loop`: the code of the
// interpreter's loop; of a stack without one they stay outermost, in their order. Nodes that no
// stack has any more are dropped.
void merge_interpreted_frames(CallStacks& stacks, AddressRange loop);

// Adds what the frames of interpreters in `stacks` are called. sort() has to be called afterwards.
void name_interpreted_frames(const CallStacks& stacks, SourceFrames& names);

}  // namespace heapsnap
