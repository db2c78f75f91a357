#include "runtime/ruby/ruby_walk.h"

#include <algorithm>
#include <utility>

#include "base/alteration.h"
#include "heap/struct_bytes.h"
#include "runtime/page_amount.h"
#include "runtime/ruby/ruby_collector.h"
#include "runtime/ruby/ruby_generic_variables.h"
#include "runtime/ruby/ruby_weak_maps.h"

namespace heapsnap {

namespace {

constexpr uint64_t kRunBytes = 4 << 20;  // bytes of pages that are read at once

}  // namespace

RubyWalk::RubyWalk(Target& target, RubyPlace place, RuntimeOptions options)
    : target_(target), place_(std::move(place)), options_(std::move(options)), types_(target) {
  runtime_.kind = RuntimeKind::kRuby;
  runtime_.version = place_.version;
  runtime_.module = place_.module;
  find();
  if (layout_ == nullptr) return;
  if (options_.objects != nullptr)
    graph_.emplace(target_.memory(), *layout_, types_, shapes_, *options_.objects);
  walk_pages();
}

void RubyWalk::find() {
  runtime_.why_not = place_.why_not;
  std::string tried;
  for (const RubyLayout* const layout : place_.layouts) {
    const std::string why_not = try_layout(*layout);
    if (why_not.empty()) {
      layout_ = layout;
      runtime_.why_not.clear();
      return;
    }
    const bool is_known = layout->version() == place_.version;
    if (!tried.empty()) tried += "; ";
    tried += is_known ? why_not : "laid out as " + layout->version() + ", " + why_not;
    runtime_.why_not = is_known
                           ? tried
                           : "Ruby " + place_.version + " is none of the releases that heapsnap " +
                                 "knows (" + known_ruby_versions() + "), and " + tried;
  }
}

std::string RubyWalk::try_layout(const RubyLayout& layout) {
  const RubyMachine machine = find_ruby_machine(target_, place_, layout);
  if (!machine.why_not.empty()) return machine.why_not;
  shapes_ = RubyShapes(target_, layout, place_.data);
  if (layout.has_shapes() && shapes_.count() == 0) return "its shapes of objects were not found";
  classes_ = std::make_unique<RubyClasses>(target_, layout, shapes_);
  std::string why_not = classes_->check(place_);
  if (!why_not.empty()) return why_not;
  pages_ = find_ruby_pages(target_, layout, machine.space);
  if (!pages_.why_not.empty()) return pages_.why_not;
  runtime_.place = machine.vm;
  space_ = machine.space;
  runtime_.interpreters = 1;
  runtime_.damaged_pages = pages_.damaged;
  runtime_.collector = pages_.collector;
  return {};
}

void RubyWalk::walk_pages() {
  const uint64_t distance = ruby_page_distance(*layout_);
  const std::span<const RubyPage> pages = pages_.all;
  const RubyTransientHeap heap = find_ruby_transient_heap(target_, *layout_, place_.data);
  transient_ = ruby_transient_area(target_, heap);
  if (graph_) graph_->set_transient_heap(heap.arena);
  for (size_t first = 0; first < pages.size();) {
    check_end();
    if (options_.check) options_.check();
    size_t end = first + 1;
    while (end < pages.size() && pages[end].body == pages[end - 1].body + distance &&
           pages[end].body - pages[first].body < kRunBytes) {
      ++end;
    }
    walk_run(pages.subspan(first, end - first));
    first = end;
  }
  read_tables();
  if (graph_) {
    graph_->add_machine(target_.address_space(), runtime_.place);
    graph_->add_tables_of_machine(target_.address_space(), runtime_.place, place_.module);
    // It knows more of its own tables, which may lie where those of the machine are looked for.
    add_ruby_collector(target_.memory(), *layout_, {space_, pages, heap.promoted},
                       *options_.objects);
    RubyWeakMaps(target_.memory(), *layout_, *graph_, *options_.objects).add(graph_->weak_maps());
    RubyGenericVariables(target_, place_, shapes_, *graph_, *options_.objects).add();
    RubyConstants constants(target_, *layout_, place_, *classes_);
    RubyVariables variables(target_, place_, *classes_, constants);
    graph_->add_variables(constants, variables);
    RubyFunctions functions(target_, *layout_, *classes_, constants);
    RubyFiberLocals fiber_locals(target_, *layout_, *classes_, constants);
    RubyFrames frames(target_, *layout_, functions, fiber_locals, graph_->threads(),
                      graph_->fibers());
    graph_->add_locals(frames, place_.module);
  }
  std::sort(blocks_.begin(), blocks_.end());
  // What two objects have in common counts once.
  blocks_.erase(std::unique(blocks_.begin(), blocks_.end(),
                            [](const Owned& a, const Owned& b) { return a.at == b.at; }),
                blocks_.end());
  const uint64_t used = runtime_.objects + other_slots_;
  if (used == 0 || other_slots_ > used / 8) {
    runtime_.why_not = std::to_string(other_slots_) + " of the " + std::to_string(used) +
                       " objects in its pages have no type that Ruby knows";
    layout_ = nullptr;
  }
}

void RubyWalk::walk_run(std::span<const RubyPage> pages) {
  const Address begin = pages.front().body;
  const uint64_t size = pages.back().body + layout_->page_bytes - begin;
  PageResidency& residency = target_.residency();
  const uint64_t system_page = residency.page_size();
  const Address first = begin.align_down(system_page);
  page_states_.assign(((begin + size).align_up(system_page) - first) / system_page,
                      PageState::kUnknown);
  if (residency.knows_pages()) residency.read(first, page_states_);
  const auto is_in_swap = [](PageState state) { return state == PageState::kSwapped; };
  const bool has_swapped = std::any_of(page_states_.begin(), page_states_.end(), is_in_swap);
  bytes_.resize(size);
  // What is in swap stays there.
  const size_t known = has_swapped ? 0 : target_.memory().read(begin, bytes_);
  for (const RubyPage& page : pages) {
    const uint64_t offset = page.body - begin;
    const Address end = page.body + layout_->page_bytes;
    const uint64_t first_state = (page.body - first) / system_page;
    const auto states =
        std::span<const PageState>(page_states_)
            .subspan(first_state, (end - first + system_page - 1) / system_page - first_state);
    const auto body = std::span(bytes_).subspan(offset, layout_->page_bytes);
    bool is_known = offset + layout_->page_bytes <= known;
    if (!is_known && std::none_of(states.begin(), states.end(), is_in_swap)) {
      is_known = target_.memory().read_exact(page.body, body);
    }
    if (is_known) {
      add_page(page, walk_page(page, body), states);
    } else {
      runtime_.unread_bytes += layout_->page_bytes;
      add_area(page, {});
    }
  }
}

RubyWalk::PageUse RubyWalk::walk_page(const RubyPage& page, std::span<const std::byte> body) {
  PageUse use;
  if (graph_) graph_->add_page(page, layout_->page_bytes);
  uint64_t offset = page.start;
  for (uint32_t i = 0; i < page.slots; ++i, offset += page.slot_bytes) {
    const auto slot = body.subspan(offset, page.slot_bytes);
    uint64_t flags = 0;
    std::memcpy(&flags, slot.data(), sizeof flags);
    if (flags == 0) {
      ++use.free;
      continue;
    }
    ++use.used;
    const RubyType builtin = RubyValue::type_of(flags);
    if (builtin == RubyType::kNone || RubyValue::type_name(builtin) == nullptr) {
      ++use.other;
      if (graph_) graph_->add_other(i);
      continue;
    }
    const uint32_t type = types_.find(slot);
    const RubyOwner owner = owner_of(slot, type);
    const bool is_dead = pages_.is_dead(page, offset);
    if (graph_) graph_->add_object(i, page.body + offset, owner, slot, is_dead);
    if (is_dead) {
      ++use.dead;
      sums_.add_dead(type);
    } else {
      add_object(slot, owner);
    }
  }
  return use;
}

RubyOwner RubyWalk::owner_of(std::span<const std::byte> slot, uint32_t type) {
  uint64_t class_word = 0;
  std::memcpy(&class_word, slot.data() + RubyValue::kClass, sizeof class_word);
  RubyOwner owner{nullptr, type};
  const RubyType builtin = types_.all()[type].builtin;
  const bool has_class = builtin != RubyType::kImemo && builtin != RubyType::kIclass &&
                         builtin != RubyType::kZombie && builtin != RubyType::kMoved &&
                         builtin != RubyType::kNode;
  if (has_class) owner.of_class = classes_->find(class_word);
  return owner;
}

void RubyWalk::add_object(std::span<const std::byte> slot, const RubyOwner& owner) {
  constexpr size_t kTogether = 1 << 14;
  ++runtime_.objects;
  sums_.add_object(owner, slot.size());
  const RubyObject object = measure_ruby_object(*layout_, shapes_, slot);
  if (object.owned_bytes != 0) sums_.add_owned(owner, object.owned_bytes, !object.is_transient);
  const bool is_data = types_.all()[owner.type].builtin == RubyType::kData;
  if (!object.block.is_null() && (!is_data || types_.frees_data(slot))) {
    blocks_.push_back({object.block, owner});
  }
  if (object.table.is_null()) return;
  tables_.push_back({object.table, owner});
  if (tables_.size() >= kTogether) read_tables();
}

void RubyWalk::read_tables() {
  constexpr size_t kHeader = kRubyTableHeader;
  std::sort(tables_.begin(), tables_.end());
  std::vector<Address> places;
  places.reserve(tables_.size());
  for (const Owned& table : tables_) places.push_back(table.at);
  std::vector<std::byte> headers(places.size() * kHeader);
  size_t done = 0;
  while (done < places.size()) {
    const auto rest = std::span(headers).subspan(done * kHeader);
    const size_t got = target_.memory().read_pieces(std::span(places).subspan(done), kHeader, rest);
    for (size_t i = done; i < done + got; ++i) {
      const auto header = std::span<const std::byte>(headers).subspan(i * kHeader, kHeader);
      sums_.add_owned(tables_[i].owner, ruby_table_bytes(header), true);
      if (graph_) graph_->add_table(tables_[i].at, header);
    }
    done += got + 1;  // the one that cannot be read has none
  }
  tables_.clear();
}

void RubyWalk::add_page(const RubyPage& page, const PageUse& use,
                        std::span<const PageState> states) {
  const uint64_t bytes = layout_->page_bytes;
  const uint64_t in_slots = uint64_t{page.slots} * page.slot_bytes;
  other_slots_ += use.other;
  runtime_.other_slots += use.other;
  runtime_.other_slot_bytes += use.other * page.slot_bytes;
  runtime_.unswept_slots += use.dead;
  runtime_.unswept_bytes += use.dead * page.slot_bytes;
  if (use.other != 0) ++runtime_.damaged_pages;
  RuntimeArea area;
  if (use.used == 0) {
    runtime_.free_page_bytes += bytes;
    area.free_in_area = amount_in(bytes, states);
  } else {
    runtime_.used_bytes += use.used * page.slot_bytes;
    runtime_.free_bytes += use.free * page.slot_bytes;
    runtime_.overhead_bytes += bytes - in_slots;
    area.used = amount_in(use.used * page.slot_bytes, states);
    area.free_in_page = amount_in(bytes - use.used * page.slot_bytes, states);
  }
  add_area(page, area);
  auto size = std::find_if(slot_sizes_.begin(), slot_sizes_.end(),
                           [&](const SlotSize& one) { return one.bytes == page.slot_bytes; });
  if (size == slot_sizes_.end()) size = slot_sizes_.insert(size, SlotSize{page.slot_bytes});
  ++size->pages;
  size->used += use.used;
  size->dead += use.dead;
  size->free += use.free;
}

void RubyWalk::add_area(const RubyPage& page, const RuntimeArea& amounts) {
  const AddressRange range{page.body, page.body + layout_->page_bytes};
  // Where pages are blocks of malloc, there are some bytes of malloc's between them.
  const uint64_t between = ruby_page_distance(*layout_) - layout_->page_bytes;
  const bool is_next = !areas_.empty() && areas_.back().range.end + between == range.begin;
  if (!is_next) {
    areas_.emplace_back();
    areas_.back().range = {range.begin, range.begin};
  }
  RuntimeArea& area = areas_.back();
  runtime_.area_bytes += range.end - area.range.end;
  runtime_.alignment_bytes += range.begin - area.range.end;
  area.range.end = range.end;
  area.used += amounts.used;
  area.free_in_page += amounts.free_in_page;
  area.free_in_area += amounts.free_in_area;
}

void RubyWalk::on_batch(const ChunkBatch& batch) {
  constexpr uint64_t kHeader = 16;
  if (layout_ == nullptr) return;
  uint64_t bytes = 0;
  for (const uint64_t size : batch.sizes) bytes += size;
  const AddressRange range{batch.begin, batch.begin + bytes};
  mark_areas(range);
  auto wanted = std::lower_bound(blocks_.begin(), blocks_.end(), Owned{range.begin, {}});
  Address at = batch.begin;
  for (size_t i = 0; i < batch.sizes.size() && wanted != blocks_.end(); ++i) {
    const uint64_t size = batch.sizes[i];
    while (wanted != blocks_.end() && wanted->at < at + kHeader) ++wanted;
    // The usable bytes end a word behind the chunk.
    if (wanted != blocks_.end() && wanted->at == at + kHeader && size > kHeader / 2 &&
        batch.states[i] == ChunkState::kUsed) {
      sums_.add_owned(wanted->owner, size - kHeader / 2, true);
    }
    at += size;
  }
}

void RubyWalk::on_mmapped(const MmappedChunk& chunk) {
  constexpr uint64_t kHeader = 16;
  if (layout_ == nullptr || chunk.state != ChunkState::kMmapped) return;
  mark_areas({chunk.chunk, chunk.chunk + chunk.size});
  const Address at = chunk.chunk + kHeader;
  const auto wanted = std::lower_bound(blocks_.begin(), blocks_.end(), Owned{at, {}});
  if (wanted != blocks_.end() && wanted->at == at)
    sums_.add_owned(wanted->owner, chunk.usable, true);
}

void RubyWalk::mark_areas(AddressRange range) {
  auto area = std::partition_point(areas_.begin(), areas_.end(), [&](const RuntimeArea& one) {
    return one.range.end <= range.begin;
  });
  for (; area != areas_.end() && area->range.begin < range.end; ++area) area->is_in_malloc = true;
  if (transient_ && transient_->range.overlaps(range)) transient_->is_in_malloc = true;
}

void RubyWalk::take(RuntimeModel& model) {
  const auto number = static_cast<uint32_t>(model.runtimes.size());
  if (layout_ == nullptr) {
    model.runtimes.push_back(refused(runtime_));
    return;
  }
  runtime_.areas = areas_.size();
  model.runtimes.push_back(runtime_);
  sums_.take(number, *classes_, types_, model);
  std::sort(slot_sizes_.begin(), slot_sizes_.end(),
            [](const SlotSize& a, const SlotSize& b) { return a.bytes < b.bytes; });
  for (const SlotSize& size : slot_sizes_) {
    model.pages.push_back({number, size.bytes, size.pages, size.used, size.free, size.dead});
  }
  for (RuntimeArea& area : areas_) {
    area.runtime = number;
    model.areas.push_back(area);
  }
  if (!transient_) return;
  transient_->runtime = number;
  const auto after = std::find_if(
      model.areas.end() - static_cast<ptrdiff_t>(areas_.size()), model.areas.end(),
      [this](const RuntimeArea& area) { return area.range.begin > transient_->range.begin; });
  model.areas.insert(after, *transient_);
}

}  // namespace heapsnap
