#include "runtime/ruby/ruby_frames.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/runtime/fake_ruby_calls.h"

using namespace heapsnap;
using test::FakeRuby;
using test::FakeRubyCalls;

namespace {

// The versions whose structures differ most.
constexpr unsigned kBothMinors[] = {1, 4};

// What is found of the calls of a fake Ruby.
struct FoundCalls {
  explicit FoundCalls(unsigned minor) : ruby(3, minor), calls(ruby) {}

  std::vector<std::string> locals() {
    const RubyShapes shapes(ruby.target, ruby.layout, ruby.place.data);
    RubyClasses classes(ruby.target, ruby.layout, shapes);
    REQUIRE(classes.check(ruby.place).empty());
    RubyConstants constants(ruby.target, ruby.layout, ruby.place, classes);
    REQUIRE(constants.has_names());
    RubyFunctions functions(ruby.target, ruby.layout, classes, constants);
    RubyFiberLocals fiber_locals(ruby.target, ruby.layout, classes, constants);
    RubyFrames found(ruby.target, ruby.layout, functions, fiber_locals, std::span(&calls.thread, 1),
                     {});
    left_over = found.left_over();
    std::vector<std::string> texts;
    for (const RubyLocal& local : found.take_locals()) {
      CHECK(local.tid == FakeRubyCalls::kTid);
      texts.push_back(local.name + " " +
                      std::to_string(local.word.value() - FakeRubyCalls::kStack));
    }
    return texts;
  }

  FakeRuby ruby;
  FakeRubyCalls calls;
  std::vector<AddressRange> left_over;
};

using LocalTexts = std::vector<std::string>;

}  // namespace

TEST_CASE("local variables of Ruby's frames have names, with method, file and line") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FoundCalls found(minor);
    FakeRubyCalls& fake = found.calls;
    const uint64_t self_of_outer = fake.frames[1] + fake.layout.frame_self - FakeRubyCalls::kStack;
    const uint64_t self_of_c = fake.frames[2] + fake.layout.frame_self - FakeRubyCalls::kStack;
    CHECK(found.locals() ==
          LocalTexts{"orders in handle() at app.rb:43 24",
                     "a temporary in handle() at app.rb:43 32",
                     "self in handle() at app.rb:43 " + std::to_string(self_of_outer),
                     "a temporary in handle() at app.rb:43 64",
                     // What a function in C has is of the method that calls it.
                     "a temporary in handle() at app.rb:43 " + std::to_string(self_of_c),
                     "a temporary in handle() at app.rb:43 72",
                     "one in block in handle() at app.rb:43 104"});
    REQUIRE(found.left_over.size() == 1);
    CHECK(found.left_over[0] ==
          AddressRange{Address(FakeRubyCalls::kStack + 144), Address(fake.frames.back())});
  }
}

TEST_CASE("what a fiber keeps by name comes before the locals of what it runs") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FoundCalls calls(minor);
    FakeRubyCalls& fake = calls.calls;
    const uint64_t table = fake.ruby.next_table(24);
    const uint64_t items = fake.ruby.next_table(8 * 16);
    fake.put(fake.context + fake.layout.ec_locals, table);
    fake.ruby.put_int(table, 8);
    fake.put(table + 16, items);
    // A number, names that are symbols or need quotes, one that cannot be told from a function's.
    const std::vector<std::string> names = {"count", "rows", "rows.all", "a in b", "done?"};
    for (size_t i = 0; i < names.size(); ++i) {
      fake.name(10 + i, names[i]);
      fake.ruby.put_int(items + (i + 1) * 16, FakeRubyCalls::kFirstName + 10 + i);
      fake.put(items + (i + 1) * 16 + 8, i == 0 ? 85 : fake.held);
    }
    if (fake.layout.ec_storage != RubyLayout::kNone) {
      fake.put(fake.context + fake.layout.ec_storage, fake.held);
    }
    const auto text = [&](const std::string& name, uint64_t word) {
      return name + " " + std::to_string(word - FakeRubyCalls::kStack);
    };
    LocalTexts expected = {text("Thread.current[:rows]", items + 40),
                           text("Thread.current[:\"rows.all\"]", items + 56),
                           text("Thread.current[:done?]", items + 88)};
    if (fake.layout.ec_storage != RubyLayout::kNone) {
      expected.push_back(text("Fiber.current.storage", fake.context + fake.layout.ec_storage));
    }
    const LocalTexts found = calls.locals();
    REQUIRE(found.size() > expected.size());
    CHECK(LocalTexts(found.begin(), found.begin() + static_cast<ptrdiff_t>(expected.size())) ==
          expected);
    CHECK(found[expected.size()] == "orders in handle() at app.rb:43 24");
  }
}

TEST_CASE("before 3.0 what a fiber keeps by name is in another kind of table") {
  FakeRuby ruby(2, 7);
  const uint64_t page = ruby.add_page(40, 100);
  const uint64_t held = ruby.add(page, ruby.object_class, RubyType::kObject, FakeRuby::kEmbedded);
  ruby.add_variables(page, held);
  const uint64_t context = ruby.next_table(256);
  const uint64_t table = ruby.next_table(56);
  const uint64_t entries = ruby.next_table(2 * 24);
  constexpr uint64_t kStore = 301;  // the name that FakeRuby gives a constant
  ruby.put(context + ruby.layout.ec_locals, table);
  ruby.put(table + 40, 2);
  ruby.put(table + 48, entries);
  ruby.put(entries, ~uint64_t{0});  // deleted
  ruby.put(entries + 8, kStore << 4);
  ruby.put(entries + 16, held);
  ruby.put(entries + 24 + 8, kStore << 4);
  ruby.put(entries + 24 + 16, held);
  const RubyShapes shapes(ruby.target, ruby.layout, ruby.place.data);
  RubyClasses classes(ruby.target, ruby.layout, shapes);
  REQUIRE(classes.check(ruby.place).empty());
  RubyConstants constants(ruby.target, ruby.layout, ruby.place, classes);
  const auto found =
      RubyFiberLocals(ruby.target, ruby.layout, classes, constants).of(Address(context));
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "Thread.current[:STORE]");
  CHECK(found[0].word == Address(entries + 24 + 16));
  CHECK(found[0].value == held);
}

TEST_CASE("locals that a block has kept lie elsewhere") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FoundCalls found(minor);
    FakeRubyCalls& fake = found.calls;
    // env: orders, what has no name, three words, and the object that it is of.
    const uint64_t values = fake.ruby.next_table(64);
    const uint64_t ep = values + 32;
    const uint64_t env = fake.ruby.add(fake.page, 0, RubyType::kImemo);
    fake.put(env + 16, ep);
    fake.put(env + 24, values);
    fake.put(env + 32, 6);
    fake.put(ep, 4);
    fake.put(ep + 8, env);
    fake.put(values, fake.held);
    fake.put(fake.frames[1] + fake.layout.frame_ep, ep);
    const auto has_orders = [&found] {
      const auto texts = found.locals();
      return texts.front().starts_with("orders in handle() at app.rb:43");
    };
    CHECK(has_orders());
    SUBCASE("but not where flags do not say so") {
      fake.put(ep, 0);
    }
    SUBCASE("nor where the object leads to another place") {
      fake.put(env + 16, ep + 8);
    }
    SUBCASE("nor where it is no environment") {
      fake.put(env, static_cast<uint64_t>(RubyType::kImemo) | uint64_t{7} << 12);
    }
    SUBCASE("nor where its values begin later") {
      fake.put(env + 24, values + 8);
    }
    SUBCASE("nor where it has another size") {
      fake.put(env + 32, 7);
    }
    CHECK_FALSE(has_orders());
  }
}

TEST_CASE("what locals were before a block has kept them may be left over") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FoundCalls found(minor);
    FakeRubyCalls& fake = found.calls;
    const uint64_t values = fake.ruby.next_table(64);
    const uint64_t ep = values + 32;
    const uint64_t env = fake.ruby.add(fake.page, 0, RubyType::kImemo);
    fake.put(env + 16, ep);
    fake.put(env + 24, values);
    fake.put(env + 32, 6);
    fake.put(ep, 4);
    fake.put(ep + 8, env);
    fake.put(values, fake.held);
    fake.put(fake.frames[1] + fake.layout.frame_ep, ep);
    const auto of_stack = [&found](uint64_t offset) {
      for (const std::string& text : found.locals()) {
        if (text.ends_with(" " + std::to_string(offset))) return text;
      }
      return std::string();
    };
    // Where their flags were, the stack leads to the environment.
    fake.put(FakeRubyCalls::kStack + 56, env);
    CHECK(of_stack(24) == "perhaps a temporary in handle() at app.rb:43 24");
    CHECK(of_stack(32) == "perhaps a temporary in handle() at app.rb:43 32");
    CHECK(of_stack(48).empty());
    CHECK(of_stack(64) == "a temporary in handle() at app.rb:43 64");
    fake.put(FakeRubyCalls::kStack + 56, 0);
    CHECK(of_stack(24) == "a temporary in handle() at app.rb:43 24");
  }
}

TEST_CASE("a line is found by an index of the words of the code at which lines begin") {
  FoundCalls found(1);
  FakeRubyCalls& fake = found.calls;
  const RubyLayout& layout = fake.layout;
  const uint64_t code = fake.outer_code;
  const uint64_t index = fake.ruby.next_table(layout.line_index_blocks + 2 * 80);
  const uint64_t lines = fake.ruby.next_table(1024);
  const uint64_t block = index + layout.line_index_blocks;
  fake.put(code + layout.code_line_index, index);
  fake.put(code + layout.code_lines, lines);
  fake.ruby.put_int(code + layout.code_size, 2000);
  fake.ruby.put_int(code + layout.code_line_count, 80);
  for (uint64_t i = 0; i < 80; ++i) {
    fake.ruby.put_int(lines + i * layout.line_bytes + layout.line_number, 100 + i);
  }
  uint64_t word = 0;
  std::string line;
  SUBCASE("one of the words that have a count each") {
    word = 53;
    fake.put(index + 40, uint64_t{5} << 56);
    line = ":104 ";
  }
  SUBCASE("in a block, which says how many are before it") {
    word = 54 + 3;
    fake.ruby.put_int(block, 7);
    fake.put(block + 16, 0b101010);  // words 55, 57, 59
    line = ":108 ";
  }
  SUBCASE("in a later part of a block") {
    word = 54 + 64 * 2 + 63;
    fake.ruby.put_int(block, 7);
    fake.put(block + 8, uint64_t{3} | uint64_t{30} << 9);
    fake.put(block + 16 + 16, ~uint64_t{0} << 62);
    line = ":138 ";
  }
  SUBCASE("in the second block") {
    word = 54 + 512;
    fake.ruby.put_int(block + 80, 60);
    fake.put(block + 80 + 16, 1);
    line = ":160 ";
  }
  SUBCASE("more than there are") {
    word = 54;
    fake.ruby.put_int(block, 99);
    line = "app.rb ";
  }
  SUBCASE("a pc outside of the code") {
    word = 3000;
    line = "app.rb ";
  }
  fake.put(fake.frames[1] + layout.frame_pc, 0x70000000 + (word + 1) * 8);
  const auto texts = found.locals();
  CAPTURE(texts.front());
  CHECK(texts.front().find(line) != std::string::npos);
}

TEST_CASE("stacks that do not fit have no locals") {
  FoundCalls found(1);
  FakeRubyCalls& fake = found.calls;
  const RubyLayout& layout = fake.layout;
  SUBCASE("a state of another thread") {
    fake.put(fake.context + layout.ec_thread, fake.held);
  }
  SUBCASE("no stack") {
    fake.put(fake.context + layout.ec_stack, 0);
  }
  SUBCASE("a stack that cannot be read") {
    fake.put(fake.context + layout.ec_stack_size, uint64_t{1} << 20);
  }
  SUBCASE("a size without end") {
    fake.put(fake.context + layout.ec_stack_size, ~uint64_t{0} / 8);
  }
  SUBCASE("frames beside their places") {
    fake.put(fake.context + layout.ec_frame, fake.frames.back() + 8);
  }
  SUBCASE("frames outside of the stack") {
    fake.put(fake.context + layout.ec_frame, FakeRubyCalls::kStack - layout.frame_bytes);
  }
  SUBCASE("values that shrink") {
    fake.put(fake.frames[3] + layout.frame_sp, FakeRubyCalls::kStack + 16);
  }
  SUBCASE("values in the frames") {
    fake.put(fake.frames[3] + layout.frame_sp, fake.frames.back() + 8);
  }
  CHECK(found.locals().empty());
  CHECK(found.left_over.empty());
}

TEST_CASE("frames without code that fits count as of the one around them") {
  FoundCalls found(1);
  FakeRubyCalls& fake = found.calls;
  const RubyLayout& layout = fake.layout;
  SUBCASE("a label that is none") {
    fake.put(fake.inner_code + layout.code_label, fake.held);
  }
  SUBCASE("more locals than there can be") {
    fake.ruby.put_int(fake.inner_code + layout.code_local_count, 1 << 20);
  }
  SUBCASE("no code") {
    fake.put(fake.frames[3] + layout.frame_iseq, fake.held);
  }
  const auto texts = found.locals();
  CHECK(texts.size() == 7);
  CHECK(texts.back() == "a temporary in handle() at app.rb:43 104");
}

TEST_CASE("a walk reads the calls of threads whose objects Ruby has") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FoundCalls found(minor);
    REQUIRE(found.ruby.walk().runtimes.at(0).why_not.empty());
    size_t locals = 0;
    for (const auto& variable : found.ruby.objects.variables) {
      if (variable.kind != RootKind::kLocal) continue;
      CHECK(variable.tid == FakeRubyCalls::kTid);
      ++locals;
    }
    CHECK(locals == 7);
    CHECK(test::is_sound(found.ruby.objects));
  }
}
