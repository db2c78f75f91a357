// Mappings of the target that its copy gives up: files that both have mapped shared, including
// System V segments. While the copy had them, the target would find them in use: F_ADD_SEALS fails
// with EBUSY, a lease with EAGAIN, shm_nattch is one too high.
//
// Inaccessible memory takes their place, so that nothing else is mapped there: by a thread that is
// stepped out of malloc, say. Nothing is lost: shared memory is not as it was at the freeze anyway,
// and is read from the target instead.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "target/mapping.h"
#include "target/memory_reader.h"
#include "target/process.h"

namespace heapsnap {

// Whether a copy can do without `mapping`: it is of a file and shared. Code is kept, and so are
// devices, whose drivers would notice, and stacks and control blocks of `threads`: stepping them
// out of malloc may need those.
bool may_be_given_up(const Mapping& mapping, const std::vector<Thread>& threads);

// Of `mappings` those of which that is true and that can be written to, which matter most.
std::vector<Mapping> writable_to_give_up(const std::vector<Mapping>& mappings,
                                         const std::vector<Thread>& threads);

// Sorted by address.
class GivenUpMappings {
 public:
  void add(const Mapping& mapping);
  bool is_empty() const { return mappings_.empty(); }
  bool holds(Address address) const { return find(address) != nullptr; }
  // Where one of them ends or begins after `address`; the end of memory if there is none.
  Address next_border(Address address) const;
  // The mappings of the target: what of `of_copy` is outside these, and these.
  std::vector<Mapping> completed(const std::vector<Mapping>& of_copy) const {
    return overlaid(of_copy, mappings_);
  }

 private:
  const Mapping* find(Address address) const;
  std::vector<Mapping> mappings_;
};

// Memory of a copy, and of the target where the copy has given it up. Once the target has ended,
// that part cannot be read.
class HalfGivenUpMemory final : public MemoryReader {
 public:
  HalfGivenUpMemory(std::unique_ptr<MemoryReader> copy, std::unique_ptr<MemoryReader> target,
                    GivenUpMappings given_up)
      : copy_(std::move(copy)), target_(std::move(target)), given_up_(std::move(given_up)) {}

  // Throws as the reader of the copy does.
  size_t read(Address from, std::span<std::byte> out) override;

 private:
  size_t read_from_target(Address from, std::span<std::byte> out);

  std::unique_ptr<MemoryReader> copy_;
  std::unique_ptr<MemoryReader> target_;
  GivenUpMappings given_up_;
};

}  // namespace heapsnap
