#include "references/reference_scan.h"

#include <algorithm>
#include <array>
#include <bit>
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

// Which words of some bytes may be addresses in blocks: of all of them at once, as that takes no
// branches, and most are none.
template <typename Word>
class Candidates {
 public:
  Candidates(const BlockMap& map, Address from, std::span<const std::byte> bytes)
      : map_(map), begin_(from.align_up(sizeof(Word))) {
    const uint64_t skipped = begin_ - from;
    if (bytes.size() < skipped) return;
    bytes_ = bytes.data() + skipped;
    words_ = (bytes.size() - skipped) / sizeof(Word);
  }

  // Writes the bits to `room`, for each(), and a word more, so that any two can be read together.
  void mark(std::vector<uint64_t>& room) {
    room.resize((words_ + kBits - 1) / kBits + 1);
    room.back() = 0;
    bits_ = room.data();
    for (uint64_t first = 0; first < words_; first += kBits) {
      uint64_t bits = 0;
      for (uint64_t i = std::min(first + kBits, words_); i-- > first;) {
        bits = 2 * bits + (map_.is_among_blocks(word(i)) ? 1 : 0);
      }
      room[first / kBits] = bits;
    }
  }
  // Calls `receive(at, value)` for those in `range`, which lies in the bytes, but for its words
  // that `skip` has a bit of, as ObjectClass::skip.
  template <typename Receive>
  void each(const AddressRange& range, uint64_t skip, Receive receive) const {
    uint64_t at = (range.begin.align_up(sizeof(Word)) - begin_) / sizeof(Word);
    const Address last = range.end.align_down(sizeof(Word));
    const uint64_t end = last < begin_ ? 0 : (last - begin_) / sizeof(Word);
    for (; at < end; at += kBits, skip = ObjectClass::skip_from(skip, kBits)) {
      uint64_t bits = bits_[at / kBits] >> (at % kBits);
      if (at % kBits != 0) bits |= bits_[at / kBits + 1] << (kBits - at % kBits);
      bits &= ~skip;
      if (end - at < kBits) bits &= (uint64_t{1} << (end - at)) - 1;
      for (; bits != 0; bits &= bits - 1) {
        const uint64_t i = at + static_cast<uint64_t>(std::countr_zero(bits));
        const Word value = word(i);
        if (map_.may_hold(value)) receive((begin_ + i * sizeof(Word)).value(), value);
      }
    }
  }

 private:
  static constexpr uint64_t kBits = 64;

  Word word(uint64_t i) const {
    Word value;
    std::memcpy(&value, bytes_ + i * sizeof(Word), sizeof value);
    return value;
  }

  const BlockMap& map_;
  Address begin_;  // of the first word
  const std::byte* bytes_ = nullptr;
  uint64_t words_ = 0;
  const uint64_t* bits_ = nullptr;
};

// Looks words up in the order in which they come.
template <typename Receive>
class Lookup {
 public:
  Lookup(const BlockMap& map, Receive receive) : map_(map), receive_(receive) {}

  void add(const WordPlace& place, uint64_t value) {
    waiting_[count_++] = {place, value, map_.prefetch(value, hint_)};
    if (count_ == kTogether) flush();
  }
  void flush() {
    for (size_t i = 0; i < count_; ++i) {
      const Candidate& candidate = waiting_[i];
      const auto target = map_.find_fetched(candidate.value, candidate.fetched, hint_);
      if (target.block != kNoBlock) receive_(candidate.place, target);
    }
    count_ = 0;
  }

 private:
  struct Candidate {
    WordPlace place;
    uint64_t value = 0;
    BlockMap::Fetched fetched;
  };

  const BlockMap& map_;
  Receive receive_;
  BlockMap::Hint hint_;
  std::array<Candidate, kTogether> waiting_;
  size_t count_ = 0;
};

// Collects the references of blocks and hands them over in batches.
class References {
 public:
  explicit References(ReferenceSink& sink) : sink_(sink) {}

  // References to come, so many at most: add() needs room for them.
  void expect(size_t count) {
    const size_t most = used_ + count;
    if (most <= targets_.size()) return;
    offsets_.resize(most);
    targets_.resize(most);
    interior_.resize(most);
  }
  void add(const FoundReference& found) {
    if (first_ + blocks_ <= found.source) move_to(found.source);
    ++counts_[blocks_ - 1];
    offsets_[used_] = found.offset;
    targets_[used_] = found.word.target;
    interior_[used_++] = found.word.inside;
  }
  // All blocks below `end` are complete.
  void finish(BlockNumber end) {
    if (end != 0 && first_ + blocks_ < end) move_to(end - 1);
    hand_over();
  }

 private:
  static constexpr uint32_t kFull = 1 << 16;

  void move_to(BlockNumber block) {
    do {
      if (blocks_ == kFull || used_ >= kFull) hand_over();
      counts_[blocks_++] = 0;
    } while (first_ + blocks_ <= block);
  }
  void hand_over() {
    if (blocks_ == 0) return;
    sink_.on_references({first_, std::span(counts_).first(blocks_),
                         std::span(offsets_).first(used_), std::span(targets_).first(used_),
                         std::span(interior_).first(used_)});
    first_ += blocks_;
    blocks_ = 0;
    used_ = 0;
  }

  ReferenceSink& sink_;
  BlockNumber first_ = 0;
  uint32_t blocks_ = 0;  // begun so far, from first_ on
  size_t used_ = 0;      // of what follows
  std::vector<uint32_t> counts_ = std::vector<uint32_t>(kFull);
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
                  Lookup<Found>& lookup, std::vector<uint64_t>& room) {
  Candidates<Word> candidates(map, from, bytes);
  candidates.mark(room);
  candidates.each({from, from + bytes.size()}, 0, [&lookup](uint64_t at, uint64_t value) {
    lookup.add({at, kNoBlock, 0}, value);
  });
  lookup.flush();
}

// Looks at the words of those of some bytes that lie in blocks, and gives the first words of the
// blocks that begin there.
template <typename Word, typename Found>
void look_at_blocks(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                    Lookup<Found>& lookup, bool in_slots,
                    const std::function<void(const FirstWord&)>& first_word,
                    std::vector<uint64_t>& room) {
  Candidates<Word> candidates(map, from, bytes);
  candidates.mark(room);
  const auto look = [&](const BlockMap::Part& part, uint64_t skip) {
    const uint64_t block_begin = part.block_begin.value();
    candidates.each(part.bytes, skip, [&](uint64_t at, uint64_t value) {
      const uint64_t offset = (at - block_begin) / sizeof(Word);
      if (offset > UINT32_MAX) return;
      lookup.add({at, part.block, static_cast<uint32_t>(offset)}, value);
    });
  };
  const AddressRange range{from, from + bytes.size()};
  if (in_slots) {
    map.each_slot_part(range, [&](const BlockMap::Part& part, uint64_t skip) {
      const uint64_t before = (part.bytes.begin - part.block_begin) / sizeof(Word);
      look(part, ObjectClass::skip_from(skip, before));
    });
  } else {
    map.each_part(range, [&](const BlockMap::Part& part) {
      const uint64_t index = part.bytes.begin - from;
      if (first_word && part.bytes.begin == part.block_begin && part.bytes.size() >= sizeof(Word)) {
        FirstWord first{part.block, part.block_begin, 0, bytes.subspan(index)};
        std::memcpy(&first.value, bytes.data() + index, sizeof(Word));
        first_word(first);
      }
      look(part, 0);
    });
  }
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
    collected.expect(piece.words.size());
    for (const FoundReference& each : piece.words) {
      collected.add(each);
      show(storage, map, piece.from, piece.bytes, each.word, each.source, each.offset * word);
    }
  });
  std::vector<uint64_t> room;
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
      look_at_blocks<uint32_t>(from, bytes, map, lookup, in_slots, first_word, room);
    } else {
      look_at_blocks<uint64_t>(from, bytes, map, lookup, in_slots, first_word, room);
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
  MemoryPieces pieces(target, range.size());
  std::vector<uint64_t> room;
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
      look_outside<uint32_t>(from, bytes, map, lookup, room);
    } else {
      look_outside<uint64_t>(from, bytes, map, lookup, room);
    }
  });
  return scanned(pieces);
}

}  // namespace heapsnap
