#include "runtime/python/python_walk.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "base/alteration.h"
#include "heap/struct_bytes.h"
#include "runtime/class_rows.h"
#include "runtime/page_amount.h"

namespace heapsnap {

namespace {

// One that says nothing where there is none: then nothing is read.
const PythonLayout& layout_of(const PythonPlace& place) {
  static constexpr PythonLayout kNone;
  return place.layout == nullptr ? kNone : *place.layout;
}

}  // namespace

PythonWalk::PythonWalk(Target& target, PythonPlace place, RuntimeOptions options)
    : target_(target),
      place_(std::move(place)),
      options_(std::move(options)),
      types_(target, layout_of(place_), place_.data),
      objects_(target, layout_of(place_), types_),
      size_classes_(PythonLayout::kSizeClasses) {
  runtime_.kind = RuntimeKind::kPython;
  runtime_.version = place_.version;
  runtime_.module = place_.module;
  runtime_.place = place_.runtime;
  std::vector<Address> interpreters;
  runtime_.why_not = check_python(target, place_, &interpreters);
  runtime_.interpreters = interpreters.size();
  if (!runtime_.why_not.empty()) return;
  arenas_ = find_python_arenas(target, place_, interpreters);
  runtime_.why_not = arenas_.why_not;
  std::vector<AddressRange> ranges;
  for (const PythonArena& arena : arenas_.all) ranges.push_back(arena.range);
  types_.set_arenas(std::move(ranges));
  if (options_.objects != nullptr) {
    graph_.emplace(target, *place_.layout, *options_.objects);
    if (!has_known_interpreters(target, place_)) interpreters.clear();
    leftovers_.emplace(target, *place_.layout, interpreters);
    graph_->add_left_over(leftovers_->words());
    frames_.emplace(target, *place_.layout, types_, interpreters);
  }
  // Smaller ones are in pools, unless Python was told to take everything from malloc.
  least_room_ = PythonLayout::kLargestSlot + 1;
  if (!arenas_.all.empty()) return;
  least_room_ = 16;
  missing_tuple_ = types_.first_tuple(target.memory());
}

void PythonWalk::on_batch(const ChunkBatch& batch) {
  constexpr uint64_t kHeader = 16;
  if (!why_not().empty()) return;
  Address at = batch.begin;
  for (size_t i = 0; i < batch.sizes.size(); ++i) {
    const uint64_t size = batch.sizes[i];
    // The usable bytes end a word behind the chunk.
    if (size >= least_room_ + kHeader / 2 && batch.states[i] == ChunkState::kUsed) {
      add_block(at + kHeader, size - kHeader / 2);
    }
    at += size;
  }
}

void PythonWalk::on_mmapped(const MmappedChunk& chunk) {
  constexpr uint64_t kHeader = 16;
  if (!why_not().empty() || chunk.state != ChunkState::kMmapped) return;
  if (chunk.usable >= least_room_) add_block(chunk.chunk + kHeader, chunk.usable);
}

void PythonWalk::add_block(Address at, uint64_t room) {
  constexpr size_t kTogether = 1 << 14;
  if (missing_tuple_ && at <= *missing_tuple_ && *missing_tuple_ < at + room) {
    missing_tuple_.reset();
  }
  blocks_.push_back({at, room});
  if (blocks_.size() >= kTogether) read_blocks();
}

void PythonWalk::check() const {
  check_end();
  if (options_.check) options_.check();
}

void PythonWalk::read_blocks() {
  check();
  constexpr size_t kPiece = PythonObjects::kLooksAt;
  std::vector<Address> places;
  places.reserve(blocks_.size());
  PageResidency& residency = target_.residency();
  // What is in swap stays there.
  if (target_.process().swap != 0) {
    const auto is_in_swap = [&](Address at) {
      PageState state = PageState::kUnknown;
      residency.read(at.align_down(residency.page_size()), {&state, 1});
      return state == PageState::kSwapped;
    };
    std::erase_if(blocks_, [&](const Block& block) {
      return is_in_swap(block.at) || is_in_swap(block.at + kPiece - 1);
    });
  }
  for (const Block& block : blocks_) places.push_back(block.at);
  std::vector<std::byte> bytes(places.size() * kPiece);
  size_t done = 0;
  while (done < places.size()) {
    const size_t got = target_.memory().read_pieces(std::span(places).subspan(done), kPiece,
                                                    std::span(bytes).subspan(done * kPiece));
    done += got;
    if (done == places.size()) break;
    // At the end of a mapping there may be less.
    const auto piece = std::span(bytes).subspan(done * kPiece, kPiece);
    const size_t part = target_.memory().read(places[done], piece);
    std::fill(piece.begin() + static_cast<ptrdiff_t>(part), piece.end(), std::byte{0});
    ++done;
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto known = std::min<uint64_t>(blocks_[i].room, kPiece);
    const auto block = std::span<const std::byte>(bytes).subspan(i * kPiece, known);
    const PythonObject* const object = objects_.find(blocks_[i].at, block, blocks_[i].room);
    if (object != nullptr) add(*object, true);
    if (!graph_) continue;
    const uint32_t of_class = class_in_graph(object, blocks_[i].at, block, blocks_[i].room);
    if (of_class == SlotMap::kBuffers) continue;
    options_.objects->blocks.push_back({blocks_[i].at, of_class});
  }
  blocks_.clear();
}

PythonWalk::Sum& PythonWalk::sum_of(uint32_t type) {
  if (type >= sums_.size()) sums_.resize(size_t{type} + 1);
  return sums_[type];
}

void PythonWalk::add(const PythonObject& object, bool is_in_malloc) {
  constexpr size_t kTogether = 1 << 14;
  const uint64_t owned = object.owned_bytes;
  Sum& sum = sum_of(object.type->number);
  ++sum.count;
  ++runtime_.objects;
  sum.tracked += object.is_tracked ? 1 : 0;
  sum.bytes += object.bytes;
  const uint64_t in_nodes = (object.nodes.count + object.free_nodes) * object.nodes.bytes;
  sum.owned_bytes += owned + object.values_bytes + in_nodes;
  if (is_in_malloc) sum.malloc_bytes += object.bytes;
  if (object.owns_block || is_of_malloc(owned)) sum.malloc_bytes += owned;
  if (is_of_malloc(object.nodes.bytes)) sum.malloc_bytes += in_nodes;
  if (is_of_malloc(object.values_bytes)) sum.malloc_bytes += object.values_bytes;
  if (object.keys.is_null()) return;
  // Empty dicts share a table that is a constant.
  for (const AddressRange& range : place_.data) {
    if (range.contains(object.keys)) return;
  }
  tables_.push_back({object.keys, object.type->number, object.values});
  if (tables_.size() >= kTogether) read_tables();
}

void PythonWalk::read_tables() {
  std::sort(tables_.begin(), tables_.end());
  for (const Table& table : tables_) {
    const auto known = objects_.table(table.at);
    if (!known) continue;
    const uint64_t bytes = objects_.table_bytes(*known, table.values);
    if (graph_) graph_->add_table(table.at, *known, table.values);
    Sum& sum = sum_of(table.type);
    sum.owned_bytes += bytes;
    if (is_of_malloc(bytes)) sum.malloc_bytes += bytes;
  }
  tables_.clear();
}

uint32_t PythonWalk::class_in_graph(const PythonObject* object, Address at,
                                    std::span<const std::byte> block, uint64_t room) {
  if (object == nullptr) return class_without_object(at, block, room);
  if (object->type->family == PythonType::Family::kHidden) {
    return class_of_hidden(*object, at, block, room);
  }
  return graph_->add(*object, at, block, room);
}

uint32_t PythonWalk::class_without_object(Address at, std::span<const std::byte> block,
                                          uint64_t room) {
  constexpr uint64_t kHeader = PythonLayout::kCollectorHeader;
  if (const PythonLeftovers::Free* const free = leftovers_->find(at)) {
    const uint64_t type = python_word(block, free->object_at + kPythonTypeAt);
    return graph_->class_of_free(free->is_object ? types_.find(type) : nullptr, *free);
  }
  const uint64_t word = python_word(block, kHeader + kPythonTypeAt);
  const uint32_t back = place_.layout->frame_back;
  if (back == 0 || python_word(block, kHeader) != 0) return SlotMap::kBuffers;
  const PythonType* const type = types_.find(word);
  const bool is_frame = type != nullptr && type->is_static && type->name == "frame";
  if (!is_frame || type->basic_size + kHeader > room) return SlotMap::kBuffers;
  // In the interpreter's list of free ones, the next; else what called it once.
  const Address next(python_word(block, kHeader + back));
  const bool is_link = leftovers_->is_free(next);
  const auto link = static_cast<uint32_t>(kHeader + back);
  return graph_->class_of_free(type, {true, kHeader, is_link ? link : PythonLeftovers::kNoLink});
}

uint32_t PythonWalk::class_of_hidden(const PythonObject& object, Address at,
                                     std::span<const std::byte> block, uint64_t room) {
  const auto end = frames_->end_of(*object.type, at + object.type->header);
  if (!end || at >= *end || *end > at + room) return graph_->add(object, at, block, room);
  PythonObject frame = object;
  frame.bytes = *end - at;
  frame.is_frame = true;
  return graph_->add(frame, at, block, room);
}

bool PythonWalk::walk_pool(Address at, std::span<const std::byte> pool, uint32_t arena,
                           PoolUse* use) {
  const PythonLayout& layout = *place_.layout;
  const uint64_t whole = layout.pool_bytes;
  const StructBytes words(pool, 8);
  const uint64_t header = layout.pool_header;
  const uint64_t used = words.int_at(layout.pool_count);
  const uint32_t size_class = words.int_at(layout.pool_size_class);
  if (words.int_at(layout.pool_arena) != arena || size_class >= PythonLayout::kSizeClasses) {
    return false;
  }
  const uint64_t size = (size_class + uint64_t{1}) * PythonLayout::kAlignment;
  const uint64_t slots = (whole - header) / size;
  const uint64_t next = words.int_at(layout.pool_next_offset);
  if (used > slots || next < header || (next - header) % size != 0) return false;
  const uint64_t made = (next - header) / size;
  if (made > slots) return false;

  std::bitset<PythonLayout::kLargestPool / PythonLayout::kAlignment> is_free;
  uint64_t free = 0;
  const uint64_t place = words.word_at(layout.pool_free_block);
  // Addresses are told apart by their place in the pool: its own address is a multiple of its size.
  for (uint64_t block = place; block != 0;) {
    const uint64_t offset = block % whole;
    if (block / whole != place / whole || offset < header || (offset - header) % size != 0) {
      return false;
    }
    const uint64_t number = (offset - header) / size;
    if (number >= made || is_free[number]) return false;
    is_free[number] = true;
    ++free;
    block = words.word_at(offset);
  }
  // A thread may be between the two when the process is stopped.
  if (made - free != used) ++runtime_.damaged_pages;
  SizeClass& sum = size_classes_[size_class];
  ++sum.pages;
  sum.used += made - free;
  sum.free += slots - (made - free);
  use->used = (made - free) * size;
  use->free = slots * size - use->used;
  use->overhead = whole - slots * size;
  if (graph_) {
    options_.objects->slots.add_page({at, at + whole}, at + header, static_cast<uint32_t>(size),
                                     static_cast<uint32_t>(slots));
  }
  for (uint64_t i = 0; i < made; ++i) {
    if (is_free[i]) continue;
    const auto block = pool.subspan(header + i * size, size);
    const PythonObject* const object = objects_.find(at + header + i * size, block, size);
    if (object != nullptr) {
      add(*object, false);
    } else {
      ++runtime_.other_slots;
      runtime_.other_slot_bytes += size;
    }
    if (!graph_) continue;
    options_.objects->slots.add_slot(static_cast<uint32_t>(i),
                                     class_in_graph(object, at + header + i * size, block, size));
  }
  return true;
}

void PythonWalk::walk_arena(const PythonArena& arena) {
  const PythonLayout& layout = *place_.layout;
  const uint64_t pool = layout.pool_bytes;
  PageResidency& residency = target_.residency();
  const uint64_t page = residency.page_size();
  const Address first = arena.range.begin.align_down(page);
  page_states_.assign((arena.range.end.align_up(page) - first) / page, PageState::kUnknown);
  if (residency.knows_pages()) residency.read(first, page_states_);
  const auto pages_of = [&](const AddressRange& range) {
    const uint64_t begin = (range.begin - first) / page;
    const uint64_t end =
        std::min<uint64_t>((range.end - first + page - 1) / page, page_states_.size());
    return std::span<const PageState>(page_states_).subspan(begin, end - begin);
  };
  const auto is_in_swap = [](PageState state) { return state == PageState::kSwapped; };

  RuntimeArea area;
  area.range = arena.range;
  const auto add_free = [&](const AddressRange& range) {
    if (range.is_empty()) return;
    area.free_in_area += amount_in(range.size(), pages_of(range));
    if (graph_) options_.objects->unused.push_back(range);
  };
  add_free({arena.range.begin, arena.pools.begin});
  add_free({arena.pools.end, arena.range.end});
  ++runtime_.areas;
  runtime_.area_bytes += arena.range.size();
  runtime_.alignment_bytes += arena.range.size() - arena.total_pools * pool;
  runtime_.free_page_bytes += arena.free_pools * pool;

  const bool has_swapped = std::any_of(page_states_.begin(), page_states_.end(), is_in_swap);
  arena_bytes_.resize(layout.arena_bytes);
  size_t known = 0;
  if (!has_swapped) {
    known =
        target_.memory().read(arena.pools.begin, std::span(arena_bytes_).first(arena.pools.size()));
  }
  for (Address at = arena.pools.begin; at < arena.pools.end; at += pool) {
    const AddressRange range{at, at + pool};
    const auto pages = pages_of(range);
    const uint64_t offset = at - arena.pools.begin;
    const auto bytes = std::span(arena_bytes_).subspan(offset, pool);
    bool is_known = offset + pool <= known;
    if (!is_known && std::none_of(pages.begin(), pages.end(), is_in_swap)) {
      is_known = target_.memory().read_exact(at, bytes);
    }
    PoolUse use;
    if (is_known && StructBytes(bytes, 8).int_at(layout.pool_count) == 0) {
      add_free(range);
    } else if (!is_known || !walk_pool(at, bytes, arena.index, &use)) {
      if (is_known) ++runtime_.damaged_pages;
      runtime_.unread_bytes += pool;
    } else {
      runtime_.used_bytes += use.used;
      runtime_.free_bytes += use.free;
      runtime_.overhead_bytes += use.overhead;
      area.used += amount_in(use.used, pages);
      area.free_in_page += amount_in(use.free + use.overhead, pages);
    }
  }
  areas_.push_back(area);
}

void PythonWalk::take(RuntimeModel& model) {
  const auto number = static_cast<uint32_t>(model.runtimes.size());
  if (why_not().empty() && missing_tuple_) {
    runtime_.why_not =
        "the table of its arenas was not found, and its objects are not in blocks of malloc: "
        "another allocator has them, or the process was stopped while it moved the table";
  }
  if (why_not().empty()) {
    read_blocks();
    for (const PythonArena& arena : arenas_.all) {
      check();
      walk_arena(arena);
    }
    read_tables();
    if (graph_) {
      PythonVariables(target_, *place_.layout, types_, *options_.objects, place_.module)
          .add(graph_->modules());
      graph_->add_locals(*frames_, place_.module);
    }
    const bool has_objects =
        std::any_of(sums_.begin(), sums_.end(), [](const Sum& sum) { return sum.count != 0; });
    if (!has_objects) {
      runtime_.why_not =
          "none of its blocks looks like an object: it may check them for damage "
          "(PYTHONMALLOC=debug), or be built with other options";
    }
  }
  if (!why_not().empty()) {
    model.runtimes.push_back(refused(runtime_));
    return;
  }
  model.runtimes.push_back(runtime_);
  ClassRows rows("(other types)");
  for (const auto& type : types_.all()) {
    if (type->number >= sums_.size() || sums_[type->number].count == 0) continue;
    const Sum& sum = sums_[type->number];
    RuntimeClass& row = rows[type->name];
    row.count += sum.count;
    row.tracked += sum.tracked;
    row.bytes += sum.bytes;
    row.owned_bytes += sum.owned_bytes;
    row.malloc_bytes += sum.malloc_bytes;
  }
  rows.take(number, model);
  for (size_t i = 0; i < size_classes_.size(); ++i) {
    const SizeClass& sum = size_classes_[i];
    if (sum.pages == 0) continue;
    model.pages.push_back(
        {number, (i + 1) * PythonLayout::kAlignment, sum.pages, sum.used, sum.free});
  }
  for (RuntimeArea& area : areas_) {
    area.runtime = number;
    model.areas.push_back(area);
  }
}

}  // namespace heapsnap
