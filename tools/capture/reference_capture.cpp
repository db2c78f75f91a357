#include "tools/capture/reference_capture.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/resource_limit.h"
#include "elf/unpacked_size.h"
#include "platform/linux/self/threads_apart.h"
#include "references/destroyed_objects.h"
#include "references/file_memory.h"
#include "references/reference_scan.h"
#include "references/scan_estimate.h"
#include "references/side_work.h"
#include "references/unset_words.h"
#include "report/number_text.h"

namespace heapsnap {

namespace {

// The map of a heap of small blocks takes a fortieth of it.
constexpr uint64_t kShareOfMap = 24;
constexpr uint64_t kSmallestMap = 64 << 20;
// A program of many allocators of its own can have as many roots as it has memory.
constexpr size_t kMostRoots = 16 << 20;

struct GivenUp {
  std::string why;
};

uint64_t bytes_to_look_at(Target& target) {
  if (target.process().rss != 0) return target.process().rss + target.process().swap;
  uint64_t bytes = 0;
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (mapping.is_private_writable()) bytes += mapping.range.size();
  }
  return bytes;
}

uint64_t bytes_of_blocks(const BlockMap& map) {
  uint64_t bytes = 0;
  for (const auto& memory : {map.memory(), map.slots().memory()}) {
    for (const AddressRange& range : memory) bytes += range.size();
  }
  return bytes;
}

}  // namespace

ReferenceCapture::ReferenceCapture(const ReferenceOptions& options, int pid,
                                   const DebugFileSearch& debug_files)
    : options_(options), pid_(pid), debug_files_(debug_files) {}

ReferenceCapture::~ReferenceCapture() = default;

void ReferenceCapture::prepare(Target& running) {
  if (options_.choice == CaptureChoice::kNo) return;
  if (options_.choice == CaptureChoice::kAuto &&
      estimated_scan_ns(0, bytes_to_look_at(running)) > kMostScanNs) {
    return;
  }
  try {
    modules_ = LoadedModules(running);
    look_for_debug_types();
  } catch (const Error&) {
    // Its memory is read by a thread that may end meanwhile. Then they are opened in the freeze.
  }
}

void ReferenceCapture::begin(Target& target, bool is_held) {
  target_ = &target;
  decide(is_held);
  if (!record_.why_not.empty()) return;
  budget_.emplace(pid_, options_.memory_budget);
  const uint64_t bytes = bytes_to_look_at(target);
  const uint64_t most = std::min(budget_->bytes(), std::max(bytes / kShareOfMap, kSmallestMap));
  map_.emplace(target.process().machine, most);
  most_blocks_ = options_.choice == CaptureChoice::kAuto ? most_scanned_blocks(bytes)
                                                         : std::numeric_limits<uint64_t>::max();
}

std::optional<uint64_t> ReferenceCapture::budget() const {
  if (!budget_) return std::nullopt;
  return budget_->bytes();
}

void ReferenceCapture::check_budget() {
  if (auto why = budget_->why_spent()) throw GivenUp{std::move(*why)};
}

void ReferenceCapture::decide(bool is_held) {
  if (options_.choice == CaptureChoice::kNo) {
    record_.why_not = kReferencesNotAskedFor;
    return;
  }
  if (options_.choice == CaptureChoice::kYes) return;
  const uint64_t bytes = bytes_to_look_at(*target_);
  const uint64_t estimate_ns = estimated_scan_ns(0, bytes);
  if (is_held) {
    record_.why_not = "the process would have been stopped for " + duration_text(estimate_ns) +
                      " longer, by estimate";
  } else if (estimate_ns > kMostScanNs) {
    record_.why_not = "it would have taken " + duration_text(estimate_ns) +
                      " of one processor, by estimate, to look at " + size_text(bytes);
  }
}

// Many small blocks take longer than their bytes tell.
void ReferenceCapture::leave_out() {
  map_.reset();
  record_.why_not = "it would have taken more than " + duration_text(kMostScanNs) +
                    " of one processor, by estimate, to find the references of more than " +
                    count_text(most_blocks_) + " blocks";
}

// The same when the objects of runtimes are counted, too.
void ReferenceCapture::check_estimate() const {
  if (map_->blocks() <= most_blocks_) return;
  const uint64_t estimate_ns = estimated_scan_ns(map_->blocks(), bytes_to_look_at(*target_));
  throw GivenUp{"it would have taken " + duration_text(estimate_ns) +
                " of one processor, by estimate, to find the references of " +
                count_text(map_->blocks()) + " blocks"};
}

void ReferenceCapture::take(const HeapModel& heap, const MemoryTaken& taken,
                            SnapshotWriter& writer) {
  if (!map_) return;
  const uint64_t began = monotonic_ns();
  try {
    scan(heap, taken, writer);
    record_.is_complete = true;
  } catch (const GivenUp& given_up) {
    give_up(given_up.why);
  } catch (const std::bad_alloc&) {
    lack_memory();
  }
  record_.scan_ns = monotonic_ns() - began;
  if (!sizes_) map_.reset();  // else finish() or give_up() does
  types_.end_reading();
}

void ReferenceCapture::lack_memory() {
  storage_.reset();
  object_references_.reset();
  entry_of_block_.release();
  objects_ = RuntimeObjects();
  std::string why = "heapsnap had no memory left to find them";
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    if (resource_limit(resource)) why += " (" + how_to_raise_limit(resource) + ")";
  }
  give_up(std::move(why));
}

void ReferenceCapture::give_up(std::string why) {
  sizes_.reset();
  map_.reset();
  edges_.reset();
  record_ = ReferenceRecord{};
  record_.why_not = std::move(why);
}

// The second one takes no signals, so what it reads must not raise any, as a truncated core does.
bool ReferenceCapture::has_work_for_two() const {
  constexpr BlockNumber kFewBlocks = 1 << 16;
  return !target_->is_mapped_here() && map_->blocks() >= kFewBlocks;
}

void ReferenceCapture::scan(const HeapModel& heap, const MemoryTaken& taken,
                            SnapshotWriter& writer) {
  objects_.seal();
  map_->set_slots(std::move(objects_.slots));
  map_->seal();
  if (!map_->why_not().empty()) throw GivenUp{map_->why_not()};
  check_estimate();
  record_.blocks = map_->blocks();
  modules_ = LoadedModules(*target_, &modules_);
  // The stacks first: as they were, while nobody has stepped a thread any further.
  std::vector<AddressRange> slots = map_->slots().memory();
  slots.insert(slots.end(), objects_.unused.begin(), objects_.unused.end());
  MemoryTaken all_taken = taken;
  all_taken.slots = slots;
  stacks_ = unwind_stacks(*target_, modules_);
  regions_ = find_root_regions(*target_, modules_, heap, all_taken, stacks_);
  record_.bytes_unreadable += regions_.bytes_left_out;
  FileMemory files = find_file_memory(*target_, file_lists(modules_), types_.types());
  types_.begin_reading(*target_, *map_, modules_, heap, files);

  if (ContainerStorage::is_wanted(modules_, target_->process())) {
    storage_ = std::make_unique<ContainerStorage>(*target_, *map_);
  }
  entry_of_block_ = LargeArray<TypeNumber>(map_->blocks());
  if (!debug_types_) look_for_debug_types();
  if (storage_ || debug_types_->is_wanted()) {
    edges_.emplace(writer, budget_->bytes());
    edges_->expect(record_.blocks);
  }
  ReferenceSink& kept = edges_ ? static_cast<ReferenceSink&>(*edges_) : writer;
  // Where no block looks like an object, slots in use are blocks all the same.
  const bool has_objects = map_->slots().size() != 0 || map_->slots().classes().size() > 1;
  if (has_objects) {
    object_references_ = std::make_unique<ObjectReferences>(
        *map_, objects_, kept, [this](uint32_t variable, BlockNumber target, bool interior) {
          variables_.push_back({variable, 0, target, interior});
        });
  }
  if (has_objects) {
    check_budget();
    object_references_->add_apart_found(
        scan_apart(*target_, *map_, std::move(objects_.apart),
                   [this](const ScannedMemory& scanned) { count(scanned); }));
  }
  UnsetWords set_only(*map_, files.unset,
                      has_objects ? static_cast<ReferenceSink&>(*object_references_) : kept);
  std::optional<ThreadsApart> apart;
  StartThread start_thread;
  if (has_work_for_two()) {
    apart.emplace();
    start_thread = [&apart](std::function<void()> body) { return apart->start(std::move(body)); };
  }
  count(scan_blocks(
      *target_, *map_, set_only,
      {&types_.first_words(),
       [this](const FirstWord& first) {
         const TypeNumber entry = types_.entry_of_block(first);
         if (entry == 0) return;
         entry_of_block_[first.block] = entry;
         const BlockType& type = types_.type_of(entry);
         if (is_shared_object(type) &&
             is_destroyed_object(type, first.bytes, map_->usable(first.address), map_->word())) {
           destroyed_.push_back(first.block);
         }
       }},
      [this, bytes = bytes_of_blocks(*map_)](uint64_t done) {
        check_budget();
        if (options_.progress) options_.progress(std::min(done, bytes), bytes);
      },
      storage_.get(), start_thread));
  for (const auto& [block, entry] : types_.known_blocks()) entry_of_block_[block] = entry;
  record_.references = writer.references();
  if (has_objects) add_objects(writer);
  scan_roots();
  if (edges_) edges_->seal(*map_);
  const bool has_sizes = debug_types_->is_wanted();
  if (has_sizes) sizes_.emplace(start_thread, [this] { edges_->keep_sizes(*map_); });
  if (storage_) {
    storage_->follow(*edges_, start_thread);
    slack_words_ = storage_->take_slack_words();
    unused_words_ = storage_->take_unused_words();
    containers_ = storage_->take_containers();
    storage_of_block_ = storage_->take_kinds();
    if (!storage_->are_nodes_known()) {
      left_out_.push_back(
          "the nodes of containers of the C++ library have no types: too much looks like one");
    }
    storage_.reset();
  }
  add_destroyed_objects();
  if (!has_sizes) edges_.reset();
}

// Whose destructor runs, as a frame of a thread or a register leads there, is not destroyed yet. A
// std::weak_ptr in a frame says nothing: | the object | the block |.
void ReferenceCapture::leave_out_objects_at_work() {
  std::vector<BlockNumber> at_work;
  const auto begins_weak_ptr = [this](size_t i) {
    return i + 1 < words_.size() && words_[i + 1].address - words_[i].address == map_->word() &&
           roots_[i].target == roots_[i + 1].target && roots_[i].interior &&
           !roots_[i + 1].interior;
  };
  for (size_t i = 0; i < words_.size(); ++i) {
    const RootRegion& region = regions_.regions[words_[i].region];
    if (region.kind != RootKind::kStack) continue;
    if (begins_weak_ptr(i)) {
      ++i;
    } else {
      at_work.push_back(roots_[i].target);
    }
  }
  for (size_t i = words_.size(); i < roots_.size(); ++i) at_work.push_back(roots_[i].target);
  std::sort(at_work.begin(), at_work.end());
  std::erase_if(destroyed_, [&at_work](BlockNumber block) {
    return std::binary_search(at_work.begin(), at_work.end(), block);
  });
}

// Those in which addresses are, as far as that is known.
void ReferenceCapture::add_destroyed_objects() {
  if (destroyed_.empty()) return;
  leave_out_objects_at_work();
  BlockEdges::Hint hint;
  for (const BlockNumber block : destroyed_) {
    bool has_any = !edges_ || edges_->is_cut_off();
    if (!has_any) {
      edges_->each(block, hint, [&](uint32_t /*offset*/, BlockNumber /*target*/) {
        has_any = true;
        return false;
      });
    }
    if (has_any) slack_words_.push_back(SlackWords::all_of(block));
  }
  destroyed_ = {};
  std::sort(slack_words_.begin(), slack_words_.end(), [](const SlackWords& a, const SlackWords& b) {
    return std::pair(a.block, !a.are_all()) < std::pair(b.block, !b.are_all());
  });
  const auto of_same =
      std::unique(slack_words_.begin(), slack_words_.end(),
                  [](const SlackWords& a, const SlackWords& b) { return a.block == b.block; });
  slack_words_.erase(of_same, slack_words_.end());
}

// The slots, and the types of objects in them and in blocks.
void ReferenceCapture::add_objects(SnapshotWriter& writer) {
  record_.slots = map_->slots().size();
  map_->slots().each_page([&writer](const SlotPage& page) { writer.on_slots(page); });
  std::vector<TypeNumber> entries;
  for (const ObjectClass& one : map_->slots().classes()) {
    entries.push_back(one.name.empty() ? 0
                                       : types_.entry_of(types_.types().add(
                                             {one.name, "", TypeSource::kRuntime, one.builtin,
                                              one.part, one.is_exact})));
  }
  for (BlockNumber block = 0; block < map_->first_slot(); ++block) {
    const uint32_t known = object_references_->class_of(block);
    if (known != 0) entry_of_block_[block] = entries[known];
  }
  for (uint32_t slot = 0; slot < map_->slots().size(); ++slot) {
    entry_of_block_[map_->first_slot() + slot] = entries[map_->slots().class_number(slot)];
  }
}

// Before anything is frozen, where possible: it opens files.
void ReferenceCapture::look_for_debug_types() {
  constexpr uint64_t kSecond = 1'000'000'000;
  const bool is_asked_for = options_.choice == CaptureChoice::kYes;
  DebugTypeCapture::Limits limits;
  limits.patience_ns = is_asked_for ? 30 * kSecond : 2 * kSecond;
  limits.most_file_bytes = is_asked_for ? kMostUnpackedBytes : kMostUnpackedBytes / 4;
  debug_types_ =
      std::make_unique<DebugTypeCapture>(modules_, debug_files_.without_servers(), limits);
}

void ReferenceCapture::count(const ScannedMemory& scanned) {
  record_.scanned_bytes += scanned.bytes;
  record_.bytes_in_swap += scanned.bytes_in_swap;
  record_.bytes_unreadable += scanned.bytes_unreadable;
}

void ReferenceCapture::find_outer_variables() {
  BlockMap::Hint hint;
  for (uint32_t i = 0; i < objects_.variables.size(); ++i) {
    const RuntimeObjects::Variable& one = objects_.variables[i];
    if (one.kind != RootKind::kLocal || map_->find(one.word.value(), hint)) continue;
    outer_variables_.emplace_back(one.word, i);
  }
  std::sort(outer_variables_.begin(), outer_variables_.end());
}

bool ReferenceCapture::is_variable(const FoundWord& word) {
  const auto found = std::lower_bound(outer_variables_.begin(), outer_variables_.end(),
                                      std::pair(word.at, uint32_t{0}));
  if (found == outer_variables_.end() || found->first != word.at) return false;
  const bool is_inside =
      word.inside != 0 &&
      !(object_references_ && object_references_->begins_inside(word.target, word.inside));
  variables_.push_back({found->second, 0, word.target, is_inside});
  return true;
}

void ReferenceCapture::scan_roots() {
  find_outer_variables();
  // A process can have as many regions as it has pages; looking at the budget reads several files.
  constexpr uint64_t kBetweenChecks = 4 << 20;
  uint64_t unchecked = kBetweenChecks;
  for (uint32_t i = 0; i < regions_.regions.size(); ++i) {
    if (unchecked >= kBetweenChecks) {
      check_budget();
      unchecked = 0;
    }
    unchecked += regions_.regions[i].range.size();
    if (storage_) storage_->set_on_stack(regions_.regions[i].kind == RootKind::kStack);
    const auto receive = [&](const FoundWord& word) {
      if (is_variable(word)) return;
      if (roots_.size() == kMostRoots) throw GivenUp{"it has more roots than are kept"};
      roots_.push_back({0, 0, word.target, word.inside != 0});
      words_.push_back({word.at, i});
    };
    count(scan_outside(*target_, *map_, regions_.regions[i].range, receive, storage_.get()));
  }
  BlockMap::Hint hint;
  for (const RegisterWord& word : register_words(*target_)) {
    const auto place = map_->find(word.value, hint);
    if (!place) continue;
    registers_.push_back(word);
    roots_.push_back({0, 0, place->block, place->offset != 0});
  }
}

}  // namespace heapsnap
