#include "runtime/ruby/ruby_calls.h"

#include <optional>

namespace heapsnap {

namespace {

constexpr uint64_t kCallWord = 8;

class RubyCallSearch {
 public:
  RubyCallSearch(Target& target, const LoadedModules& modules, const RubyPlace& place)
      : target_(target), modules_(modules), place_(place) {
    found_.name = "Ruby " + place.version;
    found_.module = place.module;
  }

  InterpreterPlace find() {
    found_.why_not = place_.why_not.empty() ? "its state was not found" : place_.why_not;
    for (const RubyLayout* const layout : place_.layouts) {
      found_.layout = {};
      found_.why_not = refusal(*layout);
      if (found_.why_not.empty()) return std::move(found_);
    }
    found_.layout = {};
    return std::move(found_);
  }

 private:
  std::string refusal(const RubyLayout& from) {
    if (!from.has_calls()) {
      return "the tracker reads the frames of Ruby since 3.1";
    }
    const RubyMachine machine = find_ruby_machine(target_, place_, from);
    if (!machine.why_not.empty()) {
      found_.may_start_later = true;
      return machine.why_not;
    }
    const uint64_t ractor = word_at(machine.vm + from.vm_ractor);
    if (ractor == 0) return "it has no ractor: it was not started yet, or has ended";
    found_.layout.holder = (Address(ractor) + from.ractor_running).value();
    const auto context = find_context(from, Address(ractor));
    if (!context) return "its first thread does not say which context it runs";
    found_.layout.context = *context;
    find_loop();
    fill_offsets(from);
    found_.layout.kind = tracker::kInterpreterRuby;
    return {};
  }

  uint64_t word_at(Address at) const {
    return target_.memory().read_value<uint64_t>(at).value_or(0);
  }

  // Where the first thread has its context, seen from its thread pointer. It may be just about to
  // run another one (a fiber), so it is looked at several times.
  std::optional<uint64_t> find_context(const RubyLayout& from, Address ractor) {
    constexpr int kTries = 20;
    const Address thread(word_at(ractor + from.ractor_main));
    if (thread.is_null()) return std::nullopt;
    for (int i = 0; i < kTries; ++i) {
      Address native = thread;
      if (from.thread_native != RubyLayout::kNone) {
        native = Address(word_at(thread + from.thread_native));
        if (native.is_null()) continue;
      }
      const Address pointer(word_at(native + from.thread_id));
      const uint64_t context = word_at(thread + from.thread_ec);
      if (pointer.is_null() || context == 0) continue;
      if (const auto found = distance_of(pointer, context)) return found;
    }
    return std::nullopt;
  }

  // The only word among the thread-local variables that lie right below the thread pointer.
  std::optional<uint64_t> distance_of(Address pointer, uint64_t value) {
    constexpr uint64_t kMostBelow = 8192;
    std::optional<uint64_t> found;
    for (uint64_t below = kCallWord; below <= kMostBelow; below += kCallWord) {
      const auto word = target_.memory().read_value<uint64_t>(Address(pointer.value() - below));
      if (!word) break;
      if (*word != value) continue;
      if (found) return std::nullopt;
      found = ~below + 1;
    }
    return found;
  }

  void find_loop() {
    const uint32_t number = modules_.find(place_.object_class);
    if (number == LoadedModules::kNone) return;
    const LoadedModule& module = modules_[number];
    for (const char* const name : {"rb_vm_exec", "vm_exec"}) {
      const ElfSymbol* const symbol = module.image().find_symbol(name);
      if (symbol == nullptr || symbol->size == 0) continue;
      found_.layout.loop_begin = (module.bias + symbol->value).value();
      found_.layout.loop_end = found_.layout.loop_begin + symbol->size;
      return;
    }
  }

  void fill_offsets(const RubyLayout& from) {
    tracker::InterpreterLayout& to = found_.layout;
    to.frame_code = from.frame_iseq;
    to.frame_instruction = from.frame_pc;
    to.code_name = from.code_label;
    to.code_file = from.code_path;
    to.code_lines = from.code_lines;
    to.context_frame = from.ec_frame;
    to.context_stack = from.ec_stack;
    to.context_stack_size = from.ec_stack_size;
    to.frame_bytes = from.frame_bytes;
    to.frame_env = from.frame_ep;
    to.frame_entry_flag = from.frame_finish;
    to.code_body = from.iseq_body;
    to.code_begin = from.code_begin;
    to.code_size = from.code_size;
    to.code_line_count = from.code_line_count;
    to.code_line_index = from.code_line_index;
    to.line_bytes = from.line_bytes;
    to.line_number = from.line_number;
    to.line_index_blocks = from.line_index_blocks;
    to.line_index_block_bytes = from.line_index_block_bytes;
    to.text_has_length = from.has_wide_slots() ? 1 : 0;
  }

  Target& target_;
  const LoadedModules& modules_;
  const RubyPlace& place_;
  InterpreterPlace found_;
};

}  // namespace

InterpreterPlace ruby_calls(Target& target, const LoadedModules& modules, const RubyPlace& place) {
  return RubyCallSearch(target, modules, place).find();
}

}  // namespace heapsnap
