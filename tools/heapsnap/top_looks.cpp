#include "tools/heapsnap/top_looks.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_name.h"
#include "report/stack_frames.h"
#include "tools/capture/tracking_capture.h"

namespace heapsnap {

namespace {

constexpr const char* kCommand = "heapsnap top";
constexpr std::chrono::milliseconds kLongestExit{300};
constexpr size_t kMostStacks = 300;
constexpr size_t kMostNames = 4096;
constexpr size_t kMostFrames = 512;  // lines of a stack
constexpr size_t kCallers = 3;       // that the name of a stack has
constexpr size_t kLongestPart = 200;

std::string shortened(std::string text) {
  if (text.size() > kLongestPart) text.resize(kLongestPart);
  return text;
}

}  // namespace

TopLooks::TopLooks(int pid) : pid_(pid) {
  process_.emplace(pid, kCommand);
}

void TopLooks::begin_anew() {
  process_.reset();
  process_.emplace(pid_, kCommand);
  last_.reset();
  arenas_before_.clear();
  rates_ = {};
  tracking_ = {};
  unnamed_.clear();
  names_.clear();
  lacks_names_ = false;
}

TopSample TopLooks::look(StackMeasure by) {
  try {
    return look_once(by);
  } catch (const Error& error) {
    // A tracked program that executed another one has lost the tracker. (A process loses its memory
    // some time before it has ended.)
    if (error.kind() != ErrorKind::kNoProcess) throw;
    if (process_->ends_before(std::chrono::steady_clock::now() + kLongestExit))
      throw process_->ended();
  }
  begin_anew();
  is_replaced_ = true;
  return look_once(by);
}

TopSample TopLooks::look_once(StackMeasure by) {
  TopSample sample;
  const uint64_t begin = monotonic_ns();
  std::vector<ArenaCounters> arenas;
  sample.look = process_->look(&arenas);
  if (process_->take_replaced()) {
    is_replaced_ = true;
    last_.reset();
    arenas_before_.clear();
  }
  if (process_->is_tracked()) {
    tracking_ = read_tracking(process_->target().memory(), process_->tracker(), 0);
    const uint64_t generation = tracking_.record.generation;
    if (std::exchange(generation_, generation) != generation) names_.clear();
    sample.stacks =
        stack_rows(rates_.next(tracking_.stacks, sample.look.monotonic_ns, by, kMostStacks));
    sample.busy_stacks = rates_.busy();
  }
  sample.look_ns = monotonic_ns() - begin;
  if (last_) sample.rates = rates_between(*last_, sample.look);
  sample.arenas = arena_rows(arenas, sample.look.monotonic_ns);
  last_ = sample.look;
  return sample;
}

std::vector<TopRow> TopLooks::arena_rows(const std::vector<ArenaCounters>& arenas,
                                         uint64_t now_ns) {
  std::vector<TopRow> rows;
  std::unordered_map<uint64_t, uint64_t> now;
  const double seconds = last_ && now_ns > last_->monotonic_ns
                             ? static_cast<double>(now_ns - last_->monotonic_ns) / 1e9
                             : 0;
  for (const ArenaCounters& arena : arenas) {
    TopRow row;
    row.id = arena.address.value();
    row.name = fmt::format("{} {}", rows.size(), arena.is_main ? "main" : "of threads");
    row.values[0] = static_cast<double>(arena.bytes);
    const auto before = arenas_before_.find(row.id);
    if (seconds > 0 && before != arenas_before_.end()) {
      row.values[1] =
          (static_cast<double>(arena.bytes) - static_cast<double>(before->second)) / seconds;
    }
    row.values[2] = static_cast<double>(arena.top_bytes);
    now.emplace(row.id, arena.bytes);
    rows.push_back(std::move(row));
  }
  arenas_before_ = std::move(now);
  return rows;
}

std::vector<TopRow> TopLooks::stack_rows(const std::vector<StackRate>& rates) {
  std::vector<TopRow> rows;
  unnamed_.clear();
  for (const StackRate& rate : rates) {
    TopRow row;
    row.id = rate.stack;
    row.values[0] = measure_of(rate, StackMeasure::kLive);
    if (last_) {
      row.values[1] = measure_of(rate, StackMeasure::kLiveRate);
      row.values[2] = measure_of(rate, StackMeasure::kChurn);
      row.values[3] = measure_of(rate, StackMeasure::kAllocations);
    }
    row.values[4] = measure_of(rate, StackMeasure::kBlocks);
    const auto named = names_.find(rate.stack);
    if (named == names_.end()) {
      unnamed_.push_back(rate.stack);
    } else {
      row.name = named->second.name;
      row.details = named->second.details;
    }
    rows.push_back(std::move(row));
  }
  lacks_names_ = !unnamed_.empty();
  return rows;
}

void TopLooks::name_stacks() {
  lacks_names_ = false;
  if (unnamed_.empty()) return;
  if (names_.size() + unnamed_.size() > kMostNames) names_.clear();
  RecordedStacks recorded;
  recorded.stacks = tracking_.stacks;
  recorded.symbols = names_of_stacks(process_->target(), pid_, tracking_, unnamed_);
  for (const uint32_t stack : unnamed_) {
    names_.emplace(stack, name_of(recorded, tracking_.record, stack));
  }
  unnamed_.clear();
}

TopLooks::Named TopLooks::name_of(const RecordedStacks& recorded, const TrackerRecord& record,
                                  uint32_t stack) const {
  StackEnd end{};
  const std::vector<NamedFrame> frames =
      named_frames(recorded, record, recorded.stacks.sites[stack].node, end);
  std::vector<FrameRole> roles;
  for (const NamedFrame& frame : frames) {
    roles.push_back(passed_.role_of(frame.function, frame.language));
  }
  Named named;
  const size_t charged = charged_frame(roles);
  for (size_t i = charged; i < frames.size() && i < charged + kCallers; ++i) {
    if (i != charged && roles[i] == FrameRole::kStart) break;
    if (!named.name.empty()) named.name += " ← ";
    named.name += shortened(function_label(frames[i]));
  }
  if (named.name.empty()) named.name = "blocks without a call stack";
  for (size_t i = 0; i < frames.size() && i < kMostFrames; ++i) {
    std::string line = shortened(function_label(frames[i]));
    const std::string place = line_label(frames[i], false);
    const std::string module(file_name_of(frames[i].module));
    if (!place.empty()) line += "  " + shortened(place);
    if (!module.empty()) line += "  " + shortened(module);
    named.details.push_back(std::move(line));
  }
  return named;
}

}  // namespace heapsnap
