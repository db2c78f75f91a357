#include "base/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace heapsnap {

namespace {

constexpr size_t kHugePage = 2 << 20;

// From here on a mapping of its own, aligned so that all of it can be huge pages.
constexpr bool is_mapped(size_t size) {
  return size >= kHugePage;
}

size_t whole_pages(size_t size) {
  return size > SIZE_MAX - 2 * kHugePage ? size : (size + kHugePage - 1) & ~(kHugePage - 1);
}

void* map(size_t size, Pages pages) {
  const size_t whole = whole_pages(size);
  void* const found = ::mmap(nullptr, whole + kHugePage, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  const auto begin = reinterpret_cast<uintptr_t>(found);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > begin) ::munmap(found, aligned - begin);
  const size_t behind = begin + kHugePage - aligned;
  if (behind > 0) ::munmap(reinterpret_cast<void*>(aligned + whole), behind);
  // A matter of speed: where the kernel refuses, nothing changes.
  ::madvise(reinterpret_cast<void*>(aligned), whole,
            pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

// In place, or to where it is aligned again: elsewhere, the kernel would take huge pages apart.
void* remap(void* data, size_t from, size_t to, Pages pages) {
  void* moved = ::mremap(data, whole_pages(from), whole_pages(to), 0);
  if (moved != MAP_FAILED) return moved;
  void* const place = map(to, pages);
  moved = ::mremap(data, whole_pages(from), whole_pages(to), MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (moved != MAP_FAILED) return moved;
  ::munmap(place, whole_pages(to));
  throw std::bad_alloc();
}

}  // namespace

LargeMemory::LargeMemory(LargeMemory&& other) noexcept
    : pages_(other.pages_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

LargeMemory& LargeMemory::operator=(LargeMemory&& other) noexcept {
  if (this != &other) {
    release();
    pages_ = other.pages_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

LargeMemory::~LargeMemory() {
  release();
}

void LargeMemory::allocate(size_t size) {
  release();
  if (size == 0) return;
  data_ = is_mapped(size) ? map(size, pages_) : std::calloc(size, 1);
  if (data_ == nullptr) throw std::bad_alloc();
  size_ = size;
}

void LargeMemory::resize(size_t size) {
  if (size == size_) return;
  if (size == 0) {
    release();
  } else if (is_mapped(size) && is_mapped(size_)) {
    data_ = remap(data_, size_, size, pages_);
    size_ = size;
  } else if (!is_mapped(size) && !is_mapped(size_)) {
    void* data = std::realloc(data_, size);
    if (data == nullptr) throw std::bad_alloc();
    data_ = data;
    size_ = size;
  } else {
    LargeMemory other(pages_);
    other.allocate(size);
    if (size_ > 0) std::memcpy(other.data_, data_, std::min(size, size_));
    *this = std::move(other);
  }
}

void LargeMemory::release() {
  if (is_mapped(size_)) {
    ::munmap(data_, whole_pages(size_));
  } else {
    std::free(data_);
  }
  data_ = nullptr;
  size_ = 0;
}

}  // namespace heapsnap
