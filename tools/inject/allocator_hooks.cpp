#include "tools/inject/allocator_hooks.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "elf/displaced_code.h"
#include "platform/linux/inject/code_vacancy.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/remote_call/remote_call.h"
#include "target/free_place.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

// Code behind the last entry point that may belong to it.
constexpr uint64_t kLongestFunction = 4096;
constexpr uint64_t kReach = uint64_t{3} << 29;  // of a jump it is 2 GiB
constexpr int kMostPlaces = 50;

[[noreturn]] void refuse_hooks(const Target& target, const std::string& why,
                               const std::string& remedy) {
  throw Error(
      ErrorKind::kUnsupported,
      "the allocator of process " + std::to_string(target.process().pid) + " cannot be hooked", why,
      remedy);
}

// What it writes to stays the memory of now; that it is the program's is seen by reading.
MemoryWriter writer_of(Target& target) {
  MemoryWriter writer(ProcFs(), target.process().pid);
  target.memory().read_value<char>(Address());
  return writer;
}

// Frees first (hook_page.h).
int rank_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> kFirst{"free", "cfree", "realloc", "reallocarray"};
  return static_cast<int>(std::find(kFirst.begin(), kFirst.end(), name) - kFirst.begin());
}

std::vector<HookTarget> list_targets(const Target& target, const CLibrary& libc,
                                     const std::vector<tracker::HookEntry>& hooks) {
  std::vector<HookTarget> targets;
  for (const tracker::HookEntry& hook : hooks) {
    const Address entry = exported_address(libc.libc(), hook.name);
    const bool is_known =
        std::any_of(targets.begin(), targets.end(),
                    [entry](const HookTarget& each) { return each.entry == entry; });
    if (entry.is_null() || is_known) continue;
    const Mapping* const hook_code = target.address_space().find(Address(hook.hook));
    if (hook_code == nullptr || !hook_code->executable || !is_tracker_library(hook_code->path)) {
      refuse_hooks(target,
                   "the tracker's tables in it are damaged: the hook of " + std::string(hook.name) +
                       " is not in the tracker's code",
                   "restart the process");
    }
    targets.push_back({hook.name, entry, Address(hook.hook), Address(hook.original)});
  }
  std::stable_sort(targets.begin(), targets.end(), [](const HookTarget& a, const HookTarget& b) {
    return rank_of(a.name) < rank_of(b.name);
  });
  if (targets.empty()) refuse_hooks(target, libc.libc().path + " exports no allocator", "");
  return targets;
}

// Maps the page. The process runs on: somebody may take the place first.
Address map_page(Target& target, const AddressRange& code, HookChange& change) {
  const ProcFs proc;
  const int pid = target.process().pid;
  long refusal = 0;
  for (int tries = 0; tries < kMostPlaces; ++tries) {
    const auto place =
        free_place(proc.maps(proc.live_tid(pid).value_or(pid)), code, HookPage::kSize, kReach);
    if (!place) refuse_hooks(target, "there is no free page within 2 GiB of its C library", "");
    const SystemCall map{SYS_mmap,
                         {place->value(), HookPage::kSize, PROT_READ | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0}};
    const RemoteCallResult made = make_remote_call(proc, pid, map, target.memory());
    change.page_makers.push_back({made.tid, made.stolen});
    const Address got(static_cast<uint64_t>(made.value));
    if (got == *place) return got;
    refusal = made.value < 0 && made.value > -4096 ? -made.value : EINVAL;
    // An older kernel takes the address for a hint.
    if (refusal != EEXIST) break;
  }
  refuse_hooks(target,
               "the kernel refused a page for the hooks near its C library: " +
                   errno_text(static_cast<int>(refusal)),
               "try again; it needs Linux 4.17 or later");
}

HookPage make_page(Target& target, const std::vector<HookTarget>& targets,
                   const AddressRange& code_range, HookChange& change) {
  std::vector<std::byte> code(code_range.size());
  code.resize(target.memory().read(code_range.begin, code));
  const Address place = map_page(target, code_range, change);
  std::vector<std::byte> bytes;
  HookPage page = make_hook_page(place, targets, code, code_range.begin, bytes);
  MemoryWriter writer = writer_of(target);
  if (!writer.write(place, bytes))
    refuse_hooks(target, "the page for the hooks cannot be written", "");
  return page;
}

// Where jumps among the first bytes of the code at `entry` lead to, be they instructions or not.
std::vector<Address> jump_targets(MemoryReader& memory, Address entry) {
  constexpr uint64_t kLongestInstruction = 15;
  std::array<std::byte, kLongestInstruction + kJumpSize> code{};
  std::vector<Address> targets;
  if (!memory.read_exact(entry, code)) return targets;
  for (uint64_t at = 0; at <= kLongestInstruction; ++at) {
    if (code.at(at) != std::byte{0xe9}) continue;
    int32_t distance = 0;
    std::memcpy(&distance, &code.at(at + 1), sizeof distance);
    targets.push_back(entry + at + kJumpSize + static_cast<uint64_t>(int64_t{distance}));
  }
  return targets;
}

// All pages of hooks that are in use, by what is there: where the entry points lead to, and where
// the tracker finds the originals. There is one, unless two injectors were at work at once.
std::vector<HookPage> find_pages(Target& target, const CLibrary& libc,
                                 const std::vector<tracker::HookEntry>& hooks) {
  std::vector<HookPage> pages;
  const auto add = [&](Address within) {
    const Address begin = within.align_down(HookPage::kSize);
    const bool is_known = std::any_of(
        pages.begin(), pages.end(), [begin](const HookPage& each) { return each.begin == begin; });
    if (is_known) return;
    if (auto page = read_hook_page(target.memory(), begin)) pages.push_back(*std::move(page));
  };
  for (const tracker::HookEntry& hook : hooks) {
    const Address entry = exported_address(libc.libc(), hook.name);
    if (!entry.is_null()) {
      for (const Address leads_to : jump_targets(target.memory(), entry)) add(leads_to);
    }
    add(Address(target.memory().read_value<uint64_t>(Address(hook.original)).value_or(0)));
  }
  return pages;
}

bool is_on(Target& target, const HookSlot& slot) {
  std::vector<std::byte> now(slot.jump.size());
  return target.memory().read_exact(slot.displaced.begin, now) && now == slot.jump;
}

// For each of `targets` the slot of its entry point: the one that it leads to now, else one that it
// may lead to.
std::vector<HookSlot> choose_slots(Target& target, const std::vector<HookTarget>& targets,
                                   const std::vector<HookPage>& pages) {
  std::vector<HookSlot> slots;
  for (const HookTarget& each : targets) {
    std::optional<HookSlot> chosen;
    for (const HookPage& page : pages) {
      const auto slot =
          std::find_if(page.slots.begin(), page.slots.end(),
                       [&](const HookSlot& candidate) { return candidate.entry == each.entry; });
      if (slot != page.slots.end() && (!chosen || is_on(target, *slot))) chosen = *slot;
    }
    if (!chosen) refuse_hooks(target, "the page of its hooks is damaged", "restart the process");
    slots.push_back(*std::move(chosen));
  }
  return slots;
}

// The way to the originals is there before anybody is sent to the hooks. Whoever made the page may
// have been killed before all of these words were written: a hook without would call itself.
void lead_to_originals(Target& target, const std::vector<HookTarget>& targets,
                       const std::vector<HookSlot>& slots) {
  MemoryWriter writer = writer_of(target);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!writer.write_value(targets[i].original_word, slots[i].original.value())) {
      refuse_hooks(target, "the tracker's tables could not be written", "");
    }
  }
}

// Those of `patches` that are not made yet.
std::vector<CodePatch> not_made(Target& target, std::vector<CodePatch> patches) {
  std::erase_if(patches, [&](const CodePatch& patch) {
    std::vector<std::byte> now(patch.after.size());
    return target.memory().read_exact(patch.at, now) && now == patch.after;
  });
  return patches;
}

void apply(Target& target, const std::vector<CodePatch>& wanted, HookChange& change,
           const ThreadCheck& check = {}) {
  const std::vector<CodePatch> patches = not_made(target, wanted);
  change.entry_points = patches.size();
  change.unchanged = wanted.size() - patches.size();
  if (patches.empty()) return;
  change.patch = apply_patches(ProcFs(), target.process().pid, patches, target.memory(), check);
}

}  // namespace

HookChange hook_allocator(Target& target, const CLibrary& libc,
                          const std::vector<tracker::HookEntry>& hooks, const ThreadCheck& check) {
  HookChange change;
  const std::vector<HookTarget> targets = list_targets(target, libc, hooks);
  std::vector<HookPage> pages = find_pages(target, libc, hooks);
  if (pages.empty()) {
    AddressRange code{targets.front().entry, targets.front().entry};
    for (const HookTarget& each : targets) {
      code.begin = std::min(code.begin, each.entry);
      code.end = std::max(code.end, each.entry + kLongestFunction);
    }
    pages.push_back(make_page(target, targets, code, change));
  }
  const std::vector<HookSlot> slots = choose_slots(target, targets, pages);
  lead_to_originals(target, targets, slots);
  apply(target, HookPage{{}, slots}.patches_on(), change, check);
  return change;
}

HookChange unhook_allocator(Target& target, const CLibrary& libc,
                            const std::vector<tracker::HookEntry>& hooks) {
  HookChange change;
  const std::vector<HookPage> pages = find_pages(target, libc, hooks);
  if (pages.empty()) return change;
  const std::vector<HookTarget> targets = list_targets(target, libc, hooks);
  apply(target, HookPage{{}, choose_slots(target, targets, pages)}.patches_off(), change);
  std::vector<AddressRange> code;
  for (const HookPage& page : pages) code.push_back({page.begin, page.begin + HookPage::kSize});
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (mapping.executable && is_tracker_library(mapping.path)) code.push_back(mapping.range);
  }
  change.is_vacant = await_vacancy(ProcFs(), target.process().pid, code, target.memory()).is_vacant;
  return change;
}

}  // namespace heapsnap
