// The call lists and the code that walks over them, run in this process.
#include "platform/linux/inject/call_list.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "platform/linux/inject/injected_code.h"

namespace heapsnap {

namespace {

extern "C" uint64_t add_numbers(uint64_t a, uint64_t b) {
  return a + b;
}
extern "C" const char* message_of(uint64_t which) {
  return which == 3 ? "three" : "another";
}

template <typename Function>
Address address_of(Function function) {
  return Address(reinterpret_cast<uint64_t>(function));
}

// Code and words in a mapping, as in a target.
class Bench {
 public:
  Bench()
      : page_(static_cast<std::byte*>(::mmap(nullptr, 16384, PROT_READ | PROT_WRITE | PROT_EXEC,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    const InjectedCode code = injected_code();
    std::copy(code.bytes.begin(), code.bytes.end(), page_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { ::munmap(page_, 16384); }

  CallList::Place place() const {
    const auto begin = reinterpret_cast<uint64_t>(page_);
    const InjectedCode code = injected_code();
    return {Address(begin + 8192), Address(begin + code.copy_text), Address(begin + code.rename),
            Address(17)};
  }

  // Runs the list as the worker does; gives its block afterwards.
  ThreadBlock run(const CallList& list, ThreadBlock block = {}) {
    const auto bytes = list.encode(place());
    std::copy(bytes.begin(), bytes.end(), page_ + 8192);
    block.worker_calls = list.step_count() == 0 ? 0 : place().begin.value();
    void* (*worker)(void*) = nullptr;
    const std::byte* const entry = page_ + injected_code().worker;
    std::memcpy(&worker, &entry, sizeof worker);
    CHECK(worker(&block) == nullptr);
    return block;
  }

  uint64_t result(const CallList& list, CallList::Step step) const {
    uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(list.result_at(place(), step).value()),
                sizeof value);
    return value;
  }
  const char* text(const CallList& list, CallList::Data data) const {
    return reinterpret_cast<const char*>(list.data_at(place(), data).value());
  }

 private:
  std::byte* page_;
};

}  // namespace

TEST_CASE("results of calls are arguments and functions of others") {
  CallList list;
  const auto sum = list.call(CallList::address(address_of(add_numbers)),
                             {CallList::number(40), CallList::number(2)});
  const auto again = list.call(CallList::address(address_of(add_numbers)),
                               {CallList::result_of(sum), CallList::attachment()});
  const auto function =
      list.call(CallList::address(address_of(add_numbers)),
                {CallList::address(address_of(add_numbers)), CallList::number(0)});
  const auto by_result =
      list.call(CallList::result_of(function), {CallList::number(5), CallList::number(6)});
  Bench bench;
  const ThreadBlock block = bench.run(list);
  CHECK(block.worker_started == 1);
  CHECK(block.worker_done == 1);
  CHECK(bench.result(list, sum) == 42);
  CHECK(bench.result(list, again) == 59);
  CHECK(bench.result(list, by_result) == 11);
}

TEST_CASE("a result of zero leads elsewhere, and no function is no call") {
  CallList list;
  const auto text = list.reserve(16);
  const auto zero = list.call(CallList::number(0), {});
  const auto skipped = list.call(CallList::address(address_of(add_numbers)),
                                 {CallList::number(1), CallList::number(1)});
  const auto message = list.call(CallList::address(address_of(message_of)), {CallList::number(3)});
  list.call(CallList::copy_text(),
            {CallList::address_of(text), CallList::result_of(message), CallList::number(15)});
  list.go_on_if_zero(zero, message);
  Bench bench;
  bench.run(list);
  CHECK(bench.result(list, skipped) == 0);
  CHECK(std::string(bench.text(list, text)) == "three");
}

TEST_CASE("a copied text is cut where there is no more room") {
  CallList list;
  const auto text = list.reserve(16);
  const auto from = list.put_text("a long message");
  list.call(CallList::copy_text(),
            {CallList::address_of(text), CallList::address_of(from), CallList::number(6)});
  Bench bench;
  bench.run(list);
  CHECK(std::string(bench.text(list, text)) == "a long");
}

TEST_CASE("a library is renamed as far as its name reaches") {
  struct {
    uint64_t bias;
    char* name;
  } link_map{};
  for (const auto& [was, is] : {std::pair("/proc/self/task//fd/3", "/memfd:new"),
                                std::pair("/lib/a", "/memfd"), std::pair("", "")}) {
    char name[32]{};
    std::strcpy(name, was);
    link_map.name = name;
    CallList list;
    const auto text = list.put_text("/memfd:new");
    list.call(CallList::rename(),
              {CallList::address(Address(reinterpret_cast<uint64_t>(&link_map))),
               CallList::address_of(text)});
    Bench bench;
    bench.run(list);
    CHECK(std::string(name) == is);
  }
}

namespace {

thread_local uint64_t variables[5];

uint64_t thread_pointer() {
  uint64_t pointer = 0;
  asm("movq %%fs:16, %0" : "=r"(pointer));
  return pointer;
}

int64_t place_of(const uint64_t* variable) {
  return static_cast<int64_t>(reinterpret_cast<uint64_t>(variable) - thread_pointer());
}

extern "C" uint64_t arena_now() {
  return variables[0];
}

}  // namespace

TEST_CASE("the worker takes over what the bootstrap has changed, and it has not") {
  const uint64_t initial[5]{0, 7, 0, 5, 0};
  const uint64_t bootstrap[5]{0, 8, 9, 6, 0};
  const uint64_t own[5]{0, 7, 0, 4, 3};
  std::copy(std::begin(own), std::end(own), variables);
  ThreadBlock block{};
  block.variables = place_of(variables);
  block.variable_words = 5;
  block.bootstrap_variables = reinterpret_cast<uint64_t>(bootstrap);
  block.initial_variables = reinterpret_cast<uint64_t>(initial);
  Bench().run(CallList(), block);
  const uint64_t wanted[5]{0, 8, 9, 4, 3};
  CHECK(std::equal(std::begin(wanted), std::end(wanted), variables));
}

TEST_CASE("the worker has main_arena while it is at work, where it has no other") {
  for (const uint64_t own : {0, 77}) {
    variables[0] = own;
    ThreadBlock block{};
    block.thread_arena = place_of(variables);
    block.main_arena = 42;
    CallList list;
    const auto seen = list.call(CallList::address(address_of(arena_now)), {});
    Bench bench;
    bench.run(list, block);
    CHECK(bench.result(list, seen) == (own == 0 ? 42 : 77));
    CHECK(variables[0] == own);
  }
}

TEST_CASE("an empty list is done at once") {
  Bench bench;
  CHECK(bench.run(CallList()).worker_done == 1);
}

}  // namespace heapsnap
