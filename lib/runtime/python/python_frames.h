// The calls of Python's functions that run in each thread, and their local variables.
//
//   PyThreadState ──► frame of load() ──► frame of main() ──► null          the innermost first
//                     f_code ──► co_varnames ("path", "rows"), co_filename, the table of lines
//                     localsplus  | path | rows | cells | free variables | stack of values |
//
// Up to 3.10 a frame is an object of its own; since 3.11 it lies in memory of the thread, or in the
// generator whose it is. What is on its stack of values has no name: "a temporary". How deep that
// stack is, a frame says since 3.11 once its function has called another one of Python's, since
// 3.14 once it has called any; else all that there is room for is taken, which may be left over:
// "perhaps a temporary".
//
// A coroutine that waits is a call of the thread that waits for it: one that a variable of a call
// refers to, as main() of asyncio.run() does, or by way of a task of asyncio, and what that awaits.
//
//   run()   main ──► coroutine main() ──► coroutine serve() ──► a future      cr_frame, cr_await
//
// Other generators and coroutines that do not run are no calls: what they have, they hold as
// objects.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/address.h"
#include "runtime/python/python_layout.h"
#include "runtime/python/python_types.h"
#include "target/page_cache.h"
#include "target/target.h"

namespace heapsnap {

struct PythonLocal {
  Address word;
  int32_t tid = 0;     // 0: not known
  std::string name;    // as in local_name.h
  Address function{};  // its code object
};

class PythonFrames {
 public:
  // Of the threads of `interpreters`, addresses of PyInterpreterState. Nothing of a thread where
  // one of its frames does not fit.
  PythonFrames(Target& target, const PythonLayout& layout, PythonTypes& types,
               std::span<const Address> interpreters);

  // By threads; of each, those of the outermost call first, and of a call those in cells.
  const std::vector<PythonLocal>& locals() const { return locals_; }
  // Of an object that has a frame in it, or is one, where the words end that are in use. Nothing of
  // others, and where the frame does not fit.
  std::optional<Address> end_of(const PythonType& type, Address object);
  // Places of stacks of values that are free.
  const std::vector<AddressRange>& free_words() const { return free_words_; }

 private:
  // What all calls of a function have in common.
  struct Code {
    Address at;
    std::string function;
    std::string file;
    std::vector<std::string> names;  // of its variables; empty: not known
    uint32_t stack = 0;              // for how many values there is room
    Address instructions;            // since 3.11
    uint64_t bytes = 0;              // of them, since 3.11
    uint32_t first_line = 0;
    std::vector<std::byte> lines;
    // What was asked for last: most calls of a function are at one place.
    uint64_t last_at = UINT64_MAX;
    uint32_t last_line = 0;
  };
  struct Frame {
    Address locals;
    Code* code = nullptr;
    std::optional<uint32_t> depth;  // of the stack of values
    bool is_of_thread = false;      // lies in the memory of its thread
    uint32_t line = 0;
  };

  void find_threads(Address interpreter, std::vector<Address>& threads);
  // Gives what comes next one of `parts` of the room that is left. Of a deep recursion the
  // outermost calls suffice: they hold the rest.
  void set_most_locals(size_t parts);
  void add_thread(Address thread);
  int32_t tid_of(Address thread);
  std::optional<Address> innermost(Address thread);
  // False where it does not fit. `code` of the result is null of a frame that is no call.
  bool read_frame(Address at, Frame& frame);
  bool read_depth(Address at, Frame& frame);
  bool read_instruction(Address at, Frame& frame);
  Code* code_at(Address at);
  std::optional<Code> read_code(Address at);
  bool add_names(Address tuple, Code& code);
  void add_locals(const Frame& frame, int32_t tid);
  // What its variables refer to of coroutines, which may be calls.
  void find_coroutines(const Frame& frame, int32_t tid);
  // The calls of one that waits, and of those that it waits for.
  void add_coroutines(Address object, int32_t tid);
  bool is_coroutine(Address object) { return is_of_type(object, "coroutine"); }
  // That of a task of asyncio, or the object itself, if it is one; null: none.
  Address coroutine_of(Address object);
  std::optional<Address> frame_of_coroutine(Address object);
  bool is_of_type(Address object, const char* name);
  bool spend(uint64_t bytes);
  std::optional<uint32_t> number_at(Address at);
  std::optional<Address> address_at(Address at);
  std::optional<Address> value_at(Address at);

  const PythonLayout& layout_;
  PythonTypes& types_;
  const std::vector<Thread>& threads_;
  PageCache cache_;
  uint64_t budget_;  // of bytes of names and tables to look at
  size_t most_locals_ = 0;
  uint64_t local_bytes_ = 0;  // of names of locals, made
  uint64_t most_local_bytes_ = 0;
  std::unordered_map<uint64_t, std::optional<Code>> codes_;
  std::unordered_set<uint64_t> seen_;  // threads and frames
  std::vector<PythonLocal> locals_;
  std::vector<AddressRange> free_words_;
  std::vector<std::pair<Address, int32_t>> coroutines_;  // found, and by whose call first
  std::unordered_set<uint64_t> known_coroutines_;        // those
};

}  // namespace heapsnap
