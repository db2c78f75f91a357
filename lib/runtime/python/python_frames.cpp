#include "runtime/python/python_frames.h"

#include <algorithm>
#include <utility>

#include "base/file_name.h"
#include "references/local_name.h"
#include "runtime/python/python_objects.h"
#include "runtime/python/python_text.h"

namespace heapsnap {

namespace {

constexpr uint64_t kFrameWord = 8;
constexpr uint64_t kCodeUnit = 2;
// Of all threads together: since 3.11 calls take no stack of C, and may be as deep as a program
// says (sys.setrecursionlimit). A chain that does not end meets a frame twice.
constexpr size_t kMostFrames = 1 << 21;
constexpr size_t kMostCoroutines = 1 << 17;
constexpr size_t kMostThreads = 1 << 16;
constexpr size_t kMostLocals = 1 << 18;
constexpr uint64_t kMostCodeBytes = 1 << 26;   // of names and tables of all functions
constexpr uint64_t kMostLocalBytes = 1 << 25;  // of what locals are called, with their functions
constexpr uint32_t kMostSlots = 1 << 16;
constexpr uint64_t kMostLineBytes = 1 << 20;
constexpr size_t kLongestText = 4096;
constexpr size_t kLongestVariable = 200;
// PyBytesObject, PyVarObject: the same since 3.9.
constexpr uint64_t kItemCountAt = 16;
constexpr uint64_t kBytesAt = 32;
// enum _frameowner
constexpr uint8_t kOwnedByThread = 0;
constexpr uint8_t kOwnedByNone = 3;  // and what is greater: where C calls
constexpr uint8_t kExecuting = 0;    // enum _framestate

// One line, of which nothing is cut but what nobody gives a name to.
bool has_no_controls(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char one) {
    return static_cast<unsigned char>(one) >= 0x20 && one != 0x7f;
  });
}

std::string shown_function(const std::string& name) {
  // "<module>" and "<listcomp>" are called by nobody.
  return name.ends_with('>') ? name : name + "()";
}

std::string_view shown_variable(std::string_view name) {
  if (name.empty()) return "a variable";
  // ".0": what a comprehension goes through.
  return name.starts_with('.') ? kTemporary : name;
}

}  // namespace

PythonFrames::PythonFrames(Target& target, const PythonLayout& layout, PythonTypes& types,
                           std::span<const Address> interpreters)
    : layout_(layout),
      types_(types),
      threads_(target.threads()),
      cache_(target.memory()),
      budget_(kMostCodeBytes) {
  if (layout.frame_locals == 0) return;
  std::vector<Address> all;
  for (const Address interpreter : interpreters) find_threads(interpreter, all);
  for (size_t i = 0; i < all.size(); ++i) {
    set_most_locals(all.size() - i);
    add_thread(all[i]);
  }
  set_most_locals(1);
  // Those that run are calls of their threads by now.
  for (const auto& [object, tid] : coroutines_) add_coroutines(object, tid);
  coroutines_ = {};
  known_coroutines_ = {};
}

bool PythonFrames::spend(uint64_t bytes) {
  if (bytes > budget_) return false;
  budget_ -= bytes;
  return true;
}

std::optional<uint32_t> PythonFrames::number_at(Address at) {
  const auto word = cache_.word(at, sizeof(uint32_t));
  return word ? std::optional(static_cast<uint32_t>(*word)) : std::nullopt;
}

std::optional<Address> PythonFrames::address_at(Address at) {
  const auto word = cache_.word(at, kFrameWord);
  if (!word || *word % kFrameWord != 0) return std::nullopt;
  return Address(*word);
}

// What is on the stack, and variables, are tagged since 3.14 (pycore_stackref.h).
std::optional<Address> PythonFrames::value_at(Address at) {
  const auto word = cache_.word(at, kFrameWord);
  if (!word) return std::nullopt;
  const uint64_t value = *word & ~uint64_t{layout_.stack_tag};
  if (value % kFrameWord != 0) return std::nullopt;
  return Address(value);
}

bool PythonFrames::is_of_type(Address object, const char* name) {
  if (object.is_null() || !object.is_aligned(kFrameWord)) return false;
  const auto type = cache_.word(object + kPythonTypeAt, kFrameWord);
  const PythonType* const known = type ? types_.find(*type) : nullptr;
  return known != nullptr && known->is_own && known->name == name;
}

void PythonFrames::find_threads(Address interpreter, std::vector<Address>& threads) {
  auto thread = address_at(interpreter + layout_.interpreter_threads);
  while (threads.size() < kMostThreads && thread && !thread->is_null()) {
    if (!seen_.insert(thread->value()).second) return;
    threads.push_back(*thread);
    thread = address_at(*thread + layout_.thread_next);
  }
}

void PythonFrames::set_most_locals(size_t parts) {
  most_locals_ = locals_.size() + (kMostLocals - locals_.size()) / parts;
  most_local_bytes_ = local_bytes_ + (kMostLocalBytes - local_bytes_) / parts;
}

// By pthread_self(): the thread pointer, or what lies less than a control block below it.
int32_t PythonFrames::tid_of(Address thread) {
  constexpr uint64_t kMostBelow = 4096;
  const auto id = cache_.word(thread + layout_.thread_id, kFrameWord);
  if (!id) return 0;
  int32_t nearest = 0;
  uint64_t least = kMostBelow;
  for (const Thread& one : threads_) {
    if (!one.registers) continue;
    const uint64_t below = one.registers->thread_pointer.value() - *id;
    if (below < least) {
      least = below;
      nearest = one.tid;
    }
  }
  return nearest;
}

std::optional<Address> PythonFrames::innermost(Address thread) {
  const auto at = address_at(thread + layout_.thread_frame);
  if (!at || !layout_.has_c_frame || at->is_null()) return at;
  return address_at(*at + layout_.c_frame_current);
}

void PythonFrames::add_thread(Address thread) {
  std::vector<Frame> frames;
  auto at = innermost(thread);
  const Address first = at.value_or(Address());
  while (at && !at->is_null()) {
    Frame frame;
    if (seen_.size() >= kMostFrames || !seen_.insert(at->value()).second) return;
    if (!read_frame(*at, frame)) return;
    if (frame.code != nullptr) {
      if (!read_instruction(*at, frame)) return;
      // The innermost one may run, with more or less on its stack than when it called last.
      const bool is_innermost = *at == first;
      if (is_innermost && layout_.stack_top == PythonLayout::StackTop::kSaved) frame.depth.reset();
      frames.push_back(frame);
    }
    at = address_at(*at + layout_.frame_previous);
  }
  if (!at) return;
  const int32_t tid = tid_of(thread);
  std::for_each(frames.rbegin(), frames.rend(), [&](const Frame& one) {
    add_locals(one, tid);
    find_coroutines(one, tid);
  });
}

void PythonFrames::find_coroutines(const Frame& frame, int32_t tid) {
  if (locals_.size() >= most_locals_ || !spend(frame.code->names.size())) return;
  for (size_t i = 0; i < frame.code->names.size(); ++i) {
    const auto value = value_at(frame.locals + i * kFrameWord);
    const Address found = value ? coroutine_of(*value) : Address();
    if (found.is_null() || coroutines_.size() >= kMostCoroutines) continue;
    if (known_coroutines_.insert(found.value()).second) coroutines_.emplace_back(found, tid);
  }
}

// What it awaits is the last value on its stack.
void PythonFrames::add_coroutines(Address object, int32_t tid) {
  while (is_coroutine(object) && seen_.size() < kMostFrames) {
    const auto at = frame_of_coroutine(object);
    Frame frame;
    if (!at || at->is_null() || !seen_.insert(at->value()).second) return;
    if (!read_frame(*at, frame) || frame.code == nullptr || !read_instruction(*at, frame)) return;
    // Else it has not begun, or has ended.
    if (!frame.depth || *frame.depth == 0) return;
    add_locals(frame, tid);
    const uint64_t last = frame.code->names.size() + *frame.depth - 1;
    object = value_at(frame.locals + last * kFrameWord).value_or(Address());
  }
}

Address PythonFrames::coroutine_of(Address object) {
  if (object.is_null() || !object.is_aligned(kFrameWord)) return {};
  const auto word = cache_.word(object + kPythonTypeAt, kFrameWord);
  const PythonType* const type = word ? types_.find(*word) : nullptr;
  if (type == nullptr) return {};
  if (type->name != "_asyncio.Task") return is_coroutine(object) ? object : Address();
  // Of its members only task_coro is one. A class of another may be called so, too.
  constexpr uint64_t kMostOfTask = 512;
  const uint64_t end = std::min(type->basic_size, kMostOfTask);
  for (uint64_t at = kPythonTypeAt + kFrameWord; at < end; at += kFrameWord) {
    const auto member = address_at(object + at);
    if (member && is_coroutine(*member)) return *member;
  }
  return {};
}

std::optional<Address> PythonFrames::frame_of_coroutine(Address object) {
  // PyCoroObject before 3.11.
  constexpr uint64_t kFrameAt = 16;
  if (layout_.is_before_311()) return address_at(object + kFrameAt);
  return object + layout_.generator_frame;
}

bool PythonFrames::read_frame(Address at, Frame& frame) {
  const bool is_object = layout_.is_before_311();
  if (is_object && !is_of_type(at, "frame")) return false;
  if (!is_object) {
    const auto owner = number_at(at + layout_.frame_owner);
    if (!owner || (*owner & 0xff) > layout_.last_frame_owner) return false;
    if ((*owner & 0xff) >= kOwnedByNone) return true;
    frame.is_of_thread = (*owner & 0xff) == kOwnedByThread;
  }
  const auto code = value_at(at + layout_.frame_code);
  Code* const known = code ? code_at(*code) : nullptr;
  if (known == nullptr) return false;
  frame.locals = at + layout_.frame_locals;
  frame.code = known;
  return read_depth(at, frame);
}

bool PythonFrames::read_depth(Address at, Frame& frame) {
  using StackTop = PythonLayout::StackTop;
  const uint64_t locals = frame.code->names.size();
  const Address place = at + layout_.frame_stack_top;
  uint64_t depth = 0;
  if (layout_.stack_top == StackTop::kAddress || layout_.stack_top == StackTop::kSaved) {
    const auto top = address_at(place);
    if (!top) return false;
    if (top->is_null()) return true;
    depth = (*top - (frame.locals + locals * kFrameWord)) / kFrameWord;
  } else {
    const auto top = number_at(place);
    if (!top) return false;
    if (*top == UINT32_MAX) return true;
    depth = layout_.stack_top == StackTop::kDepth ? *top : *top - locals;
  }
  if (depth > frame.code->stack) return false;
  frame.depth = static_cast<uint32_t>(depth);
  return true;
}

std::optional<Address> PythonFrames::end_of(const PythonType& type, Address object) {
  if (type.family != PythonType::Family::kHidden) return std::nullopt;
  if (!type.is_own || layout_.frame_locals == 0) return std::nullopt;
  Address at = object;
  bool is_running = false;
  if (type.name == "frame") {
    if (!layout_.is_before_311()) {
      at = object + layout_.frame_object_data;
      const auto leads_to = address_at(object + layout_.frame_object_frame);
      if (!leads_to) return std::nullopt;
      // Of a call that has not ended: in the memory of its thread.
      if (*leads_to != at) return at;
    }
  } else if (type.name == "generator" || type.name == "coroutine" ||
             type.name == "async_generator") {
    if (layout_.is_before_311()) return object + type.basic_size;
    at = object + layout_.generator_frame;
    is_running = layout_.stack_top == PythonLayout::StackTop::kSaved &&
                 (number_at(object + layout_.generator_state).value_or(0) & 0xff) == kExecuting;
  } else {
    return std::nullopt;
  }
  Frame frame;
  if (!read_frame(at, frame) || frame.code == nullptr) return std::nullopt;
  if (is_running) frame.depth.reset();
  const uint64_t slots = frame.code->names.size() + frame.depth.value_or(frame.code->stack);
  return frame.locals + slots * kFrameWord;
}

bool PythonFrames::read_instruction(Address at, Frame& frame) {
  Code& code = *frame.code;
  uint64_t offset = 0;
  if (layout_.is_before_311()) {
    const auto last = number_at(at + layout_.frame_instruction);
    if (!last) return false;
    // -1: it has not begun.
    const uint64_t unit = layout_.lines == PythonLineTable::kAddresses ? 1 : kCodeUnit;
    offset = *last == UINT32_MAX ? 0 : *last * unit;
  } else {
    const auto last = cache_.word(at + layout_.frame_instruction, kFrameWord);
    // One before the first: it has not begun.
    if (!last || *last + kCodeUnit < code.instructions.value()) return false;
    offset = *last < code.instructions.value() ? 0 : *last - code.instructions.value();
    if (offset > code.bytes) return false;
  }
  if (offset != code.last_at) {
    if (!spend(code.lines.size())) return false;
    code.last_at = offset;
    code.last_line = python_line(layout_.lines, code.lines, code.first_line, offset);
  }
  frame.line = code.last_line;
  return true;
}

PythonFrames::Code* PythonFrames::code_at(Address at) {
  const auto [entry, is_new] = codes_.try_emplace(at.value());
  if (is_new) entry->second = read_code(at);
  return entry->second ? &*entry->second : nullptr;
}

bool PythonFrames::add_names(Address tuple, Code& code) {
  if (!is_of_type(tuple, "tuple")) return false;
  const auto size = cache_.word(tuple + kItemCountAt, kFrameWord);
  if (!size || *size > kMostSlots - code.names.size()) return false;
  for (uint64_t i = 0; i < *size; ++i) {
    const auto item = address_at(tuple + layout_.tuple_items + i * kFrameWord);
    if (!item || !spend(kLongestVariable)) return false;
    auto name = python_text(cache_, layout_, *item, kLongestVariable);
    code.names.push_back(name && has_no_controls(*name) ? std::move(*name) : std::string());
  }
  return true;
}

std::optional<PythonFrames::Code> PythonFrames::read_code(Address at) {
  if (!is_of_type(at, "code")) return std::nullopt;
  Code code;
  code.at = at;
  for (const uint32_t names : {layout_.code_variables, layout_.code_cells, layout_.code_free}) {
    if (names == 0) continue;
    const auto tuple = address_at(at + names);
    if (!tuple || !add_names(*tuple, code)) return std::nullopt;
  }
  const auto stack = number_at(at + layout_.code_stack_size);
  const auto first_line = number_at(at + layout_.code_first_line);
  if (!stack || *stack > kMostSlots || !first_line) return std::nullopt;
  code.stack = *stack;
  code.first_line = *first_line;
  if (layout_.code_instructions != 0) {
    const auto units = cache_.word(at + kItemCountAt, kFrameWord);
    if (!units || *units > UINT32_MAX) return std::nullopt;
    code.instructions = at + layout_.code_instructions;
    code.bytes = *units * kCodeUnit;
  }
  const auto text = [&](uint32_t member) {
    const auto object = address_at(at + member);
    auto found = object ? python_text(cache_, layout_, *object, kLongestText) : std::nullopt;
    return found && has_no_controls(*found) ? std::move(*found) : std::string();
  };
  code.function = text(layout_.code_name);
  if (!code.function.empty()) code.function = shown_function(code.function);
  code.file = file_name_of(text(layout_.code_file));
  const auto lines = address_at(at + layout_.code_lines);
  if (!lines || !is_of_type(*lines, "bytes")) return std::nullopt;
  const auto size = cache_.word(*lines + kItemCountAt, kFrameWord);
  if (!size || *size > kMostLineBytes || !spend(*size)) return std::nullopt;
  code.lines.resize(*size);
  if (cache_.read(*lines + kBytesAt, code.lines) != *size) return std::nullopt;
  return code;
}

void PythonFrames::add_locals(const Frame& frame, int32_t tid) {
  if (locals_.size() >= most_locals_) return;
  const Code& code = *frame.code;
  const auto add = [&](uint64_t slot, std::string_view variable) {
    std::string name = local_name({variable, code.function, code.file, frame.line});
    if (locals_.size() >= most_locals_ || name.size() > most_local_bytes_ - local_bytes_) return;
    local_bytes_ += name.size();
    locals_.push_back({frame.locals + slot * kFrameWord, tid, std::move(name), code.at});
  };
  std::vector<bool> are_cells;
  for (size_t i = 0; i < code.names.size(); ++i) {
    const auto value = value_at(frame.locals + i * kFrameWord);
    are_cells.push_back(value && is_of_type(*value, "cell"));
    if (are_cells.back()) add(i, shown_variable(code.names[i]));
  }
  for (size_t i = 0; i < code.names.size(); ++i) {
    if (!are_cells[i]) add(i, shown_variable(code.names[i]));
  }
  const uint32_t depth = frame.depth.value_or(code.stack);
  for (uint32_t i = 0; i < depth; ++i) {
    add(code.names.size() + i, frame.depth ? kTemporary : kPerhapsTemporary);
  }
  if (frame.is_of_thread && depth < code.stack) {
    const Address stack = frame.locals + code.names.size() * kFrameWord;
    free_words_.push_back({stack + depth * kFrameWord, stack + code.stack * kFrameWord});
  }
}

}  // namespace heapsnap
