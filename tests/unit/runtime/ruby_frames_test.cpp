#include "runtime/ruby/ruby_frames.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/runtime/fake_ruby.h"

using namespace heapsnap;
using test::FakeRuby;

namespace {

// The versions whose structures differ most.
constexpr unsigned kBothMinors[] = {1, 4};

// A thread of a fake Ruby that runs two methods, and what a function in C has between them:
//
//   stack   | dummy: env | orders, 7, env, temporary | C: argument, env | one, env, temporary | ...
struct FakeRubyCalls {
  static constexpr uint64_t kStack = 0x60000000;
  static constexpr uint64_t kStackBytes = 0x8000;
  static constexpr uint64_t kThreadPointer = 0x7f0000001000;
  static constexpr uint64_t kFirstName = 320;

  FakeRuby ruby;
  const RubyLayout& layout = ruby.layout;
  uint64_t page = 0;
  uint64_t held = 0;  // an object, which the words lead to
  uint64_t thread = 0;
  uint64_t context = 0;
  uint64_t outer_code = 0;  // struct rb_iseq_constant_body
  uint64_t inner_code = 0;
  // Of the frames, the outermost first: dummy, outer, C, inner.
  std::vector<uint64_t> frames;

  explicit FakeRubyCalls(unsigned minor) : ruby(3, minor) {
    ruby.target.map("60000000-60010000 rw-p 00000000 00:00 0");
    page = ruby.add_page(40, 100);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    held = ruby.add(page, order, RubyType::kObject, FakeRuby::kEmbedded);
    ruby.add_variables(page, held);
    name(0, "orders");
    name(1, "one");
    name(2, "+");
    const uint64_t outer = add_iseq("handle", {0, 2}, outer_code);
    const uint64_t inner = add_iseq("block in handle", {1}, inner_code);
    ruby.target.add_thread(4711, Address(kThreadPointer));
    thread = ruby.next_table(512);
    context = ruby.next_table(256);
    put(thread + layout.thread_ec, context);
    const bool has_native = layout.thread_native != RubyLayout::kNone;
    const uint64_t native = has_native ? ruby.next_table(64) : thread;
    if (has_native) put(thread + layout.thread_native, native);
    put(native + layout.thread_id, kThreadPointer);
    put(context + layout.ec_thread, thread);
    put(context + layout.ec_stack, kStack);
    put(context + layout.ec_stack_size, kStackBytes / 8);

    push_frame(0, kStack, 3, 0, 0);
    push_frame(outer, kStack + 24, 2 + 3 + 1, 4, 0x20);
    push_frame(0, kStack + 72, 1 + 3, 3, 0);
    push_frame(inner, kStack + 104, 1 + 3 + 1, 3, 0x18);
    put(context + layout.ec_frame, frames.back());
    put(kStack + 24, held);        // orders
    put(kStack + 32, held);        // what has no name
    put(kStack + 64, held);        // a temporary
    put(kStack + 72, held);        // the argument of C
    put(kStack + 104, held);       // one
    put(kStack + 104 + 32, 85);    // a number
    put(kStack + 104 + 40, held);  // left over
    put(frames[1] + layout.frame_self, held);
    put(frames[2] + layout.frame_self, held);
  }

  void put(uint64_t at, uint64_t value) { ruby.put(at, value); }
  void name(uint64_t number, const std::string& text) {
    const uint64_t some = ruby.word(ruby.word(FakeRuby::kNames) + 16);
    put(ruby.word(some + 32) + (kFirstName + number) * 16, ruby.add_text(text));
  }
  uint64_t add_iseq(const std::string& label, const std::vector<uint64_t>& locals, uint64_t& code) {
    constexpr uint64_t kIseq = uint64_t{7} << 12;
    const uint64_t iseq = ruby.add(page, 0, RubyType::kImemo, kIseq);
    code = ruby.next_table(512);
    put(iseq + layout.iseq_body, code);
    put(code + layout.code_label, ruby.add_text(label));
    put(code + layout.code_path, ruby.add_text("/srv/app.rb"));
    const uint64_t table = ruby.next_table(64);
    put(code + layout.code_locals, table);
    ruby.put_int(code + layout.code_local_count, locals.size());
    for (size_t i = 0; i < locals.size(); ++i) put(table + i * 8, (kFirstName + locals[i]) << 4);
    // Lines 42, 43: the second one begins at the second word.
    const uint64_t lines = ruby.next_table(64);
    const uint64_t index = ruby.next_table(layout.line_index_blocks);
    put(code + layout.code_begin, 0x70000000);
    ruby.put_int(code + layout.code_size, 20);
    put(code + layout.code_lines, lines);
    ruby.put_int(code + layout.code_line_count, 2);
    put(code + layout.code_line_index, index);
    ruby.put_int(lines + layout.line_number, 42);
    ruby.put_int(lines + layout.line_bytes + layout.line_number, 43);
    put(index, uint64_t{1} | uint64_t{2} << 7 | uint64_t{2} << 14 | uint64_t{2} << 21);
    return iseq;
  }
  // Of so many words, whose env ends before the `env_end`th.
  void push_frame(uint64_t iseq, uint64_t values, uint64_t words, uint64_t ep, uint64_t pc) {
    const uint64_t at = kStack + kStackBytes - (frames.size() + 1) * layout.frame_bytes;
    frames.push_back(at);
    put(at + layout.frame_iseq, iseq);
    put(at + layout.frame_sp, values + words * 8);
    put(at + layout.frame_ep, values + ep * 8);
    put(at + layout.frame_pc, pc == 0 ? 0 : 0x70000000 + pc);
  }

  std::vector<std::string> locals() {
    RubyClasses classes(ruby.target, layout);
    REQUIRE(classes.check(ruby.place).empty());
    RubyConstants constants(ruby.target, layout, ruby.place, classes);
    REQUIRE(constants.has_names());
    RubyFunctions functions(ruby.target, layout, classes, constants);
    RubyFiberLocals fiber_locals(ruby.target, layout, classes, constants);
    RubyFrames found(ruby.target, layout, functions, fiber_locals, std::span(&thread, 1), {});
    left_over = found.left_over();
    std::vector<std::string> texts;
    for (const RubyLocal& local : found.take_locals()) {
      CHECK(local.tid == 4711);
      texts.push_back(local.name + " " + std::to_string(local.word.value() - kStack));
    }
    return texts;
  }

  std::vector<AddressRange> left_over;
};

using LocalTexts = std::vector<std::string>;

}  // namespace

TEST_CASE("local variables of Ruby's frames have names, with method, file and line") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FakeRubyCalls fake(minor);
    const uint64_t self_of_outer = fake.frames[1] + fake.layout.frame_self - FakeRubyCalls::kStack;
    const uint64_t self_of_c = fake.frames[2] + fake.layout.frame_self - FakeRubyCalls::kStack;
    CHECK(fake.locals() ==
          LocalTexts{"orders in handle() at app.rb:43 24",
                     "a temporary in handle() at app.rb:43 32",
                     "self in handle() at app.rb:43 " + std::to_string(self_of_outer),
                     "a temporary in handle() at app.rb:43 64",
                     // What a function in C has is of the method that calls it.
                     "a temporary in handle() at app.rb:43 " + std::to_string(self_of_c),
                     "a temporary in handle() at app.rb:43 72",
                     "one in block in handle() at app.rb:43 104"});
    REQUIRE(fake.left_over.size() == 1);
    CHECK(fake.left_over[0] ==
          AddressRange{Address(FakeRubyCalls::kStack + 144), Address(fake.frames.back())});
  }
}

TEST_CASE("what a fiber keeps by name comes before the locals of what it runs") {
  for (const unsigned minor : kBothMinors) {
    CAPTURE(minor);
    FakeRubyCalls fake(minor);
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
    const LocalTexts found = fake.locals();
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
  RubyClasses classes(ruby.target, ruby.layout);
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
    FakeRubyCalls fake(minor);
    // env: orders, what has no name, three words, and the object that it is of.
    const uint64_t values = fake.ruby.next_table(64);
    const uint64_t ep = values + 32;
    const uint64_t env = fake.ruby.add(fake.page, 0, RubyType::kImemo);
    fake.put(env + 16, ep);
    fake.put(env + 24, values);
    fake.put(ep, 4);
    fake.put(ep + 8, env);
    fake.put(values, fake.held);
    fake.put(fake.frames[1] + fake.layout.frame_ep, ep);
    const auto has_orders = [&fake] {
      const auto texts = fake.locals();
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
    CHECK_FALSE(has_orders());
  }
}

TEST_CASE("a line is found by an index of the words of the code at which lines begin") {
  FakeRubyCalls fake(1);
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
  const auto texts = fake.locals();
  CAPTURE(texts.front());
  CHECK(texts.front().find(line) != std::string::npos);
}

TEST_CASE("stacks that do not fit have no locals") {
  FakeRubyCalls fake(1);
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
  CHECK(fake.locals().empty());
  CHECK(fake.left_over.empty());
}

TEST_CASE("frames without code that fits count as of the one around them") {
  FakeRubyCalls fake(1);
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
  const auto texts = fake.locals();
  CHECK(texts.size() == 7);
  CHECK(texts.back() == "a temporary in handle() at app.rb:43 104");
}
