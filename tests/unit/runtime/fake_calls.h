// Calls of Python's functions in the memory of a FakePython: a thread, code objects, frames, and a
// generator that does not run.
//
//   0x300000 code objects, their names and tables, frames up to 3.10, the generator
//   0x330000 the thread's state, and its frames since 3.11
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/runtime/fake_python.h"

namespace heapsnap::test {

class FakeCalls {
 public:
  static constexpr uint64_t kObjects = 0x300000;
  static constexpr uint64_t kThread = 0x330000;
  static constexpr uint64_t kThreadPointer = 0x7f0000001700;
  static constexpr int kTid = 4711;

  explicit FakeCalls(FakePython& fake)
      : python(fake),
        layout(fake.layout),
        text(fake.add_type("str", fake.object_type, 80, 0, FakePython::kReady | 1 << 28)),
        tuple(fake.add_type("tuple", fake.object_type, 24, 8, FakePython::kCollected | 1 << 26)),
        bytes(fake.add_type("bytes", fake.object_type, 33, 1, FakePython::kReady | 1 << 27)),
        code(fake.add_type("code", fake.object_type, 176, 0, FakePython::kReady)),
        cell(fake.add_type("cell", fake.object_type, 24, 0, FakePython::kCollected)),
        frame(fake.add_type("frame", fake.object_type, 360, 8, FakePython::kCollected)),
        generator(fake.add_type("generator", fake.object_type, 112, 0, FakePython::kCollected)),
        coroutine(fake.add_type("coroutine", fake.object_type, 112, 0, FakePython::kCollected)),
        task(fake.add_type("_asyncio.Task", fake.object_type, 160, 0, FakePython::kCollected)) {
    // Types are the interpreter's own where they lie in its data.
    python.target.map("00300000-00340000 rw-p 00000000 00:00 0");
    python.place.data.push_back({Address(FakePython::kTypes), Address(0x280000)});
    python.target.add_thread(kTid, Address(kThreadPointer));
    python.put(FakePython::kInterpreter + layout.interpreter_threads, kThread);
    python.put(kThread + layout.thread_id, kThreadPointer);
    if (layout.has_c_frame) python.put(kThread + layout.thread_frame, kThread + kCFrame);
  }

  uint64_t add_object(uint64_t type, uint64_t size) {
    const uint64_t at = next_;
    next_ += (size + 15) / 16 * 16;
    python.put(at, 1);
    python.put(at + 8, type);
    return at;
  }
  uint64_t add_text(std::string_view characters) {
    const uint64_t at = add_object(text, layout.text_ascii_size + characters.size() + 1);
    python.put_characters(at, characters);
    return at;
  }
  uint64_t add_names(const std::vector<std::string>& names) {
    const uint64_t at = add_object(tuple, layout.tuple_items + names.size() * 8);
    python.put(at + 16, names.size());
    for (size_t i = 0; i < names.size(); ++i)
      python.put(at + layout.tuple_items + i * 8, add_text(names[i]));
    return at;
  }
  // Of a function that begins at line 10 and goes on to the next line with each instruction.
  uint64_t add_code(const std::string& name, const std::vector<std::string>& variables,
                    const std::vector<std::string>& cells, uint32_t stack) {
    std::vector<uint8_t> lines;
    for (int i = 0; i < 8; ++i) {
      if (layout.lines == PythonLineTable::kLocations) {
        lines.insert(lines.end(), {uint8_t{0x80 | 11 << 3}, 0, 0});
      } else {
        // The oldest says where a line begins.
        const bool is_begin = layout.lines == PythonLineTable::kAddresses && i == 0;
        lines.insert(lines.end(), {static_cast<uint8_t>(is_begin ? 0 : 2), 1});
      }
    }
    const uint64_t table = add_object(bytes, 32 + lines.size());
    python.put(table + 16, lines.size());
    python.target.put_bytes(Address(table + 32), std::as_bytes(std::span(lines)));
    const uint64_t file = add_text("/srv/shop/app.py");
    const uint64_t own_name = add_text(name);
    std::vector<std::string> all = variables;
    all.insert(all.end(), cells.begin(), cells.end());
    const bool is_old = layout.code_cells != 0;
    const uint64_t names = add_names(is_old ? variables : all);
    const uint64_t names_of_cells = add_names(cells);
    const uint64_t none = add_names({});
    const uint64_t at = add_object(code, 256);
    python.put(at + layout.code_variables, names);
    if (is_old) {
      python.put(at + layout.code_cells, names_of_cells);
      python.put(at + layout.code_free, none);
    } else {
      python.put(at + 16, 8);  // instructions
    }
    python.put_int(at + layout.code_stack_size, stack);
    python.put_int(at + layout.code_first_line, 10);
    python.put(at + layout.code_lines, table);
    python.put(at + layout.code_file, file);
    python.put(at + layout.code_name, own_name);
    return at;
  }
  // A frame of a call, at an instruction; `depth`: of its stack, -1 where that is not known.
  void put_frame(uint64_t at, uint64_t of_code, uint64_t previous, uint64_t instruction,
                 int64_t depth, uint64_t variables) {
    using StackTop = PythonLayout::StackTop;
    python.put(at + layout.frame_code, layout.stack_tag == 0 ? of_code : of_code + 1);  // borrowed
    python.put(at + layout.frame_previous, previous);
    const uint64_t unit = layout.lines == PythonLineTable::kAddresses ? 2 : 1;
    if (layout.frame_owner == 0) {
      python.put(at + 8, frame);
      python.put_int(at + layout.frame_instruction, instruction * unit);
    } else {
      python.put(at + layout.frame_instruction,
                 of_code + layout.code_instructions + instruction * 2);
    }
    const uint64_t locals = at + layout.frame_locals + variables * 8;
    const auto top = static_cast<uint64_t>(depth);
    const uint64_t place = at + layout.frame_stack_top;
    if (layout.stack_top == StackTop::kAddress || layout.stack_top == StackTop::kSaved) {
      python.put(place, depth < 0 ? 0 : locals + top * 8);
    } else {
      const bool are_counted = layout.stack_top == StackTop::kFromLocals && depth >= 0;
      python.put_int(place, are_counted ? variables + top : top);
    }
  }
  // A coroutine of one variable that waits for `awaited`: the address of the variable.
  uint64_t add_coroutine(uint64_t of_code, uint64_t awaited, uint64_t* object) {
    const bool is_old = layout.frame_owner == 0;
    *object = add_object(coroutine, 512);
    const uint64_t at = is_old ? add_object(frame, 512) : *object + layout.generator_frame;
    if (is_old) python.put(*object + 16, at);
    put_frame(at, of_code, 0, 1, 1, 1);
    if (!is_old) python.target.put(Address(at + layout.frame_owner), uint8_t{1});
    python.put(at + layout.frame_locals + 8, awaited);
    return at + layout.frame_locals;
  }
  // The innermost call of the thread.
  void set_innermost(uint64_t at) {
    python.put(layout.has_c_frame ? kThread + kCFrame + layout.c_frame_current
                                  : kThread + layout.thread_frame,
               at);
  }
  // Where the n-th frame of the thread lies.
  uint64_t frame_at(uint64_t number) {
    return (layout.frame_owner == 0 ? kObjects + 0x20000 : kThread + 0x4000) + number * 0x400;
  }

  FakePython& python;
  const PythonLayout& layout;
  const uint64_t text, tuple, bytes, code, cell, frame, generator, coroutine, task;

 private:
  static constexpr uint64_t kCFrame = 0x2000;
  uint64_t next_ = kObjects;
};

}  // namespace heapsnap::test
