// Holds containers in every kind of place, and counts by an allocator of its own what each keeps.
//
//   container_holder
//
// Says, and then waits for the end of its standard input:
//
//   variable g_orders 0x8660 48 864000 12000      kind, name, address in the file, its size, usable
//   thread-local t_names 0x8140 24 347080 3001    bytes and the blocks that it keeps; t_parts keeps
//                                                 them in four threads
//   stack serve_batch 0x0 0 419080 4001           by the function whose frame holds it
//   ready
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "counting_allocator.h"

// Global, static, in a namespace, in a class, in a function.
std::vector<uint64_t, Counting<uint64_t, 0>> g_samples;
std::map<int, String<1>, std::less<>, Counting<std::pair<const int, String<1>>, 1>> g_orders;
static std::list<String<2>, Counting<String<2>, 2>> g_queue;

namespace shop {
std::unordered_map<int, String<3>, std::hash<int>, std::equal_to<>,
                   Counting<std::pair<const int, String<3>>, 3>>
    g_sessions;
class Registry {
 public:
  static std::set<int, std::less<>, Counting<int, 4>> s_ids;
};
std::set<int, std::less<>, Counting<int, 4>> Registry::s_ids;
}  // namespace shop

namespace {

std::deque<uint64_t, Counting<uint64_t, 5>> g_ring;
String<6> g_text;
std::multimap<int, std::vector<int, Counting<int, 7>>, std::less<>,
              Counting<std::pair<const int, std::vector<int, Counting<int, 7>>>, 7>>
    g_index;

auto& settings() {
  static std::map<int, int, std::less<>, Counting<std::pair<const int, int>, 8>> s_settings;
  return s_settings;
}

// Not a container of the library: an array of pointers to structures with pointers.
struct Connection {
  char* buffer = nullptr;
  Connection* peer = nullptr;
};
Connection* g_connections[100];
void fill_connections() {
  Counting<Connection, 9> connections;
  Counting<char, 9> buffers;
  for (Connection*& one : g_connections) {
    one = new (connections.allocate(1)) Connection;
    one->buffer = buffers.allocate(500);
  }
}

thread_local std::vector<String<10>, Counting<String<10>, 10>> t_names;
thread_local std::list<uint64_t, Counting<uint64_t, 11>> t_events;

thread_local std::vector<String<13>, Counting<String<13>, 13>> t_parts;

std::string long_text(int number) {
  return "a text that is too long to be kept in the string itself: " + std::to_string(number);
}

pthread_barrier_t g_filled;
constexpr unsigned kPartThreads = 4;
pthread_mutex_t g_one_counts = PTHREAD_MUTEX_INITIALIZER;

[[gnu::noinline]] void fill_thread_locals() {
  for (int i = 0; i < 3000; ++i) t_names.emplace_back(long_text(i).c_str());
  for (uint64_t i = 0; i < 2000; ++i) t_events.push_back(i);
}
void* keep_thread_locals(void* /*unused*/) {
  fill_thread_locals();
  pthread_barrier_wait(&g_filled);
  pause();
  return nullptr;
}

[[gnu::noinline]] void fill_parts() {
  pthread_mutex_lock(&g_one_counts);
  for (int i = 0; i < 1000; ++i) t_parts.emplace_back(long_text(i).c_str());
  pthread_mutex_unlock(&g_one_counts);
}
void* keep_parts(void* /*unused*/) {
  fill_parts();
  pthread_barrier_wait(&g_filled);
  pause();
  return nullptr;
}

using Batch = std::vector<String<12>, Counting<String<12>, 12>>;
[[gnu::noinline]] void fill_batch(Batch& batch) {
  for (int i = 0; i < 4000; ++i) batch.emplace_back(long_text(i).c_str());
}

}  // namespace

// It has a name in .symtab, so that the frame has one, too.
extern "C" [[gnu::noinline]] void* serve_batch(void* /*unused*/) {
  Batch batch;
  fill_batch(batch);
  pthread_barrier_wait(&g_filled);
  pause();
  return nullptr;
}

namespace {

// Overwrites what calls left on the stack.
[[gnu::noinline]] void wipe_stack() {
  constexpr size_t kWiped = 128 << 10;
  void* const rest = __builtin_alloca(kWiped);
  std::memset(rest, 0, kWiped);
  __asm__ volatile("" ::"r"(rest) : "memory");
}

[[gnu::noinline]] void fill_variables() {
  for (uint64_t i = 0; i < 200'000; ++i) g_samples.push_back(i);
  for (int i = 0; i < 6000; ++i) g_orders.emplace(i, long_text(i).c_str());
  for (int i = 0; i < 5000; ++i) g_queue.emplace_back(long_text(i).c_str());
  for (int i = 0; i < 7000; ++i) shop::g_sessions.emplace(i, long_text(i).c_str());
  for (int i = 0; i < 9000; ++i) shop::Registry::s_ids.insert(i * 7);
  for (uint64_t i = 0; i < 50'000; ++i) g_ring.push_back(i);
  g_text.assign(300'000, 'x');
  for (int i = 0; i < 3000; ++i) g_index.emplace(i % 50, std::vector<int, Counting<int, 7>>(20, i));
  for (int i = 0; i < 8000; ++i) settings().emplace(i, i);
  fill_connections();
}

// Addresses in what malloc gave beyond what containers asked for, behind their last elements, in
// what a queue has had taken from it, in what long strings do not use of their buffers, and of
// nodes in buffers that nothing is known of, as the memory's last owner leaves them.
[[gnu::noinline]] void leave_words() {
  constexpr size_t kListHeader = 2 * sizeof(void*);
  constexpr size_t kHashHeader = sizeof(void*);
  constexpr size_t kTreeHeader = 4 * sizeof(void*);
  constexpr size_t kUnusedOfString = 3 * sizeof(void*);
  const auto leave = [](void* at, const void* element, size_t header) {
    const void* const node = static_cast<const char*>(element) - header;
    std::memcpy(at, &node, sizeof node);
  };
  constexpr size_t kInBuffer = 512 / sizeof(uint64_t);
  leave(g_samples.data() + g_samples.capacity(), &g_queue.front(), kListHeader);
  leave(g_samples.data() + g_samples.size(), &*g_orders.begin(), kTreeHeader);
  leave(&g_ring.back() + 1, &*g_orders.rbegin(), kTreeHeader);
  constexpr size_t kTaken = 1000;
  for (size_t i = 0; i < kTaken; ++i) g_ring.pop_front();
  uint64_t* const buffer = &g_ring.front() - kTaken % kInBuffer;
  leave(buffer, &g_queue.front(), kListHeader);
  leave(buffer + kInBuffer, &g_queue.back(), kListHeader);
  void** map = nullptr;
  std::memcpy(&map, static_cast<void*>(&g_ring), sizeof map);
  leave(map, &g_queue.back(), kListHeader);
  for (auto& [key, numbers] : g_index) {
    leave(numbers.data() + numbers.size(), &*shop::g_sessions.begin(), kHashHeader);
  }
  auto setting = settings().begin();
  for (const Connection* one : g_connections) {
    leave(one->buffer, &*setting++, kTreeHeader);
  }
  auto order = g_orders.begin();
  constexpr size_t kSizeOfNobody = 712;
  void* const block = std::malloc(kSizeOfNobody);
  const auto freed = reinterpret_cast<uintptr_t>(block);
  std::free(block);
  bool is_to_node = false;  // the other half lead to free memory
  for (String<2>& text : g_queue) {
    is_to_node = !is_to_node;
    char* const unused = reinterpret_cast<char*>(&text) + kUnusedOfString;
    leave(unused, &*order++, kTreeHeader);
    if (!is_to_node) std::memcpy(unused, &freed, sizeof freed);
  }
}

// Of the program itself, which is the first module.
dl_phdr_info program() {
  dl_phdr_info found = {};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<dl_phdr_info*>(out) = *info;
        return 1;
      },
      &found);
  return found;
}

struct FilePlace {
  uintptr_t address;
  size_t size;
};
template <typename T>
FilePlace place_of(const T& variable) {
  return {reinterpret_cast<uintptr_t>(&variable) - program().dlpi_addr, sizeof(variable)};
}
// `of_this_thread`: of the calling one, whose storage is laid out as that of all others.
template <typename T>
FilePlace thread_local_place_of(const T& of_this_thread) {
  const dl_phdr_info info = program();
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_TLS) continue;
    const uintptr_t block = reinterpret_cast<uintptr_t>(info.dlpi_tls_data);
    return {segment.p_vaddr + reinterpret_cast<uintptr_t>(&of_this_thread) - block,
            sizeof(of_this_thread)};
  }
  return {0, 0};
}

void say(const char* kind, const char* name, FilePlace place, int container) {
  std::printf("%s %s 0x%" PRIxPTR " %zu %" PRIu64 " %" PRIu64 "\n", kind, name, place.address,
              place.size, g_counts[container].bytes, g_counts[container].blocks);
}

[[gnu::noinline]] void say_all() {
  say("variable", "g_samples", place_of(g_samples), 0);
  say("variable", "g_orders", place_of(g_orders), 1);
  say("variable", "g_queue", place_of(g_queue), 2);
  say("variable", "shop::g_sessions", place_of(shop::g_sessions), 3);
  say("variable", "shop::Registry::s_ids", place_of(shop::Registry::s_ids), 4);
  say("variable", "(anonymous namespace)::g_ring", place_of(g_ring), 5);
  say("variable", "(anonymous namespace)::g_text", place_of(g_text), 6);
  say("variable", "(anonymous namespace)::g_index", place_of(g_index), 7);
  say("variable", "(anonymous namespace)::settings()::s_settings", place_of(settings()), 8);
  say("variable", "(anonymous namespace)::g_connections", place_of(g_connections), 9);
  say("thread-local", "(anonymous namespace)::t_names", thread_local_place_of(t_names), 10);
  say("thread-local", "(anonymous namespace)::t_events", thread_local_place_of(t_events), 11);
  say("thread-local", "(anonymous namespace)::t_parts", thread_local_place_of(t_parts), 13);
  say("stack", "serve_batch", {0, 0}, 12);
  std::puts("ready");
  std::fflush(stdout);
}

}  // namespace

int main() {
  fill_variables();
  leave_words();
  pthread_t thread;
  pthread_barrier_init(&g_filled, nullptr, 3 + kPartThreads);
  pthread_create(&thread, nullptr, keep_thread_locals, nullptr);
  pthread_create(&thread, nullptr, serve_batch, nullptr);
  for (unsigned i = 0; i < kPartThreads; ++i) {
    pthread_create(&thread, nullptr, keep_parts, nullptr);
  }
  pthread_barrier_wait(&g_filled);
  wipe_stack();
  say_all();
  wipe_stack();
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
