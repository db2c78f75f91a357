// How long a target stands still, as heapsnap says and as the target feels it.
//
//   pause_bench [--runs N] [--no-gcore] [CASE...]
//
//   CASE   SIZE:PAGES, such as 100:4k, 1024:huge or 8192:4k: megabytes that were written to, in
//          pages of that kind; or threads: 200 threads that never sleep, and little memory.
//          All of these when none is named.
//
// For each case a fork snapshot, everything read while the target stands, and, for up to
// kMostForGcore MB, what gcore(1) does to it. Each pause is measured twice at once:
//
//   told   by heapsnap, from its first interrupt to the last thread let go
//   felt   by the target itself, through a thread that can run whenever it is let: the longest time
//          in which it did not. heap_holder.cpp tells how, and why not by one of the busy threads.
//
// The two include what other processes of the machine took. Where there is a bar, it says whether
// the median of both is within it; the program ends with 1 when one is missed.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "platform/linux/freeze/frozen_process.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double most(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

double felt_ms(LiveTarget& target) {
  target.write_line("");
  return std::stod(target.read_line()) / 1e6;
}

// Reads what is resident, as a heap walk does; the rest would only become resident by it.
void read_everything(FrozenProcess& frozen) {
  static std::vector<std::byte> bounce(size_t{1} << 20, std::byte{1});
  std::vector<PageState> states;
  const uint64_t page = frozen.residency().page_size();
  for (const Mapping& mapping : frozen.address_space().mappings()) {
    if (!mapping.is_private_writable()) continue;
    for (uint64_t offset = 0; offset < mapping.range.size(); offset += bounce.size()) {
      const uint64_t size = std::min<uint64_t>(bounce.size(), mapping.range.size() - offset);
      states.resize(size / page);
      frozen.residency().read(mapping.range.begin + offset, states);
      for (size_t begin = 0; begin < states.size();) {
        size_t end = begin;
        while (end < states.size() && states[end] != PageState::kAbsent) ++end;
        if (end > begin) {
          frozen.memory().read(mapping.range.begin + offset + begin * page,
                               std::span(bounce).first((end - begin) * page));
        }
        begin = end + 1;
      }
    }
  }
}

struct Result {
  std::vector<double> told;
  std::vector<double> felt;
  std::vector<double> reap;
};

void freeze_once(LiveTarget& target, FreezeChoice choice, Result& result) {
  FreezeOptions options;
  options.choice = choice;
  options.deadline = std::chrono::seconds(10);
  felt_ms(target);
  const auto frozen = std::make_unique<FrozenProcess>(target.pid(), options);
  // What the target feels is asked for before the reaping, which is a stop of its own.
  if (!frozen->target_is_stopped()) {
    result.felt.push_back(felt_ms(target));
    frozen->thaw();
  } else {
    read_everything(*frozen);
    frozen->thaw();
    result.felt.push_back(felt_ms(target));
  }
  result.told.push_back(static_cast<double>(frozen->record().pause_ns) / 1e6);
  result.reap.push_back(static_cast<double>(frozen->record().reap_pause_ns) / 1e6);
}

void dump_core(LiveTarget& target, Result& result) {
  const std::string prefix = std::filesystem::temp_directory_path() / "pause_bench_core";
  const std::string pid = std::to_string(target.pid());
  felt_ms(target);
  const bool dumped =
      std::system(("gcore -o " + prefix + " " + pid + " >/dev/null 2>&1").c_str()) == 0;
  if (dumped) result.felt.push_back(felt_ms(target));
  std::error_code ignored;
  std::filesystem::remove(prefix + "." + pid, ignored);
}

struct Case {
  std::string name;
  long megabytes;
  std::string pages;
  int threads;
  double bar_ms;  // of the fork's median; 0 where there is none
};

const Case kCases[] = {
    {"100:4k", 100, "4k", 0, 0},    {"100:huge", 100, "huge", 0, 0},
    {"1024:4k", 1024, "4k", 0, 30}, {"1024:huge", 1024, "huge", 0, 5},
    {"8192:4k", 8192, "4k", 0, 0},  {"8192:huge", 8192, "huge", 0, 0},
    {"threads", 1, "4k", 200, 10},
};
// A core of more takes minutes to write.
constexpr long kMostForGcore = 1024;

void print(const Case& what, const char* way, const Result& result) {
  if (result.felt.empty()) return;
  std::printf("%-10s %-5s felt %9.2f (%.2f to %.2f) ms", what.name.c_str(), way,
              median(result.felt), least(result.felt), most(result.felt));
  if (!result.told.empty()) {
    std::vector<double> ratio;
    for (size_t i = 0; i < result.told.size(); ++i) {
      ratio.push_back(result.told[i] / result.felt[i]);
    }
    std::printf("   told %9.2f (%.2f to %.2f) ms   told/felt %.2f (%.2f to %.2f)",
                median(result.told), least(result.told), most(result.told), median(ratio),
                least(ratio), most(ratio));
  }
  if (!result.reap.empty() && most(result.reap) > 0)
    std::printf("   reap %.2f ms", median(result.reap));
  std::printf("\n");
}

// Whether the bar is kept, if there is one.
bool measure(const Case& what, int runs, bool with_gcore) {
  LiveTarget target(
      {HEAP_HOLDER, std::to_string(what.megabytes), what.pages, std::to_string(what.threads)});
  Result forked;
  Result stopped;
  Result dumped;
  // In turns, so that what else happens on the machine hits both.
  for (int i = 0; i < runs; ++i) {
    freeze_once(target, FreezeChoice::kFork, forked);
    if (i % 3 == 0) freeze_once(target, FreezeChoice::kStop, stopped);
  }
  if (with_gcore && what.megabytes <= kMostForGcore) dump_core(target, dumped);
  print(what, "fork", forked);
  print(what, "stop", stopped);
  print(what, "gcore", dumped);
  const double slower = std::max(median(forked.told), median(forked.felt));
  const bool kept = what.bar_ms == 0 || slower <= what.bar_ms;
  if (what.bar_ms != 0) {
    std::printf("%-10s bar   %g ms: %s\n", what.name.c_str(), what.bar_ms,
                kept ? "kept" : "MISSED");
  }
  std::fflush(stdout);
  return kept;
}

}  // namespace

}  // namespace heapsnap::live

int main(int argc, char** argv) {
  using heapsnap::live::kCases;
  bool with_gcore = true;
  int runs = 15;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--no-gcore") {
      with_gcore = false;
    } else if (word == "--runs" && i + 1 < argc) {
      runs = std::max(std::atoi(argv[++i]), 1);
    } else if (std::any_of(std::begin(kCases), std::end(kCases),
                           [&](const auto& known) { return known.name == word; })) {
      wanted.push_back(word);
    } else {
      std::fprintf(stderr, "pause_bench: no case or option %s\n", word.c_str());
      return 2;
    }
  }
  bool all_kept = true;
  for (const auto& known : kCases) {
    const bool named = std::find(wanted.begin(), wanted.end(), known.name) != wanted.end();
    if (!named && !wanted.empty()) continue;
    all_kept = heapsnap::live::measure(known, runs, with_gcore) && all_kept;
  }
  return all_kept ? 0 : 1;
}
