#include "report/text_table.h"

#include <algorithm>

namespace heapsnap {

void TextTable::add_column(std::string title, Align align) {
  columns_.push_back({std::move(title), align});
}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::print(Writer& out, const Ink& ink) const {
  if (rows_.empty()) return;
  std::vector<size_t> widths;
  bool has_titles = false;
  for (size_t column = 0; column < columns_.size(); ++column) {
    size_t width = display_width(columns_[column].title);
    has_titles |= width > 0;
    for (const auto& row : rows_) width = std::max(width, display_width(row[column]));
    widths.push_back(width);
  }
  const auto line_of = [&](const auto& cell_of) {
    std::string line;
    for (size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = cell_of(column);
      const std::string padding(widths[column] - display_width(cell), ' ');
      line += "  ";
      line += columns_[column].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    return line;
  };
  if (has_titles) {
    out.write(ink.dim(
        line_of([&](size_t column) -> const std::string& { return columns_[column].title; })));
    out.write("\n");
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const std::string line =
        line_of([&](size_t column) -> const std::string& { return rows_[i][column]; });
    out.write(has_sum_ && i + 1 == rows_.size() ? ink.bold(line) : line);
    out.write("\n");
  }
}

}  // namespace heapsnap
