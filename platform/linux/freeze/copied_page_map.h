// Page states of a copy-on-write child, completed with those of its parent.
//
// What a fork leaves out or wipes was kept from the parent (missing_memory.h). For the rest,
// fork(2) copies page tables of private memory only: of files and shared memory the child shows
// what it has mapped itself, by reading. For these the parent's current state is used. Pages of
// private file mappings that the parent had changed are in the child's own tables.
#pragma once

#include "platform/linux/freeze/missing_memory.h"
#include "platform/linux/proc/page_map.h"
#include "target/address_space.h"

namespace heapsnap {

class CopiedPageMap : public PageResidency {
 public:
  // `space` and `missing` outlive this.
  CopiedPageMap(const ProcFs& proc, int child, int parent, const AddressSpace& space,
                const MissingMemory& missing)
      : child_(proc, child), parent_(proc, parent), space_(space), missing_(missing) {}

  uint64_t page_size() const override { return child_.page_size(); }
  void read(Address first_page, std::span<PageState> out) override;
  Address absent_until(AddressRange range) override;

 private:
  void read_copied(Address first_page, std::span<PageState> out);

  PageMap child_;
  PageMap parent_;
  const AddressSpace& space_;
  const MissingMemory& missing_;
};

}  // namespace heapsnap
