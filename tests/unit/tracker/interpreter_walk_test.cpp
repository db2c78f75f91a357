#include "tracker/interpreter_walk.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <vector>

using namespace heapsnap::tracker;

namespace {

// Memory of which only what was written can be read.
class FakeMemory {
 public:
  template <typename T>
  void put(uint64_t address, T value) {
    std::array<unsigned char, sizeof(T)> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    for (size_t i = 0; i < bytes.size(); ++i) bytes_[address + i] = bytes[i];
  }
  void fill(uint64_t address, size_t size) {
    for (size_t i = 0; i < size; ++i) bytes_[address + i] = 0;
  }
  bool read(uint64_t address, void* to, uint64_t size) {
    ++reads;
    for (uint64_t i = 0; i < size; ++i) {
      const auto found = bytes_.find(address + i);
      if (found == bytes_.end()) return false;
      static_cast<unsigned char*>(to)[i] = found->second;
    }
    return true;
  }

  bool is_equal(uint64_t address, uint32_t value) {
    uint32_t word = 0;
    return read(address, &word, sizeof word) && word == value;
  }

  size_t reads = 0;

 private:
  std::map<uint64_t, unsigned char> bytes_;
};

constexpr uint64_t kThread = 0x100000;
constexpr uint64_t kFrames = 0x200000;
constexpr uint64_t kCodes = 0x300000;
constexpr uint64_t kCodeType = 0x400000;
constexpr uint64_t kLock = 0x500000;
constexpr uint64_t kFrameBytes = 0x100;
constexpr uint64_t kInstructions = 0xc0;
constexpr uint64_t kFirstTraceable = 0xb0;

InterpreterLayout layout_of(bool has_entries) {
  InterpreterLayout layout{};
  layout.kind = kInterpreterPython;
  layout.holder = kLock + 8;
  layout.locked = has_entries ? 0 : kLock + 16;
  layout.code_type = kCodeType;
  layout.thread_frame = 56;
  layout.c_frame_current = has_entries ? 8 : kNoOffset;
  layout.frame_previous = 8;
  layout.frame_code = 0;
  layout.frame_instruction = 56;
  layout.frame_owner = 70;
  layout.frame_entry = has_entries ? 68 : kNoOffset;
  layout.code_name = 128;
  layout.code_file = 112;
  layout.code_first_line = 72;
  layout.code_lines = 144;
  layout.code_instructions = kInstructions;
  layout.code_first_traceable = kFirstTraceable;
  return layout;
}

// A thread that runs calls of functions 1, 2, ... (the innermost is 1).
struct FakePython {
  explicit FakePython(bool has_entries = true) : layout(layout_of(has_entries)) {
    memory.fill(kThread, 0x100);
    if (has_entries) {
      memory.put<uint64_t>(kThread + 56, kThread + 0x80);
      memory.put<uint64_t>(kThread + 0x80 + 8, kFrames);
    } else {
      memory.put<uint64_t>(kThread + 56, kFrames);
    }
    memory.put<uint64_t>(kLock + 8, kThread);
    memory.put<uint32_t>(kLock + 16, 1);
  }

  static uint64_t frame_at(uint64_t index) { return kFrames + index * kFrameBytes; }
  static uint64_t code_at(uint64_t index) { return kCodes + index * 0x1000; }

  void code(uint64_t index) {
    memory.fill(code_at(index), 0x200);
    memory.put<uint64_t>(code_at(index) + 8, kCodeType);
    memory.put<uint64_t>(code_at(index) + 16, 20);
    memory.put<uint64_t>(code_at(index) + 128, 0xa000 + index);
    memory.put<uint64_t>(code_at(index) + 112, 0xb000 + index);
    memory.put<uint64_t>(code_at(index) + 144, 0xc000 + index);
    memory.put<uint32_t>(code_at(index) + 72, static_cast<uint32_t>(100 + index));
  }
  void frame(uint64_t index, bool is_last, bool is_entry = false, uint8_t owner = 0) {
    code(index);
    memory.fill(frame_at(index), kFrameBytes);
    memory.put<uint64_t>(frame_at(index), code_at(index));
    memory.put<uint64_t>(frame_at(index) + 8, is_last ? 0 : frame_at(index + 1));
    memory.put<uint64_t>(frame_at(index) + 56, code_at(index) + kInstructions + 2 * index);
    memory.put<uint8_t>(frame_at(index) + 68, is_entry ? 1 : 0);
    memory.put<uint8_t>(frame_at(index) + 70, owner);
  }

  bool take(uint32_t most = 64) {
    room.resize(most);
    calls = {room.data(), most, 0, false};
    return PythonStackWalk<FakeMemory>(layout, memory).take(kThread, calls);
  }

  FakeMemory memory;
  InterpreterLayout layout;
  std::vector<InterpreterCall> room;
  InterpreterCalls calls{};
};

// A thread of Ruby's that runs methods 0, 1, ... (the innermost is 0), with a frame of C in
// between.
struct FakeRuby {
  static constexpr uint64_t kContext = 0x100000;
  static constexpr uint64_t kStack = 0x200000;
  static constexpr uint64_t kStackWords = 64;
  static constexpr uint64_t kFrameSize = 64;
  static constexpr uint64_t kFinish = 0x20;

  static uint64_t iseq_at(uint64_t index) { return 0x300000 + index * 0x1000; }
  static uint64_t body_at(uint64_t index) { return iseq_at(index) + 0x100; }
  static uint64_t code_at(uint64_t index) { return iseq_at(index) + 0x800; }
  static uint64_t env_at(uint64_t index) { return 0x600000 + index * 0x100; }
  uint64_t frame_at(uint64_t place) const {
    return kStack + kStackWords * 8 - (places - place) * kFrameSize;
  }

  explicit FakeRuby(uint64_t methods) : places(methods + 2) {
    layout.kind = kInterpreterRuby;
    layout.holder = kLock;
    layout.frame_instruction = 0;
    layout.frame_code = 16;
    layout.frame_env = 32;
    layout.frame_bytes = kFrameSize;
    layout.frame_entry_flag = kFinish;
    layout.context_stack = 0;
    layout.context_stack_size = 8;
    layout.context_frame = 16;
    layout.code_body = 16;
    layout.code_size = 4;
    layout.code_begin = 8;
    layout.code_name = 88;
    layout.code_file = 64;
    layout.code_lines = 120;
    memory.fill(kContext, 64);
    memory.fill(kStack, kStackWords * 8);
    memory.put<uint64_t>(kContext, kStack);
    memory.put<uint64_t>(kContext + 8, kStackWords);
    memory.put<uint64_t>(kContext + 16, frame_at(0));
    memory.put<uint64_t>(kLock, kContext);
    // The first place is of a function in C, and the last one of nothing.
    for (uint64_t i = 0; i < methods; ++i) {
      memory.fill(iseq_at(i), 0x400);
      memory.put<uint64_t>(iseq_at(i), 0x1a | 7 << 12);
      memory.put<uint64_t>(iseq_at(i) + 16, body_at(i));
      memory.put<uint32_t>(body_at(i) + 4, 10);
      memory.put<uint64_t>(body_at(i) + 8, code_at(i));
      memory.put<uint64_t>(body_at(i) + 88, 0xa000 + i);
      memory.put<uint64_t>(body_at(i) + 64, 0xb000 + i);
      memory.put<uint64_t>(body_at(i) + 120, 0xc000 + i);
      memory.put<uint64_t>(frame_at(i + 1), code_at(i) + 8 * i);
      memory.put<uint64_t>(frame_at(i + 1) + 16, iseq_at(i));
      memory.put<uint64_t>(frame_at(i + 1) + 32, env_at(i));
      memory.put<uint64_t>(env_at(i), i % 2 == 0 ? kFinish : 0);
    }
  }

  bool take(uint32_t most = 64) {
    room.resize(most);
    calls = {room.data(), most, 0, false};
    return RubyStackWalk<FakeMemory>(layout, memory).take(kContext, calls);
  }

  FakeMemory memory;
  InterpreterLayout layout{};
  uint64_t places;
  std::vector<InterpreterCall> room;
  InterpreterCalls calls{};
};

}  // namespace

TEST_CASE("calls of Ruby, the innermost first") {
  FakeRuby ruby(3);
  REQUIRE(ruby.take());
  REQUIRE(ruby.calls.count == 3);
  CHECK_FALSE(ruby.calls.is_cut);
  for (uint64_t i = 0; i < 3; ++i) {
    const InterpreterCall& call = ruby.calls.calls[i];
    CHECK(call.code == FakeRuby::iseq_at(i));
    CHECK(call.instruction == 8 * i);
    CHECK(call.name_object == 0xa000 + i);
    CHECK(call.file_object == 0xb000 + i);
    CHECK(call.line_object == 0xc000 + i);
    CHECK(call.is_entry == (i != 1));
  }
  REQUIRE(ruby.take(2));
  CHECK(ruby.calls.count == 2);
  CHECK(ruby.calls.is_cut);
  CHECK(RubyStackWalk<FakeMemory>(ruby.layout, ruby.memory).has_lock(FakeRuby::kContext));
  CHECK_FALSE(RubyStackWalk<FakeMemory>(ruby.layout, ruby.memory).has_lock(0));
  CHECK_FALSE(RubyStackWalk<FakeMemory>(ruby.layout, ruby.memory).has_lock(0x77));
}

TEST_CASE("what does not fit leads to no frames of Ruby") {
  FakeRuby ruby(3);
  const uint64_t frame = ruby.frame_at(2);
  SUBCASE("frames outside of the stack") {
    ruby.memory.put<uint64_t>(FakeRuby::kContext + 16, FakeRuby::kStack - 64);
  }
  SUBCASE("a frame at an odd place") {
    ruby.memory.put<uint64_t>(FakeRuby::kContext + 16, ruby.frame_at(0) + 8);
  }
  SUBCASE("a stack of a size that none has") {
    ruby.memory.put<uint64_t>(FakeRuby::kContext + 8, ~0ULL);
  }
  SUBCASE("frames of no size") {
    ruby.layout.frame_bytes = 0;
  }
  SUBCASE("code that is nowhere") {
    ruby.memory.put<uint64_t>(frame + 16, 0xdead0000);
  }
  SUBCASE("an object that is no code") {
    ruby.memory.put<uint64_t>(FakeRuby::iseq_at(1), 5);
  }
  SUBCASE("a body that is nowhere") {
    ruby.memory.put<uint64_t>(FakeRuby::iseq_at(1) + 16, 0xdead0000);
  }
  SUBCASE("an instruction before its code") {
    ruby.memory.put<uint64_t>(frame, 0x10);
  }
  SUBCASE("one behind it") {
    ruby.memory.put<uint64_t>(frame, FakeRuby::code_at(1) + 88);
  }
  SUBCASE("variables that are nowhere") {
    ruby.memory.put<uint64_t>(frame + 32, 0xdead0000);
  }
  CHECK_FALSE(ruby.take());
}

TEST_CASE("words of Ruby that anybody has overwritten") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    FakeRuby ruby(4);
    for (int strokes = 0; strokes < 3; ++strokes) {
      const uint64_t bases[] = {ruby.frame_at(random() % 5), FakeRuby::iseq_at(random() % 4),
                                FakeRuby::body_at(random() % 4), FakeRuby::kContext};
      const uint64_t values[] = {random(), ruby.frame_at(random() % 5),
                                 FakeRuby::iseq_at(random() % 4), random() % 300};
      ruby.memory.put<uint64_t>(bases[random() % 4] + random() % 8 * 8, values[random() % 4]);
    }
    ruby.take(16);
    CHECK(ruby.calls.count <= 16);
    CHECK(ruby.memory.reads < 1000);
  }
}

TEST_CASE("calls of Python 3.11, the innermost first") {
  FakePython python;
  for (uint64_t i = 0; i < 3; ++i) python.frame(i, i == 2, i != 1);
  REQUIRE(python.take());
  REQUIRE(python.calls.count == 3);
  CHECK_FALSE(python.calls.is_cut);
  for (uint64_t i = 0; i < 3; ++i) {
    const InterpreterCall& call = python.calls.calls[i];
    CHECK(call.code == FakePython::code_at(i));
    CHECK(call.instruction == 2 * i);
    CHECK(call.name_object == 0xa000 + i);
    CHECK(call.file_object == 0xb000 + i);
    CHECK(call.line_object == 0xc000 + i);
    CHECK(call.first_line == 100 + i);
    CHECK(call.is_entry == (i != 1));
  }
}

TEST_CASE("since 3.12 a frame of no function says where a loop begins") {
  constexpr uint8_t kOwnedByLoop = 3;
  FakePython python(false);
  for (uint64_t i = 0; i < 6; ++i) {
    python.frame(i, i == 5, false, i == 2 || i == 5 ? kOwnedByLoop : uint8_t{0});
    if (i == 2) python.memory.put<uint64_t>(FakePython::frame_at(i), 0x1234);  // no code
  }
  REQUIRE(python.take());
  REQUIRE(python.calls.count == 4);
  CHECK_FALSE(python.calls.calls[0].is_entry);
  CHECK(python.calls.calls[1].is_entry);
  CHECK_FALSE(python.calls.calls[2].is_entry);
  CHECK(python.calls.calls[3].is_entry);
}

TEST_CASE("a frame that has not begun, and a thread without frames") {
  FakePython python;
  python.frame(0, true);
  python.memory.put<uint64_t>(FakePython::frame_at(0) + 56,
                              FakePython::code_at(0) + kInstructions - 2);
  REQUIRE(python.take());
  CHECK(python.calls.calls[0].instruction == 0);
  python.memory.put<uint64_t>(kThread + 0x80 + 8, 0);
  REQUIRE(python.take());
  CHECK(python.calls.count == 0);
}

TEST_CASE("a frame in front of the first line of its function is none yet") {
  FakePython python;
  for (uint64_t i = 0; i < 4; ++i) python.frame(i, i == 3, i == 2);
  for (const uint64_t i : {uint64_t{0}, uint64_t{2}}) {
    python.memory.put<uint32_t>(FakePython::code_at(i) + kFirstTraceable, 5);
  }
  REQUIRE(python.take());
  REQUIRE(python.calls.count == 2);
  CHECK(python.calls.calls[0].code == FakePython::code_at(1));
  CHECK(python.calls.calls[0].is_entry);  // since the one outside of it was
  CHECK(python.calls.calls[1].code == FakePython::code_at(3));
  constexpr uint8_t kOwnedByGenerator = 1;
  python.memory.put<uint8_t>(FakePython::frame_at(0) + 70, kOwnedByGenerator);
  REQUIRE(python.take());
  CHECK(python.calls.count == 3);
}

TEST_CASE("more frames than are wanted, and a chain that does not end") {
  FakePython python;
  for (uint64_t i = 0; i < 5; ++i) python.frame(i, i == 4);
  REQUIRE(python.take(3));
  CHECK(python.calls.count == 3);
  CHECK(python.calls.is_cut);
  python.memory.put<uint64_t>(FakePython::frame_at(4) + 8, FakePython::frame_at(0));
  REQUIRE(python.take(64));
  CHECK(python.calls.count == 64);
  CHECK(python.calls.is_cut);
  // Of frames that are none of a function.
  FakePython loop(false);
  loop.frame(0, true, false, 3);
  loop.memory.put<uint64_t>(FakePython::frame_at(0) + 8, FakePython::frame_at(0));
  CHECK_FALSE(loop.take(64));
  CHECK(loop.memory.reads < 200);
}

TEST_CASE("what does not fit leads to no frames") {
  FakePython python;
  for (uint64_t i = 0; i < 3; ++i) python.frame(i, i == 2);
  const uint64_t frame = FakePython::frame_at(1);
  const uint64_t code = FakePython::code_at(1);
  SUBCASE("a frame that is nowhere") {
    python.memory.put<uint64_t>(frame + 8, 0xdead0000);
  }
  SUBCASE("a frame at an odd place") {
    python.memory.put<uint64_t>(frame + 8, frame + 4);
  }
  SUBCASE("an address of the kernel's") {
    python.memory.put<uint64_t>(frame + 8, ~0ULL - 7);
  }
  SUBCASE("an owner that there is not") {
    python.memory.put<uint8_t>(frame + 70, 9);
  }
  SUBCASE("code that is nowhere") {
    python.memory.put<uint64_t>(frame, 0xdead0000);
  }
  SUBCASE("no code at all") {
    python.memory.put<uint64_t>(frame, 0);
  }
  SUBCASE("an object of another type") {
    python.memory.put<uint64_t>(code + 8, kCodeType + 8);
  }
  SUBCASE("an instruction before its code") {
    python.memory.put<uint64_t>(frame + 56, code);
  }
  SUBCASE("one behind it") {
    python.memory.put<uint64_t>(frame + 56, code + kInstructions + 42);
  }
  SUBCASE("code of a size that no code has") {
    python.memory.put<uint64_t>(code + 16, ~0ULL);
  }
  SUBCASE("no frame of C") {
    python.memory.put<uint64_t>(kThread + 56, 0x77);
  }
  SUBCASE("offsets that no structure has") {
    python.layout.frame_code = 1 << 20;
  }
  CHECK_FALSE(python.take());
}

TEST_CASE("only a thread that has the lock has frames") {
  FakePython python(false);
  PythonStackWalk<FakeMemory> walk(python.layout, python.memory);
  CHECK(walk.has_lock(kThread));
  CHECK_FALSE(walk.has_lock(0));
  CHECK_FALSE(walk.has_lock(kThread + 8));
  python.memory.put<uint32_t>(kLock + 16, 0);
  CHECK_FALSE(walk.has_lock(kThread));
  python.layout.locked = 0;
  CHECK(walk.has_lock(kThread));
  python.memory.put<uint32_t>(kLock + 12, 1);  // alike in the lower half
  CHECK_FALSE(walk.has_lock(kThread));
}

namespace {

// Of an interpreter that another thread unloads: whatever is read may be gone.
struct UnloadedMemory {
  bool read(uint64_t, void*, uint64_t) {
    ++reads;
    return false;
  }
  bool is_equal(uint64_t, uint32_t) { return false; }
  size_t reads = 0;
};

}  // namespace

TEST_CASE("who does not have the lock reads nothing that may be unloaded") {
  UnloadedMemory memory;
  const InterpreterLayout python = layout_of(false);
  CHECK_FALSE(PythonStackWalk<UnloadedMemory>(python, memory).has_lock(kThread));
  CHECK_FALSE(RubyStackWalk<UnloadedMemory>(python, memory).has_lock(kThread));
  CHECK(memory.reads == 0);
}

TEST_CASE("words that anybody has overwritten") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    FakePython python(round % 2 == 0);
    for (uint64_t i = 0; i < 4; ++i) python.frame(i, i == 3);
    for (int strokes = 0; strokes < 3; ++strokes) {
      const uint64_t base = random() % 2 == 0 ? FakePython::frame_at(random() % 4)
                                              : FakePython::code_at(random() % 4);
      const uint64_t values[] = {random(), FakePython::frame_at(random() % 4) + random() % 9,
                                 FakePython::code_at(random() % 4), random() % 300};
      python.memory.put<uint64_t>(base + random() % 24 * 8, values[random() % 4]);
    }
    python.take(16);
    CHECK(python.calls.count <= 16);
    CHECK(python.memory.reads < 200);
  }
}
