// Mappings of the target that its copy gives up: files that both have mapped shared, System V
// segments among them. While the copy had them, the target would be told that they are in use:
// F_ADD_SEALS gives EBUSY, a lease EAGAIN, shm_nattch counts one too many.
//
// Memory without access takes their place, so that nothing else comes there: what a thread that is
// led out of malloc maps, say. Nothing is lost: what is shared is not as it was at the freeze
// anyway, and is read from the target instead.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "target/mapping.h"
#include "target/memory_reader.h"

namespace heapsnap {

// Whether a copy does without `mapping`: of a file and shared. Code is kept, and so are devices,
// whose drivers would hear of it.
bool may_be_given_up(const Mapping& mapping);

// By address.
class GivenUpMappings {
 public:
  void add(const Mapping& mapping);
  bool is_empty() const { return mappings_.empty(); }
  bool holds(Address address) const { return find(address) != nullptr; }
  // Where one of them ends or begins behind `address`; the end of memory when nowhere.
  Address next_border(Address address) const;
  // The mappings of the target: of those `of_copy` what lies in none of these, and these.
  std::vector<Mapping> completed(const std::vector<Mapping>& of_copy) const;

 private:
  const Mapping* find(Address address) const;
  std::vector<Mapping> mappings_;
};

// Memory of a copy, and of the target where the copy has given it up. Once the target has ended
// that cannot be read.
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
