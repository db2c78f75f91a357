// The numbers of the file format; docs/snapshot-format.md explains them.
//
//   file header | section | section | ... | index section(s) | footer
//
//   section:  magic, kind, columns, items | directory of columns | their bytes | XXH64
//
// Numbers are little-endian, values never change their meaning, new ones are appended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heapsnap::format {

inline constexpr std::string_view kFileMagic = "HEAPSNAP";
inline constexpr std::string_view kFooterMagic = "HSNAPEND";
inline constexpr uint32_t kSectionMagic = 0x43455348;  // "HSEC"

inline constexpr uint16_t kMajorVersion = 1;   // a reader refuses a newer one
inline constexpr uint16_t kMinorVersion = 10;  // a reader skips what newer ones have added

inline constexpr size_t kFileHeaderSize = 16;
inline constexpr size_t kSectionHeaderSize = 16;
inline constexpr size_t kColumnEntrySize = 12;
inline constexpr size_t kChecksumSize = 8;
inline constexpr size_t kFooterSize = 40;

// What no file may exceed, so that a reader can bound its memory before it trusts a number.
inline constexpr uint32_t kMaxColumnSize = 16U << 20;  // bytes of a column, uncompressed
inline constexpr uint32_t kMaxColumns = 64;            // in a section
inline constexpr uint32_t kMaxChunksInBlock = 1U << 20;
inline constexpr uint32_t kMaxTextSize = 1U << 20;  // bytes of a text in a table
inline constexpr uint32_t kMaxTableColumns = 256;
inline constexpr uint64_t kMaxMetadataRows = 4U << 20;    // over all tables of a file
inline constexpr uint64_t kMaxMetadataSize = 256U << 20;  // the same, uncompressed bytes

enum class SectionKind : uint16_t {
  kChunks = 1,
  kPages = 2,
  kContents = 3,
  kTable = 4,
  kMmappedChunks = 5,  // a table, but a long one: read as a stream
  kIndex = 6,          // a table too
  kCallStacks = 7,     // tables as well, long ones: read when they are asked for
  kReferences = 8,
  kRoots = 9,       // tables, long ones
  kTypeNames = 10,  // tables
  kBlockTypes = 11,
  kSlots = 12,
};

enum class Encoding : uint8_t {
  kRaw = 0,
  kZstd = 1,  // one frame that states its content size
};

// What a file may grow to when it is read, so that a small one takes little time and memory:
// columns of lists (runs, ranges, rows of tables), as far as they are compressed, and chunks.
inline constexpr uint64_t kFreeListBytes = 16U << 20;  // of the file, and then
inline constexpr uint64_t kListBytesPerByte = 64;      // for each byte of the file
inline constexpr uint64_t kFreeChunks = 16U << 20;
inline constexpr uint64_t kChunksPerByte = 4096;  // heaps of equal chunks: 1,800 a byte
inline constexpr uint64_t kFreeReferences = 16U << 20;
inline constexpr uint64_t kReferencesPerByte = 2048;
inline constexpr size_t kMaxRootPlaces = 4U << 20;
inline constexpr size_t kMaxTypes = 1U << 20;
inline constexpr size_t kMaxSlackRows = 4U << 20;
inline constexpr size_t kMaxUnusedWords = 1U << 20;
inline constexpr size_t kMaxContainers = 4U << 20;

// Column ids count per kind of section.
inline constexpr uint16_t kTableRows = 1;

inline constexpr uint16_t kChunkRuns = 1;
inline constexpr uint16_t kChunkSizeCodes = 2;
inline constexpr uint16_t kChunkLargeSizes = 3;
inline constexpr uint16_t kChunkStateBits = 4;
inline constexpr uint16_t kChunkOtherStates = 5;
inline constexpr uint16_t kChunkStackIds = 6;  // of a tracked process: u32 a chunk, in byte planes
inline constexpr uint16_t kChunkSlacks = 7;    // the same: a byte a chunk

inline constexpr uint16_t kPageRuns = 1;

inline constexpr uint16_t kContentRanges = 1;
inline constexpr uint16_t kContentBytes = 2;

inline constexpr uint16_t kReferenceFirstBlock = 1;
inline constexpr uint16_t kReferenceCounts = 2;
inline constexpr uint16_t kReferenceLargeCounts = 3;
inline constexpr uint16_t kReferenceOffsets = 4;
inline constexpr uint16_t kReferenceLargeOffsets = 5;
inline constexpr uint16_t kReferenceTargets = 6;
inline constexpr uint16_t kReferenceInteriorBits = 7;

inline constexpr uint16_t kTypesFirstBlock = 1;
inline constexpr uint16_t kTypesOfBlocks = 2;

inline constexpr uint16_t kSlotPages = 1;
inline constexpr uint16_t kSlotUsedBits = 2;

// Whether a column is a list: its elements are not counted by the chunks, blocks or references of
// its section, nor are they contents of memory.
constexpr bool is_list(SectionKind kind, uint16_t column) {
  switch (kind) {
    case SectionKind::kChunks: return column == kChunkRuns;
    case SectionKind::kContents: return column == kContentRanges;
    case SectionKind::kReferences:
      return column == kReferenceLargeCounts || column == kReferenceLargeOffsets;
    case SectionKind::kBlockTypes: return false;
    default: return true;
  }
}

// A size code that says: the size is in the column of large sizes.
inline constexpr uint8_t kLargeSizeCode = 255;
// The same of a count or an offset of references.
inline constexpr uint8_t kLargeReferenceCode = 255;
// The state of a run of pages of which nothing is said.
inline constexpr uint8_t kPageGap = 15;

}  // namespace heapsnap::format
