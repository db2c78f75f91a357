#include "analysis/top_model.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

TopRow row(uint64_t id, std::string name, double first, double second = 0) {
  TopRow made;
  made.id = id;
  made.name = std::move(name);
  made.values[0] = first;
  made.values[1] = second;
  return made;
}

std::vector<uint64_t> ids(const TopList& list) {
  std::vector<uint64_t> all;
  for (size_t i = 0; i < list.shown(); ++i) all.push_back(list.row(i).id);
  return all;
}

TopList letters() {
  TopList list({{"a"}, {"b"}}, 0);
  list.set_rows({row(1, "parse(int)", 10, 5), row(2, "Load", 30, 1), row(3, "unload", 20, 9)});
  return list;
}

using Ids = std::vector<uint64_t>;

TopSample sample_of(uint64_t rss) {
  TopSample sample;
  sample.look.rss = rss;
  sample.arenas = {row(7, "0 main", 5), row(8, "1 of threads", 9)};
  sample.stacks = {row(1, "parse", 10), row(2, "load", 30)};
  sample.stacks[0].details = {"malloc", "parse", "main"};
  return sample;
}

}  // namespace

TEST_CASE("a list is ordered by a column, the highest first, or reversed") {
  TopList list = letters();
  CHECK(ids(list) == Ids{2, 3, 1});
  list.sort_by_next();
  CHECK(ids(list) == Ids{3, 1, 2});
  list.reverse();
  CHECK(ids(list) == Ids{2, 1, 3});
  list.sort_by_next();
  CHECK(ids(list) == Ids{1, 3, 2});
  CHECK(list.is_reversed());
}

TEST_CASE("what is not known comes last, either way") {
  TopList list({{"a"}}, 0);
  TopRow unknown = row(9, "x", 0);
  unknown.values[0].reset();
  list.set_rows({unknown, row(1, "y", -5), row(2, "z", 5)});
  CHECK(ids(list) == Ids{2, 1, 9});
  list.reverse();
  CHECK(ids(list) == Ids{1, 2, 9});
}

TEST_CASE("a filter keeps the names that contain it, in any case of letters") {
  TopList list = letters();
  list.set_filter("LOAD");
  CHECK(ids(list) == Ids{2, 3});
  CHECK(list.size() == 3);
  list.set_filter("(int)");
  CHECK(ids(list) == Ids{1});
  list.set_filter("no such");
  CHECK(list.shown() == 0);
  CHECK(list.selected_row() == nullptr);
  list.move(5);
  CHECK(list.selected() == 0);
  list.set_filter("");
  CHECK(list.shown() == 3);
}

TEST_CASE("the selection stays on its row, and the window follows it") {
  TopList list({{"a"}}, 0);
  std::vector<TopRow> rows;
  for (uint64_t i = 0; i < 20; ++i) rows.push_back(row(i, "r", 100 - static_cast<double>(i)));
  list.set_rows(rows);
  list.set_page(5);
  list.move(7);
  CHECK(list.selected_row()->id == 7);
  CHECK(list.first() == 3);
  rows[7].values[0] = 1000;  // becomes the first
  list.set_rows(rows);
  CHECK(list.selected_row()->id == 7);
  CHECK(list.selected() == 0);
  CHECK(list.first() == 0);
  list.move_page(1);
  CHECK(list.selected() == 5);
  list.move(PTRDIFF_MAX);
  CHECK(list.selected() == 19);
  CHECK(list.first() == 15);
  rows.resize(3);
  list.set_rows(rows);
  CHECK(list.selected() == 2);
  CHECK(list.first() == 0);
  list.move(-100);
  CHECK(list.selected() == 0);
  list.set_page(0);
  list.move(1);
  CHECK(list.first() == 1);
}

TEST_CASE("while it is paused, what is shown stays") {
  TopModel model;
  model.take(sample_of(100));
  CHECK(model.press(TopKey::kPause) == TopAction::kNothing);
  model.take(sample_of(200));
  CHECK(model.sample()->look.rss == 100);
  model.press(TopKey::kPause);
  model.take(sample_of(300));
  CHECK(model.sample()->look.rss == 300);
}

TEST_CASE("keys of views: arenas, stacks, one stack, help") {
  TopModel model;
  CHECK(model.view() == TopView::kArenas);
  model.set_tracked(true);
  CHECK(model.view() == TopView::kStacks);
  model.take(sample_of(1));
  model.set_page(2);
  CHECK(ids(model.list()).size() == 2);
  // The first row has no frames yet: there is nothing to open.
  model.press(TopKey::kSort);
  model.press(TopKey::kSort);
  model.press(TopKey::kSort);
  model.press(TopKey::kSort);
  CHECK(ids(model.list()) == Ids{2, 1});
  model.press(TopKey::kOpen);
  CHECK(model.view() == TopView::kStacks);
  model.press(TopKey::kDown);
  model.press(TopKey::kOpen);
  CHECK(model.view() == TopView::kStack);
  CHECK(model.open_stack().id == 1);
  model.press(TopKey::kDown);
  model.press(TopKey::kDown);
  CHECK(model.open_from() == 1);  // three frames, two lines
  model.press(TopKey::kHome);
  CHECK(model.open_from() == 0);
  model.press(TopKey::kEnd);
  CHECK(model.open_from() == 1);
  CHECK(model.press(TopKey::kQuit) == TopAction::kNothing);  // back
  CHECK(model.view() == TopView::kStacks);
  model.press(TopKey::kView);
  CHECK(model.view() == TopView::kArenas);
  CHECK(ids(model.list()) == Ids{8, 7});
  model.press(TopKey::kHelp);
  CHECK(model.view() == TopView::kHelp);
  model.press(TopKey::kHelp);
  CHECK(model.view() == TopView::kArenas);
  CHECK(model.press(TopKey::kSnapshot) == TopAction::kSnapshot);
  CHECK(model.press(TopKey::kQuit) == TopAction::kQuit);
}

TEST_CASE("a filter is typed: letters are its own, Enter keeps it, Escape does not") {
  TopModel model;
  model.take(sample_of(1));
  model.press(TopKey::kFilter);
  CHECK(model.is_typing());
  for (const char* const letter : {"M", "ä", "q"}) {
    CHECK(model.press(TopKey::kText, letter) == TopAction::kNothing);
  }
  CHECK(model.list().filter() == "Mäq");
  model.press(TopKey::kErase);
  model.press(TopKey::kErase);
  CHECK(model.list().filter() == "M");
  CHECK(ids(model.list()) == Ids{7});
  model.press(TopKey::kOpen);
  CHECK(!model.is_typing());
  CHECK(model.list().filter() == "M");
  model.press(TopKey::kBack);
  CHECK(model.list().filter().empty());
  model.press(TopKey::kFilter);
  model.press(TopKey::kErase);
  model.press(TopKey::kText, std::string(1000, 'x'));
  CHECK(model.list().filter().empty());  // far too long
  model.press(TopKey::kText, "1");
  model.press(TopKey::kBack);
  CHECK(!model.is_typing());
  CHECK(model.list().filter().empty());
}

TEST_CASE("a message stays until the next key") {
  TopModel model;
  model.say("done");
  model.take(sample_of(1));
  CHECK(model.message() == "done");
  model.press(TopKey::kDown);
  CHECK(model.message().empty());
}
