// The screen of `heapsnap top` as lines of text, for a terminal of any size:
//
//   4242 leaky_server          18:09:05Z  look 0.2 ms
//   rss 182.6M +1.0M/s  swap 0  threads 5                    what the kernel counts
//   anonymous 179.8M  files 2.8M  shared 0
//   malloc 178.4M  5 arenas 150.1M  mmapped 28.3M in 8       what malloc has from the system
//   live 12.3M +1.0M/s  churn 4.2M/s  allocs 1,200/s         of a tracked process
//      live ▼   live/s  churn/s  stack                       a list: columns that do not fit are
//     10.1M     +1.0M     2.0M   parse ← load ← main         left out, all but the first and the
//      2.2M         0     2.2M   format ← log                one that it is ordered by
//   q quit  p pause  s sort  / filter  Tab arenas  h help
//
// All texts of the target are made printable and cut to the width. A line never exceeds the width,
// nor the lines the height.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/top_model.h"

namespace heapsnap {

enum class TopStyle : uint8_t { kPlain, kBold, kDim, kReverse };

struct TopLine {
  std::string text;
  TopStyle style = TopStyle::kPlain;
};

// What the model does not know.
struct TopProcess {
  int pid = 0;
  std::string comm;
  bool has_malloc = false;         // whether malloc's counters can be read at all
  bool may_be_read = true;         // its memory; without that there is only what /proc says
  std::vector<std::string> notes;  // a sentence each; shown with the help
};

inline constexpr size_t kTopLeastWidth = 40;
inline constexpr size_t kTopLeastHeight = 10;

// How many rows of a list such a screen shows: TopModel::set_page().
size_t top_page(size_t height);
std::vector<TopLine> top_screen(const TopModel& model, const TopProcess& process, size_t width,
                                size_t height);

}  // namespace heapsnap
