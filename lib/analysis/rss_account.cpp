#include "analysis/rss_account.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace heapsnap {

namespace {

constexpr size_t row_index(RssRow row) {
  return static_cast<size_t>(row);
}

// What the bytes of a mapping are that belong to no heap.
RssRow row_of_rest(const Mapping& mapping, bool is_stack, bool is_executable_bss) {
  const std::string_view path = mapping.path;
  const auto is_under = [path](std::string_view prefix) { return path.starts_with(prefix); };
  if (is_stack || is_under("[stack")) return RssRow::kStacks;
  // /dev/zero mapped shared, memfd_create(2), shmget(2), shm_open(3), PR_SET_VMA_ANON_NAME.
  const bool is_memory_file = is_under("/dev/zero") || is_under("/memfd:") || is_under("/SYSV") ||
                              is_under("/dev/shm/") || is_under("[anon_shmem:");
  if (mapping.shared &&
      (mapping.is_anonymous() || is_memory_file || mapping.is_anonymous_hugetlb())) {
    return RssRow::kShared;
  }
  if (mapping.is_anonymous_hugetlb()) return RssRow::kOtherAnonymous;
  if (!mapping.is_anonymous() || is_under("[v") || is_under("[uprobes]")) return RssRow::kFiles;
  if (is_executable_bss) return RssRow::kFileData;
  return RssRow::kOtherAnonymous;
}

// Mappings that hold the stack pointer of some thread, by index.
std::vector<bool> find_stacks(const SnapshotMetadata& metadata) {
  std::vector<bool> stacks(metadata.mappings.size());
  for (const Thread& thread : metadata.threads) {
    if (!thread.registers) continue;
    const Address sp = thread.registers->stack_pointer;
    const auto after =
        std::upper_bound(metadata.mappings.begin(), metadata.mappings.end(), sp,
                         [](Address a, const Mapping& mapping) { return a < mapping.range.begin; });
    if (after == metadata.mappings.begin()) continue;
    const auto mapping = std::prev(after);
    if (mapping->range.contains(sp) && mapping->is_anonymous() && mapping->writable) {
      stacks[static_cast<size_t>(mapping - metadata.mappings.begin())] = true;
    }
  }
  return stacks;
}

// The anonymous mapping right behind the executable's writable data is its .bss. Of a library one
// cannot say so: mmap places other memory there, too.
bool is_executable_bss(const SnapshotMetadata& metadata, size_t index) {
  if (index == 0 || metadata.process.exe.empty()) return false;
  const Mapping& data = metadata.mappings[index - 1];
  const Mapping& mapping = metadata.mappings[index];
  return mapping.path.empty() && mapping.is_anonymous() && mapping.is_private_writable() &&
         data.is_private_writable() && data.path == metadata.process.exe &&
         data.range.end == mapping.range.begin;
}

using ShareBytes = std::array<uint64_t, kHeapShareCount>;

uint64_t sum(const ShareBytes& shares) {
  uint64_t total = 0;
  for (const uint64_t bytes : shares) total += bytes;
  return total;
}

// Shrinks `shares` in proportion so that they add up to `limit`, exactly. Gives what was cut off.
uint64_t shrink_to(ShareBytes& shares, uint64_t limit) {
  const uint64_t total = sum(shares);
  if (total <= limit) return 0;
  uint64_t left = limit;
  for (uint64_t& bytes : shares) {
    bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * limit / total);
    left -= bytes;
  }
  *std::max_element(shares.begin(), shares.end()) += left;
  return total - limit;
}

// The parts of one mapping, for one column of the table.
class MappingSplit {
 public:
  MappingSplit(uint64_t whole, ShareBytes shares) : whole_(whole), shares_(shares) {
    cut_off_ = shrink_to(shares_, whole_);
    rest_ = whole_ - sum(shares_);
  }
  uint64_t cut_off() const { return cut_off_; }
  // Takes up to `bytes` off what is not explained yet.
  uint64_t take(uint64_t bytes) {
    const uint64_t taken = std::min(bytes, rest_);
    rest_ -= taken;
    return taken;
  }
  uint64_t take_all() { return take(rest_); }
  const ShareBytes& shares() const { return shares_; }

 private:
  uint64_t whole_;
  ShareBytes shares_;
  uint64_t cut_off_ = 0;
  uint64_t rest_ = 0;
};

template <typename Pick>
ShareBytes pick_bytes(const HeapShares& shares, Pick pick) {
  ShareBytes picked{};
  for (size_t i = 0; i < picked.size(); ++i) picked[i] = pick(shares[i]);
  return picked;
}

void account_resident(RssAccount& account, const Mapping& mapping, const MappingUsage& usage,
                      const HeapShares& shares, RssRow rest_row) {
  const uint64_t whole = usage.rss + usage.hugetlb;
  uint64_t unknown = 0;
  for (const PageBytes& bytes : shares) unknown += bytes.unknown;
  // Where all of a mapping is resident, all of its pages are.
  const bool all_resident = whole == mapping.range.size();
  MappingSplit split(whole, pick_bytes(shares, [&](const PageBytes& bytes) {
                       return bytes.resident + (all_resident ? bytes.unknown : 0);
                     }));
  account.disagreement += split.cut_off();
  for (size_t i = 0; i < split.shares().size(); ++i) {
    account.rows[i].resident += split.shares()[i];
  }
  if (!all_resident) account[RssRow::kUnknown].resident += split.take(unknown);
  if (rest_row == RssRow::kFiles) {
    account[RssRow::kFileData].resident += split.take(usage.anonymous);
  }
  account[rest_row].resident += split.take_all();
  account.total.resident += whole;
  account.hugetlb += usage.hugetlb;

  MappingSplit swap(usage.swap,
                    pick_bytes(shares, [](const PageBytes& bytes) { return bytes.swapped; }));
  for (size_t i = 0; i < swap.shares().size(); ++i) account.rows[i].swapped += swap.shares()[i];
  // Only the private copies of a file's pages ever go to swap.
  const RssRow swap_row = rest_row == RssRow::kFiles ? RssRow::kFileData : rest_row;
  account[swap_row].swapped += swap.take_all();
  account.total.swapped += usage.swap;
}

void account_virtual(RssAccount& account, const Mapping& mapping, const HeapShares& shares,
                     RssRow rest_row) {
  // Address space that is only reserved costs nothing.
  if (!mapping.readable && !mapping.writable && !mapping.executable) return;
  const uint64_t whole = mapping.range.size();
  MappingSplit split(whole,
                     pick_bytes(shares, [](const PageBytes& bytes) { return bytes.total(); }));
  for (size_t i = 0; i < split.shares().size(); ++i) {
    account.rows[i].resident += split.shares()[i];
  }
  account[rest_row].resident += split.take_all();
  account.total.resident += whole;
}

}  // namespace

const char* to_string(RssRow row) {
  switch (row) {
    case RssRow::kProgram: return "used";
    case RssRow::kMmapped: return "mmapped";
    case RssRow::kOverhead: return "overhead";
    case RssRow::kTcache: return "tcache";
    case RssRow::kFastbin: return "fastbin";
    case RssRow::kBins: return "bins";
    case RssRow::kTop: return "top";
    case RssRow::kUnwalked: return "unwalked";
    case RssRow::kStacks: return "stacks";
    case RssRow::kFiles: return "files";
    case RssRow::kFileData: return "file_data";
    case RssRow::kShared: return "shared";
    case RssRow::kOtherAnonymous: return "other_anonymous";
    case RssRow::kUnknown: return "unknown";
  }
  return "unknown";
}

bool RssAccount::agrees_with_process() const {
  const uint64_t sum = total.resident - hugetlb;
  const uint64_t difference = std::max(sum, process_rss) - std::min(sum, process_rss);
  return process_rss == 0 || basis == RssBasis::kVirtual || difference <= process_rss / 100;
}

static_assert(row_index(RssRow::kUnwalked) == static_cast<size_t>(HeapShare::kUnwalked) &&
                  row_index(RssRow::kStacks) == kHeapShareCount,
              "a share's index is its row's");

RssAccount account_rss(const SnapshotMetadata& metadata, const HeapSummary& summary) {
  RssAccount account;
  account.process_rss = metadata.process.rss;
  account.process_swap = metadata.process.swap;
  const bool usage_known =
      !metadata.usage.empty() && metadata.usage.size() == metadata.mappings.size();
  account.basis = usage_known ? RssBasis::kResident : RssBasis::kVirtual;
  const std::vector<bool> stacks = find_stacks(metadata);
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const Mapping& mapping = metadata.mappings[i];
    const RssRow rest_row = row_of_rest(mapping, stacks[i], is_executable_bss(metadata, i));
    if (usage_known) {
      account_resident(account, mapping, metadata.usage[i], summary.shares[i], rest_row);
    } else {
      account_virtual(account, mapping, summary.shares[i], rest_row);
    }
  }
  return account;
}

}  // namespace heapsnap
