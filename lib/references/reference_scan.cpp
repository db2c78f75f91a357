#include "references/reference_scan.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/byte_reader.h"
#include "references/memory_pieces.h"

namespace heapsnap {
namespace {

// A word and where it was found. They are looked up some at a time, so that their cache misses
// overlap.
struct Candidate {
  uint64_t at = 0;
  uint64_t value = 0;
};
constexpr size_t kTogether = 32;

// Calls `receive(at, value)` for the words of `bytes` that may be addresses in blocks.
template <typename Word, typename Receive>
void each_candidate(const BlockMap& map, uint64_t from, std::span<const std::byte> bytes,
                    Receive receive) {
  const uint64_t skip = (sizeof(Word) - from % sizeof(Word)) % sizeof(Word);
  for (uint64_t i = skip; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    if (value != 0 && map.may_hold(value)) receive(from + i, value);
  }
}

// Looks words up in the order in which they come.
template <typename Receive>
class Lookup {
 public:
  Lookup(const BlockMap& map, Receive receive) : map_(map), receive_(receive) {}

  void add(uint64_t at, uint64_t value) {
    map_.prefetch(value, ahead_);
    waiting_[count_++] = {at, value};
    if (count_ == kTogether) flush();
  }
  void flush() {
    for (size_t i = 0; i < count_; ++i) {
      const Candidate& candidate = waiting_[i];
      if (const auto target = map_.find(candidate.value, hint_)) receive_(candidate.at, *target);
    }
    count_ = 0;
  }

 private:
  const BlockMap& map_;
  Receive receive_;
  BlockMap::Hint ahead_;
  BlockMap::Hint hint_;
  std::array<Candidate, kTogether> waiting_;
  size_t count_ = 0;
};

// Collects the references of blocks and hands them over in batches.
class References {
 public:
  References(const BlockMap& map, ReferenceSink& sink, uint64_t word)
      : map_(map), sink_(sink), word_(word) {}

  // Whether it is one: the word lies in a block.
  bool add(const FoundWord& word) {
    const auto source = map_.find(word.at.value(), hint_);
    if (!source || source->offset / word_ > UINT32_MAX) return false;
    move_to(source->block);
    ++counts_.back();
    offsets_.push_back(static_cast<uint32_t>(source->offset / word_));
    targets_.push_back(word.target);
    interior_.push_back(word.interior ? 1 : 0);
    return true;
  }
  // All blocks below `end` are complete.
  void finish(BlockNumber end) {
    if (end != 0) move_to(end - 1);
    hand_over();
  }

 private:
  static constexpr size_t kFull = 1 << 16;

  void move_to(BlockNumber block) {
    while (first_ + counts_.size() <= block) {
      if (counts_.size() >= kFull || targets_.size() >= kFull) hand_over();
      counts_.push_back(0);
    }
  }
  void hand_over() {
    if (counts_.empty()) return;
    sink_.on_references({first_, counts_, offsets_, targets_, interior_});
    first_ += static_cast<BlockNumber>(counts_.size());
    counts_.clear();
    offsets_.clear();
    targets_.clear();
    interior_.clear();
  }

  const BlockMap& map_;
  ReferenceSink& sink_;
  uint64_t word_;
  BlockMap::Hint hint_;
  BlockNumber first_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> offsets_;
  std::vector<BlockNumber> targets_;
  std::vector<uint8_t> interior_;
};

// A word that was looked up, among the bytes that it is of.
void show(ContainerStorage* storage, Address from, std::span<const std::byte> bytes,
          const FoundWord& word) {
  if (storage == nullptr || word.interior) return;
  storage->look_at({word.at, word.at - from, bytes}, word.target);
}

// Looks at the words of some bytes.
template <typename Found>
void look_at(Address from, std::span<const std::byte> bytes, const BlockMap& map, uint64_t word,
             Lookup<Found>& lookup) {
  const auto add = [&lookup](uint64_t at, uint64_t value) { lookup.add(at, value); };
  if (word == sizeof(uint32_t)) {
    each_candidate<uint32_t>(map, from.value(), bytes, add);
  } else {
    each_candidate<uint64_t>(map, from.value(), bytes, add);
  }
}

// Gives the first words of the blocks that begin in some bytes.
void give_first_words(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                      uint64_t word, const std::function<void(const FirstWord&)>& receive) {
  map.each_block({from, from + bytes.size()}, [&](BlockNumber block, Address address) {
    const uint64_t offset = address - from;
    if (!fits_within(offset, word, bytes.size())) return;
    FirstWord first{block, address, 0, bytes.subspan(offset)};
    std::memcpy(&first.value, bytes.data() + offset, word);
    receive(first);
  });
}

ScannedMemory scanned(const MemoryPieces& pieces) {
  return {pieces.bytes_read(), pieces.bytes_in_swap(), pieces.bytes_unreadable()};
}

}  // namespace

ScannedMemory scan_blocks(Target& target, const BlockMap& map, ReferenceSink& references,
                          const std::function<void(const FirstWord&)>& first_word,
                          const ScanProgress& progress, ContainerStorage* storage,
                          const StartThread& start_thread) {
  const uint64_t word = word_size(target.process().machine);
  MemoryPieces pieces(target);
  References collected(map, references, word);
  PieceHandover handover(start_thread, [&](const ScannedPiece& piece) {
    for (const FoundWord& each : piece.words) {
      if (collected.add(each)) show(storage, piece.from, piece.bytes, each);
    }
  });
  ScannedPiece filled;
  Lookup lookup(map, [&filled](uint64_t at, const BlockMap::Place& place) {
    filled.words.push_back({Address(at), place.block, place.offset != 0});
  });
  const auto look = [&](Address from, std::span<const std::byte> bytes) {
    filled = handover.make_piece(from, bytes);
    look_at(from, bytes, map, word, lookup);
    lookup.flush();
    handover.give(std::move(filled));
    if (first_word) give_first_words(from, bytes, map, word, first_word);
  };
  for (const AddressRange& memory : map.memory()) {
    for (AddressRange rest = memory; !rest.is_empty();) {
      constexpr uint64_t kStep = 4 << 20;
      const AddressRange part{rest.begin, rest.begin + std::min(kStep, rest.size())};
      pieces.read(part, look);
      rest.begin = part.end;
      if (progress) progress(pieces.bytes_read());
    }
  }
  handover.finish();
  collected.finish(map.blocks());
  return scanned(pieces);
}

ScannedMemory scan_outside(Target& target, const BlockMap& map, const AddressRange& range,
                           const std::function<void(const FoundWord&)>& receive,
                           ContainerStorage* storage) {
  const uint64_t word = word_size(target.process().machine);
  MemoryPieces pieces(target);
  Address piece;
  std::span<const std::byte> piece_bytes;
  const auto found = [&](uint64_t at, const BlockMap::Place& place) {
    const FoundWord each{Address(at), place.block, place.offset != 0};
    receive(each);
    show(storage, piece, piece_bytes, each);
  };
  Lookup lookup(map, found);
  pieces.read(range, [&](Address from, std::span<const std::byte> bytes) {
    piece = from;
    piece_bytes = bytes;
    look_at(from, bytes, map, word, lookup);
    lookup.flush();
  });
  return scanned(pieces);
}

}  // namespace heapsnap
