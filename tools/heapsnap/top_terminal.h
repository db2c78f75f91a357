// The terminal of `heapsnap top`: lines of text on a screen of its own, and keys.
//
// Whatever ends heapsnap in order (return, exception, a signal that EndingSignals takes), the
// destructor puts the terminal back as it was: modes, cursor, and the screen from before.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "analysis/top_model.h"
#include "report/top_screen.h"

namespace heapsnap {

struct TopPress {
  TopKey key = TopKey::kText;
  std::string text;  // of kText
};

class TopTerminal {
 public:
  // Of standard input and output, which are terminals. Throws Error{kUnsupported} where TERM names
  // none that can move its cursor.
  TopTerminal();
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;
  ~TopTerminal();

  size_t width() const;
  size_t height() const;
  void show(std::span<const TopLine> lines);
  // Waits for so long at most; less where a signal comes. `is_typing`: letters are text, else they
  // are commands. kQuit when the terminal is gone.
  std::optional<TopPress> wait(std::chrono::milliseconds patience, bool is_typing);

  // Gives the terminal back for a while, and takes it again; all is drawn anew then.
  void suspend();
  void resume();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
