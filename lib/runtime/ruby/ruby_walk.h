// All of a Ruby heap: its pages, what is in their slots, and what that owns in malloc's blocks.
//
//   RubyWalk walk(target, place);       // finds the interpreter, walks all slots
//   ... each chunk of malloc's walk: walk.on_batch(), walk.on_mmapped() ...
//   walk.take(model);
//
// Nothing is kept but sums by class and by type, the addresses of tables until there are enough of
// them to read at once, and those of blocks whose size only malloc knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ruby/ruby_classes.h"
#include "runtime/ruby/ruby_graph.h"
#include "runtime/ruby/ruby_objects.h"
#include "runtime/ruby/ruby_pages.h"
#include "runtime/ruby/ruby_place.h"
#include "runtime/ruby/ruby_sums.h"
#include "runtime/ruby/ruby_transient.h"
#include "runtime/ruby/ruby_types.h"
#include "runtime/runtime_model.h"
#include "runtime/runtime_walk.h"
#include "target/target.h"

namespace heapsnap {

class RubyWalk final : public RuntimeWalk {
 public:
  // `target` outlives it.
  RubyWalk(Target& target, RubyPlace place, RuntimeOptions options = {});

  const std::string& why_not() const override { return runtime_.why_not; }
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;
  void take(RuntimeModel& model) override;

 private:
  struct SlotSize {
    uint64_t bytes = 0;
    uint64_t pages = 0;
    uint64_t used = 0;
    uint64_t dead = 0;
    uint64_t free = 0;
  };
  struct Owned {  // what an object has elsewhere
    Address at;
    RubyOwner owner;
    bool operator<(const Owned& other) const { return at < other.at; }
  };
  struct PageUse {  // what a page is made of, in slots
    uint64_t used = 0;
    uint64_t dead = 0;  // of these
    uint64_t free = 0;
    uint64_t other = 0;  // of the used ones: of no type that there is
  };

  void find();
  std::string try_layout(const RubyLayout& layout);
  void walk_pages();
  void walk_run(std::span<const RubyPage> pages);
  PageUse walk_page(const RubyPage& page, std::span<const std::byte> body);
  void add_page(const RubyPage& page, const PageUse& use, std::span<const PageState> states);
  void add_area(const RubyPage& page, const RuntimeArea& amounts);
  RubyOwner owner_of(std::span<const std::byte> slot, uint32_t type);
  void add_object(std::span<const std::byte> slot, const RubyOwner& owner);
  void read_tables();
  void mark_areas(AddressRange range);

  Target& target_;
  const RubyPlace place_;
  const RuntimeOptions options_;
  const RubyLayout* layout_ = nullptr;  // null: see why_not()
  Runtime runtime_;
  Address space_;  // rb_objspace_t
  RubyPages pages_;
  RubyShapes shapes_;
  std::unique_ptr<RubyClasses> classes_;
  RubyTypes types_;
  RubySums sums_;
  std::optional<RubyGraph> graph_;  // none: not wanted
  std::vector<SlotSize> slot_sizes_;
  std::vector<RuntimeArea> areas_;
  std::optional<RuntimeArea> transient_;
  std::vector<Owned> tables_;
  std::vector<Owned> blocks_;  // ascending once all slots are walked
  uint64_t other_slots_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<PageState> page_states_;
};

}  // namespace heapsnap
