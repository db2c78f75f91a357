#include "runtime/postgres/postgres_blocks.h"

#include <algorithm>
#include <array>
#include <string>

#include "heap/struct_bytes.h"

namespace heapsnap {

PostgresBlocks::PostgresBlocks(Target& target, const PostgresLayout& layout)
    : target_(target), layout_(layout), memory_(target), chunks_(layout, memory_) {
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (mapping.is_private_writable()) room_ += mapping.range.size();
  }
}

bool PostgresBlocks::is_in_swap(Address at, uint64_t bytes) {
  constexpr uint64_t kTogether = 512;
  if (target_.process().swap == 0) return false;
  PageResidency& residency = target_.residency();
  const uint64_t page = residency.page_size();
  std::array<PageState, kTogether> states{};
  for (Address first = at.align_down(page); first < at + bytes; first += kTogether * page) {
    const uint64_t pages = std::min(kTogether, (at + bytes - first + page - 1) / page);
    const auto some = std::span(states).first(pages);
    residency.read(first, some);
    if (std::find(some.begin(), some.end(), PageState::kSwapped) != some.end()) return true;
  }
  return false;
}

void PostgresBlocks::read(RuntimeContext& context, uint32_t number, uint64_t allocated) {
  number_ = number;
  has_first_ = false;
  context.counts_chunks = true;
  const size_t before = all_.size();
  const uint64_t room_before = room_;
  bool fits = false;
  uint64_t apart = 0;  // what `allocated` leaves out
  switch (context.kind) {
    case ContextKind::kUnknown: break;
    case ContextKind::kAllocSet: fits = read_set(context); break;
    case ContextKind::kBump: fits = read_bump(context); break;
    case ContextKind::kGeneration:
      fits = read_generation(context);
      apart = layout_.generation_size;
      break;
    case ContextKind::kSlab:
      fits = read_slab(context);
      apart = fits ? all_[before].bytes : 0;
      break;
  }
  if (!fits) {
    all_.resize(before);
    room_ = room_before;
    context.blocks = context.bytes = context.free_bytes = 0;
    context.free_chunks = context.used_chunks = 0;
    context.counts_chunks = false;
    return;
  }
  if (!context.counts_chunks) context.used_chunks = 0;
  if (context.bytes - apart != allocated && context.problem.empty()) {
    context.problem = "its blocks have " + std::to_string(context.bytes - apart) +
                      " bytes, but it counts " + std::to_string(allocated);
  }
}

bool PostgresBlocks::add_block(RuntimeContext& context, Address block, uint64_t bytes,
                               uint64_t free, uint64_t own_size) {
  if (!memory_.is_writable(block, bytes))
    return tell_problem(context, "not all of a block is memory: that at", block);
  if (all_.size() >= kMostBlocks || bytes > room_) {
    return tell_problem(context, "there are more blocks than there can be, the next at", block);
  }
  room_ -= bytes;
  ++context.blocks;
  context.bytes += bytes;
  if (own_size != 0 && block == context.at + own_size && !has_first_) {
    has_first_ = true;
    all_.push_back({context.at, own_size + bytes, own_size + bytes - free, number_});
  } else {
    all_.push_back({block, bytes, bytes - free, number_});
  }
  return true;
}

template <typename Visit>
bool PostgresBlocks::visit_nodes(Address head, Visit visit) {
  constexpr uint64_t kNext = 8;
  const auto first = memory_.word(head + kNext);
  if (!first) return false;
  // Empty lists are null or lead to themselves.
  if (*first == 0 || *first == head.value()) return true;
  Address previous = head;
  for (Address node(*first); node != head;) {
    const auto back = memory_.word(node);
    const auto next = memory_.word(node + kNext);
    if (!back || !next || Address(*back) != previous || !visit(node)) return false;
    previous = node;
    node = Address(*next);
  }
  return memory_.word(head) == previous.value();
}

bool PostgresBlocks::read_set(RuntimeContext& context) {
  if (!memory_.is_writable(context.at, layout_.set_size)) {
    return tell_problem(context, "not all of it is memory: it is at", context.at);
  }
  chunks_.begin();
  context.bytes = layout_.set_size;
  Address previous;
  Address block(memory_.word(context.at + layout_.set_blocks).value_or(0));
  while (!block.is_null()) {
    const StructBytes words(memory_.structure(block, layout_.set_block_header), 8);
    if (Address(words.word_at(layout_.set_block_context)) != context.at ||
        Address(words.word_at(layout_.set_block_previous)) != previous) {
      return tell_problem(context, "its list of blocks breaks off at", block);
    }
    const Address begin = block + layout_.set_block_header;
    const Address free(words.word_at(layout_.set_block_free));
    const Address end(words.word_at(layout_.set_block_end));
    const Address next(words.word_at(layout_.set_block_next));
    if (free < begin || end < free)
      return tell_problem(context, "the ends do not fit of a block at", block);
    if (!add_block(context, block, end - block, end - free, layout_.set_size)) return false;
    context.free_bytes += end - free;
    if (context.counts_chunks) {
      context.counts_chunks =
          !is_in_swap(block, end - block) && chunks_.count(context, block, {begin, free});
    }
    previous = block;
    block = next;
  }
  if (!has_first_)
    return tell_problem(context, "its first block is not in its list, at", context.at);
  if (!chunks_.add_free(context)) context.counts_chunks = false;
  return true;
}

bool PostgresBlocks::read_generation(RuntimeContext& context) {
  if (!memory_.is_writable(context.at, layout_.generation_size)) {
    return tell_problem(context, "not all of it is memory: it is at", context.at);
  }
  context.bytes = layout_.generation_size;
  const bool has_keeper = layout_.has_generation_keeper();
  const uint64_t own_size = has_keeper ? layout_.generation_size : 0;
  if (!has_keeper) {
    all_.push_back({context.at, layout_.generation_size, layout_.generation_size, number_});
  }
  const bool closes = visit_nodes(context.at + layout_.generation_blocks, [&](Address node) {
    const Address block = node - layout_.generation_block_node;
    const StructBytes words(memory_.structure(block, layout_.generation_block_header), 8);
    const uint64_t size = words.word_at(layout_.generation_block_size);
    const Address free(words.word_at(layout_.generation_block_free));
    const Address end(words.word_at(layout_.generation_block_end));
    const uint64_t chunks = words.int_at(layout_.generation_block_chunks);
    const uint64_t free_chunks = words.int_at(layout_.generation_block_free_chunks);
    // Chunks have a header and no less than nothing.
    if (free < block + layout_.generation_block_header || end < free || end - block != size ||
        free_chunks > chunks || chunks > size / layout_.generation_chunk_header) {
      return tell_problem(context, "the ends do not fit of a block at", block);
    }
    if (!add_block(context, block, size, end - free, own_size)) return false;
    context.free_bytes += end - free;
    context.free_chunks += free_chunks;
    context.used_chunks += chunks - free_chunks;
    return true;
  });
  if (!closes) return tell_problem(context, "its list of blocks does not close, at", context.at);
  if (has_keeper && !has_first_) {
    return tell_problem(context, "its first block is not in its list, at", context.at);
  }
  return true;
}

bool PostgresBlocks::read_slab_list(RuntimeContext& context, Address head, uint64_t bytes,
                                    uint64_t chunk_bytes, uint64_t chunks) {
  return visit_nodes(head, [&](Address node) {
    const Address block = node - layout_.slab_block_node;
    const StructBytes words(memory_.structure(block, layout_.slab_block_header), 8);
    const uint64_t free = words.int_at(layout_.slab_block_free_chunks);
    if (words.size() == 0 || free > chunks) {
      return tell_problem(context, "the chunks do not fit of a block at", block);
    }
    if (!add_block(context, block, bytes, 0, 0)) return false;
    context.free_bytes += free * chunk_bytes;
    context.free_chunks += free;
    context.used_chunks += chunks - free;
    return true;
  });
}

bool PostgresBlocks::read_slab(RuntimeContext& context) {
  constexpr uint64_t kMostChunks = 1 << 20;
  constexpr uint64_t kListHead = 16;
  const StructBytes words(memory_.structure(context.at, layout_.slab_size), 8);
  const auto size_at = [&](uint32_t offset) {
    return layout_.slab_size_bytes == 8 ? words.word_at(offset) : words.int_at(offset);
  };
  const uint64_t bytes = size_at(layout_.slab_block_size);
  const uint64_t chunk_bytes = size_at(layout_.slab_chunk_size);
  const uint64_t chunks = words.int_at(layout_.slab_chunks_per_block);
  const uint64_t header = layout_.slab_block_header;
  if (bytes < header || chunk_bytes == 0 || chunks == 0 || chunks > kMostChunks ||
      chunks > (bytes - header) / chunk_bytes) {
    return tell_problem(context, "its sizes do not fit, at", context.at);
  }
  const bool has_few_lists = layout_.slab_empty_blocks != 0;
  const uint64_t lists = has_few_lists ? PostgresLayout::kSlabLists : chunks + 1;
  const uint64_t own = has_few_lists ? layout_.slab_size : layout_.slab_size + lists * kListHead;
  if (!memory_.is_writable(context.at, own)) {
    return tell_problem(context, "not all of it is memory: it is at", context.at);
  }
  if (own > room_) {
    return tell_problem(context, "there are more lists of blocks than there can be, at",
                        context.at);
  }
  room_ -= own;
  context.bytes = own;
  all_.push_back({context.at, own, own, number_});
  for (uint64_t i = 0; i < lists; ++i) {
    const Address head = context.at + layout_.slab_lists + i * kListHead;
    if (!read_slab_list(context, head, bytes, chunk_bytes, chunks)) {
      return tell_problem(context, "a list of its blocks does not close, that at", head);
    }
  }
  if (!has_few_lists) return true;
  const Address head = context.at + layout_.slab_empty_blocks;
  return read_slab_list(context, head, bytes, chunk_bytes, chunks) ||
         tell_problem(context, "a list of its blocks does not close, that at", head);
}

bool PostgresBlocks::read_bump(RuntimeContext& context) {
  if (!memory_.is_writable(context.at, layout_.bump_size)) {
    return tell_problem(context, "not all of it is memory: it is at", context.at);
  }
  context.bytes = layout_.bump_size;
  context.counts_chunks = false;  // they have no headers
  const bool closes = visit_nodes(context.at + layout_.bump_blocks, [&](Address node) {
    const Address block = node - layout_.bump_block_node;
    const StructBytes words(memory_.structure(block, layout_.bump_block_header), 8);
    const Address free(words.word_at(layout_.bump_block_free));
    const Address end(words.word_at(layout_.bump_block_end));
    if (free < block + layout_.bump_block_header || end < free) {
      return tell_problem(context, "the ends do not fit of a block at", block);
    }
    context.free_bytes += end - free;
    return add_block(context, block, end - block, end - free, layout_.bump_size);
  });
  if (!closes) return tell_problem(context, "its list of blocks does not close, at", context.at);
  if (!has_first_)
    return tell_problem(context, "its first block is not in its list, at", context.at);
  return true;
}

}  // namespace heapsnap
