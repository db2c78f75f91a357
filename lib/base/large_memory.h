// An array of plain values that may hold many millions of them.
//
// A large one grows by mremap(2), so that growing needs no second copy. What was never touched
// takes no memory. realloc(3) would copy that, too: reading it maps the page of zeros, and the
// write that comes later interrupts all processors that run a thread of heapsnap, to have them
// forget that page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace heapsnap {

// What the memory of a large array is made of.
enum class Pages {
  // Huge ones, where the kernel has them: for values that are read in no order, as without them
  // half of the time goes into address translation.
  kHuge,
  // For values that are written and read mostly in order, or few of which are. The kernel has such
  // pages at hand; a huge one is cleared at once, and on a virtual machine whose host takes free
  // ones back, it takes 4 ms to get one again.
  kSmall,
};

// Bytes of one such array.
class LargeMemory {
 public:
  explicit LargeMemory(Pages pages) : pages_(pages) {}
  LargeMemory(LargeMemory&& other) noexcept;
  LargeMemory& operator=(LargeMemory&& other) noexcept;
  ~LargeMemory();

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // Zeros, in place of what it held. Throws std::bad_alloc.
  void allocate(size_t size);
  // Keeps what fits; new bytes are indeterminate. Throws std::bad_alloc and changes nothing.
  void resize(size_t size);
  void release();

 private:
  Pages pages_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

template <typename T, Pages pages = Pages::kHuge>
class LargeArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  LargeArray() = default;
  // `size` values of zero bytes.
  explicit LargeArray(size_t size) : size_(size) { memory_.allocate(bytes_of(size)); }
  LargeArray(LargeArray&& other) noexcept
      : memory_(std::move(other.memory_)), size_(std::exchange(other.size_, 0)) {}
  LargeArray& operator=(LargeArray&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t bytes() const { return memory_.size(); }
  T* data() { return static_cast<T*>(memory_.data()); }
  const T* data() const { return static_cast<const T*>(memory_.data()); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

  // Room for `size` values without growing.
  void reserve(size_t size) {
    if (size > capacity()) memory_.resize(bytes_of(size));
  }
  void push_back(T value) {
    if (size_ == capacity()) grow(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void append(std::span<const T> values) {
    if (values.size() > capacity() - size_) grow(size_ + values.size());
    T* to = data() + size_;
    for (const T& value : values) *to++ = value;
    size_ += values.size();
  }
  // Room for `count` more behind the last one, where they may be written; add_filled() makes those
  // that were a part of the array.
  T* room(size_t count) {
    if (count > capacity() - size_) grow(size_ + count);
    return data() + size_;
  }
  void add_filled(size_t count) { size_ += count; }
  void append_zeros(size_t count) {
    std::fill_n(room(count), count, T{});
    size_ += count;
  }
  // Only to less.
  void truncate(size_t size) { size_ = size; }
  // Gives back what growing took too much.
  void shrink() { memory_.resize(bytes_of(size_)); }
  // Empty, and its memory given back.
  void release() {
    memory_.release();
    size_ = 0;
  }

 private:
  static size_t bytes_of(size_t count) {
    size_t bytes = 0;
    return __builtin_mul_overflow(count, sizeof(T), &bytes) ? SIZE_MAX : bytes;
  }
  size_t capacity() const { return memory_.size() / sizeof(T); }
  void grow(size_t at_least) {
    const size_t more = capacity() + capacity() / 2 + 16;
    memory_.resize(bytes_of(at_least > more ? at_least : more));
  }

  LargeMemory memory_{pages};
  size_t size_ = 0;
};

}  // namespace heapsnap
