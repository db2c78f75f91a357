#include "analysis/rss_account.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tracking/tracker_library.h"

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

// Ranges that are the tracker's, by address: its tables, and the .bss of its library.
std::vector<AddressRange> tracker_ranges(const SnapshotMetadata& metadata) {
  std::vector<AddressRange> ranges;
  if (!metadata.tracker) return ranges;
  ranges = metadata.tracker->memory;
  for (const TrackedModule& module : metadata.tracker->modules) {
    if (module.unloaded == 0 && is_tracker_library(module.path)) ranges.push_back(module.range);
  }
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

// Mappings that are the tracker's, by index: the kernel names them, or its own lists do. They have
// MAP_NORESERVE and MADV_NOHUGEPAGE, so the kernel merges them with each other, but hardly with any
// of the program's.
std::vector<bool> find_tracker_mappings(const SnapshotMetadata& metadata) {
  std::vector<bool> found(metadata.mappings.size());
  const std::vector<AddressRange> ranges = tracker_ranges(metadata);
  auto next = ranges.begin();
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const Mapping& mapping = metadata.mappings[i];
    while (next != ranges.end() && next->end <= mapping.range.begin) ++next;
    const bool is_listed = next != ranges.end() && next->overlaps(mapping.range);
    const bool may_be_table = mapping.is_anonymous() || mapping.path.starts_with("/memfd:");
    found[i] = is_tracker_table(mapping.path) || is_tracker_library(mapping.path) ||
               (is_listed && may_be_table);
  }
  return found;
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

// What a mapping holds of areas of language runtimes.
struct RuntimeBytes {
  std::array<RuntimeArea::Amount, kRssRowCount> rows{};
  uint64_t all = 0;
};

const RuntimeBytes kNoRuntimeBytes;

RssRow first_row_of(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kPython: return RssRow::kPythonObjects;
    case RuntimeKind::kRuby: return RssRow::kRubyObjects;
    default: return RssRow::kOtherAnonymous;
  }
}

RuntimeArea::Amount part_of(const RuntimeArea::Amount& amount, uint64_t part, uint64_t whole) {
  const auto scaled = [=](uint64_t bytes) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(bytes) * part / whole);
  };
  return {scaled(amount.bytes), scaled(amount.resident), scaled(amount.swapped)};
}

// By mapping. An area lies in one, mostly; of one that does not, each mapping has its part.
std::vector<RuntimeBytes> find_runtime_bytes(const SnapshotMetadata& metadata) {
  const RuntimeModel& model = metadata.runtimes;
  std::vector<RuntimeBytes> found(model.areas.empty() ? 0 : metadata.mappings.size());
  for (const RuntimeArea& area : model.areas) {
    const RssRow row = first_row_of(model.runtimes[area.runtime].kind);
    // What lies in blocks of malloc is in malloc's rows.
    if (row == RssRow::kOtherAnonymous || area.is_in_malloc || area.range.is_empty()) continue;
    auto mapping =
        std::upper_bound(metadata.mappings.begin(), metadata.mappings.end(), area.range.begin,
                         [](Address a, const Mapping& each) { return a < each.range.end; });
    for (; mapping != metadata.mappings.end() && mapping->range.begin < area.range.end; ++mapping) {
      const uint64_t part = std::min(mapping->range.end, area.range.end) -
                            std::max(mapping->range.begin, area.range.begin);
      RuntimeBytes& bytes = found[static_cast<size_t>(mapping - metadata.mappings.begin())];
      bytes.all += part;
      size_t next = row_index(row);
      if (area.is_transient) {
        RuntimeArea::Amount whole = area.used;
        whole += area.free_in_area;
        bytes.rows[row_index(RssRow::kRubyTransient)] += part_of(whole, part, area.range.size());
        continue;
      }
      for (const auto& amount : {area.used, area.free_in_page, area.free_in_area}) {
        bytes.rows[next++] += part_of(amount, part, area.range.size());
      }
    }
  }
  return found;
}

// Takes what is a runtime's off what is left of a mapping.
template <typename Pick>
void take_runtimes(const RuntimeBytes& bytes, MappingSplit& split, uint64_t RssAccount::Amount::*to,
                   RssAccount& account, Pick pick) {
  for (size_t i = 0; i < bytes.rows.size(); ++i) {
    account.rows[i].*to += split.take(pick(bytes.rows[i]));
  }
}

template <typename Pick>
ShareBytes pick_bytes(const HeapShares& shares, Pick pick) {
  ShareBytes picked{};
  for (size_t i = 0; i < picked.size(); ++i) picked[i] = pick(shares[i]);
  return picked;
}

// What is left of a mapping is counted in the row of what it is, and remembered.
void add_rest(RssAccount& account, RssAccount::Rest& rest, uint64_t resident) {
  rest.amount.resident = resident;
  account[rest.row].resident += resident;
}

void account_resident(RssAccount& account, const Mapping& mapping, const MappingUsage& usage,
                      const HeapShares& shares, const RuntimeBytes& runtimes,
                      RssAccount::Rest& rest) {
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
  take_runtimes(runtimes, split, &RssAccount::Amount::resident, account,
                [&](const auto& amount) { return all_resident ? amount.bytes : amount.resident; });
  const bool is_file = rest.row == RssRow::kFiles;
  if (is_file) {
    rest.private_pages.resident = split.take(usage.anonymous);
    account[RssRow::kFileData].resident += rest.private_pages.resident;
  }
  add_rest(account, rest, split.take_all());
  account.total.resident += whole;
  account.hugetlb += usage.hugetlb;

  MappingSplit swap(usage.swap,
                    pick_bytes(shares, [](const PageBytes& bytes) { return bytes.swapped; }));
  for (size_t i = 0; i < swap.shares().size(); ++i) account.rows[i].swapped += swap.shares()[i];
  take_runtimes(runtimes, swap, &RssAccount::Amount::swapped, account,
                [](const auto& amount) { return amount.swapped; });
  // Only the private copies of a file's pages ever go to swap.
  const uint64_t swapped = swap.take_all();
  account[is_file ? RssRow::kFileData : rest.row].swapped += swapped;
  (is_file ? rest.private_pages : rest.amount).swapped = swapped;
  account.total.swapped += usage.swap;
}

void account_virtual(RssAccount& account, const Mapping& mapping, const HeapShares& shares,
                     const RuntimeBytes& runtimes, RssAccount::Rest& rest) {
  // Address space that is only reserved costs nothing.
  if (!mapping.readable && !mapping.writable && !mapping.executable) return;
  const uint64_t whole = mapping.range.size();
  MappingSplit split(whole,
                     pick_bytes(shares, [](const PageBytes& bytes) { return bytes.total(); }));
  for (size_t i = 0; i < split.shares().size(); ++i) {
    account.rows[i].resident += split.shares()[i];
  }
  take_runtimes(runtimes, split, &RssAccount::Amount::resident, account,
                [](const auto& amount) { return amount.bytes; });
  add_rest(account, rest, split.take_all());
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
    case RssRow::kTracker: return "tracker";
    case RssRow::kPythonObjects: return "python_objects";
    case RssRow::kPythonPools: return "python_pools";
    case RssRow::kPythonArenas: return "python_arenas";
    case RssRow::kRubyObjects: return "ruby_objects";
    case RssRow::kRubyPages: return "ruby_pages";
    case RssRow::kRubyFreePages: return "ruby_free_pages";
    case RssRow::kRubyTransient: return "ruby_transient";
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
  const std::vector<bool> trackers = find_tracker_mappings(metadata);
  const std::vector<RuntimeBytes> runtimes = find_runtime_bytes(metadata);
  account.rests.resize(metadata.mappings.size());
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const Mapping& mapping = metadata.mappings[i];
    RssAccount::Rest& rest = account.rests[i];
    rest.row = trackers[i] ? RssRow::kTracker
                           : row_of_rest(mapping, stacks[i], is_executable_bss(metadata, i));
    const RuntimeBytes& areas = runtimes.empty() ? kNoRuntimeBytes : runtimes[i];
    rest.runtime_bytes = areas.all;
    if (usage_known) {
      account_resident(account, mapping, metadata.usage[i], summary.shares[i], areas, rest);
    } else {
      account_virtual(account, mapping, summary.shares[i], areas, rest);
    }
  }
  return account;
}

}  // namespace heapsnap
