#include "platform/linux/proc/mapping_query.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/unique_fd.h"
#include "target/address_space.h"

namespace heapsnap {

namespace {

// linux/fs.h as of 6.11, written out here because the headers that we build with are older.
struct MappingQuery {
  uint64_t size;
  uint64_t query_flags;
  uint64_t query_addr;
  uint64_t vma_start;
  uint64_t vma_end;
  uint64_t vma_flags;
  uint64_t vma_page_size;
  uint64_t vma_offset;
  uint64_t inode;
  uint32_t dev_major;
  uint32_t dev_minor;
  uint32_t vma_name_size;
  uint32_t build_id_size;
  uint64_t vma_name_addr;
  uint64_t build_id_addr;
};
static_assert(sizeof(MappingQuery) == 104);

constexpr unsigned long kProcmapQuery = _IOWR('f', 17, MappingQuery);

}  // namespace

std::optional<Mapping> query_mapping(const ProcFs& proc, int tid, Address address) {
  const UniqueFd maps(::open(proc.path(tid, "maps").c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps) return std::nullopt;
  std::array<char, 4096> name{};
  MappingQuery query{};
  query.size = sizeof query;
  query.query_addr = address.value();
  query.vma_name_addr = reinterpret_cast<uint64_t>(name.data());
  query.vma_name_size = name.size();
  if (::ioctl(maps.get(), kProcmapQuery, &query) == 0) {
    Mapping mapping;
    mapping.range = {Address(query.vma_start), Address(query.vma_end)};
    mapping.readable = (query.vma_flags & 1) != 0;
    mapping.writable = (query.vma_flags & 2) != 0;
    mapping.executable = (query.vma_flags & 4) != 0;
    mapping.shared = (query.vma_flags & 8) != 0;
    if (query.vma_name_size > 0) mapping.path = name.data();
    return mapping;
  }
  if (errno == ENOENT) return std::nullopt;
  try {
    const AddressSpace space(proc.maps(tid));
    const Mapping* found = space.find(address);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace heapsnap
