// Every single stack that the tracker records, compared with libunwind's of the same moment, in the
// cages of stack_zoo (tests/live/tracker/stack_zoo.cpp) and in programs of the system.
// HEAPSNAP_LONG=1: millions of allocations.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int status = -1;
  std::string printed;
  std::map<std::string, uint64_t> counts;  // added up over all processes that the program became
  std::string differences;
};

std::string temporary_file() {
  std::string name = "/tmp/heapsnap-stacks-XXXXXX";
  const int file = mkstemp(name.data());
  REQUIRE(file >= 0);
  close(file);
  return name;
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  return text.str();
}

void read_counts(const std::string& text, Outcome& outcome) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("stacks=")) {
      std::istringstream words(line);
      for (std::string word; words >> word;) {
        const size_t equal = word.find('=');
        outcome.counts[word.substr(0, equal)] += std::stoull(word.substr(equal + 1));
      }
    } else {
      outcome.differences += line + "\n";
    }
  }
}

Outcome run_checked(const std::vector<std::string>& command,
                    const std::vector<std::string>& variables = {}) {
  const std::string report = temporary_file();
  const std::string output = temporary_file();
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(output.c_str(), O_WRONLY | O_TRUNC);
    dup2(file, 1);
    setenv("HEAPSNAP_CHECK_OUTPUT", report.c_str(), 1);
    setenv("LD_PRELOAD", TRACKER_CHECKED, 1);
    for (const std::string& variable : variables) putenv(const_cast<char*>(variable.c_str()));
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  Outcome outcome;
  REQUIRE(waitpid(child, &outcome.status, 0) == child);
  outcome.printed = contents(output);
  read_counts(contents(report), outcome);
  return outcome;
}

// Exits well, and no stack differs.
void check_all_equal(const Outcome& outcome) {
  CHECK(outcome.status == 0);
  CHECK_MESSAGE(outcome.counts.at("different") == 0, outcome.differences);
  CHECK(outcome.counts.at("not_taken") == 0);
  CHECK(outcome.counts.at("limits") == 0);
}

bool is_long() {
  return std::getenv("HEAPSNAP_LONG") != nullptr;
}

// A fifth of `count`; a hundred times as many with HEAPSNAP_LONG=1.
uint64_t scaled(uint64_t count) {
  return is_long() ? count * 100 : count / 5;
}

const char* const kZoos[] = {STACK_ZOO, STACK_ZOO_FRAME_POINTERS, STACK_ZOO_O0};

struct Cage {
  const char* name;
  unsigned count;
  uint64_t stacks;  // at least so many come of it
};
// Without dlclose, so libunwind may remember what it looked up.
const Cage kCages[] = {
    {"paths", 2000, 15000},     {"deep", 200, 20000},          {"allocas", 2000, 10000},
    {"tails", 20000, 20000},    {"exceptions", 1000, 10000},   {"alignments", 2000, 10000},
    {"signals", 1000, 10000},   {"signal_stack", 1000, 10000}, {"timers", 40000, 40000},
    {"fibers", 10000, 40000},   {"jumps", 2000, 20000},        {"callbacks", 50, 10000},
    {"impostors", 5000, 10000}, {"doubles", 5000, 5000},       {"threads", 30, 6000}};

}  // namespace

TEST_CASE("stacks of all kinds are libunwind's") {
  uint64_t stacks = 0;
  for (const char* zoo : kZoos) {
    for (const Cage& cage : kCages) {
      CAPTURE(zoo);
      CAPTURE(cage.name);
      const Outcome outcome = run_checked({zoo, cage.name, std::to_string(scaled(cage.count))});
      check_all_equal(outcome);
      CHECK(outcome.counts.at("stacks") >= cage.stacks / 5);
      // ld.so's own first function has no CFI; nothing else is truncated.
      CHECK(outcome.counts.at("truncated") <= 1);
      stacks += outcome.counts.at("stacks");
    }
  }
  MESSAGE(stacks << " stacks compared");
}

TEST_CASE("a depth limit keeps the innermost frames") {
  for (const char* frames : {"HEAPSNAP_FRAMES=1", "HEAPSNAP_FRAMES=5", "HEAPSNAP_FRAMES=200"}) {
    for (const char* cage : {"deep", "paths", "fibers"}) {
      CAPTURE(frames);
      CAPTURE(cage);
      const Outcome outcome = run_checked({STACK_ZOO, cage, is_long() ? "100" : "40"}, {frames});
      check_all_equal(outcome);
      if (cage == std::string("deep")) CHECK(outcome.counts.at("cut") > 1000);
    }
  }
  SUBCASE("none") {
    const Outcome outcome = run_checked({STACK_ZOO, "deep", "20"}, {"HEAPSNAP_FRAMES=0"});
    check_all_equal(outcome);
    CHECK(outcome.counts.at("deepest") > 300);
  }
}

TEST_CASE("another library at the same addresses") {
  for (const char* zoo : kZoos) {
    const Outcome outcome = run_checked(
        {zoo, "reloads", std::to_string(scaled(200)), RELOADED_LIBRARY_1, RELOADED_LIBRARY_2},
        {"HEAPSNAP_CHECK_CACHE=0"});
    check_all_equal(outcome);
    CHECK(outcome.counts.at("stacks") > 400);
    REQUIRE(outcome.printed.starts_with("same="));
    CHECK(std::stoul(outcome.printed.substr(5)) > 20);  // else this proved nothing
    CHECK(outcome.counts.at("modules") < 20);           // the same two files, not 200 of them
  }
}

TEST_CASE("code without unwind information ends a stack, and says so") {
  for (const char* zoo : kZoos) {
    const Outcome outcome = run_checked({zoo, "generated", "200"}, {"HEAPSNAP_CHECK_CACHE=0"});
    check_all_equal(outcome);
    CHECK(outcome.counts.at("truncated") > 400);
    CHECK(outcome.counts.at("truncated") < outcome.counts.at("stacks"));
  }
}

TEST_CASE("programs of the system") {
  SUBCASE("python3") {
    const Outcome outcome = run_checked(
        {"/usr/bin/python3", "-c",
         "import json, re\nfor i in range(100): json.loads(json.dumps({'a': [i, str(i)]}))"},
        {"PYTHONMALLOC=malloc"});
    check_all_equal(outcome);
    CHECK(outcome.counts.at("stacks") > 10000);
  }
  SUBCASE("ruby, with fibers and threads") {
    const Outcome outcome = run_checked(
        {"ruby", "-e",
         "f = Fiber.new { 20.times { |i| Fiber.yield 'f' * 1000 * i } }; 20.times { f.resume }\n"
         "Thread.new { 200.times { |i| 't' * 1000 * i } }.join\n"
         "begin; raise 'x' * 100; rescue => e; e.backtrace; end"});
    check_all_equal(outcome);
    CHECK(outcome.counts.at("stacks") > 10000);
  }
}
