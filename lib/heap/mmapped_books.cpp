#include "heap/mmapped_books.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace heapsnap {
namespace {

constexpr uint64_t kMostDriftSteps = 1 << 16;

uint64_t bytes_of(const std::vector<MmappedChunk>& chunks) {
  uint64_t sum = 0;
  for (const MmappedChunk& chunk : chunks) sum += chunk.total;
  return sum;
}

// Chunks in runs (each begins where the one before it ends) of which an end is an edge.
std::vector<MmappedChunk> anchored(const std::vector<MmappedChunk>& chunks,
                                   const AnonymousMemory& memory) {
  std::vector<MmappedChunk> kept;
  for (size_t first = 0; first < chunks.size();) {
    size_t last = first + 1;
    const auto end = [&](size_t i) { return chunks[i].mapping_begin + chunks[i].total; };
    while (last < chunks.size() && chunks[last].mapping_begin == end(last - 1)) ++last;
    if (memory.is_edge(chunks[first].mapping_begin) || memory.is_edge(end(last - 1))) {
      kept.insert(kept.end(), chunks.begin() + static_cast<ptrdiff_t>(first),
                  chunks.begin() + static_cast<ptrdiff_t>(last));
    }
    first = last;
  }
  return kept;
}

// All but the one chunk that is too many, when there is just one whose bytes are too many as well.
std::optional<std::vector<MmappedChunk>> without_culprit(const std::vector<MmappedChunk>& chunks,
                                                         const MmappedBooks& books) {
  if (chunks.size() != books.count + 1) return std::nullopt;
  const uint64_t bytes = bytes_of(chunks);
  const auto is_culprit = [&](const MmappedChunk& chunk) {
    return books.balance(books.count, bytes - chunk.total);
  };
  if (std::count_if(chunks.begin(), chunks.end(), is_culprit) != 1) return std::nullopt;
  std::vector<MmappedChunk> rest;
  std::remove_copy_if(chunks.begin(), chunks.end(), std::back_inserter(rest), is_culprit);
  return rest;
}

}  // namespace

bool MmappedBooks::balance(uint64_t their_count, uint64_t their_bytes) const {
  if (!is_known || their_count != count || their_bytes > bytes) return false;
  const uint64_t over = bytes - their_bytes;
  if (over == 0) return true;
  return drift_step != 0 && over % drift_step == 0 && over / drift_step <= kMostDriftSteps;
}

bool is_settled(const std::vector<MmappedChunk>& looks, const MmappedBooks& books) {
  return books.balance(looks.size(), bytes_of(looks)) || without_culprit(looks, books);
}

std::vector<MmappedChunk> believed_chunks(const std::vector<MmappedChunk>& looks,
                                          const AnonymousMemory& memory, const MmappedBooks& books,
                                          std::string& complaint) {
  if (!books.is_known) return anchored(looks, memory);
  const auto balance = [&books](const std::vector<MmappedChunk>& chunks) {
    return books.balance(chunks.size(), bytes_of(chunks));
  };
  if (balance(looks)) return looks;
  std::vector<MmappedChunk> kept = anchored(looks, memory);
  if (balance(kept)) return kept;

  if (const auto rest = without_culprit(kept, books)) return *rest;
  if (const auto rest = without_culprit(looks, books)) return *rest;
  if (looks.size() <= books.count) kept = looks;  // some are missing: none is one too many
  complaint = "mp_ counts " + std::to_string(books.count) + " mmapped chunks of " +
              std::to_string(books.bytes) + " bytes, the search believes " +
              std::to_string(kept.size()) + " of " + std::to_string(bytes_of(kept)) + " bytes";
  if (kept.size() != looks.size()) {
    complaint += " and leaves out " + std::to_string(looks.size() - kept.size()) +
                 " places in the midst of mappings that look like chunks";
  }
  return kept;
}

}  // namespace heapsnap
