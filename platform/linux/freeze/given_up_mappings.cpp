#include "platform/linux/freeze/given_up_mappings.h"

#include <algorithm>

#include "base/error.h"

namespace heapsnap {

namespace {

bool ends_before(const Mapping& mapping, Address address) {
  return mapping.range.end <= address;
}

// Shared memory is not on a device: it has its own file system in /dev. Anonymous memory that
// processes share is /dev/zero; no other process is affected if the copy keeps it.
bool is_on_device(const Mapping& mapping) {
  return mapping.path.starts_with("/dev/") && !mapping.path.starts_with("/dev/shm/") &&
         !mapping.path.starts_with("/dev/hugepages/");
}

// The inode is the segment's id, and that of the first one in an IPC namespace is 0.
bool is_system_v_segment(const Mapping& mapping) {
  return mapping.path.starts_with("/SYSV");
}

bool is_shared_file(const Mapping& mapping) {
  return mapping.shared && !mapping.executable &&
         (!mapping.is_anonymous() || is_system_v_segment(mapping)) &&
         !mapping.is_anonymous_hugetlb() && !is_on_device(mapping);
}

}  // namespace

bool may_be_given_up(const Mapping& mapping, const std::vector<Thread>& threads) {
  return is_shared_file(mapping) &&
         std::none_of(threads.begin(), threads.end(), [&mapping](const Thread& thread) {
           return thread.registers && (mapping.range.contains(thread.registers->stack_pointer) ||
                                       mapping.range.contains(thread.registers->thread_pointer));
         });
}

std::vector<Mapping> writable_to_give_up(const std::vector<Mapping>& mappings,
                                         const std::vector<Thread>& threads) {
  std::vector<Mapping> found;
  for (const Mapping& mapping : mappings) {
    if (mapping.writable && may_be_given_up(mapping, threads)) found.push_back(mapping);
  }
  return found;
}

void GivenUpMappings::add(const Mapping& mapping) {
  mappings_.insert(
      std::lower_bound(mappings_.begin(), mappings_.end(), mapping.range.begin, ends_before),
      mapping);
}

const Mapping* GivenUpMappings::find(Address address) const {
  const auto found = std::lower_bound(mappings_.begin(), mappings_.end(), address, ends_before);
  return found != mappings_.end() && found->range.contains(address) ? &*found : nullptr;
}

Address GivenUpMappings::next_border(Address address) const {
  const auto next = std::lower_bound(mappings_.begin(), mappings_.end(), address, ends_before);
  if (next == mappings_.end()) return Address(~uint64_t{0});
  return next->range.contains(address) ? next->range.end : next->range.begin;
}

size_t HalfGivenUpMemory::read(Address from, std::span<std::byte> out) {
  size_t count = 0;
  while (count < out.size()) {
    const Address at = from + count;
    std::span<std::byte> part = out.subspan(count);
    part = part.first(std::min<uint64_t>(part.size(), given_up_.next_border(at) - at));
    if (part.empty()) break;  // the last byte of all addresses, which no memory is
    const size_t got = given_up_.holds(at) ? read_from_target(at, part) : copy_->read(at, part);
    count += got;
    if (got < part.size()) break;
  }
  return count;
}

size_t HalfGivenUpMemory::read_from_target(Address from, std::span<std::byte> out) {
  try {
    return target_->read(from, out);
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace heapsnap
