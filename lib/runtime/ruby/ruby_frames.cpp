#include "runtime/ruby/ruby_frames.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "heap/struct_bytes.h"
#include "references/local_name.h"

namespace heapsnap {

namespace {

constexpr uint64_t kStackWord = 8;
constexpr uint64_t kEnvWords = RubyEnvironment::kDataWords;
constexpr uint64_t kEscaped = 4;  // VM_ENV_FLAG_ESCAPED

}  // namespace

RubyFrames::RubyFrames(Target& target, const RubyLayout& layout, RubyFunctions& functions,
                       RubyFiberLocals& fiber_locals, std::span<const uint64_t> threads,
                       std::span<const uint64_t> fibers)
    : target_(target), layout_(layout), functions_(functions), cache_(target.memory()) {
  of_interpreter_.insert(threads.begin(), threads.end());
  of_interpreter_.insert(fibers.begin(), fibers.end());
  for (const Context& context : find_contexts(threads, fibers)) {
    add_fiber_locals(context, fiber_locals);
    add_stack(context);
  }
}

std::vector<RubyFrames::Context> RubyFrames::find_contexts(std::span<const uint64_t> threads,
                                                           std::span<const uint64_t> fibers) {
  struct Thread {
    size_t number = 0;
    int32_t tid = 0;
  };
  std::unordered_map<uint64_t, Thread> known;
  std::unordered_set<uint64_t> seen;
  std::vector<Context> found;
  const auto add = [&](Address at) {
    const uint64_t thread = cache_.word(at + layout_.ec_thread, kStackWord).value_or(0);
    const auto of_thread = known.find(thread);
    if (of_thread == known.end() || found.size() >= kMostContexts) return;
    if (seen.insert(at.value()).second) found.push_back({at, thread, of_thread->second.tid});
  };
  for (const uint64_t thread : threads) {
    known.try_emplace(thread, Thread{known.size(), tid_of(thread)});
  }
  // What a thread began with is further out than the fiber that it runs now.
  for (const uint64_t thread : threads) {
    const auto root = cache_.word(Address(thread) + layout_.thread_root_fiber, kStackWord);
    if (root && *root != 0) add(Address(*root) + layout_.fiber_ec);
    const auto current = cache_.word(Address(thread) + layout_.thread_ec, kStackWord);
    if (current && *current != 0) add(Address(*current));
  }
  for (const uint64_t fiber : fibers) add(Address(fiber) + layout_.fiber_ec);
  std::stable_sort(found.begin(), found.end(), [&](const Context& a, const Context& b) {
    return known[a.thread].number < known[b.thread].number;
  });
  return found;
}

int32_t RubyFrames::tid_of(uint64_t thread) {
  Address place(thread);
  if (layout_.thread_native != RubyLayout::kNone) {
    // A thread that waits for its turn may have none.
    const auto native = cache_.word(place + layout_.thread_native, kStackWord);
    if (!native || *native == 0) return 0;
    place = Address(*native);
  }
  const auto pointer = cache_.word(place + layout_.thread_id, kStackWord);
  for (const heapsnap::Thread& one : target_.threads()) {
    if (pointer && one.registers && one.registers->thread_pointer == Address(*pointer)) {
      return one.tid;
    }
  }
  return 0;
}

bool RubyFrames::spend(uint64_t bytes) {
  if (bytes > budget_) return false;
  budget_ -= bytes;
  return true;
}

bool RubyFrames::read_stack(const Context& context, Stack& stack, std::vector<Frame>& frames) {
  constexpr uint64_t kMostWords = 1 << 24;
  const auto word_at = [&](uint32_t offset) {
    return cache_.word(context.at + offset, kStackWord).value_or(0);
  };
  const uint64_t words = word_at(layout_.ec_stack_size);
  stack.begin = Address(word_at(layout_.ec_stack));
  stack.frames = Address(word_at(layout_.ec_frame));
  // One that has ended has no stack.
  if (stack.begin.is_null() || !stack.begin.is_aligned(kStackWord) || words > kMostWords)
    return false;
  stack.end = stack.begin + words * kStackWord;
  if (stack.frames < stack.begin || stack.frames >= stack.end) return false;
  const uint64_t bytes = stack.end - stack.frames;
  if (bytes % layout_.frame_bytes != 0 || !spend(bytes)) return false;
  std::vector<std::byte> all(bytes);
  if (!target_.memory().read_exact(stack.frames, all)) return false;
  frames.clear();
  for (uint64_t at = 0; at < bytes; at += layout_.frame_bytes) {
    const StructBytes frame(std::span<const std::byte>(all).subspan(at, layout_.frame_bytes),
                            kStackWord);
    frames.push_back({stack.frames + at, frame.word_at(layout_.frame_pc),
                      Address(frame.word_at(layout_.frame_sp)), frame.word_at(layout_.frame_iseq),
                      Address(frame.word_at(layout_.frame_ep))});
  }
  std::reverse(frames.begin(), frames.end());
  // Each frame's values lie behind those of the one around it.
  Address before = stack.begin;
  for (const Frame& frame : frames) {
    if (frame.sp < before || frame.sp > stack.frames || !frame.sp.is_aligned(kStackWord))
      return false;
    before = frame.sp;
  }
  if (!spend(before - stack.begin)) return false;
  stack.values.resize(before - stack.begin);
  if (!target_.memory().read_exact(stack.begin, stack.values)) return false;
  if (before < stack.frames) left_over_.push_back({before, stack.frames});
  return true;
}

std::optional<RubyFrames::Moved> RubyFrames::moved_of(const Frame& frame) {
  const auto flags = cache_.word(frame.ep, kStackWord);
  const auto at = cache_.word(frame.ep + kStackWord, kStackWord);
  if (!flags || (*flags & kEscaped) == 0 || !at || !RubyValue::is_object(*at)) return std::nullopt;
  std::array<std::byte, RubyLayout::kLeastSlot> slot;
  if (cache_.read(Address(*at), slot) != slot.size()) return std::nullopt;
  const auto env = RubyEnvironment::of_slot(slot);
  if (!env || env->ep != frame.ep) return std::nullopt;
  return Moved{*at, *env};
}

Address RubyFrames::locals_of(const Frame& frame, const Stack& stack, uint64_t count) {
  const uint64_t bytes = (count + kEnvWords - 1) * kStackWord;
  if (!frame.ep.is_aligned(kStackWord) || frame.ep.value() < bytes) return {};
  const Address first(frame.ep.value() - bytes);
  if (stack.contains(frame.ep)) {
    return first >= stack.begin && frame.ep < frame.sp ? first : Address();
  }
  const auto moved = moved_of(frame);
  return moved && moved->env.values <= first ? first : Address();
}

// In the place of the flags there is the imemo_env since then, for the collector to find.
AddressRange RubyFrames::copied_words(const Frame& frame, const Stack& stack, AddressRange values) {
  if (stack.contains(frame.ep) || !frame.ep.is_aligned(kStackWord)) return {};
  const auto moved = moved_of(frame);
  if (!moved) return {};
  const uint64_t bytes = moved->env.ep - moved->env.values;
  const StructBytes words(stack.values, kStackWord);
  for (Address at = values.begin; at < values.end; at = at + kStackWord) {
    if (words.word_at(at - stack.begin) != moved->at) continue;
    if (at - values.begin < bytes) return {};
    return {Address(at.value() - bytes), at};
  }
  return {};
}

void RubyFrames::add(Address word, uint64_t value, std::string_view variable, const Call& call,
                     int32_t tid) {
  if (!RubyValue::is_object(value) || locals_.size() >= kMostLocals) return;
  if (is_of_interpreter(value)) return;
  std::string name = local_name({variable, call.function->name, call.function->file, call.line});
  if (name.size() > name_bytes_) return;
  name_bytes_ -= name.size();
  locals_.push_back({word, tid, std::move(name), call.iseq});
}

// A Thread or Fiber leads to all that the interpreter has, and so does what it keeps among objects
// itself (an environment that a thread's block has captured): none of it is the variable's.
bool RubyFrames::is_of_interpreter(uint64_t value) {
  const auto flags = cache_.word(Address(value), kStackWord);
  if (!flags) return false;
  const RubyType type = RubyValue::type_of(*flags);
  if (type == RubyType::kImemo) return true;
  if (type != RubyType::kData) return false;
  const auto data = cache_.word(Address(value) + RubyValue::kDataPointer, kStackWord);
  return data && of_interpreter_.contains(*data);
}

// What is in the stack and no local: arguments of calls in the making, what functions in C keep.
void RubyFrames::add_words(AddressRange range, const Frame& frame, AddressRange locals,
                           const Stack& stack, const Call& call, int32_t tid) {
  const StructBytes values(stack.values, kStackWord);
  // What locals were when they moved to where a closure has them: the collector keeps it as long as
  // the call lasts.
  const AddressRange copied = copied_words(frame, stack, range);
  const Address ep = copied.is_empty() ? frame.ep : copied.end;
  for (Address at = range.begin; at < range.end; at = at + kStackWord) {
    const bool is_env = at <= ep && ep - at < kEnvWords * kStackWord;
    if (is_env || locals.contains(at)) continue;
    const std::string_view variable = copied.contains(at) ? kPerhapsTemporary : kTemporary;
    add(at, values.word_at(at - stack.begin), variable, call, tid);
  }
}

void RubyFrames::add_fiber_locals(const Context& context, RubyFiberLocals& fiber_locals) {
  for (RubyFiberLocal& one : fiber_locals.of(context.at)) {
    if (locals_.size() >= kMostLocals || is_of_interpreter(one.value)) continue;
    locals_.push_back({one.word, context.tid, std::move(one.name), {}});
  }
}

void RubyFrames::add_stack(const Context& context) {
  Stack stack;
  std::vector<Frame> frames;
  if (!read_stack(context, stack, frames)) return;
  Call call;
  Address before = stack.begin;
  for (const Frame& frame : frames) {
    const AddressRange values{before, frame.sp};
    before = frame.sp;
    const RubyFunction* const function = functions_.find(frame.iseq);
    if (function != nullptr) {
      call = {function, functions_.line(*function, frame.pc), Address(frame.iseq)};
    }
    // The first frame is of no function.
    if (call.function == nullptr) continue;
    const auto self = cache_.word(frame.at + layout_.frame_self, kStackWord);
    AddressRange locals;
    if (function != nullptr) {
      const Address first = locals_of(frame, stack, function->locals.size());
      if (!first.is_null()) {
        locals = {first, first + function->locals.size() * kStackWord};
        if (!spend(locals.size())) return;
        for (size_t i = 0; i < function->locals.size(); ++i) {
          const Address at = first + i * kStackWord;
          const std::string& name = function->locals[i];
          add(at, cache_.word(at, kStackWord).value_or(0), name.empty() ? kTemporary : name, call,
              context.tid);
        }
      }
    }
    add(frame.at + layout_.frame_self, self.value_or(0), function != nullptr ? "self" : kTemporary,
        call, context.tid);
    add_words(values, frame, locals, stack, call, context.tid);
  }
}

}  // namespace heapsnap
