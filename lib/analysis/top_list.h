// A list of `heapsnap top`, as its reader has it: ordered by a column, reduced by a filter, and
// looked at through a window that follows the selected row.
//
//   rows ─► those whose name contains the filter ─► ordered ─► window of so many rows
//                                                               ^ first    ^ selected
//
// The selection is of a row, not of a place: it stays on the same arena or stack when the order
// changes under it, and goes to the row that took its place where it is gone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heapsnap {

enum class TopCell : uint8_t { kBytes, kByteRate, kChurn, kCount, kCountRate };

struct TopColumn {
  const char* title;
  TopCell cell = TopCell::kBytes;
};

inline constexpr size_t kTopColumns = 5;

struct TopRow {
  uint64_t id = 0;                                          // the same at each look
  std::string name;                                         // as the target has it
  std::array<std::optional<double>, kTopColumns> values{};  // as the columns; none: not known
  std::vector<std::string> details;                         // a line each: the frames of a stack
};

class TopList {
 public:
  // `sort`: the column by which it is ordered at first, the highest first.
  TopList(std::vector<TopColumn> columns, size_t sort);

  void set_rows(std::vector<TopRow> rows);
  void sort_by_next();
  void reverse();
  // Upper and lower case of ASCII letters are the same. Empty: all rows.
  void set_filter(std::string filter);
  // Rows that the window shows.
  void set_page(size_t rows);
  // Moves the selection by so many rows, as far as there are any.
  void move(ptrdiff_t rows);
  void move_page(int direction) { move(direction * static_cast<ptrdiff_t>(page_)); }

  const std::vector<TopColumn>& columns() const { return columns_; }
  size_t sort() const { return sort_; }
  bool is_reversed() const { return is_reversed_; }
  const std::string& filter() const { return filter_; }
  size_t size() const { return rows_.size(); }    // rows without the filter
  size_t shown() const { return order_.size(); }  // with it
  size_t first() const { return first_; }         // of the window, among those shown
  size_t selected() const { return selected_; }   // the same
  const TopRow& row(size_t shown) const { return rows_[order_[shown]]; }
  const TopRow* selected_row() const { return order_.empty() ? nullptr : &row(selected_); }

 private:
  void arrange();
  void follow();

  std::vector<TopColumn> columns_;
  size_t sort_;
  bool is_reversed_ = false;
  std::string filter_;
  std::vector<TopRow> rows_;
  std::vector<size_t> order_;  // of rows_
  size_t page_ = 1;
  size_t first_ = 0;
  size_t selected_ = 0;
};

}  // namespace heapsnap
