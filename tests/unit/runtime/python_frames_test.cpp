#include "runtime/python/python_frames.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/runtime/fake_calls.h"

using namespace heapsnap;
using test::FakeCalls;
using test::FakePython;

namespace {

constexpr unsigned kAllMinors[] = {9, 10, 11, 12, 13, 14};

// main() calls serve(), which runs.
struct Program {
  explicit Program(unsigned minor, const std::string& shared = "shared")
      : python(minor),
        calls(python),
        main(calls.add_code("main", {"cache"}, {shared}, 3)),
        serve(calls.add_code("serve", {"store", ".0"}, {}, 2)),
        outer(calls.frame_at(0)),
        inner(calls.frame_at(1)) {
    const bool has_depth = python.layout.frame_owner != 0;
    calls.put_frame(outer, main, 0, 2, has_depth ? 1 : -1, 2);
    calls.put_frame(inner, serve, outer, 4, -1, 2);
    python.put(outer + python.layout.frame_locals + 8, calls.add_object(calls.cell, 24));
    calls.set_innermost(inner);
  }

  std::vector<std::string> names() {
    python.walk();
    std::vector<std::string> found;
    for (const auto& one : python.objects.variables) {
      CHECK(one.kind == RootKind::kLocal);
      CHECK(one.tid == FakeCalls::kTid);
      CHECK(one.module == python.place.module);
      found.push_back(one.name);
    }
    return found;
  }

  FakePython python;
  FakeCalls calls;
  uint64_t main, serve;
  uint64_t outer, inner;
};

}  // namespace

TEST_CASE("variables of calls have names, the outermost call's come first, and of it cells") {
  for (const unsigned minor : kAllMinors) {
    Program program(minor);
    const std::string main = " in main() at app.py:13";
    const std::string serve = " in serve() at app.py:15";
    std::vector<std::string> expected = {"shared" + main, "cache" + main};
    if (minor >= 11) {
      expected.push_back("a temporary" + main);
    } else {
      expected.insert(expected.end(), 3, "perhaps a temporary" + main);
    }
    expected.insert(expected.end(), {"store" + serve, "a temporary" + serve});
    expected.insert(expected.end(), 2, "perhaps a temporary" + serve);
    CHECK(program.names() == expected);
    const auto& variables = program.python.objects.variables;
    REQUIRE(variables.size() == expected.size());
    CHECK(variables[1].word == Address(program.outer + program.python.layout.frame_locals));
    // Of main()'s stack, two places are free.
    const Address stack(program.outer + program.python.layout.frame_locals + 2 * 8);
    const auto& unused = program.python.objects.unused;
    const bool has_free = std::find(unused.begin(), unused.end(),
                                    AddressRange{stack + 8, stack + 24}) != unused.end();
    CHECK(has_free == (minor >= 11));
  }
}

TEST_CASE("what closures share is a variable, also where its name cannot be shown") {
  for (const unsigned minor : kAllMinors) {
    for (const std::string& name : {std::string(201, 'x'), std::string("a\nb")}) {
      CHECK(Program(minor, name).names().front() == "a variable in main() at app.py:13");
    }
  }
}

TEST_CASE("nothing is said of a thread where one of its frames does not fit") {
  for (const unsigned minor : kAllMinors) {
    const auto damaged = [&](auto damage) {
      Program program(minor);
      damage(program);
      return program.names();
    };
    const PythonLayout& layout = *python_layout(3, minor);
    CHECK(damaged([](Program&) {}).size() > 4);
    CHECK(damaged([&](Program& it) {
            it.python.put(it.outer + layout.frame_previous, it.inner);
          }).empty());
    CHECK(damaged([&](Program& it) {
            it.python.put(it.outer + layout.frame_code, it.calls.add_object(it.calls.text, 80));
          }).empty());
    CHECK(damaged([&](Program& it) {
            it.python.put_int(it.main + layout.code_stack_size, 1 << 30);
          }).empty());
    CHECK(damaged([&](Program& it) {
            it.python.put(it.serve + layout.code_variables, it.calls.add_text("store"));
          }).empty());
    CHECK(damaged([&](Program& it) {
            it.python.put(it.outer + layout.frame_previous, 0xdead0000);
          }).empty());
    if (minor < 11) continue;
    CHECK(damaged([&](Program& it) {
            it.python.put(it.outer + layout.frame_instruction, it.main + 0x2000);
          }).empty());
    CHECK(damaged([&](Program& it) {
            it.python.put_int(it.outer + layout.frame_stack_top, 6);
          }).empty());
    // A frame of C's is none of a function, and leads on.
    CHECK(damaged([&](Program& it) {
            it.python.target.put(Address(it.inner + layout.frame_owner), uint8_t{3});
          }).size() == 3);
  }
}

TEST_CASE("a coroutine that waits is a call of the thread that waits for it") {
  for (const unsigned minor : kAllMinors) {
    for (const bool has_task : {false, true}) {
      Program program(minor);
      FakeCalls& calls = program.calls;
      uint64_t inner = 0;
      uint64_t outer = 0;
      calls.add_coroutine(calls.add_code("ask", {"reply"}, {}, 2), 0, &inner);
      const uint64_t rows =
          calls.add_coroutine(calls.add_code("load", {"rows"}, {}, 2), inner, &outer);
      uint64_t held = outer;
      if (has_task) {
        held = calls.add_object(calls.task, 160);
        program.python.put(held + 136, outer);
      }
      const uint64_t variable = program.outer + program.python.layout.frame_locals;
      const size_t before = program.names().size();
      program.python.put(variable, held);
      const std::vector<std::string> found = program.names();
      REQUIRE(found.size() == before + 4);
      const std::vector<std::string> last(found.end() - 4, found.end());
      CHECK(last == std::vector<std::string>{
                        "rows in load() at app.py:12", "a temporary in load() at app.py:12",
                        "reply in ask() at app.py:12", "a temporary in ask() at app.py:12"});
      CHECK(program.python.objects.variables[before].word == Address(rows));
      // One that waits for itself is one call.
      program.python.put(rows + 8, outer);
      CHECK(program.names().size() == before + 2);
    }
  }
}

TEST_CASE("a thread is known by its thread pointer, or by what lies just below it") {
  for (const uint64_t below : {0U, 0x700U}) {
    Program program(12);
    program.python.put(FakeCalls::kThread + program.python.layout.thread_id,
                       FakeCalls::kThreadPointer - below);
    CHECK(program.names().size() == 7);
  }
}

TEST_CASE("what a generator has in use of its frame is known, and the rest is left over") {
  for (const unsigned minor : {10U, 11U, 12U, 13U, 14U}) {
    FakePython python(minor);
    FakeCalls calls(python);
    const PythonLayout& layout = python.layout;
    const uint64_t code = calls.add_code("numbers", {"own"}, {}, 4);
    constexpr uint64_t kSlot = 512;
    const uint64_t pool = python.add_pool(kSlot, 2);
    const uint64_t object = python.block(pool, kSlot, 0) + 16;
    const bool is_old = layout.frame_owner == 0;
    const uint64_t frame = is_old ? object : object + layout.generator_frame;
    python.put(object, 1);
    python.put(object + 8, calls.generator);
    calls.put_frame(frame, code, 0, 1, 1, 1);
    if (!is_old) python.target.put(Address(frame + layout.frame_owner), uint8_t{1});
    constexpr auto kSuspended = static_cast<uint8_t>(-2);
    if (!is_old) python.target.put(Address(object + layout.generator_state), kSuspended);
    python.walk();
    const ObjectClass& known = python.objects.slots.class_of(0);
    CHECK(known.name == (is_old ? "frame" : "generator"));
    CHECK(known.is_exact);
    const uint64_t end = (frame + layout.frame_locals + 2 * 8 - (object - 16)) / 8;
    CHECK_FALSE(known.skips(static_cast<uint32_t>(end) - 1));
    CHECK(known.skips(static_cast<uint32_t>(end)));
    CHECK(python.objects.variables.empty());
  }
}

// sys.setrecursionlimit() allows it since 3.11.
TEST_CASE("calls may be deep, in each of two threads") {
  constexpr uint64_t kCalls = 140'000;
  constexpr uint64_t kBytes = 0x80;
  constexpr uint64_t kStacks[] = {0x10000000, 0x20000000};
  Program program(12);
  FakePython& python = program.python;
  python.target.map("10000000-11800000 rw-p 00000000 00:00 0");
  python.target.map("20000000-21800000 rw-p 00000000 00:00 0");
  const uint64_t second = FakeCalls::kThread + 0x8000;
  python.put(FakeCalls::kThread + python.layout.thread_next, second);
  python.put(second + python.layout.thread_frame, second + 0x1000);
  for (const uint64_t stack : kStacks) {
    for (uint64_t i = 0; i < kCalls; ++i) {
      const uint64_t at = stack + i * kBytes;
      program.calls.put_frame(at, i == 0 ? program.main : program.serve, i == 0 ? 0 : at - kBytes,
                              2, 0, 2);
    }
  }
  program.calls.set_innermost(kStacks[0] + (kCalls - 1) * kBytes);
  python.put(second + 0x1000 + python.layout.c_frame_current, kStacks[1] + (kCalls - 1) * kBytes);
  python.walk();
  size_t outermost = 0;
  for (const auto& one : python.objects.variables) {
    outermost += one.name == "cache in main() at app.py:13" ? 1 : 0;
  }
  CHECK(outermost == 2);
}

TEST_CASE("random damage of frames and what they lead to ends, too") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    Program program(kAllMinors[round % 6]);
    const uint64_t parts[] = {program.outer, program.inner,       program.main,
                              program.serve, FakeCalls::kObjects, FakeCalls::kThread};
    for (int i = 0; i < 3; ++i) {
      const uint64_t part = parts[random() % std::size(parts)];
      const uint64_t value = random() % 2 == 0 ? parts[random() % std::size(parts)] : random();
      program.python.put(part + random() % 64 * 8, value);
    }
    program.python.walk();
    CHECK(program.python.objects.variables.size() < 1 << 18);
  }
}
