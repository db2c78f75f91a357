// Allocates by functions whose names are worth telling apart, keeps all of it, and ends.
//
// Linked with debug information and symbols; tests strip copies of it.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace shop {

struct Item {
  char bytes[200] = {};
};
struct Page {
  char bytes[400] = {};
};

template <typename Key, typename Value>
class Cache {
 public:
  [[gnu::noinline]] void insert_of_template(const Key& key) {
    values_.push_back(std::make_shared<Value>());
    index_.emplace(key, values_.back());
  }

 private:
  std::vector<std::shared_ptr<Value>> values_;
  std::map<Key, std::shared_ptr<Value>> index_;
};

}  // namespace shop

namespace {

std::vector<void*>& kept() {
  static std::vector<void*> all;
  return all;
}

// A way to malloc that every program has under another name.
[[gnu::noinline]] void* xmalloc(size_t size) {
  void* const block = std::malloc(size);
  if (block == nullptr) std::abort();
  return block;
}

// And one that only this program has.
[[gnu::noinline]] void* pool_get(size_t size) {
  void* const block = std::malloc(size);
  asm volatile("" : : "r"(block) : "memory");
  return block;
}

template <int number>
[[gnu::noinline]] void pool_user() {
  kept().push_back(pool_get(3000 + 16 * number));
  asm volatile("" : : "i"(number) : "memory");
}

[[gnu::noinline]] void text_loader() {
  for (int i = 0; i < 20; ++i) kept().push_back(xmalloc(700));
}

[[gnu::noinline]] void in_a_thread() {
  kept().push_back(std::malloc(9000));
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void* twice(int size) {
  void* const block = std::malloc(static_cast<size_t>(size));
  asm volatile("" : : "r"(block) : "memory");
  return block;
}

// Two call paths that differ in nothing but where in this line they go on.
[[gnu::noinline]] void caller_of_twice() {
  kept().push_back(twice(5000)), kept().push_back(twice(5001));
}

}  // namespace

extern "C" {
// Names that rustc would give.
void rust_v0() __asm__("_RNvNtCs1234_6server5store6insert");
void rust_legacy() __asm__("_ZN6server6legacy6insert17h0123456789abcdefE");
[[gnu::noinline]] void rust_v0() {
  kept().push_back(std::malloc(6000));
  asm volatile("" : : : "memory");
}
[[gnu::noinline]] void rust_legacy() {
  kept().push_back(std::malloc(6100));
  asm volatile("" : : : "memory");
}
}

int main() {
  kept().reserve(1000);
  auto& items = *new shop::Cache<std::string, shop::Item>();
  auto& pages = *new shop::Cache<std::string, shop::Page>();
  for (int i = 0; i < 300; ++i) {
    items.insert_of_template("a key that is too long for the string itself, " + std::to_string(i));
    pages.insert_of_template("another key that is too long for the string, " + std::to_string(i));
  }
  text_loader();
  pool_user<0>(), pool_user<1>(), pool_user<2>(), pool_user<3>(), pool_user<4>();
  pool_user<5>(), pool_user<6>(), pool_user<7>(), pool_user<8>(), pool_user<9>();
  caller_of_twice();
  rust_v0();
  rust_legacy();
  std::thread(in_a_thread).join();
  std::puts("done");
}
