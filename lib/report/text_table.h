// Columns of text that line up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/terminal_text.h"
#include "report/writer.h"

namespace heapsnap {

class TextTable {
 public:
  enum class Align { kLeft, kRight };

  // A column without a title takes no heading; a table of such columns has none.
  void add_column(std::string title, Align align);
  // As many cells as columns; made by printable() where they come from a target.
  void add_row(std::vector<std::string> cells);
  // The last row is set off from those above it, as a sum.
  void set_sum() { has_sum_ = true; }
  // Writes the rows, indented by two columns. Nothing when there are none.
  void print(Writer& out, const Ink& ink) const;

 private:
  struct Column {
    std::string title;
    Align align;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  bool has_sum_ = false;
};

}  // namespace heapsnap
