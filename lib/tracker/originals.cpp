#include "tracker/originals.h"

#include <errno.h>
#include <link.h>

#include "tracker/control.h"
#include "tracker/loaded_symbols.h"

// NOLINTNEXTLINE(readability-identifier-naming): the linker's
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));

namespace heapsnap::tracker {

namespace {

constexpr const char* kNames[] = {"malloc",   "free",          "calloc",         "realloc",
                                  "memalign", "aligned_alloc", "posix_memalign", "valloc",
                                  "pvalloc",  "cfree"};
constexpr unsigned kNameCount = sizeof kNames / sizeof *kNames;
static_assert(sizeof(Originals) == kNameCount * sizeof(void*));

BoundAllocator bound = {};
uint32_t is_bound = 0;

struct Search {
  void* next[kNameCount];  // by the first module behind us
  void* in_libc[kNameCount];
  bool has_passed_us;
  bool has_libc;
};

bool is_ours(const dl_phdr_info& module) {
  const auto place = reinterpret_cast<uint64_t>(__ehdr_start);
  for (unsigned i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD &&
        place - (module.dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// Called in the order in which symbols are looked for.
int search_module(dl_phdr_info* module, size_t /*size*/, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (is_ours(*module)) {
    search.has_passed_us = true;
    bound.is_preloaded = !search.has_libc;
    return 0;
  }
  const bool is_libc = defined_function(*module, "gnu_get_libc_version") != nullptr;
  if (!is_libc && !search.has_passed_us) return 0;
  for (unsigned i = 0; i < kNameCount; ++i) {
    void* const function = defined_function(*module, kNames[i]);
    if (search.has_passed_us && search.next[i] == nullptr) search.next[i] = function;
    if (is_libc) search.in_libc[i] = function;
  }
  search.has_libc |= is_libc;
  return 0;
}

// Every member is a pointer to a function.
void set_original(unsigned index, void* function) {
  __atomic_store_n(&reinterpret_cast<void**>(&originals)[index], function, __ATOMIC_RELAXED);
}

// What a hook goes on to at first: looks for the originals. Nobody calls what the C library lacks.
template <auto kMember>
struct First;
template <typename Result, typename... Arguments, Result (*Originals::*kMember)(Arguments...)>
struct First<kMember> {
  static Result call(Arguments... arguments) {
    bind_originals();
    const auto original = originals.*kMember;
    if (original == call) return Result();
    return original(arguments...);
  }
};

}  // namespace

constinit Originals originals = {
    First<&Originals::malloc>::call,         First<&Originals::free>::call,
    First<&Originals::calloc>::call,         First<&Originals::realloc>::call,
    First<&Originals::memalign>::call,       First<&Originals::aligned_alloc>::call,
    First<&Originals::posix_memalign>::call, First<&Originals::valloc>::call,
    First<&Originals::pvalloc>::call,        First<&Originals::cfree>::call};

const BoundAllocator& bind_originals() {
  if (load_acquire(is_bound) != 0) return bound;
  const int error = errno;
  Search search{};
  dl_iterate_phdr(search_module, &search);
  bound.is_glibc = true;
  for (unsigned i = 0; i < kNameCount; ++i) {
    void* const next = bound.is_preloaded ? search.next[i] : nullptr;
    if (next != nullptr && next != search.in_libc[i]) bound.is_glibc = false;
    void* chosen = next != nullptr ? next : search.in_libc[i];
    // What glibc has no more is what it was an alias of.
    if (chosen == nullptr && i == kNameCount - 1) chosen = reinterpret_cast<void*>(originals.free);
    if (chosen != nullptr) set_original(i, chosen);
    if (i == 0) bound.malloc = reinterpret_cast<uint64_t>(chosen);
  }
  errno = error;
  store_release(is_bound, 1);
  return bound;
}

}  // namespace heapsnap::tracker
