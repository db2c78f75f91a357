#include "analysis/top_model.h"

#include <algorithm>
#include <utility>

namespace heapsnap {

namespace {

constexpr size_t kLongestFilter = 200;
constexpr ptrdiff_t kAllRows = PTRDIFF_MAX;

std::vector<TopColumn> arena_columns() {
  return {{"system", TopCell::kBytes}, {"system/s", TopCell::kByteRate}, {"top", TopCell::kBytes}};
}

std::vector<TopColumn> stack_columns() {
  return {{"live", TopCell::kBytes},
          {"live/s", TopCell::kByteRate},
          {"churn/s", TopCell::kChurn},
          {"allocs/s", TopCell::kCountRate},
          {"blocks", TopCell::kCount}};
}

// Takes the last character of a text in UTF-8.
void erase_last(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

}  // namespace

TopModel::TopModel() : arenas_(arena_columns(), 0), stacks_(stack_columns(), 1) {}

void TopModel::set_tracked(bool is_tracked) {
  is_tracked_ = is_tracked;
  view_ = list_view_ = is_tracked ? TopView::kStacks : TopView::kArenas;
  stacks_.set_rows({});
}

void TopModel::take(TopSample sample) {
  if (is_paused_) return;
  arenas_.set_rows(std::move(sample.arenas));
  stacks_.set_rows(std::move(sample.stacks));
  sample_ = std::move(sample);
}

void TopModel::set_page(size_t rows) {
  page_ = std::max<size_t>(1, rows);
  arenas_.set_page(page_);
  stacks_.set_page(page_);
  scroll(0);
}

void TopModel::scroll(ptrdiff_t lines) {
  const size_t size = open_.details.size();
  const auto last = static_cast<ptrdiff_t>(size > page_ ? size - page_ : 0);
  const auto from = static_cast<ptrdiff_t>(std::min(open_from_, size));
  open_from_ = static_cast<size_t>(
      lines > last ? last : std::clamp<ptrdiff_t>(from + std::max(lines, -from), 0, last));
}

TopAction TopModel::press(TopKey key, const std::string& text) {
  message_.clear();
  if (is_typing_) {
    press_in_filter(key, text);
    return TopAction::kNothing;
  }
  if (key == TopKey::kQuit && view_ != TopView::kArenas && view_ != TopView::kStacks) {
    key = TopKey::kBack;
  }
  switch (key) {
    case TopKey::kQuit: return TopAction::kQuit;
    case TopKey::kSnapshot: return TopAction::kSnapshot;
    case TopKey::kPause: is_paused_ = !is_paused_; return TopAction::kNothing;
    case TopKey::kHelp:
      view_ = view_ == TopView::kHelp ? list_view_ : TopView::kHelp;
      return TopAction::kNothing;
    default: return press_in_list(key);
  }
}

TopAction TopModel::press_in_list(TopKey key) {
  const bool is_open = view_ == TopView::kStack;
  const auto page = static_cast<ptrdiff_t>(page_);
  const auto move = [&](ptrdiff_t rows) { is_open ? scroll(rows) : own_list().move(rows); };
  switch (key) {
    case TopKey::kUp: move(-1); break;
    case TopKey::kDown: move(1); break;
    case TopKey::kPageUp: move(-page); break;
    case TopKey::kPageDown: move(page); break;
    case TopKey::kHome: move(-kAllRows); break;
    case TopKey::kEnd: move(kAllRows); break;
    case TopKey::kSort: own_list().sort_by_next(); break;
    case TopKey::kReverse: own_list().reverse(); break;
    case TopKey::kFilter:
      view_ = list_view_;
      is_typing_ = true;
      break;
    case TopKey::kView:
      list_view_ = list_view_ == TopView::kStacks ? TopView::kArenas : TopView::kStacks;
      view_ = list_view_;
      break;
    case TopKey::kOpen:
      if (const TopRow* const row = own_list().selected_row();
          row != nullptr && !row->details.empty()) {
        open_ = *row;
        open_from_ = 0;
        view_ = TopView::kStack;
      }
      break;
    case TopKey::kBack:
      if (view_ == list_view_) own_list().set_filter({});
      view_ = list_view_;
      break;
    default: break;
  }
  return TopAction::kNothing;
}

void TopModel::press_in_filter(TopKey key, const std::string& text) {
  std::string filter = own_list().filter();
  switch (key) {
    case TopKey::kOpen: is_typing_ = false; return;
    case TopKey::kBack:
      is_typing_ = false;
      filter.clear();
      break;
    case TopKey::kErase: erase_last(filter); break;
    default:
      if (filter.size() + text.size() <= kLongestFilter) filter += text;
  }
  own_list().set_filter(std::move(filter));
}

}  // namespace heapsnap
