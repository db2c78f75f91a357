// How long a target stands still, as heapsnap says and as the target feels it.
//
//   pause_bench [--large] [--gcore] [--runs N]
//
// For each size and kind of pages: a fork snapshot, and everything read while it stands; with
// --gcore what gcore(1) does to it. The target's own number is the largest step of a clock that one
// of its threads reads without end, so on a busy machine it holds what other processes took, too.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "platform/linux/frozen_process.h"
#include "tests/live/live_target.h"

namespace heapsnap::live {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
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
  const auto frozen = FrozenProcess::freeze(target.pid(), options);
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
  if (std::system(("gcore -o " + prefix + " " + pid + " >/dev/null 2>&1").c_str()) != 0) return;
  result.felt.push_back(felt_ms(target));
  std::filesystem::remove(prefix + "." + pid);
}

void print(const char* way, long megabytes, const char* pages, int threads, const Result& result) {
  if (result.felt.empty()) return;
  std::printf("%-22s %6ld MB %-5s %4d threads  felt %9.2f ms", way, megabytes, pages, threads,
              median(result.felt));
  if (!result.told.empty()) {
    std::printf("  told %9.2f  (least: felt %8.2f told %8.2f)  reap %6.2f", median(result.told),
                *std::min_element(result.felt.begin(), result.felt.end()),
                *std::min_element(result.told.begin(), result.told.end()), median(result.reap));
  }
  std::printf("\n");
  std::fflush(stdout);
}

void measure(long megabytes, const char* pages, int threads, int runs, bool with_gcore) {
  LiveTarget target({HEAP_HOLDER, std::to_string(megabytes), pages, std::to_string(threads)});
  Result forked;
  Result stopped;
  Result dumped;
  for (int i = 0; i < runs; ++i) freeze_once(target, FreezeChoice::kFork, forked);
  print("fork", megabytes, pages, threads, forked);
  if (threads > 0 && megabytes < 100) {
    for (int i = 0; i < runs; ++i) freeze_once(target, FreezeChoice::kStop, stopped);
    print("stop, read little", megabytes, pages, threads, stopped);
    return;
  }
  for (int i = 0; i < std::max(runs / 3, 1); ++i) freeze_once(target, FreezeChoice::kStop, stopped);
  print("stop, read everything", megabytes, pages, threads, stopped);
  if (!with_gcore) return;
  dump_core(target, dumped);
  print("gcore", megabytes, pages, threads, dumped);
}

}  // namespace

}  // namespace heapsnap::live

int main(int argc, char** argv) {
  bool large = false;
  bool with_gcore = false;
  int runs = 15;
  for (int i = 1; i < argc; ++i) {
    large = large || std::strcmp(argv[i], "--large") == 0;
    with_gcore = with_gcore || std::strcmp(argv[i], "--gcore") == 0;
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) runs = std::atoi(argv[++i]);
  }
  using heapsnap::live::measure;
  measure(1, "4k", 0, runs, false);
  measure(1, "4k", 200, runs, false);
  for (const long megabytes : {100L, 1024L}) {
    measure(megabytes, "4k", 0, runs, with_gcore);
    measure(megabytes, "huge", 0, runs, with_gcore);
  }
  if (large) {
    measure(8192, "4k", 0, 3, false);
    measure(8192, "huge", 0, 3, false);
  }
  return 0;
}
