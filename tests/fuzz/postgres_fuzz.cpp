// The memory contexts of a PostgreSQL whose words the input changes: whatever they are, the walk
// ends, and what it says adds up.
#include <cstdint>
#include <cstring>
#include <span>

#include "tests/unit/runtime/fake_postgres.h"
#include "tests/unit/runtime/model_sums.h"

using namespace heapsnap;
using test::FakePostgres;

// The first byte is the version. Then ten bytes for each change: a place in one of eight parts, and
// the word that comes there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChange = 10;
  if (size == 0) return 0;
  FakePostgres postgres(13 + data[0] % 5);
  const uint64_t set = postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
  uint64_t chunk = 0;
  for (unsigned i = 0; i < 20; ++i) chunk = postgres.add_chunk(set, i % 5);
  postgres.free_chunk(set, chunk, 4);
  const uint64_t more = postgres.add_set_block(set, 8192);
  postgres.add_set(set, "index info", 1024);
  const uint64_t generation = postgres.add_generation(set, "Tuples", 8192);
  const uint64_t block = postgres.add_generation_block(generation, 16384, 5, 2);
  const uint64_t slab = postgres.add_slab(set, "Change", 80, 8192);
  const uint64_t slab_block = postgres.add_slab_block(slab, 0, 0);
  const uint64_t bump = data[0] % 5 < 4 ? set : postgres.add_bump(set, "Caller tuples", 8192);
  const uint64_t parts[] = {postgres.top, set, more, generation, block, slab, slab_block, bump};
  for (size_t i = 1; i + kChange <= size && i < 64 * kChange; i += kChange) {
    uint16_t place = 0;
    uint64_t value = 0;
    std::memcpy(&place, data + i, sizeof place);
    std::memcpy(&value, data + i + sizeof place, sizeof value);
    // Half of the words are addresses in the parts: nothing else leads anywhere.
    if (value % 2 == 0) value = parts[value / 2 % 8] + value / 16 % 0x400 * 8 % 0x2000;
    postgres.put(parts[place % 8] + place / 8 % 0x80 * 8, value);
  }
  RuntimeObjects objects;
  if (!test::adds_up(postgres, postgres.walk(true, &objects))) __builtin_trap();
  if (!test::is_sound(objects)) __builtin_trap();
  return 0;
}
