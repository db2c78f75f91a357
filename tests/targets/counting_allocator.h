// An allocator that counts, for each container of a program, what it keeps.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <string>

struct Count {
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

// Charges all that it allocates to one container, whatever type it is rebound to.
template <typename T, int kContainer>
struct Counting {
  using value_type = T;
  template <typename U>
  struct rebind {
    using other = Counting<U, kContainer>;
  };
  Counting() = default;
  template <typename U>
  explicit(false) Counting(const Counting<U, kContainer>& /*other*/) {}
  T* allocate(size_t count);
  void deallocate(T* block, size_t count);
  bool operator==(const Counting&) const = default;
};

inline Count g_counts[32];

template <typename T, int kContainer>
T* Counting<T, kContainer>::allocate(size_t count) {
  void* const block = std::malloc(count * sizeof(T));
  if (block == nullptr) std::abort();
  g_counts[kContainer].bytes += malloc_usable_size(block);
  ++g_counts[kContainer].blocks;
  return static_cast<T*>(block);
}

template <typename T, int kContainer>
void Counting<T, kContainer>::deallocate(T* block, size_t /*count*/) {
  g_counts[kContainer].bytes -= malloc_usable_size(block);
  --g_counts[kContainer].blocks;
  std::free(block);
}

template <int kContainer>
using String = std::basic_string<char, std::char_traits<char>, Counting<char, kContainer>>;
