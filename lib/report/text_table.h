// Columns of text that line up, and fit into the width of a terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/terminal_text.h"
#include "report/writer.h"

namespace heapsnap {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  // Makes cells of a column at most `width` wide.
  using Shorten =
      std::function<std::vector<std::string>(const std::vector<std::string>& cells, size_t width)>;

  // A column without a title takes no heading; a table of such columns has none.
  void add_column(std::string title, Align align);
  // A column on the left whose cells `shorten` can cut down to `least` columns.
  void add_column(std::string title, size_t least, Shorten shorten);
  // As many cells as columns; made by printable() where they come from a target.
  void add_row(std::vector<std::string> cells);
  // The last row is set off from those above it, as a sum.
  void set_sum() { has_sum_ = true; }

  // Writes the rows, indented by two columns. Nothing when there are none.
  //
  // In a table that is wider than `width`, cells on the left are broken between words or shortened;
  // then the blanks between columns are fewer; then a last column that can be shortened gets a line
  // of its own below its row; and at last the table is cut into several, each with the first
  // column. Cells on the right, which are numbers, are never broken.
  void print(Writer& out, const Ink& ink, size_t width) const;

 private:
  struct Column {
    std::string title;
    Align align;
    size_t least = 0;  // columns that it can be shortened to
    Shorten shorten;   // null: its cells are broken between words, if on the left
  };
  // Some of the columns, side by side.
  struct Layout {
    std::vector<size_t> columns;
    std::vector<size_t> widths;
    size_t gap = 2;
  };

  size_t natural_width(size_t column) const;
  size_t least_width(size_t column) const;
  bool fit(Layout& layout, size_t width) const;
  void print_columns(Writer& out, const Ink& ink, const Layout& layout, size_t below,
                     size_t width) const;
  std::vector<std::vector<std::string>> lines_of(size_t column, size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_sum_ = false;
};

}  // namespace heapsnap
