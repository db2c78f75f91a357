#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "report/number_text.h"
#include "report/watch_report.h"

namespace heapsnap {

namespace {

constexpr size_t kDateDigits = 10;  // 2026-11-22
constexpr const char* kNothing = "-";
// Lines of a terminal that are no rows: the header, and the prompt and command line before it.
constexpr size_t kLinesBesideRows = 3;
constexpr size_t kFewestRows = 5;

}  // namespace

WatchTable::WatchTable(Writer& out, const Ink& ink, const Shape& shape)
    : out_(out), ink_(ink), shape_(shape) {
  const size_t time_digits = shape.time_digits == 0 ? 9 : 10 + shape.time_digits;  // 18:09:05.2Z
  time_width_ = std::max(kDateDigits, time_digits);
  if (shape.is_tracked) {
    add_column("live", 7, 0, [](const WatchRow& row) {
      return short_size_text(
          static_cast<uint64_t>(std::max<int64_t>(0, row.look.tracker->growth())));
    });
    add_column("live/s", 8, 1, [](const WatchRow& row) {
      return row.rates ? short_change_text(row.rates->live) : kNothing;
    });
  }
  if (shape.has_growth) {
    add_column("growth", 8, 0, [](const WatchRow& row) { return short_change_text(row.growth); });
  }
  if (shape.is_tracked) {
    add_column("churn/s", 7, 0, [](const WatchRow& row) {
      return row.rates ? short_size_text(row.rates->churn) : kNothing;
    });
    add_column("allocs/s", 9, 0, [](const WatchRow& row) {
      return row.rates ? count_text(row.rates->allocations) : kNothing;
    });
  }
  add_column("rss", 7, 0, [](const WatchRow& row) { return short_size_text(row.look.rss); });
  add_column("rss/s", 8, 2, [](const WatchRow& row) {
    return row.rates ? short_change_text(row.rates->rss) : kNothing;
  });
  add_column("anon", 7, 4, [](const WatchRow& row) { return short_size_text(row.look.anonymous); });
  add_column("file", 7, 7, [](const WatchRow& row) { return short_size_text(row.look.file); });
  add_column("shmem", 7, 8, [](const WatchRow& row) { return short_size_text(row.look.shmem); });
  add_column("swap", 7, 5, [](const WatchRow& row) { return short_size_text(row.look.swap); });
  add_column("thr", 5, 6, [](const WatchRow& row) { return fmt::to_string(row.look.threads); });
  if (shape.has_malloc) {
    add_column("malloc", 7, 3, [](const WatchRow& row) {
      return row.look.malloc ? short_size_text(row.look.malloc->bytes()) : kNothing;
    });
    add_column("arenas", 6, 9, [](const WatchRow& row) {
      return row.look.malloc ? fmt::to_string(row.look.malloc->arenas) : kNothing;
    });
  }
  fit(80, 24);
}

void WatchTable::add_column(std::string title, size_t width, unsigned rank,
                            std::string (*cell)(const WatchRow& row)) {
  columns_.push_back({std::move(title), width, rank, cell});
}

size_t WatchTable::width_of(const std::vector<size_t>& columns, size_t gap) const {
  return std::accumulate(
      columns.begin(), columns.end(), time_width_,
      [&](size_t sum, size_t index) { return sum + gap + columns_[index].width; });
}

void WatchTable::fit(size_t width, size_t height) {
  lines_per_header_ = std::max(kFewestRows, height - std::min(height, kLinesBesideRows));
  if (width == width_) return;
  width_ = width;
  shown_.resize(columns_.size());
  std::iota(shown_.begin(), shown_.end(), size_t{0});
  while (width_of(shown_, 1) > width) {
    const auto last = std::max_element(shown_.begin(), shown_.end(), [this](size_t a, size_t b) {
      return columns_[a].rank < columns_[b].rank;
    });
    if (last == shown_.end() || columns_[*last].rank == 0) break;
    shown_.erase(last);
  }
  gap_ = width_of(shown_, 2) <= width ? 2 : 1;
  date_.clear();
}

void WatchTable::print_line(const std::string& text) {
  out_.write(text + "\n");
  ++lines_;
}

void WatchTable::print_header(const std::string& date) {
  std::string line = fmt::format("{:<{}}", date, time_width_);
  for (const size_t index : shown_) {
    line += fmt::format("{:>{}}", columns_[index].title, gap_ + columns_[index].width);
  }
  out_.write(ink_.bold(line) + "\n");
  date_ = date;
  lines_ = 0;
}

void WatchTable::add(const WatchRow& row) {
  const std::string time = time_text(row.look.at_ns, std::max(1U, shape_.time_digits));
  const std::string date = time.substr(0, kDateDigits);
  if (date != date_ || lines_ >= lines_per_header_) print_header(date);
  std::string clock = time.substr(kDateDigits + 1);  // behind the T
  if (shape_.time_digits == 0) clock = clock.substr(0, clock.find('.')) + "Z";
  std::string line = fmt::format("{:<{}}", clock, time_width_);
  for (const size_t index : shown_) {
    line += fmt::format("{:>{}}", columns_[index].cell(row), gap_ + columns_[index].width);
  }
  print_line(line);
  if (row.snapshot) {
    const WatchedSnapshot& taken = *row.snapshot;
    print_line(fmt::format("  {}: {}, {}, paused {}", taken.why, printable(taken.path),
                           size_text(taken.bytes), duration_text(taken.pause_ns)));
  }
  for (const std::string& note : row.notes) print_line("  " + printable(note));
}

}  // namespace heapsnap
