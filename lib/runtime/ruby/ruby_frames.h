// The local variables of the methods and blocks that run, as variables of the graph of references:
// of each thread, and of each of its fibers. Those that a fiber has beside its calls are among them
// (ruby_fiber_locals.h).
//
//   rb_execution_context_t | vm_stack | size | cfp |
//
//   vm_stack ─►  | locals | env | temp.. | locals | env | temp.. | left over .. | frame | frame |
//                            ^ ep of the outer frame  ^ ep      ^ sp          ^ cfp   outermost
//
//   env      method or block of its caller, a link to the frame around a block, flags: `ep` leads
//            to these
//   frame    pc, sp, iseq (ruby_functions.h), self, ep. Functions in C have a frame without an
//            iseq: what they have counts as of the Ruby that calls them
//
// Where a block or binding has been kept, the locals are elsewhere, and `ep` leads there
// (ruby_closures.h):
//
//   imemo_env | ep | env | size |      env ─►  | locals | env | ─► the imemo_env
//
// What they were before stays in the stack: the collector still keeps it, but nobody reads it.
// What lies between the innermost frame's sp and its frame is left over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/ruby/ruby_closures.h"
#include "runtime/ruby/ruby_fiber_locals.h"
#include "runtime/ruby/ruby_functions.h"
#include "runtime/ruby/ruby_layout.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct RubyLocal {
  Address word;
  int32_t tid = 0;     // 0: not known
  std::string name;    // as in local_name.h
  Address function{};  // the iseq of its method or block; null: of none
};

class RubyFrames {
 public:
  // `threads` and `fibers`: what their objects (T_DATA) lead to, rb_thread_t and rb_fiber_t. All
  // outlive it. Nothing of a stack from the first frame on, seen from the outermost, that does not
  // fit.
  RubyFrames(Target& target, const RubyLayout& layout, RubyFunctions& functions,
             RubyFiberLocals& fiber_locals, std::span<const uint64_t> threads,
             std::span<const uint64_t> fibers);

  // By threads; of each, those of the outermost frame first.
  std::vector<RubyLocal> take_locals() { return std::move(locals_); }
  // Of the stacks of values: what is left over.
  const std::vector<AddressRange>& left_over() const { return left_over_; }

 private:
  struct Context {  // a rb_execution_context_t
    Address at;
    uint64_t thread = 0;
    int32_t tid = 0;
  };
  struct Stack {
    Address begin;
    Address frames;  // the innermost one
    Address end;
    std::vector<std::byte> values;  // from begin on, up to what is left over
    bool contains(Address at) const { return begin <= at && at < end; }
  };
  struct Frame {
    Address at;
    uint64_t pc = 0;
    Address sp;
    uint64_t iseq = 0;
    Address ep;
  };
  // Where a frame's locals are that a closure has, too.
  struct Moved {
    uint64_t at = 0;  // the imemo_env
    RubyEnvironment env;
  };
  // What is said of all words of a frame.
  struct Call {
    const RubyFunction* function = nullptr;
    uint32_t line = 0;
    Address iseq;
  };
  static constexpr size_t kMostContexts = 1 << 18;
  static constexpr size_t kMostLocals = 1 << 20;
  // Of all stacks. Damaged contexts could all say that a large one is theirs.
  static constexpr uint64_t kMostBytes = 1 << 30;

  std::vector<Context> find_contexts(std::span<const uint64_t> threads,
                                     std::span<const uint64_t> fibers);
  int32_t tid_of(uint64_t thread);
  bool spend(uint64_t bytes);
  bool read_stack(const Context& context, Stack& stack, std::vector<Frame>& frames);
  // They last longer than any call: each comes before what the fiber runs.
  void add_fiber_locals(const Context& context, RubyFiberLocals& fiber_locals);
  void add_stack(const Context& context);
  // Where the first of so many locals of a frame is; null: it cannot be told.
  Address locals_of(const Frame& frame, const Stack& stack, uint64_t count);
  // Of a frame whose `ep` is outside of the stack; nothing: it does not lead to what fits.
  std::optional<Moved> moved_of(const Frame& frame);
  // Of the frame's values: its locals as they were when they moved, with the words behind them; the
  // word that it ends with leads to where they are now. Empty: none have.
  AddressRange copied_words(const Frame& frame, const Stack& stack, AddressRange values);
  void add_words(AddressRange range, const Frame& frame, AddressRange locals, const Stack& stack,
                 const Call& call, int32_t tid);
  bool is_of_interpreter(uint64_t value);
  void add(Address word, uint64_t value, std::string_view variable, const Call& call, int32_t tid);

  Target& target_;
  const RubyLayout& layout_;
  RubyFunctions& functions_;
  PageCache cache_;
  std::unordered_set<uint64_t> of_interpreter_;  // what threads and fibers lead to
  uint64_t budget_ = kMostBytes;
  uint64_t name_bytes_ = 1 << 26;  // of names of locals, to make
  std::vector<RubyLocal> locals_;
  std::vector<AddressRange> left_over_;
};

}  // namespace heapsnap
