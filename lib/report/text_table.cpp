#include "report/text_table.h"

#include <algorithm>
#include <numeric>

namespace heapsnap {

namespace {

constexpr size_t kIndent = 2;
constexpr size_t kIndentBelow = 6;
constexpr size_t kNoColumn = ~size_t{0};

}  // namespace

void TextTable::add_column(std::string title, Align align) {
  columns_.push_back({std::move(title), align, 0, nullptr});
}

void TextTable::add_column(std::string title, size_t least, Shorten shorten) {
  columns_.push_back({std::move(title), Align::kLeft, least, std::move(shorten)});
}

void TextTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

size_t TextTable::natural_width(size_t column) const {
  size_t width = display_width(columns_[column].title);
  for (const auto& row : rows_) width = std::max(width, display_width(row[column]));
  return width;
}

size_t TextTable::least_width(size_t column) const {
  const Column& what = columns_[column];
  const size_t natural = natural_width(column);
  if (what.shorten) return std::min(natural, std::max(what.least, display_width(what.title)));
  if (what.align == Align::kRight) return natural;
  size_t least = display_width(what.title);
  for (const auto& row : rows_) {
    for (const std::string& word : wrapped(row[column], 1)) {
      least = std::max(least, display_width(word));
    }
  }
  return least;
}

// Finds widths of the layout's columns and the gap between them. False: they do not fit.
bool TextTable::fit(Layout& layout, size_t width) const {
  layout.widths.clear();
  size_t least = 0;
  for (const size_t column : layout.columns) {
    layout.widths.push_back(least_width(column));
    least += layout.widths.back();
  }
  const size_t gaps = layout.columns.size() - 1;
  const size_t least_total = kIndent + least + gaps;
  layout.gap = least_total + gaps <= width ? 2 : 1;
  if (least_total > width) return false;
  size_t room = width - kIndent - least - gaps * layout.gap;
  for (size_t i = 0; i < layout.columns.size(); ++i) {
    const size_t more = std::min(room, natural_width(layout.columns[i]) - layout.widths[i]);
    layout.widths[i] += more;
    room -= more;
  }
  return true;
}

// Each cell's lines in a column of that width.
std::vector<std::vector<std::string>> TextTable::lines_of(size_t column, size_t width) const {
  std::vector<std::string> cells;
  for (const auto& row : rows_) cells.push_back(row[column]);
  const Column& what = columns_[column];
  if (what.shorten && natural_width(column) > width) cells = what.shorten(cells, width);
  std::vector<std::vector<std::string>> lines;
  for (std::string& cell : cells) {
    const bool is_broken = !what.shorten && display_width(cell) > width;
    lines.push_back(is_broken ? wrapped(cell, width) : std::vector{std::move(cell)});
  }
  return lines;
}

void TextTable::print_columns(Writer& out, const Ink& ink, const Layout& layout, size_t below,
                              size_t width) const {
  const auto line_of = [&](const auto& cell_of) {
    std::string line(kIndent, ' ');
    for (size_t i = 0; i < layout.columns.size(); ++i) {
      const std::string cell = cell_of(i);
      const std::string padding(layout.widths[i] - std::min(layout.widths[i], display_width(cell)),
                                ' ');
      if (i != 0) line.append(layout.gap, ' ');
      line += columns_[layout.columns[i]].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.resize(line.find_last_not_of(' ') + 1);
    return line;
  };
  const auto title = [&](size_t i) { return columns_[layout.columns[i]].title; };
  if (const std::string titles = line_of(title); !titles.empty()) {
    out.write(ink.dim(titles) + "\n");
    if (below != kNoColumn && !columns_[below].title.empty()) {
      out.write(ink.dim(std::string(kIndentBelow, ' ') + columns_[below].title) + "\n");
    }
  }
  std::vector<std::vector<std::vector<std::string>>> cells;  // by column, row and line
  for (size_t i = 0; i < layout.columns.size(); ++i) {
    cells.push_back(lines_of(layout.columns[i], layout.widths[i]));
  }
  std::vector<std::vector<std::string>> cells_below;
  if (below != kNoColumn) cells_below = lines_of(below, width - kIndentBelow);
  for (size_t row = 0; row < rows_.size(); ++row) {
    size_t lines = 1;
    for (const auto& column : cells) lines = std::max(lines, column[row].size());
    for (size_t line = 0; line < lines; ++line) {
      const std::string text = line_of([&](size_t i) {
        return line < cells[i][row].size() ? cells[i][row][line] : std::string();
      });
      out.write((has_sum_ && row + 1 == rows_.size() ? ink.bold(text) : text) + "\n");
    }
    if (below == kNoColumn) continue;
    for (const std::string& line : cells_below[row]) {
      if (!line.empty()) out.write(std::string(kIndentBelow, ' ') + line + "\n");
    }
  }
}

void TextTable::print(Writer& out, const Ink& ink, size_t width) const {
  if (rows_.empty()) return;
  Layout layout;
  layout.columns.resize(columns_.size());
  std::iota(layout.columns.begin(), layout.columns.end(), 0);
  size_t below = kNoColumn;
  bool fits = fit(layout, width);
  if (!fits && columns_.back().shorten && columns_.size() > 1) {
    below = columns_.size() - 1;
    layout.columns.pop_back();
    fits = fit(layout, width);
  }
  if (fits) return print_columns(out, ink, layout, below, width);
  const std::vector<size_t> columns = layout.columns;
  for (size_t next = 1; next < columns.size();) {
    if (next > 1) out.write("\n");
    layout.columns = {columns.front(), columns[next++]};
    fit(layout, width);
    for (; next < columns.size(); ++next) {
      Layout wider = layout;
      wider.columns.push_back(columns[next]);
      if (!fit(wider, width)) break;
      layout = std::move(wider);
    }
    print_columns(out, ink, layout, next == columns.size() ? below : kNoColumn, width);
  }
}

}  // namespace heapsnap
