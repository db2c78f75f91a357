// Addresses in the target, as a type of their own.
//
// An Address is a location in the target's address space. It is not a pointer of this process and
// not an offset into a file: mixing the three up is the classic error of this field, so none of
// them converts to another by itself.
//
//   AddressRange is half-open:   [begin, end)
//                                 ^ first byte   ^ one past the last
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace heapsnap {

class Address {
 public:
  constexpr Address() = default;
  constexpr explicit Address(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }
  constexpr bool is_null() const { return value_ == 0; }

  constexpr auto operator<=>(const Address&) const = default;

  // Arithmetic wraps like the machine's; a caller who walks bytes from outside compares with a
  // range before it trusts the result (AddressRange::contains does not overflow).
  constexpr Address operator+(uint64_t bytes) const { return Address(value_ + bytes); }
  constexpr Address operator-(uint64_t bytes) const { return Address(value_ - bytes); }
  constexpr uint64_t operator-(Address other) const { return value_ - other.value_; }
  constexpr Address& operator+=(uint64_t bytes) {
    value_ += bytes;
    return *this;
  }

  // `alignment` is a power of two.
  constexpr Address align_down(uint64_t alignment) const {
    return Address(value_ & ~(alignment - 1));
  }
  // At the end of the address space the highest multiple there is: it never wraps around.
  constexpr Address align_up(uint64_t alignment) const {
    const uint64_t above = value_ + alignment - 1;
    return Address((above < value_ ? ~uint64_t{0} : above) & ~(alignment - 1));
  }
  constexpr bool is_aligned(uint64_t alignment) const { return (value_ & (alignment - 1)) == 0; }

 private:
  uint64_t value_ = 0;
};

struct AddressRange {
  Address begin;
  Address end;

  constexpr auto operator<=>(const AddressRange&) const = default;

  constexpr uint64_t size() const { return begin < end ? end - begin : 0; }
  constexpr bool is_empty() const { return end <= begin; }
  constexpr bool contains(Address address) const { return begin <= address && address < end; }
  // Whether [address, address + bytes) lies inside; true for zero bytes at `end`. Never overflows.
  constexpr bool contains(Address address, uint64_t bytes) const {
    return begin <= address && address <= end && bytes <= end - address;
  }
  constexpr bool overlaps(const AddressRange& other) const {
    return begin < other.end && other.begin < end;
  }
};

}  // namespace heapsnap

template <>
struct std::hash<heapsnap::Address> {
  size_t operator()(heapsnap::Address address) const noexcept {
    return std::hash<uint64_t>{}(address.value());
  }
};
