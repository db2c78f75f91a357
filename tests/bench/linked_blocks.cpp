// A process of as many blocks as asked that hold each other, as programs have them:
// linked_blocks SHAPE COUNT
//
//   list    std::list nodes, one list of a thousand each
//   tree    nodes of one std::map
//   hash    nodes of std::unordered_map, a hundred thousand each, in the order of insertion
//   random  blocks of 32 to 96 bytes with two pointers to any of the others
//
// Each hundredth block is leaked. Says "ready BLOCKS" on standard output and goes on when standard
// input ends.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr uint64_t kLeakedOf = 100;

struct Value {
  uint64_t words[2];
};

std::vector<std::list<Value>> lists;
std::map<uint64_t, Value> tree;
std::vector<std::unordered_map<uint64_t, Value>> hashes;

struct Linked {
  Linked* first;
  Linked* second;
};
// Written and never read: a compiler leaves out what is not volatile.
Linked* volatile heads;
void* volatile latest;

void leak(uint64_t number) {
  if (number % kLeakedOf != 0) return;
  latest = std::malloc(sizeof(Linked));
  latest = nullptr;
}

void make_random(uint64_t count) {
  std::mt19937_64 random(1);
  std::vector<Linked*> all(count);
  for (Linked*& block : all) {
    block = static_cast<Linked*>(std::calloc(1, 32 + random() % 64));
    if (block == nullptr) std::exit(1);
  }
  for (uint64_t i = 0; i < count; ++i) {
    all[i]->first = all[i / 2];
    all[i]->second = all[random() % count];
    if (i + 1 < count) all[i / 2]->second = all[i + 1];
  }
  heads = all.front();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s list|tree|hash|random COUNT\n", argv[0]);
    return 2;
  }
  const std::string_view shape = argv[1];
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  if (shape == "random") make_random(count);
  for (uint64_t i = 0; i < count; ++i) {
    leak(i);
    if (shape == "list") {
      if (i % 1000 == 0) lists.emplace_back();
      lists.back().push_back({});
    } else if (shape == "tree") {
      tree.emplace_hint(tree.end(), i, Value{});
    } else if (shape == "hash") {
      if (i % 100000 == 0) hashes.emplace_back();
      hashes.back().emplace(i * 0x9e3779b97f4a7c15U, Value{});
    }
  }
  std::printf("ready %llu\n", static_cast<unsigned long long>(count));
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
