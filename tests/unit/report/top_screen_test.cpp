#include "report/top_screen.h"

#include <doctest/doctest.h>

#include "report/terminal_text.h"
#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

TopRow row(uint64_t id, std::string name, double value) {
  TopRow made;
  made.id = id;
  made.name = std::move(name);
  for (auto& one : made.values) one = value;
  return made;
}

TopSample top_sample(bool is_tracked) {
  TopSample made;
  made.look.at_ns = 1'700'000'000'000'000'000;
  made.look.rss = 182 * kMiB;
  made.look.anonymous = 180 * kMiB;
  made.look.file = 2 * kMiB;
  made.look.threads = 5;
  made.look.malloc = MallocCounters{5, 150 * kMiB, 8, 28 * kMiB};
  made.rates = WatchRates{};
  made.rates->rss = -3 * static_cast<int64_t>(kMiB);
  made.look_ns = 134'000;
  for (uint64_t i = 0; i < 50; ++i)
    made.arenas.push_back(row(i, std::to_string(i) + " main", 1e6 * static_cast<double>(i)));
  if (is_tracked) {
    made.look.tracker = TrackerTotals{100, 50, 9000, 1000, 0, true};
    made.stacks = {row(1, "parse(int) ← \x1b[2Jload\n", 5e6), row(2, "", -3e6)};
    made.stacks[0].details = {"malloc  libc.so.6", "parse(int)  a.cpp:3  \x07"};
    made.busy_stacks = 700;
  }
  return made;
}

std::string text_of(const std::vector<TopLine>& lines) {
  std::string text;
  for (const TopLine& line : lines) text += line.text + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const TopProcess kProcess{4242, "leaky\x1b[0m", true, true, {"a note with \x1b"}};

}  // namespace

TEST_CASE("no line exceeds the width, no screen the height, and nothing controls the terminal") {
  for (const bool is_tracked : {false, true}) {
    for (const size_t width : {1, 5, 39, 40, 41, 60, 80, 132, 200}) {
      for (const size_t height : {1, 2, 9, 10, 11, 24, 60}) {
        TopModel model;
        model.set_tracked(is_tracked);
        for (int step = 0; step < 8; ++step) {
          model.set_page(top_page(height));
          const auto lines = top_screen(model, kProcess, width, height);
          CHECK(lines.size() <= height);
          CHECK(!lines.empty());
          for (const TopLine& line : lines) {
            CHECK(display_width(line.text) <= width);
            for (const char letter : line.text) CHECK(static_cast<unsigned char>(letter) >= ' ');
          }
          if (step == 0) model.take(top_sample(is_tracked));
          if (step == 1) model.press(TopKey::kHelp);
          if (step == 2) model.press(TopKey::kBack);
          if (step == 3) model.press(TopKey::kOpen);
          if (step == 4) model.press(TopKey::kFilter);
          if (step == 5) model.press(TopKey::kText, "ä\x1b" + std::string(100, 'x'));
          if (step == 6) model.say(std::string(300, 'y') + "\x1b");
        }
      }
    }
  }
}

TEST_CASE("the head says what is resident, what malloc has, and how long the look took") {
  TopModel model;
  model.take(top_sample(false));
  const std::string text = text_of(top_screen(model, kProcess, 100, 24));
  CHECK(has(text, R"(4242 leaky\x1b[0m)"));
  CHECK(has(text, "22:13:20Z  look 134.0 µs"));
  CHECK(has(text, "rss 182.0M  -3.0M/s  swap 0  threads 5"));
  CHECK(has(text, "anonymous 180.0M  files 2.0M  shared 0"));
  CHECK(has(text, "malloc 178.0M  5 arenas 150.0M  mmapped 28.0M in 8"));
  CHECK(has(text, "for call stacks: heapsnap inject 4242"));
  CHECK(has(text, "system▼"));
  CHECK(has(text, "1-17 of 50"));
}

TEST_CASE("the narrowest screen still has the selected row, the sorted column and the keys") {
  TopModel model;
  model.set_tracked(true);
  model.take(top_sample(true));
  model.press(TopKey::kSort);
  model.set_page(top_page(10));
  const auto lines = top_screen(model, kProcess, 40, 10);
  REQUIRE(lines.size() == 10);
  const std::string text = text_of(lines);
  CHECK(has(text, "churn/s▼"));
  CHECK(has(lines[6].text, "  parse(int) "));
  CHECK(!has(lines[6].text, "←"));
  CHECK(has(lines[9].text, "q quit"));
  CHECK(lines[6].style == TopStyle::kReverse);
  CHECK(lines[7].style == TopStyle::kPlain);
}

TEST_CASE("stacks: names, those that are looked for, all frames of one") {
  TopModel model;
  model.set_tracked(true);
  model.take(top_sample(true));
  model.set_page(top_page(24));
  std::string text = text_of(top_screen(model, kProcess, 120, 24));
  CHECK(has(text, R"(parse(int) ← \x1b[2Jload\x0a)"));
  CHECK(has(text, "(its name is looked for)"));
  CHECK(has(text, "-2.9M"));
  CHECK(has(text, "1-2 of 2 (700 in all)"));
  model.press(TopKey::kOpen);
  text = text_of(top_screen(model, kProcess, 120, 24));
  CHECK(has(text, "innermost frame first"));
  CHECK(has(text, R"(  parse(int)  a.cpp:3  \x07)"));
}

TEST_CASE("what cannot be shown is said") {
  TopModel model;
  CHECK(has(text_of(top_screen(model, kProcess, 80, 24)), "for the first time"));
  TopSample bare;
  bare.look.rss = kMiB;
  model.take(bare);
  TopProcess other = kProcess;
  other.has_malloc = false;
  other.may_be_read = false;
  std::string text = text_of(top_screen(model, other, 80, 24));
  CHECK(has(text, "no counters of malloc; h says why"));
  CHECK(!has(text, "inject"));
  model.press(TopKey::kView);
  CHECK(has(text_of(top_screen(model, kProcess, 80, 24)), "Not tracked"));
  model.press(TopKey::kHelp);
  CHECK(has(text_of(top_screen(model, kProcess, 80, 24)), R"(a note with \x1b)"));
  CHECK(has(text_of(top_screen(model, kProcess, 30, 24)), "too small: 30 x 24"));
}
