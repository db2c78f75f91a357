// Gives memory out a second time, to objects that do not write to all of it, and counts by an
// allocator of its own what each container keeps.
//
//   memory_reuser
//
// Half of the nodes of two maps and a list are freed, at random, and other containers get their
// memory: so words are left over in vectors with room to spare, in strings, behind what an object
// asked for, and in the buffer of stdout, that lead to the other half. Objects that are destroyed,
// but for their memory, which weak pointers keep, lead to the notes that they had looked at.
//
// Says, and then waits for the end of its standard input:
//
//   variable g_prices 3600000 50000      kind, name, usable bytes and blocks that it keeps
//   stack keep_sessions 4000000 50002    by the function whose frame holds it
//   ready
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "counting_allocator.h"

namespace {

// As nodes, these have blocks of one size: of 72 bytes.
using Price = std::array<uint64_t, 4>;
using Event = std::array<uint64_t, 7>;
template <int kContainer>
using Prices =
    std::map<uint64_t, Price, std::less<>, Counting<std::pair<const uint64_t, Price>, kContainer>>;
template <int kContainer>
using Rows = std::vector<String<kContainer>, Counting<String<kContainer>, kContainer>>;

constexpr const char* kText = "a text that is too long to be kept in the string itself";

}  // namespace

Prices<0> g_prices;
std::list<Event, Counting<Event, 1>> g_events;
// Of two texts, with room for no more.
std::vector<Rows<2>, Counting<Rows<2>, 2>> g_rows;
// Room for 9 numbers, and 1 of them.
using Sizes = std::vector<uint64_t, Counting<uint64_t, 3>>;
std::vector<Sizes, Counting<Sizes, 3>> g_sizes;
// Two texts and a number.
struct Job {
  uint64_t id = 0;
  String<4> name;
  String<4> owner;
};
std::vector<Job*, Counting<Job*, 4>> g_jobs;
// Of 10,000 lines, a tenth.
Rows<5> g_lines;
// Of 10,000, none.
Rows<6> g_scratch;
Rows<8> g_notes;
struct Look {
  const char* at = nullptr;
  uint64_t times = 0;
};
std::vector<std::weak_ptr<Look>, Counting<std::weak_ptr<Look>, 9>> g_looks;

namespace {

template <typename Map>
void erase_half(Map& map, std::vector<uint64_t> keys, std::mt19937& random) {
  std::shuffle(keys.begin(), keys.end(), random);
  for (size_t i = 0; i < keys.size() / 2; ++i) map.erase(keys[i]);
}

[[gnu::noinline]] void use_once(Prices<7>& sessions) {
  constexpr uint64_t kNodes = 60'000;
  std::mt19937 random;
  std::vector<uint64_t> keys(kNodes);
  std::iota(keys.begin(), keys.end(), 0);
  for (size_t i = 0; i < 10'000; ++i) {
    g_lines.emplace_back(kText);
    g_scratch.emplace_back(kText);
  }
  for (const uint64_t key : keys) {
    g_prices.emplace(key, Price{});
    sessions.emplace(key, Price{});
    g_events.push_back({key});
  }
  erase_half(g_prices, keys, random);
  erase_half(sessions, keys, random);
  g_events.remove_if([&random](const Event&) { return random() % 2 == 0; });
  g_lines.resize(1'000);
  g_scratch.clear();
}

[[gnu::noinline]] void use_again() {
  Counting<Job, 4> jobs;
  for (uint64_t i = 0; i < 20'000; ++i) {
    Rows<2>& row = g_rows.emplace_back();
    row.reserve(2);
    row.emplace_back(kText);
    row.emplace_back(kText);
    Sizes& sizes = g_sizes.emplace_back();
    sizes.reserve(9);
    sizes.push_back(i);
    Job* const job = g_jobs.emplace_back(jobs.allocate(1));
    new (job) Job{i, String<4>(kText), String<4>(kText)};
  }
}

[[gnu::noinline]] void look_at_notes() {
  constexpr size_t kLongText = 300;  // longer than what was freed
  for (int i = 0; i < 5'000; ++i) {
    const String<8>& note = g_notes.emplace_back(kLongText, 'x');
    g_looks.push_back(std::allocate_shared<Look>(Counting<Look, 9>(), note.c_str(), 1U));
  }
}

void say(const char* kind, const char* name, int container) {
  const Count& count = g_counts[container];
  std::printf("%s %s %ju %ju\n", kind, name, static_cast<uintmax_t>(count.bytes),
              static_cast<uintmax_t>(count.blocks));
}

}  // namespace

// It has a name in .symtab, so that the frame has one, too.
extern "C" [[gnu::noinline]] void keep_sessions() {
  Prices<7> sessions;
  use_once(sessions);
  use_again();
  look_at_notes();
  say("variable", "g_prices", 0);
  say("variable", "g_events", 1);
  say("variable", "g_rows", 2);
  say("variable", "g_sizes", 3);
  say("variable", "g_jobs", 4);
  say("variable", "g_lines", 5);
  say("variable", "g_scratch", 6);
  say("variable", "g_notes", 8);
  say("variable", "g_looks", 9);
  say("stack", "keep_sessions", 7);
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

int main() {
  keep_sessions();
  return 0;
}
