#include "references/reference_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "references/memory_pieces.h"

namespace heapsnap {
namespace {

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
      fetch(first + kAhead);
      uint64_t bits = 0;
      for (uint64_t i = std::min(first + kBits, words_); i-- > first;) {
        bits += bits + uint64_t{map_.is_among_blocks(word(i))};
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
  static constexpr uint64_t kAhead = 512;

  // As many words as have bits in one.
  void fetch(uint64_t first) const {
    constexpr uint64_t kLine = 64 / sizeof(Word);
    for (uint64_t i = first; i < first + kBits; i += kLine) {
      __builtin_prefetch(bytes_ + std::min(i, words_) * sizeof(Word));
    }
  }
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

struct LookedUpWord {
  uint64_t at;
  BlockNumber source;  // the block that it lies in; kNoBlock for none
  uint32_t offset;     // from that one's begin on, in words
};

// Looks words up, some at a time, in the order in which they come.
template <typename Receive>
class Lookup {
 public:
  // Calls receive(word, place) for those that are addresses in blocks.
  Lookup(const BlockMap& map, Receive receive) : map_(map), receive_(receive) {}

  void add(const LookedUpWord& word, uint64_t value) {
    words_[count_] = word;
    values_[count_] = value;
    if (++count_ == kTogether) flush();
  }
  void flush() {
    map_.find_all(std::span(values_).first(count_), targets_.data(), hint_);
    for (size_t i = 0; i < count_; ++i) {
      if (targets_[i].block != kNoBlock) receive_(words_[i], targets_[i]);
    }
    count_ = 0;
  }

 private:
  static constexpr size_t kTogether = 64;

  const BlockMap& map_;
  Receive receive_;
  BlockMap::Hint hint_;
  size_t count_ = 0;
  std::array<LookedUpWord, kTogether> words_;
  std::array<uint64_t, kTogether> values_;
  std::array<BlockMap::Place, kTogether> targets_;
};

// Collects the references of blocks and hands them over in batches.
class References {
 public:
  explicit References(ReferenceSink& sink) : sink_(sink) {
    reserve(kFull + MemoryPieces::kMostBytes / sizeof(uint64_t));
  }

  // References to come, so many at most: add() needs room for them.
  void expect(size_t count) {
    if (blocks_ != 0 && counts_[blocks_ - 1] >= kPart) hand_over_part();
    reserve(used_ + count);
  }
  void add(const FoundReference& found) {
    if (first_ + blocks_ <= found.source) move_to(found.source);
    ++counts_[blocks_ - 1];
    offsets_[used_] = found.offset;
    targets_[used_] = found.target;
    interior_[used_++] = found.inside();
  }
  // All blocks below `end` are complete.
  void finish(BlockNumber end) {
    if (end != 0 && first_ + blocks_ < end) move_to(end - 1);
    hand_over();
  }

 private:
  static constexpr uint32_t kFull = 1 << 16;
  static constexpr uint32_t kPart = 1 << 20;  // of one block

  void reserve(size_t count) {
    offsets_.reserve(count);
    targets_.reserve(count);
    interior_.reserve(count);
  }
  void move_to(BlockNumber block) {
    do {
      if (blocks_ == kFull || used_ >= kFull) hand_over();
      counts_[blocks_++] = 0;
    } while (first_ + blocks_ <= block);
  }
  void hand_over(bool goes_on = false) {
    if (blocks_ == 0) return;
    sink_.on_references({first_,
                         std::span(counts_).first(blocks_),
                         {offsets_.data(), used_},
                         {targets_.data(), used_},
                         {interior_.data(), used_},
                         goes_on});
    first_ += blocks_;
    blocks_ = 0;
    used_ = 0;
  }
  // The last block stays the open one.
  void hand_over_part() {
    hand_over(true);
    --first_;
    counts_[blocks_++] = 0;
  }

  ReferenceSink& sink_;
  BlockNumber first_ = 0;
  uint32_t blocks_ = 0;  // begun so far, from first_ on
  size_t used_ = 0;      // references
  std::vector<uint32_t> counts_ = std::vector<uint32_t>(kFull);
  // Room alone, of which `used_` is filled.
  LargeArray<uint32_t> offsets_;
  LargeArray<BlockNumber> targets_;
  LargeArray<uint8_t> interior_;
};

// A word that was looked up. No container keeps its elements in slots of a runtime.
void show(ContainerStorage& storage, const BlockMap& map, const WordInMemory& word,
          BlockNumber target, unsigned inside) {
  if (inside == 0 && target < map.first_slot()) storage.look_at(word, target);
}

template <typename Word, typename Found>
void look_in_part(const Candidates<Word>& candidates, const BlockMap::Part& part, uint64_t skip,
                  Lookup<Found>& lookup) {
  const uint64_t block_begin = part.block_begin.value();
  candidates.each(part.bytes, skip, [&](uint64_t at, uint64_t value) {
    const uint64_t offset = (at - block_begin) / sizeof(Word);
    if (offset > UINT32_MAX) return;
    lookup.add({at, part.block, static_cast<uint32_t>(offset)}, value);
  });
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

// Looks at the words of those of some bytes that lie in blocks of malloc, and gives the first words
// of the blocks that begin there to `first_word`.
template <typename Word, typename Found, typename First>
void look_at_blocks(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                    Lookup<Found>& lookup, const First& first_word, std::vector<uint64_t>& room) {
  Candidates<Word> candidates(map, from, bytes);
  candidates.mark(room);
  map.each_part({from, from + bytes.size()}, [&](const BlockMap::Part& part) {
    if (part.bytes.begin == part.block_begin && part.bytes.size() >= sizeof(Word)) {
      const uint64_t index = part.bytes.begin - from;
      Word value;
      std::memcpy(&value, bytes.data() + index, sizeof value);
      first_word(FirstWord{part.block, part.block_begin, value, bytes.subspan(index)});
    }
    look_in_part(candidates, part, 0, lookup);
  });
  lookup.flush();
}

// Looks at the words of those that lie in slots, but for those that their classes skip.
template <typename Word, typename Found>
void look_at_slots(Address from, std::span<const std::byte> bytes, const BlockMap& map,
                   Lookup<Found>& lookup, std::vector<uint64_t>& room) {
  Candidates<Word> candidates(map, from, bytes);
  candidates.mark(room);
  map.each_slot_part({from, from + bytes.size()}, [&](const BlockMap::Part& part, uint64_t skip) {
    const uint64_t before = (part.bytes.begin - part.block_begin) / sizeof(Word);
    look_in_part(candidates, part, ObjectClass::skip_from(skip, before), lookup);
  });
  lookup.flush();
}

// Looks the words of pieces up, for one thread: in cache lines of its own.
class alignas(64) PieceLookup {
 public:
  PieceLookup(const BlockMap& map, const FirstWords& first_words)
      : map_(map), first_words_(first_words), lookup_(map, Receive{&piece_}) {}
  PieceLookup(const PieceLookup&) = delete;
  PieceLookup& operator=(const PieceLookup&) = delete;

  void run(ScannedPiece& piece) {
    piece_ = &piece;
    if (map_.word() == sizeof(uint32_t)) {
      run_as<uint32_t>();
    } else {
      run_as<uint64_t>();
    }
  }

 private:
  struct Receive {
    ScannedPiece* const* piece;
    void operator()(const LookedUpWord& word, const BlockMap::Place& place) const {
      static_assert(MemoryPieces::kMostBytes <= 1 << (32 - FoundReference::kInsideBits));
      const auto at = static_cast<uint32_t>(word.at - (*piece)->from.value());
      const uint8_t inside = how_far_inside(place.offset);
      (*piece)->words.push_back({.place = FoundReference::place_of(at, inside),
                                 .target = place.block,
                                 .source = word.source,
                                 .offset = word.offset});
    }
  };

  template <typename Word>
  void run_as() {
    // All may be references. Where pieces come one after the other, there is room for any of them.
    const size_t most = piece_->memory.empty() ? piece_->bytes.size() : MemoryPieces::kMostBytes;
    piece_->words.reserve(most / sizeof(Word));
    if (piece_->in_slots) {
      return look_at_slots<Word>(piece_->from, piece_->bytes, map_, lookup_, room_);
    }
    const FirstWordFilter* const filter = first_words_.filter;
    const auto keep = [this, filter](const FirstWord& first) {
      if (filter != nullptr && filter->may_tell_type(first.value)) {
        piece_->first_words.push_back(first);
      }
    };
    look_at_blocks<Word>(piece_->from, piece_->bytes, map_, lookup_, keep, room_);
  }

  const BlockMap& map_;
  const FirstWords& first_words_;
  ScannedPiece* piece_ = nullptr;
  Lookup<Receive> lookup_;
  std::vector<uint64_t> room_;
};

ScannedMemory scanned(const MemoryPieces& pieces) {
  return {pieces.bytes_read(), pieces.bytes_in_swap(), pieces.bytes_unreadable()};
}

}  // namespace

ScannedMemory scan_blocks(Target& target, const BlockMap& map, ReferenceSink& references,
                          const FirstWords& first_words, const ScanProgress& progress,
                          ContainerStorage* storage, const StartThread& start_thread) {
  const uint64_t word = map.word();
  MemoryPieces pieces(target, UINT64_MAX, start_thread ? PiecePipeline::kPieces : 0);
  References collected(references);
  std::array<PieceLookup, PiecePipeline::kThreads> lookups{PieceLookup(map, first_words),
                                                           PieceLookup(map, first_words)};
  PiecePipeline pipeline(
      start_thread,
      {[&](ScannedPiece& piece, unsigned thread) { lookups[thread].run(piece); },
       {[&](const ScannedPiece& piece) {
          collected.expect(piece.words.size());
          for (const FoundReference& each : piece.words) collected.add(each);
        },
        [&](const ScannedPiece& piece) {
          if (storage == nullptr) return;
          for (const FoundReference& each : piece.words) {
            show(*storage, map,
                 {piece.from + each.at(), each.at(), piece.bytes, each.source, each.offset * word},
                 each.target, each.inside());
          }
        }},
       [&](const ScannedPiece& piece) {
         for (const FirstWord& first : piece.first_words) first_words.receive(first);
       }});
  bool in_slots = false;
  const auto look = [&](Address from, std::span<const std::byte> bytes) {
    ScannedPiece piece = pipeline.make_piece();
    piece.from = from;
    piece.bytes = bytes;
    piece.in_slots = in_slots;
    if (pipeline.has_thread() && !target.is_mapped_here()) pieces.exchange(piece.memory);
    pipeline.give(std::move(piece));
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
  pipeline.finish();
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
  const auto found = [&](const LookedUpWord& each, const BlockMap::Place& place) {
    const Address at(each.at);
    const uint8_t inside = how_far_inside(place.offset);
    receive({at, place.block, inside});
    if (storage != nullptr) show(*storage, map, {at, at - piece, piece_bytes}, place.block, inside);
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
