#include "runtime/postgres/postgres_walk.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heap/struct_bytes.h"
#include "references/block_type.h"

namespace heapsnap {

namespace {

constexpr uint64_t kChunkHeader = 16;  // malloc's, of 64-bit machines

bool is_resident(PageState state) {
  return state == PageState::kResident || state == PageState::kResidentFile ||
         state == PageState::kResidentHuge;
}

// Whether malloc gives a block of this size for the first block of a context that may be kept: the
// rest of a free chunk that is too small to stand alone stays with the block.
bool may_be_spare(uint64_t usable) {
  constexpr uint64_t kRest = 32;
  const auto fits = [&](uint64_t size) { return size <= usable && usable < size + kRest; };
  return fits(PostgresLayout::kFirstSmall) || fits(PostgresLayout::kFirstDefault);
}

}  // namespace

PostgresWalk::PostgresWalk(Target& target, const PostgresPlace& place,
                           const RuntimeOptions& options)
    : target_(target), objects_(options.objects), layout_(place.layout) {
  runtime_.kind = RuntimeKind::kPostgres;
  runtime_.version = place.version;
  runtime_.module = place.module;
  runtime_.place = place.top;
  runtime_.why_not = place.why_not;
  if (layout_ == nullptr) return;
  contexts_ = read_postgres_contexts(target, place, options);
  runtime_.why_not = contexts_.why_not;
}

void PostgresWalk::add_amount(RuntimeArea::Amount& amount, AddressRange range) {
  constexpr uint64_t kWindow = 512;
  amount.bytes += range.size();
  PageResidency& residency = target_.residency();
  if (!residency.knows_pages()) return;
  const uint64_t page = residency.page_size();
  for (Address first = range.begin.align_down(page); first < range.end; first += page) {
    if (states_.empty() || first < window_ || first - window_ >= kWindow * page) {
      window_ = first;
      states_.assign(kWindow, PageState::kUnknown);
      residency.read(window_, states_);
    }
    const PageState state = states_[(first - window_) / page];
    const uint64_t bytes = std::min(first + page, range.end) - std::max(first, range.begin);
    if (is_resident(state)) amount.resident += bytes;
    if (state == PageState::kSwapped) amount.swapped += bytes;
  }
}

uint32_t PostgresWalk::class_of(const PostgresBlock& block) {
  constexpr size_t kMostNames = 4096;
  const RuntimeContext& context = contexts_.all[block.context];
  const bool is_first = block.at == context.at;
  const bool is_set = context.kind == ContextKind::kAllocSet;
  std::string name = context.name;
  const bool is_one_more = classes_.size() >= 2 * kMostNames;
  if (is_one_more && !classes_.contains({name, is_first, is_set})) name.clear();
  const auto [found, is_new] = classes_.try_emplace({name, is_first, is_set}, 0);
  if (is_new) {
    ObjectClass one;
    one.name = name.empty() ? "block of a memory context" : name + " (context block)";
    one.part = kContextPart;
    one.is_held_by_links = true;
    if (is_set) {
      const uint64_t header = is_first ? layout_->set_size : 0;  // in front of the block's own
      one.links |= ObjectClass::word_bit(header + layout_->set_block_next);
      if (is_first) one.links |= ObjectClass::word_bit(layout_->set_blocks);
    }
    found->second = objects_->slots.add_class(std::move(one));
  }
  return found->second;
}

void PostgresWalk::tell_graph(const PostgresBlock& block) {
  objects_->blocks.push_back({block.at, class_of(block)});
  if (block.given < block.bytes) {
    objects_->left_over.push_back({block.at, block.given, RuntimeObjects::LeftOver::kToEnd});
  }
}

RuntimeContext* PostgresWalk::add_block(Address at, uint64_t usable, size_t& hint) {
  constexpr size_t kMostSpares = 1 << 16;
  const std::vector<PostgresBlock>& blocks = contexts_.blocks;
  while (hint < blocks.size() && blocks[hint].at < at) ++hint;
  if (hint < blocks.size() && blocks[hint].at == at && blocks[hint].bytes <= usable) {
    RuntimeContext& context = contexts_.all[blocks[hint].context];
    ++context.malloc_blocks;
    if (objects_ != nullptr) tell_graph(blocks[hint]);
    return &context;
  }
  ++runtime_.other_malloc_blocks;
  runtime_.other_malloc_bytes += usable;
  if (may_be_spare(usable) && spares_.size() < kMostSpares) {
    spares_.push_back(at);
    spare_bytes_.push_back(usable);
  }
  return nullptr;
}

void PostgresWalk::on_batch(const ChunkBatch& batch) {
  if (!why_not().empty()) return;
  const auto first =
      std::lower_bound(contexts_.blocks.begin(), contexts_.blocks.end(), batch.begin,
                       [](const PostgresBlock& block, Address at) { return block.at < at; });
  auto hint = static_cast<size_t>(first - contexts_.blocks.begin());
  Address at = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    // The usable bytes end a word behind the chunk.
    if (batch.states[i] == ChunkState::kUsed && size >= kChunkHeader) {
      const AddressRange range{at + kChunkHeader, at + kChunkHeader / 2 + size};
      if (auto* const context = add_block(range.begin, range.size(), hint)) {
        add_amount(context->in_heaps, range);
      }
    }
    at += size;
  }
}

void PostgresWalk::on_mmapped(const MmappedChunk& chunk) {
  if (!why_not().empty() || chunk.state != ChunkState::kMmapped) return;
  const Address at = chunk.chunk + kChunkHeader;
  const auto first =
      std::lower_bound(contexts_.blocks.begin(), contexts_.blocks.end(), at,
                       [](const PostgresBlock& block, Address place) { return block.at < place; });
  auto hint = static_cast<size_t>(first - contexts_.blocks.begin());
  if (auto* const context = add_block(at, chunk.usable, hint)) {
    add_amount(context->in_mappings, {at, at + chunk.usable});
  }
}

// The contexts right below the top have a name where they hang. Each other one is its parent's,
// though its word lies in the one before it. Blocks of an AllocSet hold each other; those of other
// kinds are their context's.
void PostgresWalk::tell_tree() {
  constexpr uint64_t kWord = 8;
  constexpr uint64_t kBehind = 32;  // what malloc may have given besides
  std::vector<uint32_t> next_offset(contexts_.all.size());
  for (const PostgresBlock& block : contexts_.blocks) {
    if (block.at != contexts_.all[block.context].at) continue;
    next_offset[block.context] =
        static_cast<uint32_t>(std::min<uint64_t>((block.bytes + kBehind) / kWord, 1U << 31));
  }
  for (const PostgresBlock& block : contexts_.blocks) {
    const RuntimeContext& context = contexts_.all[block.context];
    if (block.at == context.at || context.kind == ContextKind::kAllocSet) continue;
    objects_->listed.push_back({context.at, block.at, next_offset[block.context]++});
  }
  for (const RuntimeContext& context : contexts_.all) {
    if (context.level == 0) continue;
    const auto above = static_cast<size_t>(context.parent);
    const Address parent = contexts_.all[above].at;
    if (context.level > 1) {
      objects_->listed.push_back({parent, context.at, next_offset[above]++});
      continue;
    }
    const Address before(
        target_.memory().read_value<uint64_t>(context.at + layout_->context_previous).value_or(0));
    const Address word =
        before.is_null() ? parent + layout_->context_first_child : before + layout_->context_next;
    objects_->variables.push_back({word, "memory context " + context.name, runtime_.module});
  }
}

void PostgresWalk::read_spares() {
  std::vector<std::byte> bytes(layout_->context_size);
  uint32_t spare_class = 0;
  for (size_t i = 0; i < spares_.size(); ++i) {
    if (!target_.memory().read_exact(spares_[i], bytes)) continue;
    const StructBytes words(bytes, 8);
    if (words.int_at(0) != layout_->set_tag || words.word_at(layout_->context_parent) != 0 ||
        Address(words.word_at(layout_->context_methods)) != contexts_.set_methods) {
      continue;
    }
    if (objects_ != nullptr) {
      if (spare_class == 0) {
        ObjectClass deleted;
        deleted.name = "deleted memory context";
        deleted.is_held_by_links = true;
        deleted.links = ObjectClass::word_bit(layout_->context_next);
        spare_class = objects_->slots.add_class(std::move(deleted));
      }
      objects_->blocks.push_back({spares_[i], spare_class});
      // They are a list by words of their own.
      objects_->left_over.push_back(
          {spares_[i], layout_->set_size, RuntimeObjects::LeftOver::kToEnd});
    }
    ++runtime_.spare_contexts;
    runtime_.spare_bytes += spare_bytes_[i];
    --runtime_.other_malloc_blocks;
    runtime_.other_malloc_bytes -= spare_bytes_[i];
  }
}

void PostgresWalk::take(RuntimeModel& model) {
  const auto number = static_cast<uint32_t>(model.runtimes.size());
  const auto first = static_cast<int32_t>(model.contexts.size());
  if (why_not().empty()) read_spares();
  if (why_not().empty() && objects_ != nullptr) tell_tree();
  if (!why_not().empty()) {
    model.runtimes.push_back(refused(runtime_));
    return;
  }
  runtime_.contexts = contexts_.all.size();
  for (RuntimeContext& context : contexts_.all) {
    context.runtime = number;
    if (context.parent >= 0) context.parent += first;
    if (!context.problem.empty()) ++runtime_.damaged_contexts;
    model.contexts.push_back(std::move(context));
  }
  model.runtimes.push_back(std::move(runtime_));
}

}  // namespace heapsnap
