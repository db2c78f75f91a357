#include "references/destroyed_objects.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

using namespace heapsnap;

TEST_CASE("an object of std::make_shared is destroyed when weak pointers alone are left") {
  const BlockType shared{
      "std::_Sp_counted_ptr_inplace<Session, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>", "",
      TypeSource::kVtable};
  const BlockType other{"Session", "", TypeSource::kVtable};
  uint64_t usable = 104;
  const auto is_destroyed = [&](const BlockType& type, uint64_t counts, unsigned word = 8) {
    const std::array<uint64_t, 3> block{0x5555, counts, 0x7777};
    return is_destroyed_object(type, std::as_bytes(std::span(block)).subspan(8 - word), usable,
                               word);
  };
  constexpr uint64_t kOneWeak = uint64_t{1} << 32;
  CHECK(is_destroyed(shared, kOneWeak));
  CHECK(is_destroyed(shared, 7 * kOneWeak));
  CHECK(is_destroyed(shared, kOneWeak, 4));
  CHECK_FALSE(is_destroyed(shared, kOneWeak + 1));
  CHECK_FALSE(is_destroyed(shared, 0));
  CHECK_FALSE(is_destroyed(other, kOneWeak));
  const BlockType array{"std::_Sp_counted_array<Session, std::allocator<void>, 2>", "",
                        TypeSource::kVtable};
  CHECK(is_destroyed(array, kOneWeak));
  usable = 1032;  // an arena, of which it is the first object
  CHECK_FALSE(is_destroyed(shared, kOneWeak));
  const std::array<uint64_t, 1> cut{0x5555};
  CHECK_FALSE(is_destroyed_object(shared, std::as_bytes(std::span(cut)), 8, 8));
}
