// What heapsnap has altered outside of itself and must undo before it ends: a process that stands,
// a copy of one, a file under a temporary name.
//
// A signal that asks heapsnap to end (SIGINT, SIGTERM, SIGHUP) ends it at once while there is no
// Alteration. Otherwise the end is asked for here (ask_to_end()) and comes in order: whoever works
// under an Alteration calls check_end() wherever it may stop, that throws EndAsked, and unwinding
// is the repair. When the last Alteration is gone, the signal does to heapsnap what it always does.
//
//   signal -> ask_to_end() -> check_end() throws -> destructors undo -> nothing altered -> the end
#pragma once

#include <chrono>
#include <exception>

namespace heapsnap {

class EndAsked : public std::exception {
 public:
  const char* what() const noexcept override { return "heapsnap was asked to end"; }
};

class Alteration {
 public:
  // Throws EndAsked instead of beginning something new when the end is asked for.
  Alteration();
  Alteration(const Alteration&) = delete;
  Alteration& operator=(const Alteration&) = delete;
  ~Alteration();
};

// While one lives, on whatever thread, check_end() does nothing: what is done is the repair itself,
// or was begun and is better brought to its end.
class Repair {
 public:
  Repair() noexcept;
  Repair(const Repair&) = delete;
  Repair& operator=(const Repair&) = delete;
  ~Repair();
};

// Throws EndAsked when the end is asked for.
void check_end();
// The same as a question, for who cannot be left by an exception.
bool is_end_asked() noexcept;

void ask_to_end() noexcept;
// Waits until nothing is altered any more, for `patience` at most. When it gives true no Alteration
// can begin: whoever would begin one waits for ever.
bool await_repair(std::chrono::milliseconds patience);
// Lets those go on that wait since then.
void permit_alterations() noexcept;

}  // namespace heapsnap
