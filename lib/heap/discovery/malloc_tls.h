// Where the thread-local storage of a malloc's module lies, seen from a thread pointer.
//
// The loader puts libc's block at the same distance from every thread pointer and writes that
// distance, plus the place of one variable in the block, into GOT words (relocations TPOFF64,
// TLS_TPOFF, TLS_TPREL64). Each word minus its addend is one vote for the distance. In a static
// executable the ABI fixes it.
#pragma once

#include <optional>

#include "elf/elf_image.h"
#include "heap/discovery/malloc_discovery.h"
#include "target/memory_reader.h"

namespace heapsnap {

// Words, size and, for a static executable, the offset. Addresses are the file's.
MallocTls read_malloc_tls(const ElfImage& image, bool is_static_executable);

// The offset that most of the words give, read from the target; a word that cannot be read does not
// vote. Nothing without a majority.
std::optional<int64_t> vote_tls_offset(MemoryReader& memory, const MallocTls& tls, unsigned word);

}  // namespace heapsnap
