#include "analysis/top_list.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace heapsnap {

namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool contains(std::string_view text, std::string_view part) {
  if (part.empty()) return true;
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

}  // namespace

TopList::TopList(std::vector<TopColumn> columns, size_t sort)
    : columns_(std::move(columns)), sort_(sort) {}

void TopList::set_rows(std::vector<TopRow> rows) {
  const TopRow* const before = selected_row();
  const std::optional<uint64_t> id = before == nullptr ? std::nullopt : std::optional(before->id);
  rows_ = std::move(rows);
  arrange();
  for (size_t i = 0; id && i < order_.size(); ++i) {
    if (row(i).id == *id) selected_ = i;
  }
  follow();
}

void TopList::sort_by_next() {
  sort_ = (sort_ + 1) % columns_.size();
  selected_ = 0;
  arrange();
  follow();
}

void TopList::reverse() {
  is_reversed_ = !is_reversed_;
  selected_ = 0;
  arrange();
  follow();
}

void TopList::set_filter(std::string filter) {
  filter_ = std::move(filter);
  selected_ = 0;
  arrange();
  follow();
}

void TopList::set_page(size_t rows) {
  page_ = std::max<size_t>(1, rows);
  follow();
}

void TopList::move(ptrdiff_t rows) {
  if (order_.empty()) return;
  if (rows < 0) {
    selected_ -= std::min(selected_, static_cast<size_t>(-rows));
  } else {
    selected_ += std::min(order_.size() - 1 - selected_, static_cast<size_t>(rows));
  }
  follow();
}

void TopList::arrange() {
  order_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (contains(rows_[i].name, filter_)) order_.push_back(i);
  }
  // What is not known comes last, either way.
  const auto value = [this](size_t index) {
    constexpr double kLast = std::numeric_limits<double>::infinity();
    return rows_[index].values[sort_].value_or(is_reversed_ ? kLast : -kLast);
  };
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
    return is_reversed_ ? value(a) < value(b) : value(a) > value(b);
  });
}

// The window moves no further than it must.
void TopList::follow() {
  selected_ = order_.empty() ? 0 : std::min(selected_, order_.size() - 1);
  if (selected_ < first_) first_ = selected_;
  if (selected_ >= first_ + page_) first_ = selected_ + 1 - page_;
  const size_t last_first = order_.size() > page_ ? order_.size() - page_ : 0;
  first_ = std::min(first_, last_first);
}

}  // namespace heapsnap
