// The calls of an interpreted program's functions that run in a thread, read from the interpreter's
// own structures by the offsets of InterpreterLayout.
//
//   PyThreadState ──► frame of load() ──► frame of main() ──► null          the innermost first
//                     code object ──► name, file, first line, table of lines
//
//   execution context ──► | ... values | frame of load() | frame of main() |  up to the stack's end
//                                        iseq ──► its body ──► label, path, tables of lines
//
// `memory` is whatever has `bool read(uint64_t address, void* to, uint64_t size)`, and
// `bool is_equal(uint64_t address, uint32_t value)` of what may be unmapped meanwhile: in the
// tracker memory that is checked before it is read, in tests bytes. The walk is bounded, and what
// does not fit (an object of another type, an address of nothing, a chain that does not end) ends
// it without a result: a thread has the frames that it has, or none.
#pragma once

#include <cstdint>

#include "tracker/table_layout.h"

namespace heapsnap::tracker {

struct InterpreterCall {
  uint64_t code;  // the code object
  uint64_t name_object;
  uint64_t file_object;
  uint64_t line_object;
  uint32_t first_line;
  uint32_t instruction;  // byte of its instructions
  bool is_entry;         // the outermost one of a loop of the interpreter
};

// At most `most` calls are kept, the innermost ones.
struct InterpreterCalls {
  InterpreterCall* calls;
  uint32_t most;
  uint32_t count;
  bool is_cut;  // there are more
};

// A structure's first bytes, as many as it takes to have all members that are asked for.
struct StructPart {
  static constexpr uint64_t kMost = 256;
  unsigned char bytes[kMost];

  uint64_t word(uint64_t offset) const {
    uint64_t value;
    __builtin_memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
  uint32_t number(uint64_t offset) const {
    uint32_t value;
    __builtin_memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
  // Where a part ends that has a member of `size` bytes at `offset`, too.
  static uint64_t end_of(uint64_t end, uint32_t offset, uint64_t size) {
    return offset == kNoOffset || offset + size <= end ? end : offset + size;
  }
  template <typename Memory>
  bool read(Memory& memory, uint64_t at, uint64_t size) {
    return at % sizeof(uint64_t) == 0 && size <= kMost && memory.read(at, bytes, size);
  }
};

// A thread that does not have the lock may find that its interpreter is just being unloaded. So all
// it learns is whether the word is `value`, from the kernel.
template <typename Memory>
bool is_held_by(Memory& memory, uint64_t holder, uint64_t value) {
  const auto low = static_cast<uint32_t>(value);
  const auto high = static_cast<uint32_t>(value >> 32);
  return value != 0 && memory.is_equal(holder, low) && memory.is_equal(holder + sizeof low, high);
}

template <typename Memory>
class PythonStackWalk {
 public:
  PythonStackWalk(const InterpreterLayout& layout, Memory& memory)
      : layout_(layout), memory_(memory) {}

  // Whether the thread whose state `thread` is has the interpreter's lock. Only words of the
  // interpreter's own data are looked at, nothing of a state that may have been freed. With the
  // lock nobody else changes or frees what the walk reads.
  bool has_lock(uint64_t thread) {
    return is_held_by(memory_, layout_.holder, thread) &&
           (layout_.locked == 0 || memory_.is_equal(layout_.locked, 1));
  }

  // False: something does not fit.
  bool take(uint64_t thread, InterpreterCalls& calls) {
    calls.count = 0;
    calls.is_cut = false;
    uint64_t at = 0;
    if (!word(thread + layout_.thread_frame, at)) return false;
    if (layout_.c_frame_current != kNoOffset && !word(at + layout_.c_frame_current, at)) {
      return false;
    }
    // Each call of the interpreter's loop has a frame of its own besides.
    const uint64_t steps = uint64_t{calls.most} * 2 + 2;
    for (uint64_t i = 0; at != 0; ++i) {
      if (calls.count == calls.most || i == steps) {
        calls.is_cut = true;
        return calls.count == calls.most;
      }
      if (!add_frame(at, calls)) return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kType = 8;       // PyObject: count of references, type
  static constexpr uint64_t kCodeSize = 16;  // PyVarObject
  static constexpr uint64_t kUnit = 2;       // bytes of an instruction
  static constexpr uint64_t kMostUnits = 1ULL << 31;
  static constexpr uint8_t kOwnedByGenerator = 1;
  static constexpr uint8_t kOwnedByLoop = 3;  // FRAME_OWNED_BY_CSTACK: of no function

  bool word(uint64_t address, uint64_t& value) {
    return address % sizeof value == 0 && memory_.read(address, &value, sizeof value);
  }

  // Adds the frame's call, if it is one, and goes on to the frame outside of it.
  bool add_frame(uint64_t& at, InterpreterCalls& calls) {
    uint64_t size = StructPart::end_of(0, layout_.frame_previous, 8);
    size = StructPart::end_of(size, layout_.frame_code, 8);
    size = StructPart::end_of(size, layout_.frame_instruction, 8);
    size = StructPart::end_of(size, layout_.frame_owner, 1);
    size = StructPart::end_of(size, layout_.frame_entry, 1);
    StructPart frame;
    if (!frame.read(memory_, at, size)) return false;
    at = frame.word(layout_.frame_previous);
    const uint8_t owner = frame.bytes[layout_.frame_owner];
    if (owner > kOwnedByLoop) return false;
    if (owner == kOwnedByLoop) {
      if (calls.count != 0) calls.calls[calls.count - 1].is_entry = true;
      return true;
    }
    InterpreterCall& call = calls.calls[calls.count];
    uint32_t first = 0;
    if (!read_code(frame.word(layout_.frame_code), frame.word(layout_.frame_instruction), call,
                   first)) {
      return false;
    }
    const bool is_entry = layout_.frame_entry != kNoOffset && frame.bytes[layout_.frame_entry] == 1;
    // Where Python prepares a call, or cleans up behind one: of a function that has not begun, or
    // of none that anybody wrote (3.13 calls __init__ from a frame of its own).
    const bool is_complete = owner == kOwnedByGenerator || call.instruction >= first * kUnit;
    if (is_complete) {
      call.is_entry = is_entry;
      ++calls.count;
    } else if (is_entry && calls.count != 0) {
      calls.calls[calls.count - 1].is_entry = true;
    }
    return true;
  }

  bool read_code(uint64_t at, uint64_t instruction, InterpreterCall& call, uint32_t& first) {
    uint64_t size = StructPart::end_of(kCodeSize + 8, layout_.code_name, 8);
    size = StructPart::end_of(size, layout_.code_file, 8);
    size = StructPart::end_of(size, layout_.code_lines, 8);
    size = StructPart::end_of(size, layout_.code_first_line, 4);
    size = StructPart::end_of(size, layout_.code_first_traceable, 4);
    StructPart code;
    if (!code.read(memory_, at, size) || code.word(kType) != layout_.code_type) return false;
    const uint64_t units = code.word(kCodeSize);
    const uint64_t begin = at + layout_.code_instructions;
    // One before the first: it has not begun.
    if (units > kMostUnits || instruction + kUnit < begin) return false;
    const uint64_t offset = instruction < begin ? 0 : instruction - begin;
    if (offset > units * kUnit) return false;
    first = code.number(layout_.code_first_traceable);
    call = {at,
            code.word(layout_.code_name),
            code.word(layout_.code_file),
            code.word(layout_.code_lines),
            code.number(layout_.code_first_line),
            static_cast<uint32_t>(offset),
            false};
    return true;
  }

  const InterpreterLayout& layout_;
  Memory& memory_;
};

template <typename Memory>
class RubyStackWalk {
 public:
  RubyStackWalk(const InterpreterLayout& layout, Memory& memory)
      : layout_(layout), memory_(memory) {}

  // Whether `context`, which the thread has for its own, is the one that runs.
  bool has_lock(uint64_t context) { return is_held_by(memory_, layout_.holder, context); }

  // False: something does not fit.
  bool take(uint64_t context, InterpreterCalls& calls) {
    calls.count = 0;
    calls.is_cut = false;
    uint64_t at = 0;
    uint64_t stack = 0;
    uint64_t words = 0;
    if (!word(context + layout_.context_frame, at) ||
        !word(context + layout_.context_stack, stack) ||
        !word(context + layout_.context_stack_size, words) || words > kMostWords) {
      return false;
    }
    const uint64_t end = stack + words * sizeof(uint64_t);
    const uint64_t bytes = layout_.frame_bytes;
    if (at < stack || at > end || bytes == 0 || (end - at) % bytes != 0) return false;
    // Functions in C have frames besides, and so has what they pass on.
    const uint64_t steps = uint64_t{calls.most} * 4 + 64;
    // The outermost one is there from the start, and no call: Ruby leaves it out, too.
    for (uint64_t i = 0; end - at > bytes; ++i, at += bytes) {
      if (calls.count == calls.most || i == steps) {
        calls.is_cut = true;
        return true;
      }
      if (!add_frame(at, calls)) return false;
    }
    return true;
  }

 private:
  static constexpr uint64_t kMostWords = 1ULL << 24;
  static constexpr uint64_t kTypeMask = 0x1f;
  static constexpr uint64_t kImemo = 0x1a;
  static constexpr unsigned kImemoShift = 12;
  static constexpr uint64_t kIseq = 7;
  static constexpr uint64_t kMostCode = 1ULL << 28;

  bool word(uint64_t address, uint64_t& value) {
    return address % sizeof value == 0 && memory_.read(address, &value, sizeof value);
  }

  bool add_frame(uint64_t at, InterpreterCalls& calls) {
    uint64_t size = StructPart::end_of(0, layout_.frame_code, 8);
    size = StructPart::end_of(size, layout_.frame_instruction, 8);
    size = StructPart::end_of(size, layout_.frame_env, 8);
    StructPart frame;
    if (!frame.read(memory_, at, size)) return false;
    const uint64_t code = frame.word(layout_.frame_code);
    const uint64_t instruction = frame.word(layout_.frame_instruction);
    if (code == 0 || instruction == 0) return true;  // of no function of Ruby's
    uint64_t flags = 0;
    if (!word(frame.word(layout_.frame_env), flags)) return false;
    InterpreterCall& call = calls.calls[calls.count];
    if (!read_code(code, instruction, call)) return false;
    call.is_entry = (flags & layout_.frame_entry_flag) != 0;
    ++calls.count;
    return true;
  }

  bool read_code(uint64_t at, uint64_t instruction, InterpreterCall& call) {
    uint64_t flags = 0;
    uint64_t body = 0;
    if (!word(at, flags) || (flags & kTypeMask) != kImemo ||
        (flags >> kImemoShift & 0xf) != kIseq || !word(at + layout_.code_body, body)) {
      return false;
    }
    uint64_t size = StructPart::end_of(0, layout_.code_name, 8);
    size = StructPart::end_of(size, layout_.code_file, 8);
    size = StructPart::end_of(size, layout_.code_lines, 8);
    size = StructPart::end_of(size, layout_.code_begin, 8);
    size = StructPart::end_of(size, layout_.code_size, 4);
    StructPart code;
    if (!code.read(memory_, body, size)) return false;
    const uint64_t begin = code.word(layout_.code_begin);
    const uint64_t bytes = code.number(layout_.code_size) * sizeof(uint64_t);
    if (bytes > kMostCode || instruction < begin || instruction - begin > bytes) return false;
    call = {at,
            code.word(layout_.code_name),
            code.word(layout_.code_file),
            code.word(layout_.code_lines),
            0,
            static_cast<uint32_t>(instruction - begin),
            false};
    return true;
  }

  const InterpreterLayout& layout_;
  Memory& memory_;
};

}  // namespace heapsnap::tracker
