#include "references/reference_scan.h"

#include <array>
#include <cstring>
#include <vector>

#include "references/memory_pieces.h"

namespace heapsnap {
namespace {

// Where a word was found: in no block, or in `source`.
struct WordPlace {
  uint64_t at = 0;
  BlockNumber source = kNoBlock;
  uint32_t offset = 0;  // in words
};

// Words are looked up some at a time, so that their cache misses overlap.
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

  void add(const WordPlace& place, uint64_t value) {
    map_.prefetch(value, ahead_);
    waiting_[count_++] = {place, value};
    if (count_ == kTogether) flush();
  }
  void flush() {
    for (size_t i = 0; i < count_; ++i) {
      const Candidate& candidate = waiting_[i];
      if (const auto target = map_.find(candidate.value, hint_)) receive_(candidate.place, *target);
    }
    count_ = 0;
  }

 private:
  struct Candidate {
    WordPlace place;
    uint64_t value = 0;
  };

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
  explicit References(ReferenceSink& sink) : sink_(sink) {}

  void add(const FoundReference& found) {
    move_to(found.source);
    ++counts_.back();
    offsets_.push_back(found.offset);
    targets_.push_back(found.word.target);
    interior_.push_back(found.word.inside);
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

  ReferenceSink& sink_;
  BlockNumber first_ = 0;
  std::vector<uint32_t> counts_;
  std::vector<uint32_t> offsets_;
  std::vector<BlockNumber> targets_;
  std::vector<uint8_t> interior_;
};

// A word that was looked up, among the bytes that it is of. No container keeps its elements in
// slots of a runtime.
void show(ContainerStorage* storage, const BlockMap& map, Address from,
          std::span<const std::byte> bytes, const FoundWord& word, BlockNumber source = kNoBlock,
          uint64_t offset_in_block = 0) {
  if (storage == nullptr || word.inside != 0 || word.target >= map.first_slot()) return;
  storage->look_at({word.at, word.at - from, bytes, source, offset_in_block}, word.target);
}

// Looks at the words of bytes that lie in no block.
template <typename Word, typename Found>
void look_outside(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                  Lookup<Found>& lookup) {
  each_candidate<Word>(map, from.value(), bytes, [&lookup](uint64_t at, uint64_t value) {
    lookup.add({at, kNoBlock, 0}, value);
  });
  lookup.flush();
}

// Looks at the words of those of some bytes that lie in blocks, and gives the first words of the
// blocks that begin there.
template <typename Word, typename Found>
void look_at_blocks(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                    Lookup<Found>& lookup, bool in_slots,
                    const std::function<void(const FirstWord&)>& first_word) {
  const auto look = [&](const BlockMap::Part& part) {
    const uint64_t index = part.bytes.begin - from;
    if (!in_slots && first_word && part.bytes.begin == part.block_begin &&
        part.bytes.size() >= sizeof(Word)) {
      FirstWord first{part.block, part.block_begin, 0, bytes.subspan(index)};
      std::memcpy(&first.value, bytes.data() + index, sizeof(Word));
      first_word(first);
    }
    const uint64_t block_begin = part.block_begin.value();
    each_candidate<Word>(map, part.bytes.begin.value(), bytes.subspan(index, part.bytes.size()),
                         [&](uint64_t at, uint64_t value) {
                           const uint64_t offset = (at - block_begin) / sizeof(Word);
                           if (offset > UINT32_MAX) return;
                           lookup.add({at, part.block, static_cast<uint32_t>(offset)}, value);
                         });
  };
  const AddressRange range{from, from + bytes.size()};
  in_slots ? map.each_slot_part(range, look) : map.each_part(range, look);
  lookup.flush();
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
  References collected(references);
  PieceHandover handover(start_thread, [&](const ScannedPiece& piece) {
    for (const FoundReference& each : piece.words) {
      collected.add(each);
      show(storage, map, piece.from, piece.bytes, each.word, each.source, each.offset * word);
    }
  });
  ScannedPiece filled;
  bool in_slots = false;
  Lookup lookup(map, [&filled](const WordPlace& at, const BlockMap::Place& target) {
    filled.words.push_back(
        {{Address(at.at), target.block, how_far_inside(target.offset)}, at.source, at.offset});
  });
  const auto look = [&](Address from, std::span<const std::byte> bytes) {
    filled = handover.make_piece();
    filled.from = from;
    filled.bytes = bytes;
    if (word == sizeof(uint32_t)) {
      look_at_blocks<uint32_t>(from, bytes, map, lookup, in_slots, first_word);
    } else {
      look_at_blocks<uint64_t>(from, bytes, map, lookup, in_slots, first_word);
    }
    if (handover.has_thread()) pieces.exchange(filled.memory);
    handover.give(std::move(filled));
  };
  const auto scan = [&](std::span<const AddressRange> ranges) {
    for (AddressRange rest : ranges) {
      while (!rest.is_empty()) {
        constexpr uint64_t kStep = 4 << 20;
        const AddressRange part{rest.begin, rest.begin + std::min(kStep, rest.size())};
        pieces.read(part, look);
        rest.begin = part.end;
        if (progress) progress(pieces.bytes_read());
      }
    }
  };
  scan(map.memory());
  in_slots = true;
  scan(map.slots().memory());
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
  const auto found = [&](const WordPlace& at, const BlockMap::Place& target) {
    const FoundWord each{Address(at.at), target.block, how_far_inside(target.offset)};
    receive(each);
    show(storage, map, piece, piece_bytes, each);
  };
  Lookup lookup(map, found);
  pieces.read(range, [&](Address from, std::span<const std::byte> bytes) {
    piece = from;
    piece_bytes = bytes;
    if (word == sizeof(uint32_t)) {
      look_outside<uint32_t>(from, bytes, map, lookup);
    } else {
      look_outside<uint64_t>(from, bytes, map, lookup);
    }
  });
  return scanned(pieces);
}

}  // namespace heapsnap
