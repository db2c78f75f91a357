// A Ruby value, and what the first words of every slot say.
//
//   slot ──►  +----------------+----------------+-----
//             | flags          | class          | by type
//             +----------------+----------------+-----
//               5 bits: type
//                        shape (since 3.2): upper 32 bits
//
// A value is the address of a slot, or an immediate: a small integer, a symbol, a float, nil, true,
// false. Sources: include/ruby/internal of 2.7 to 3.4.
#pragma once

#include <cstdint>

namespace heapsnap {

// enum ruby_value_type, of those that are in slots.
enum class RubyType : uint8_t {
  kNone = 0x00,  // a free slot
  kObject = 0x01,
  kClass = 0x02,
  kModule = 0x03,
  kFloat = 0x04,
  kString = 0x05,
  kRegexp = 0x06,
  kArray = 0x07,
  kHash = 0x08,
  kStruct = 0x09,
  kBignum = 0x0a,
  kFile = 0x0b,
  kData = 0x0c,
  kMatch = 0x0d,
  kComplex = 0x0e,
  kRational = 0x0f,
  kSymbol = 0x14,
  kImemo = 0x1a,   // what the interpreter keeps among objects: code, caches, environments
  kNode = 0x1b,    // of a syntax tree
  kIclass = 0x1c,  // a module in the place of a class among its ancestors
  kZombie = 0x1d,  // dead, its finalizer has not run yet
  kMoved = 0x1e,   // went elsewhere when the heap was compacted
};

struct RubyValue {
  static constexpr unsigned kTypes = 32;
  static constexpr uint64_t kTypeMask = 0x1f;
  static constexpr uint64_t kClass = 8;       // offset
  static constexpr uint64_t kDataType = 16;   // of T_DATA
  static constexpr uint64_t kDataTyped = 24;  // 1 | embedded 2; else dfree
  static constexpr uint64_t kDataPointer = 32;

  static constexpr unsigned kImemoEnv = 0;  // imemo_env: kinds of T_IMEMO
  static constexpr unsigned kImemoIseq = 7;

  static constexpr RubyType type_of(uint64_t flags) {
    return static_cast<RubyType>(flags & kTypeMask);
  }
  // Since 3.2.
  static constexpr uint64_t shape_of(uint64_t flags) { return flags >> 32; }
  static constexpr unsigned imemo_kind(uint64_t flags) { return flags >> 12 & 0xf; }
  // FL_USERn
  static constexpr uint64_t user_flag(unsigned n) { return uint64_t{1} << (12 + n); }
  // Whether it is the address of a slot, as far as its bits say.
  static constexpr bool is_object(uint64_t value) { return value % 8 == 0 && value >= 4096; }
  // "STRING": what ObjectSpace calls T_STRING; null: no slot has that type.
  static const char* type_name(RubyType type);
  // "callcache": what the interpreter calls its own kinds; null: unknown.
  static const char* imemo_name(unsigned kind);
};

}  // namespace heapsnap
