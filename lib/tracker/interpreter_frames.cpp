#include "tracker/interpreter_frames.h"

#include "tracker/function_table.h"
#include "tracker/stack_table.h"
#include "tracker/table_space.h"

namespace heapsnap::tracker {

namespace {

// Of the thread that has the lock of the function table.
struct Room {
  InterpreterCall calls[kFramesAtMost];
  uint64_t frames[kFramesAtMost + 1];
};
Room* room = nullptr;

// What is asked for is what is known here; nothing of the process is called but
// pthread_getspecific(3), which reads and never locks.
uint64_t own_thread(const InterpreterLayout& layout) {
  if (layout.thread_specific == 0) return 0;
  const auto specific = reinterpret_cast<void* (*)(uint32_t)>(layout.thread_specific);
  return reinterpret_cast<uint64_t>(specific(static_cast<uint32_t>(layout.key)));
}

// In memory that each thread has from its start on.
uint64_t own_context(const InterpreterLayout& layout, CheckedMemory& memory) {
  uint64_t context = 0;
  memory.read(thread_pointer() + layout.context, &context, sizeof context);
  return context;
}

// As many as are wanted, and no more than keep the whole stack within what readers accept.
uint32_t calls_at_most(uint32_t stack) {
  const uint32_t depth = entry<StackRecord>(control.directory->stacks, stack).depth;
  const uint32_t room_for = depth + 1 < kFramesAtMost ? kFramesAtMost - depth - 1 : 0;
  const uint32_t wanted = load(control.max_frames);
  return wanted < room_for ? wanted : room_for;
}

uint32_t extend(uint32_t stack, const InterpreterLayout& layout, CheckedMemory& memory,
                const InterpreterCalls& calls) {
  uint32_t count = 0;
  if (calls.is_cut) {
    room->frames[count++] = kInterpreterFrame | uint64_t{kMoreFunctions} << kFunctionShift;
  }
  for (uint32_t i = calls.count; i-- > 0;) {
    const InterpreterCall& call = calls.calls[i];
    room->frames[count++] = kInterpreterFrame | (call.is_entry ? kInterpreterEntry : 0) |
                            static_cast<uint64_t>(index_of_function(layout, memory, call))
                                << kFunctionShift |
                            call.instruction;
  }
  return extend_stack(stack, room->frames, count);
}

// `thread`: what the interpreter has for this one.
template <typename Walk>
uint32_t with_calls(uint32_t stack, const InterpreterLayout& layout, CheckedMemory& memory,
                    Walk& walk, uint64_t thread) {
  if (!walk.has_lock(thread)) return stack;
  if (!lock_function_table_soon()) {
    add(control.directory->unread_interpreters, 1);
    return stack;
  }
  uint32_t extended = stack;
  if (room != nullptr) {
    InterpreterCalls calls{room->calls, calls_at_most(stack), 0, false};
    if (!walk.take(thread, calls)) {
      add(control.directory->unread_interpreters, 1);
    } else if (calls.count != 0) {
      extended = extend(stack, layout, memory, calls);
    }
  }
  unlock_function_table();
  return extended;
}

}  // namespace

bool prepare_interpreter_frames() {
  if (room == nullptr) room = static_cast<Room*>(map_working_memory(sizeof(Room)));
  return room != nullptr && create_function_table();
}

void clear_interpreter_frames() {
  if (room != nullptr) unmap_working_memory(room, sizeof(Room));
  room = nullptr;
  clear_function_table();
}

__attribute__((noinline)) uint32_t with_interpreter_frames(uint32_t stack) {
  if (stack < kFirstStack) return stack;
  const InterpreterLayout& written = control.directory->interpreter;
  const uint32_t kind = load_acquire(written.kind);
  if (kind == kInterpreterNone) return stack;
  InterpreterLayout layout = written;
  layout.kind = kind;
  CheckedMemory memory;
  if (kind == kInterpreterPython) {
    PythonStackWalk walk(layout, memory);
    return with_calls(stack, layout, memory, walk, own_thread(layout));
  }
  RubyStackWalk walk(layout, memory);
  return with_calls(stack, layout, memory, walk, own_context(layout, memory));
}

}  // namespace heapsnap::tracker
