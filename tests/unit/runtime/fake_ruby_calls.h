// Calls of Ruby's methods in the memory of a FakeRuby: a thread that runs two methods, and what a
// function in C has between them.
//
//   0x60000000 the thread's stack
//     | dummy: env | orders, 7, env, temporary | C: argument, env | one, env, temporary | ...
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/unit/runtime/fake_ruby.h"

namespace heapsnap::test {

struct FakeRubyCalls {
  static constexpr uint64_t kStack = 0x60000000;
  static constexpr uint64_t kStackBytes = 0x8000;
  static constexpr uint64_t kThreadPointer = 0x7f0000001000;
  static constexpr uint64_t kFirstName = 320;
  static constexpr int kTid = 4711;

  FakeRuby& ruby;
  const RubyLayout& layout = ruby.layout;
  uint64_t page = 0;
  uint64_t held = 0;  // an object, which the words lead to
  FakeRuby::VariableWords variables;
  uint64_t thread = 0;
  uint64_t context = 0;
  uint64_t outer_code = 0;  // struct rb_iseq_constant_body
  uint64_t inner_code = 0;
  // Of the frames, the outermost first: dummy, outer, C, inner.
  std::vector<uint64_t> frames;

  explicit FakeRubyCalls(FakeRuby& fake) : ruby(fake) {
    ruby.target.map("60000000-60010000 rw-p 00000000 00:00 0");
    page = ruby.add_page(40, 100);
    const uint64_t order = ruby.add_class("Order", ruby.object_class);
    held = ruby.add(page, order, RubyType::kObject, FakeRuby::kEmbedded);
    variables = ruby.add_variables(page, held);
    name(0, "orders");
    name(1, "one");
    name(2, "+");
    const uint64_t outer = add_iseq("handle", {0, 2}, outer_code);
    const uint64_t inner = add_iseq("block in handle", {1}, inner_code);
    ruby.target.add_thread(kTid, Address(kThreadPointer));
    thread = ruby.next_table(512);
    context = ruby.next_table(256);
    put(thread + layout.thread_ec, context);
    const bool has_native = layout.thread_native != RubyLayout::kNone;
    const uint64_t native = has_native ? ruby.next_table(64) : thread;
    if (has_native) put(thread + layout.thread_native, native);
    put(native + layout.thread_id, kThreadPointer);
    add_thread_object();
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

 private:
  // What Ruby has of the thread: a T_DATA of the type "VM/thread".
  void add_thread_object() {
    const std::string name = "VM/thread";
    const uint64_t text = ruby.next_table(name.size() + 1);
    ruby.target.put_bytes(Address(text), std::as_bytes(std::span(name)));
    const uint64_t type = ruby.next_table(64);
    put(type, text);
    const uint64_t at = ruby.add(page, 0, RubyType::kData);
    put(at + RubyValue::kDataType, type);
    put(at + RubyValue::kDataTyped, 1);
    put(at + RubyValue::kDataPointer, thread);
  }
};

}  // namespace heapsnap::test
