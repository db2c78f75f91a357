// What `heapsnap top` shows, and what its keys change about that. Nothing here knows a terminal:
// the screen is drawn from it (report/top_screen.h), keys come as names of what they mean.
//
//   look at the process ─► take() ─┐
//   key                 ─► press() ─┴─► model ─► screen
//
// While it is paused, what is shown stays: looks are not taken over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/top_list.h"
#include "analysis/watch_look.h"

namespace heapsnap {

// What is known after one look.
struct TopSample {
  WatchLook look;
  std::optional<WatchRates> rates;  // none at the first look
  uint64_t look_ns = 0;             // how long looking took
  std::vector<TopRow> arenas;
  std::vector<TopRow> stacks;  // of a tracked process
  size_t busy_stacks = 0;      // of which these are the highest
};

enum class TopView : uint8_t { kArenas, kStacks, kStack, kHelp };

enum class TopKey : uint8_t {
  kQuit,
  kPause,
  kSort,
  kReverse,
  kFilter,
  kView,
  kOpen,  // the selected stack
  kBack,
  kHelp,
  kSnapshot,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kErase,
  kText,  // a character
};

// What the caller has to do about a key.
enum class TopAction : uint8_t { kNothing, kQuit, kSnapshot };

class TopModel {
 public:
  TopModel();

  // A tracked process begins with its stacks.
  void set_tracked(bool is_tracked);
  void take(TopSample sample);
  // `text`: of kText, in UTF-8. While a filter is typed, all keys that are text belong to it.
  TopAction press(TopKey key, const std::string& text = {});
  // A sentence for the bottom line, until the next key.
  void say(std::string message) { message_ = std::move(message); }
  // Of the list and of the stack that is open.
  void set_page(size_t rows);

  TopView view() const { return view_; }
  bool is_tracked() const { return is_tracked_; }
  bool is_paused() const { return is_paused_; }
  bool is_typing() const { return is_typing_; }
  const std::string& message() const { return message_; }
  const std::optional<TopSample>& sample() const { return sample_; }
  const TopList& arenas() const { return arenas_; }
  const TopList& stacks() const { return stacks_; }
  // The list that is shown, or is behind the help.
  const TopList& list() const { return list_view_ == TopView::kStacks ? stacks_ : arenas_; }
  // The open stack: its frames from this one on.
  const TopRow& open_stack() const { return open_; }
  size_t open_from() const { return open_from_; }

 private:
  TopList& own_list() { return list_view_ == TopView::kStacks ? stacks_ : arenas_; }
  TopAction press_in_list(TopKey key);
  void press_in_filter(TopKey key, const std::string& text);
  void scroll(ptrdiff_t lines);

  TopList arenas_;
  TopList stacks_;
  TopView view_ = TopView::kArenas;
  TopView list_view_ = TopView::kArenas;
  bool is_tracked_ = false;
  bool is_paused_ = false;
  bool is_typing_ = false;
  std::string message_;
  std::optional<TopSample> sample_;  // its rows are in the lists
  TopRow open_;
  size_t open_from_ = 0;
  size_t page_ = 1;
};

}  // namespace heapsnap
