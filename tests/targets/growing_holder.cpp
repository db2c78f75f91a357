// Ten global containers of different kinds, of which three grow from step to step, and what each
// holds and how much there is of each class, counted by its own allocator.
//
//   growing_holder [STEP]
//
// Goes to a step (0 to 4) when its number comes on standard input, at first to STEP, and says
// "container NAME BYTES" and "class NAME BYTES" for each, then "ready". Bytes are usable ones.
//
// With REBUILT it is another build of the same program: its variables lie in another order and at
// other places, and it has functions that the first one has not.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <new>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

enum Container { kSessions, kEvents, kIndex, kCache, kJobs, kWords, kBuffers, kUsers, kLog, kTree };
constexpr int kContainers = 10;
constexpr const char* kNames[kContainers] = {"g_sessions", "g_events", "g_index",   "g_cache",
                                             "g_jobs",     "g_words",  "g_buffers", "g_users",
                                             "g_log",      "g_tree"};
size_t held[kContainers];

// Cleared: what its memory held before would seem to be held by it.
void* counted_room(size_t size, Container container) {
  void* const block = std::calloc(1, size);
  if (block == nullptr) std::abort();
  held[container] += malloc_usable_size(block);
  return block;
}
void discard(void* block, Container container) {
  held[container] -= malloc_usable_size(block);
  std::free(block);
}

template <typename T, Container kOf>
struct Counting {
  using value_type = T;
  template <typename U>
  struct rebind {
    using other = Counting<U, kOf>;
  };
  Counting() = default;
  template <typename U>
  Counting(const Counting<U, kOf>&) {}
  T* allocate(size_t count) { return static_cast<T*>(counted_room(count * sizeof(T), kOf)); }
  void deallocate(T* block, size_t) { discard(block, kOf); }
  bool operator==(const Counting&) const { return true; }
};

// Objects of a class, counted with the container that holds them.
template <Container kOf>
struct Counted {
  static inline size_t bytes = 0;
  static void* operator new(size_t size) {
    void* const block = counted_room(size, kOf);
    bytes += malloc_usable_size(block);
    return block;
  }
  static void operator delete(void* block) {
    bytes -= malloc_usable_size(block);
    discard(block, kOf);
  }
};

}  // namespace

#ifdef REBUILT
struct Extra {
  virtual ~Extra() = default;
  virtual long value() const { return number; }
  long number = 7;
};
Extra* g_extra = nullptr;
long g_room[1000] = {1};
__attribute__((noinline)) long extra_function(int step) {
  if (g_extra == nullptr) g_extra = new Extra;
  g_room[step] = g_extra->value();
  return g_room[step];
}
#endif

struct Session : Counted<kSessions> {
  virtual ~Session() = default;
  char room[192] = {};
};
struct Event : Counted<kEvents> {
  virtual ~Event() = default;
  char room[128] = {};
};
struct Entry : Counted<kIndex> {
  virtual ~Entry() = default;
  char room[144] = {};
};
struct Item : Counted<kCache> {
  virtual ~Item() = default;
  char room[240] = {};
};
struct Job : Counted<kJobs> {
  virtual ~Job() = default;
  char room[112] = {};
};
struct Branch : Counted<kTree> {
  virtual ~Branch() = default;
  Branch* left = nullptr;
  Branch* right = nullptr;
};

template <Container kOf>
using Text = std::basic_string<char, std::char_traits<char>, Counting<char, kOf>>;

struct TextHash {
  template <typename T>
  size_t operator()(const T& text) const {
    return std::hash<std::string_view>()(std::string_view(text.data(), text.size()));
  }
};

using Buffer = std::vector<char, Counting<char, kBuffers>>;

using Sessions = std::unordered_map<int, Session*, std::hash<int>, std::equal_to<int>,
                                    Counting<std::pair<const int, Session*>, kSessions>>;
using Events = std::list<Event*, Counting<Event*, kEvents>>;
using Index = std::map<int, Entry*, std::less<int>, Counting<std::pair<const int, Entry*>, kIndex>>;
using Cache = std::vector<Item*, Counting<Item*, kCache>>;
using Jobs = std::deque<Job*, Counting<Job*, kJobs>>;
using Words = std::set<Text<kWords>, std::less<>, Counting<Text<kWords>, kWords>>;
using Buffers = std::forward_list<Buffer, Counting<Buffer, kBuffers>>;
using Users =
    std::unordered_set<Text<kUsers>, TextHash, std::equal_to<>, Counting<Text<kUsers>, kUsers>>;

#ifdef REBUILT
Branch* g_tree = nullptr;
Text<kLog> g_log;
Users g_users;
Buffers g_buffers;
Words g_words;
Jobs g_jobs;
Cache g_cache;
Index g_index;
Events g_events;
Sessions g_sessions;
#else
Sessions g_sessions;
Events g_events;
Index g_index;
Cache g_cache;
Jobs g_jobs;
Words g_words;
Buffers g_buffers;
Users g_users;
Text<kLog> g_log;
Branch* g_tree = nullptr;
#endif

namespace {

// What grows: so many more at each step.
constexpr int kSessionsAStep = 400;
constexpr int kEventsAStep = 350;
constexpr int kEntriesAStep = 300;
// What comes and goes; at last there is more of it than has grown.
constexpr int kItems[] = {1000, 5000, 500, 9000, 8000};
constexpr int kJobCount[] = {3000, 200, 3500, 100, 3300};
constexpr int kBufferCount[] = {40, 10, 60, 20, 45};
constexpr int kUserCount[] = {500, 900, 300, 1200, 800};
constexpr int kLogBytes[] = {1 << 18, 1 << 16, 1 << 19, 1 << 17, 1 << 18};
constexpr int kSteps = 5;

__attribute__((noinline)) void add_session(int number) {
  g_sessions[number] = new Session;
}
__attribute__((noinline)) void add_event() {
  g_events.push_back(new Event);
}
__attribute__((noinline)) void add_entry(int number) {
  g_index[number] = new Entry;
}

// Nothing is left in room that a container keeps: it would hold what comes there next.
__attribute__((noinline)) void change_cache(size_t items) {
  while (g_cache.size() > items) {
    delete std::exchange(g_cache.back(), nullptr);
    g_cache.pop_back();
  }
  while (g_cache.size() < items) g_cache.push_back(new Item);
}

__attribute__((noinline)) void change_jobs(size_t jobs) {
  // A deque that shrinks keeps the addresses of what it frees.
  for (Job* const job : g_jobs) delete job;
  g_jobs = Jobs();
  while (g_jobs.size() < jobs) g_jobs.push_back(new Job);
}

__attribute__((noinline)) void change_texts(int step) {
  constexpr int kBufferBytes = 20000;
  g_buffers.clear();
  for (int i = 0; i < kBufferCount[step]; ++i) g_buffers.emplace_front(kBufferBytes, 'b');
  g_users.clear();
  for (int i = 0; i < kUserCount[step]; ++i) {
    g_users.insert(Text<kUsers>("a user whose name is long ") +
                   Text<kUsers>(std::to_string(i).c_str()));
  }
  g_log = Text<kLog>(static_cast<size_t>(kLogBytes[step]), 'l');
  for (int i = 0; i < 1000; ++i) {
    g_words.insert(Text<kWords>("a word that is not short ") +
                   Text<kWords>(std::to_string(i).c_str()));
  }
}

Branch* tree_of(int depth) {
  Branch* const branch = new Branch;
  if (depth > 0) {
    branch->left = tree_of(depth - 1);
    branch->right = tree_of(depth - 1);
  }
  return branch;
}

void go_to(int step) {
  while (g_sessions.size() < static_cast<size_t>((step + 1) * kSessionsAStep)) {
    add_session(static_cast<int>(g_sessions.size()));
  }
  while (g_events.size() < static_cast<size_t>((step + 1) * kEventsAStep)) add_event();
  while (g_index.size() < static_cast<size_t>((step + 1) * kEntriesAStep)) {
    add_entry(static_cast<int>(g_index.size()));
  }
  change_cache(static_cast<size_t>(kItems[step]));
  change_jobs(static_cast<size_t>(kJobCount[step]));
  change_texts(step);
  if (g_tree == nullptr) g_tree = tree_of(8);
#ifdef REBUILT
  extra_function(step);
#endif
}

void say() {
  for (int i = 0; i < kContainers; ++i) std::printf("container %s %zu\n", kNames[i], held[i]);
  std::printf("class Session %zu\n", Session::bytes);
  std::printf("class Event %zu\n", Event::bytes);
  std::printf("class Entry %zu\n", Entry::bytes);
  std::printf("class Item %zu\n", Item::bytes);
  std::printf("class Job %zu\n", Job::bytes);
  std::printf("class Branch %zu\n", Branch::bytes);
  std::printf("ready\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int step = argc > 1 ? std::atoi(argv[1]) : 0;
  do {
    if (step < 0 || step >= kSteps) return 2;
    go_to(step);
    say();
  } while (std::scanf("%d", &step) == 1);
  return 0;
}
