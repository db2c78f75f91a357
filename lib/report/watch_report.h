// What `heapsnap watch` prints of each look: a row of a table, or a line of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/watch_look.h"
#include "report/terminal_text.h"
#include "report/writer.h"

namespace heapsnap {

// A snapshot that was taken at a look.
struct WatchedSnapshot {
  std::string why;  // "grew by 2.0 MiB"
  std::string path;
  uint64_t bytes = 0;
  uint64_t pause_ns = 0;
};

struct WatchRow {
  WatchLook look;
  std::optional<WatchRates> rates;  // none at the first look
  int64_t growth = 0;               // since the last snapshot or the first look
  std::optional<WatchedSnapshot> snapshot;
  std::vector<std::string> notes;  // a sentence each
};

// A table whose header repeats, as vmstat's does:
//
//   2026-11-22     rss    rss/s    anon    file   shmem    swap   thr  malloc arenas
//   18:09:05Z   182.6M        -  179.8M    2.8M       0       0     5  178.4M      5
//   18:09:06Z   183.6M    +1.0M  180.8M    2.8M       0       0     5  179.4M      5
//     grew by 1.0 MiB: server.4242.20261122T180906Z.1.hsnap, 75.7 KiB, paused 2.7 ms
//
// The header has the date and is printed again when that changes. Times are UTC. Columns that do
// not fit the width are left out, the least important first.
class WatchTable {
 public:
  struct Shape {
    bool is_tracked = false;
    bool has_malloc = false;   // whether malloc's counters can be read at all
    bool has_growth = false;   // whether growth calls for a snapshot
    unsigned time_digits = 0;  // of the fraction of a second
  };

  WatchTable(Writer& out, const Ink& ink, const Shape& shape);

  // Rows from now on; `height`: lines of the terminal. The header comes again if that changes it.
  void fit(size_t width, size_t height);
  void add(const WatchRow& row);

 private:
  struct Column {
    std::string title;
    size_t width = 0;
    unsigned rank = 0;  // the highest goes first
    std::string (*cell)(const WatchRow& row);
  };

  void add_column(std::string title, size_t width, unsigned rank,
                  std::string (*cell)(const WatchRow& row));
  size_t width_of(const std::vector<size_t>& columns, size_t gap) const;
  void print_header(const std::string& date);
  void print_line(const std::string& text);

  Writer& out_;
  Ink ink_;
  Shape shape_;
  size_t time_width_;
  std::vector<Column> columns_;
  std::vector<size_t> shown_;  // indices into columns_
  size_t gap_ = 2;
  size_t width_ = 0;
  size_t lines_per_header_ = 0;
  size_t lines_ = 0;  // since the header
  std::string date_;  // of the header; empty: it is due
};

// One object, ended by a newline.
void print_watch_json(Writer& out, int pid, const std::string& comm, const WatchRow& row);

}  // namespace heapsnap
