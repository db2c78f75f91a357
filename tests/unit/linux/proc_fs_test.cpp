#include "platform/linux/proc/proc_fs.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace heapsnap;

namespace {

// A line of /proc/PID/stat with these fields; all others are 0.
std::string stat_line(const std::string& name, char state, uint32_t flags, unsigned exit_code) {
  std::string line = "4711 (" + name + ") " + state + " 1 1 1 0 -1 " + std::to_string(flags);
  for (int field = 10; field < 52; ++field) line += field == 38 ? " 17" : " 0";
  return line + " " + std::to_string(exit_code) + "\n";
}

}  // namespace

TEST_CASE("a name may hold what ends it elsewhere") {
  const TaskStat stat = parse_stat(stat_line("a) S 1 (b", 'R', 0x40, 0));
  CHECK(stat.tid == 4711);
  CHECK(stat.comm == "a) S 1 (b");
  CHECK(stat.state == 'R');
  CHECK(stat.exit_signal == 17);
  CHECK_FALSE(stat.has_executed());
  CHECK_THROWS_AS(parse_stat("4711 nothing"), Error);
}

TEST_CASE("a task that is being ended is told from one that is stopped") {
  constexpr uint32_t kExiting = 4;
  constexpr unsigned kKilled = 9;
  CHECK_FALSE(parse_stat(stat_line("a", 'R', 0, 0)).is_ending());
  CHECK(parse_stat(stat_line("a", 'R', kExiting, 0)).is_ending());
  CHECK(parse_stat(stat_line("a", 'R', 0, kKilled)).is_ending());
  CHECK(parse_stat(stat_line("a", 'R', 0, 3 << 8)).is_ending());  // exit(3)
  for (unsigned signal = 19; signal <= 22; ++signal) {            // SIGSTOP to SIGTTOU
    CHECK_FALSE(parse_stat(stat_line("a", 'T', 0, signal)).is_ending());
  }
  const std::string whole = stat_line("a", 'R', 0, kKilled);
  CHECK_FALSE(parse_stat(whole.substr(0, whole.rfind(' '))).is_ending());  // kernels before 3.5
}
