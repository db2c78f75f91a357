#include "report/top_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "report/fitted_name.h"
#include "report/number_text.h"
#include "report/terminal_text.h"

namespace heapsnap {

namespace {

constexpr size_t kHeadLines = 5;
constexpr size_t kGap = 2;
constexpr size_t kNameRoom = 14;
constexpr std::string_view kCaller = " ← ";
constexpr const char* kUnknown = "-";
constexpr const char* kNoName = "(its name is looked for)";

struct KeyText {
  const char* keys;
  const char* brief;  // where there is little room
  const char* meaning;
};
constexpr KeyText kKeys[] = {{"q", "quit", "quit"},
                             {"p Space", "pause", "pause, go on"},
                             {"s F6", "sort", "sort by the next column"},
                             {"r", "reverse", "reverse the order"},
                             {"/ F4", "filter", "filter by name"},
                             {"Esc", "back", "back, no filter"},
                             {"Tab F5", "view", "arenas, call stacks"},
                             {"Enter", "frames", "all frames of the stack"},
                             {"w", "snapshot", "write a snapshot now"},
                             {"Up Down", "row", "select a row"},
                             {"PgUp PgDn", "page", "a page"},
                             {"Home End", "ends", "first, last row"},
                             {"h ? F1", "help", "help"}};

// As many of the fields as fit, from the first one on.
std::string fitting(const std::vector<std::string>& fields, size_t width) {
  std::string line;
  for (const std::string& field : fields) {
    if (field.empty()) continue;
    const size_t gap = line.empty() ? 0 : kGap;
    if (display_width(line) + gap + display_width(field) > width) break;
    line.append(gap, ' ');
    line += field;
  }
  return line;
}

std::string padded(std::string text, size_t width) {
  const size_t taken = display_width(text);
  if (taken < width) text.append(width - taken, ' ');
  return text;
}

uint64_t bytes_of(double value) {
  return value <= 0 ? 0 : static_cast<uint64_t>(std::min(value, 9e18));
}

std::string cell_text(TopCell cell, const std::optional<double>& value) {
  if (!value) return kUnknown;
  switch (cell) {
    case TopCell::kBytes:
      return *value < 0 ? "-" + short_size_text(bytes_of(-*value))
                        : short_size_text(bytes_of(*value));
    case TopCell::kByteRate:
      return short_change_text(static_cast<int64_t>(std::clamp(*value, -9e18, 9e18)));
    case TopCell::kChurn: return short_size_text(bytes_of(*value));
    case TopCell::kCount:
    case TopCell::kCountRate: return count_text(whole_number(*value));
  }
  return {};
}

size_t width_of(TopCell cell) {
  return cell == TopCell::kByteRate ? 9 : cell == TopCell::kCountRate ? 11 : 8;
}

// "parse ← load ← main": the callers go first, then what says least of the function.
std::string fitted(std::string name, size_t width) {
  while (display_width(name) > width) {
    const size_t arrow = name.rfind(kCaller);
    if (arrow == std::string::npos) return fitted_name(name, width);
    name.resize(arrow);
  }
  return name;
}

class Screen {
 public:
  Screen(const TopModel& model, const TopProcess& process, size_t width, size_t height)
      : model_(model), process_(process), width_(width), height_(height) {}

  std::vector<TopLine> draw() {
    add_head();
    switch (model_.view()) {
      case TopView::kHelp: add_help(); break;
      case TopView::kStack: add_stack(); break;
      case TopView::kArenas:
      case TopView::kStacks: add_list(); break;
    }
    while (lines_.size() < height_ - 1) add({});
    lines_.resize(height_ - 1);
    add(bottom(), TopStyle::kReverse);
    return std::move(lines_);
  }

 private:
  void add(std::string text, TopStyle style = TopStyle::kPlain) {
    text = clipped(text, width_);
    if (style == TopStyle::kReverse) text = padded(std::move(text), width_);
    lines_.push_back({std::move(text), style});
  }

  void add_head() {
    const auto& sample = model_.sample();
    if (!sample) {
      add(fmt::format("{} {}", process_.pid, printable(process_.comm)), TopStyle::kBold);
      add("looking at it for the first time");
      return;
    }
    const WatchLook& look = sample->look;
    std::string right = time_text(look.at_ns, 1).substr(std::string("2026-01-31T").size(), 8) +
                        "Z  look " + duration_text(sample->look_ns);
    const size_t room = width_ - std::min(width_, display_width(right) + kGap);
    const std::string left = fmt::format("{} {}", process_.pid, printable(process_.comm));
    add(padded(clipped(left, room), room) + "  " + right, TopStyle::kBold);
    std::vector<std::string> resident{"rss " + short_size_text(look.rss)};
    if (sample->rates) resident.push_back(short_change_text(sample->rates->rss) + "/s");
    resident.push_back("swap " + short_size_text(look.swap));
    resident.push_back("threads " + count_text(look.threads));
    add(fitting(resident, width_));
    add(fitting({"anonymous " + short_size_text(look.anonymous),
                 "files " + short_size_text(look.file), "shared " + short_size_text(look.shmem)},
                width_));
    add(malloc_line(look));
    add(tracker_line(*sample));
  }

  std::string malloc_line(const WatchLook& look) const {
    if (look.malloc) {
      const MallocCounters& malloc = *look.malloc;
      return fitting(
          {"malloc " + short_size_text(malloc.bytes()),
           count_text(malloc.arenas, "arena", "arenas") + " " + short_size_text(malloc.arena_bytes),
           fmt::format("mmapped {} in {}", short_size_text(malloc.mmapped_bytes),
                       count_text(malloc.mmapped_chunks))},
          width_);
    }
    return process_.has_malloc ? "malloc -" : "no counters of malloc; h says why";
  }

  std::string tracker_line(const TopSample& sample) const {
    if (!sample.look.tracker) {
      return process_.may_be_read ? fmt::format("for call stacks: heapsnap inject {}", process_.pid)
                                  : std::string();
    }
    const TrackerTotals& tracker = *sample.look.tracker;
    std::vector<std::string> fields{
        "live " + short_size_text(static_cast<uint64_t>(std::max<int64_t>(0, tracker.growth())))};
    if (!tracker.recording) fields.push_back("tracker disabled");
    if (sample.rates) {
      fields.push_back(short_change_text(sample.rates->live) + "/s");
      fields.push_back("churn " + short_size_text(sample.rates->churn) + "/s");
      fields.push_back("allocs " + count_text(sample.rates->allocations) + "/s");
    }
    return fitting(fields, width_);
  }

  // The columns that fit: the first, the one that the list is ordered by, and others from the left.
  std::vector<size_t> fitting_columns(const TopList& list) const {
    std::vector<size_t> shown;
    size_t taken = kNameRoom;
    const auto take = [&](size_t column) {
      const size_t width = width_of(list.columns()[column].cell) + 1;
      const bool is_new = std::find(shown.begin(), shown.end(), column) == shown.end();
      if (!is_new || (taken + width > width_ && shown.size() > 1)) return;
      taken += width;
      shown.push_back(column);
    };
    take(list.sort());
    for (size_t column = 0; column < list.columns().size(); ++column) take(column);
    std::sort(shown.begin(), shown.end());
    return shown;
  }

  std::string row_text(const TopList& list, const std::vector<size_t>& columns,
                       const std::function<std::string(size_t)>& cell, const std::string& name,
                       bool is_function) const {
    std::string text;
    for (const size_t column : columns) {
      const std::string value = cell(column);
      const size_t width = width_of(list.columns()[column].cell);
      const size_t taken = display_width(value);
      text.append(width > taken ? width - taken : 0, ' ');
      text += value + " ";
    }
    text += ' ';
    const size_t room = width_ - std::min(width_, display_width(text));
    return text + (is_function ? fitted(name, room) : clipped(name, room));
  }

  void add_list() {
    const TopList& list = model_.list();
    const bool is_stacks = model_.view() == TopView::kStacks;
    const std::vector<size_t> columns = fitting_columns(list);
    std::string title = is_stacks ? "call stack" : "arena";
    if (!list.filter().empty()) title += fmt::format(" with \"{}\"", printable(list.filter()));
    add(row_text(
            list, columns,
            [&](size_t column) {
              const char* const mark = list.is_reversed() ? "▲" : "▼";
              return list.columns()[column].title + std::string(column == list.sort() ? mark : "");
            },
            title, false),
        TopStyle::kReverse);
    if (list.shown() == 0) return add_nothing(list, is_stacks);
    const size_t last = std::min(list.shown(), list.first() + top_page(height_));
    for (size_t i = list.first(); i < last; ++i) {
      const TopRow& row = list.row(i);
      const std::string name = row.name.empty() ? kNoName : printable(row.name);
      add(row_text(
              list, columns,
              [&](size_t column) {
                return cell_text(list.columns()[column].cell, row.values[column]);
              },
              name, !row.name.empty()),
          i == list.selected() ? TopStyle::kReverse : TopStyle::kPlain);
    }
  }

  void add_nothing(const TopList& list, bool is_stacks) {
    std::string why = "malloc's arenas cannot be read here; h says why.";
    if (process_.has_malloc) why = "malloc's counters cannot be read at this moment.";
    if (is_stacks) {
      why =
          model_.is_tracked()
              ? "No call stack holds or allocates anything yet."
              : fmt::format("Not tracked: there are no call stacks. heapsnap inject {} adds them.",
                            process_.pid);
    }
    if (list.size() != 0) why = "Nothing has this in its name: Esc removes the filter.";
    for (const std::string& line : wrapped(why, width_)) add(line);
  }

  void add_stack() {
    const TopRow& stack = model_.open_stack();
    add(fmt::format("live {}, innermost frame first; Esc goes back",
                    cell_text(TopCell::kBytes, stack.values[0])),
        TopStyle::kReverse);
    const size_t last = std::min(stack.details.size(), model_.open_from() + top_page(height_));
    for (size_t i = model_.open_from(); i < last; ++i) add("  " + printable(stack.details[i]));
  }

  void add_help() {
    lines_.resize(1);
    std::vector<std::string> keys = key_lines(false);
    if (keys.size() + 2 > height_) keys = key_lines(true);
    for (const std::string& line : keys) add(line);
    std::vector<std::string> texts{
        "A look stops nothing: /proc and some memory of the process are read from outside, in the "
        "time "
        "that the first line says. Only a snapshot (w) pauses it, for milliseconds."};
    texts.insert(texts.end(), process_.notes.begin(), process_.notes.end());
    for (const std::string& text : texts) {
      for (const std::string& line : wrapped(printable(text), width_)) add(line);
    }
  }

  // The keys in as many columns as fit.
  std::vector<std::string> key_lines(bool is_brief) const {
    size_t keys = 0;
    size_t meanings = 0;
    const auto meaning = [is_brief](const KeyText& key) {
      return is_brief ? key.brief : key.meaning;
    };
    for (const KeyText& key : kKeys) {
      keys = std::max(keys, display_width(key.keys) + 1);
      meanings = std::max(meanings, display_width(meaning(key)) + kGap);
    }
    const size_t per_line = std::max<size_t>(1, width_ / (keys + meanings));
    const size_t count = std::size(kKeys);
    std::vector<std::string> lines((count + per_line - 1) / per_line);
    for (size_t i = 0; i < count; ++i) {
      lines[i % lines.size()] +=
          padded(padded(kKeys[i].keys, keys) + meaning(kKeys[i]), keys + meanings);
    }
    return lines;
  }

  std::string bottom() const {
    if (model_.is_typing()) {
      const std::string filter = printable(model_.list().filter());
      return clipped("filter: " + filter + "_", width_ - std::min<size_t>(width_, 24)) +
             "  Enter keeps, Esc ends";
    }
    if (!model_.message().empty()) return clipped(printable(model_.message()), width_);
    const bool is_stacks = model_.view() == TopView::kStacks;
    return fitting({model_.is_paused() ? "PAUSED: p goes on" : "", "q quit", "h help",
                    model_.is_paused() ? "" : "p pause", "s sort", "/ filter",
                    is_stacks ? "Tab arenas" : "Tab stacks", is_stacks ? "Enter stack" : "",
                    "w snapshot", rows_text()},
                   width_);
  }

  // "1-20 of 200"
  std::string rows_text() const {
    const TopList& list = model_.list();
    if (list.shown() == 0 || model_.view() == TopView::kHelp) return {};
    const size_t last = std::min(list.shown(), list.first() + top_page(height_));
    std::string text = fmt::format("{}-{} of {}", list.first() + 1, last, count_text(list.shown()));
    const size_t busy = model_.sample() ? model_.sample()->busy_stacks : 0;
    if (model_.view() == TopView::kStacks && busy > list.size()) {
      text += fmt::format(" ({} in all)", count_text(busy));
    }
    return text;
  }

  const TopModel& model_;
  const TopProcess& process_;
  size_t width_;
  size_t height_;
  std::vector<TopLine> lines_;
};

}  // namespace

size_t top_page(size_t height) {
  constexpr size_t kOthers = kHeadLines + 2;  // the head of the list, and the bottom line
  return height > kOthers ? height - kOthers : 1;
}

std::vector<TopLine> top_screen(const TopModel& model, const TopProcess& process, size_t width,
                                size_t height) {
  if (width >= kTopLeastWidth && height >= kTopLeastHeight) {
    return Screen(model, process, width, height).draw();
  }
  std::vector<TopLine> lines;
  for (const std::string& line :
       wrapped(fmt::format("too small: {} x {}, needs {} x {}; q quits", width, height,
                           kTopLeastWidth, kTopLeastHeight),
               std::max<size_t>(1, width))) {
    if (lines.size() < height) lines.push_back({clipped(line, width)});
  }
  return lines;
}

}  // namespace heapsnap
