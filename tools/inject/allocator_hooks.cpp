#include "tools/inject/allocator_hooks.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "platform/linux/code_vacancy.h"
#include "platform/linux/memory_writer.h"
#include "platform/linux/remote_call.h"
#include "target/free_place.h"

namespace heapsnap {

namespace {

// Code behind the last entry point that may belong to it.
constexpr uint64_t kLongestFunction = 4096;
constexpr uint64_t kReach = uint64_t{3} << 29;  // of a jump it is 2 GiB
constexpr int kMostPlaces = 50;

[[noreturn]] void refuse(const Target& target, const std::string& why, const std::string& remedy) {
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

bool is_of_tracker(const Mapping& mapping) {
  return mapping.path.find("heapsnap_tracker") != std::string::npos;
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
    if (hook_code == nullptr || !hook_code->executable || !is_of_tracker(*hook_code)) {
      refuse(target,
             "the tables of the tracker in it are damaged: the hook of " + std::string(hook.name) +
                 " is no code of the tracker",
             "restart the process");
    }
    targets.push_back({hook.name, entry, Address(hook.hook), Address(hook.original)});
  }
  std::stable_sort(targets.begin(), targets.end(), [](const HookTarget& a, const HookTarget& b) {
    return rank_of(a.name) < rank_of(b.name);
  });
  if (targets.empty()) refuse(target, libc.libc().path + " exports no allocator", "");
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
    if (!place) refuse(target, "there is no free page within 2 GiB of its C library", "");
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
  refuse(target,
         "a page for the hooks near its C library was refused: " +
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
  if (!writer.write(place, bytes)) refuse(target, "the page for the hooks cannot be written", "");
  return page;
}

std::optional<HookPage> find_page(Target& target, const std::vector<tracker::HookEntry>& hooks) {
  for (const tracker::HookEntry& hook : hooks) {
    const auto original = target.memory().read_value<uint64_t>(Address(hook.original));
    if (!original) continue;
    auto page = read_hook_page(target.memory(), Address(*original).align_down(HookPage::kSize));
    if (page) return page;
  }
  return std::nullopt;
}

// The way to the originals is there before anybody is sent to the hooks. Whoever made the page may
// have been killed before all of these words were written: a hook without would call itself.
void lead_to_originals(Target& target, const std::vector<HookTarget>& targets,
                       const HookPage& page) {
  MemoryWriter writer = writer_of(target);
  for (const HookSlot& slot : page.slots) {
    const auto found = std::find_if(targets.begin(), targets.end(), [&](const HookTarget& each) {
      return each.entry == slot.entry;
    });
    if (found == targets.end()) refuse(target, "the page of its hooks is damaged", "");
    if (!writer.write_value(found->original_word, slot.original.value())) {
      refuse(target, "the tables of the tracker could not be written", "");
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

void apply(Target& target, const std::vector<CodePatch>& wanted, HookChange& change) {
  const std::vector<CodePatch> patches = not_made(target, wanted);
  change.entry_points = patches.size();
  change.unchanged = wanted.size() - patches.size();
  if (patches.empty()) return;
  change.patch = apply_patches(ProcFs(), target.process().pid, patches, target.memory());
}

}  // namespace

HookChange hook_allocator(Target& target, const CLibrary& libc,
                          const std::vector<tracker::HookEntry>& hooks) {
  HookChange change;
  const std::vector<HookTarget> targets = list_targets(target, libc, hooks);
  std::optional<HookPage> page = find_page(target, hooks);
  if (!page) {
    AddressRange code{targets.front().entry, targets.front().entry};
    for (const HookTarget& each : targets) {
      code.begin = std::min(code.begin, each.entry);
      code.end = std::max(code.end, each.entry + kLongestFunction);
    }
    page = make_page(target, targets, code, change);
  }
  lead_to_originals(target, targets, *page);
  apply(target, page->patches_on(), change);
  return change;
}

HookChange unhook_allocator(Target& target, const std::vector<tracker::HookEntry>& hooks) {
  HookChange change;
  if (const std::optional<HookPage> page = find_page(target, hooks)) {
    apply(target, page->patches_off(), change);
    std::vector<AddressRange> code{{page->begin, page->begin + HookPage::kSize}};
    for (const Mapping& mapping : target.address_space().mappings()) {
      if (mapping.executable && is_of_tracker(mapping)) code.push_back(mapping.range);
    }
    change.is_vacant =
        await_vacancy(ProcFs(), target.process().pid, code, target.memory()).is_vacant;
  }
  return change;
}

bool is_hooked(Target& target, const std::vector<tracker::HookEntry>& hooks) {
  const std::optional<HookPage> page = find_page(target, hooks);
  return page && not_made(target, page->patches_on()).empty();
}

}  // namespace heapsnap
