#include "tracker/modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "tracker/futex_lock.h"
#include "tracker/loaded_symbols.h"
#include "tracker/table_space.h"
#include "tracker/text_space.h"

// NOLINTNEXTLINE(readability-identifier-naming): the linker's
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));

namespace heapsnap::tracker {

namespace {

constexpr unsigned kSlots = 2048;    // modules loaded at one time
constexpr unsigned kGoneSlots = 32;  // keep their rows, as they may come back
constexpr uint32_t kMaxPath = 4096;
constexpr uint32_t kMaxBuildId = sizeof(ModuleRecord::build_id);

// What dl_iterate_phdr tells of a module, digested.
struct Image {
  uint64_t bias;
  uint64_t begin;
  uint64_t end;
  uint64_t header;  // .eh_frame_hdr, or 0
  const uint8_t* build_id;
  uint32_t build_id_size;
  const char* name;
};

// begin == end: free, or its module is gone. A slot's rows stay until the slot is used again, so
// that a thread that was looking at it does not read unmapped memory.
struct Slot {
  uint64_t begin{};
  uint64_t end{};
  uint64_t last_begin{};  // what a gone module had; the same file may come back to the same place
  uint64_t last_end{};
  uint64_t bias{};
  uint64_t header{};
  CfiIndex index;
  UnwindRows rows;
  bool has_rows{};
  bool tried_rows{};
  bool is_pinned{};  // cannot be unloaded
  bool is_seen{};
  uint32_t record{};
};

constinit Slot slots[kSlots];
uint32_t slot_count = 0;  // slots ever used
constinit FutexLock lock;
// The thread of scan_modules_at_start() holds ld.so's list lock.
uint32_t is_listing_at_start = 0;
uint32_t must_rescan = 0;  // something was freed by ld.so, and nobody has looked since
constinit TextSpace paths;

// <dlfcn.h> of glibc 2.35.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame_hdr;
  unsigned long long reserved[7];
};
using FindObject = int (*)(void*, FoundObject*);
FindObject find_object = nullptr;

Image image_of(const dl_phdr_info& info) {
  Image image{
      info.dlpi_addr, ~0ULL, 0, 0, nullptr, 0, info.dlpi_name != nullptr ? info.dlpi_name : ""};
  for (unsigned i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const uint64_t begin = image.bias + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      if (begin < image.begin) image.begin = begin & ~0xfffULL;
      if (begin + segment.p_memsz > image.end) image.end = begin + segment.p_memsz;
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      image.header = begin;
    } else if (segment.p_type == PT_NOTE) {
      CfiBytes notes{reinterpret_cast<const uint8_t*>(begin),
                     reinterpret_cast<const uint8_t*>(begin + segment.p_memsz)};
      while (notes.ok && notes.end - notes.at >= 12) {
        const auto name_size = notes.take<uint32_t>();
        const auto size = notes.take<uint32_t>();
        const auto type = notes.take<uint32_t>();
        const uint64_t name_room = (name_size + 3ULL) & ~3ULL;
        const uint64_t room = (size + 3ULL) & ~3ULL;
        if (name_room + room > static_cast<uint64_t>(notes.end - notes.at)) break;
        if (type == NT_GNU_BUILD_ID && name_size == 4 &&
            __builtin_memcmp(notes.at, "GNU", 4) == 0) {
          image.build_id = notes.at + name_room;
          image.build_id_size = size < kMaxBuildId ? size : kMaxBuildId;
        }
        notes.at += name_room + room;
      }
    }
  }
  image.end = (image.end + 0xfff) & ~0xfffULL;
  return image;
}

// Copies into the strings of the tables; "" when there is no room.
uint64_t keep_string(const char* text, uint32_t& size) {
  void* kept = paths.take(size);
  if (kept == nullptr) size = 0;
  if (kept != nullptr) __builtin_memcpy(kept, text, size);
  return reinterpret_cast<uint64_t>(kept);
}

uint64_t keep_path(const Image& image, uint32_t& size) {
  size = 0;
  if (image.name[0] != 0) {
    while (size < kMaxPath && image.name[size] != 0) ++size;
    return keep_string(image.name, size);
  }
  static char program[kMaxPath];  // the caller holds the lock
  const long length =
      system_call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                  reinterpret_cast<long>(program), sizeof program);
  if (!failed(length)) size = static_cast<uint32_t>(length);
  return keep_string(program, size);
}

bool same_build_id(const ModuleRecord& record, const Image& image) {
  return record.build_id_size == image.build_id_size &&
         __builtin_memcmp(record.build_id, image.build_id, image.build_id_size) == 0;
}

// A module at the same place with the same contents, as far as can be known.
bool is_same(const Slot& slot, const Image& image) {
  if (slot.bias != image.bias || slot.header != image.header) return false;
  return slot.record == kNoModule ||
         same_build_id(entry<ModuleRecord>(control.directory->modules, slot.record), image);
}

// The record of a module that came back, or a new one.
uint32_t record_for(const Image& image) {
  ChunkedTable& modules = control.directory->modules;
  const uint64_t index = modules.count;
  for (uint64_t i = 0; i < index && image.build_id_size != 0; ++i) {
    auto& record = entry<ModuleRecord>(modules, i);
    if (record.unloaded != 0 && record.bias == image.bias && record.begin == image.begin &&
        record.end == image.end && same_build_id(record, image)) {
      store(record.unloaded, 0);
      return static_cast<uint32_t>(i);
    }
  }
  if (chunk_for(modules, index, kRegionModules, kLimitModules) == nullptr) return kNoModule;
  auto& record = entry<ModuleRecord>(modules, index);
  record = {};
  record.bias = image.bias;
  record.begin = image.begin;
  record.end = image.end;
  record.path = keep_path(image, record.path_size);
  record.build_id_size = image.build_id_size;
  if (image.build_id_size != 0) {
    __builtin_memcpy(record.build_id, image.build_id, image.build_id_size);
  }
  record.loaded = control.directory->module_generation;
  store_release(modules.count, index + 1);
  return static_cast<uint32_t>(index);
}

void mark_unloaded(Slot& slot) {
  slot.last_begin = slot.begin;
  slot.last_end = slot.end;
  store(slot.end, 0);
  store(slot.begin, 0);
  add(control.directory->module_generation, 1);
  if (slot.record != kNoModule) {
    entry<ModuleRecord>(control.directory->modules, slot.record).unloaded =
        control.directory->module_generation;
  }
  raise_epoch();
}

// The module that was in this slot and is gone is the same file at the same place.
bool came_back(const Slot& slot, const Image& image) {
  return slot.last_begin == image.begin && slot.last_end == image.end && image.build_id_size != 0 &&
         slot.record != kNoModule && is_same(slot, image);
}

// Rows are for many look-ups. With samples there are few, so each is answered from .eh_frame
// itself.
bool wants_rows() {
  return load(control.sample_bytes) == 0;
}

// With the lock held.
void make_rows(Slot& slot, uint64_t begin, uint64_t end) {
  slot.tried_rows = true;
  store_release(slot.has_rows, slot.rows.compile(slot.index, begin, end));
}

// The rule of one pc, as it would be compiled.
UnwindRule rule_at(const Slot& slot, uint64_t pc) {
  const uint64_t i = cfi_index_find(slot.index, pc);
  CfiFunction function;
  if (i >= slot.index.count ||
      !parse_fde(cfi_index_fde(slot.index, i), slot.begin, slot.end, function) ||
      pc < function.begin || pc >= function.end) {
    return make_rule(RuleKind::kNoInfo);
  }
  CfiRow row;
  if (!cfi_row_at(function, pc, row)) return make_rule(RuleKind::kSpecial);
  return rule_of(row, function.is_signal_frame);
}

void fill_slot(Slot& slot, const Image& image, bool pin) {
  add(control.directory->module_generation, 1);
  if (came_back(slot, image)) {
    store(entry<ModuleRecord>(control.directory->modules, slot.record).unloaded, 0);
  } else {
    slot.rows.release();
    slot.bias = image.bias;
    slot.header = image.header;
    slot.index = {};
    slot.has_rows = false;
    slot.tried_rows = false;
    slot.record = record_for(image);
    if (image.header == 0 || !parse_eh_frame_hdr(image.header, image.end, slot.index)) {
      slot.index = {};
    }
  }
  slot.is_pinned = pin;
  slot.is_seen = true;
  if (wants_rows() && !slot.tried_rows) make_rows(slot, image.begin, image.end);
  store_release(slot.end, image.end);
  store_release(slot.begin, image.begin);
}

void take_image(const Image& image, bool pin) {
  if (image.begin >= image.end) return;
  Slot* vacant = nullptr;
  unsigned gone = 0;
  bool comes_back = false;
  for (uint32_t i = 0; i < slot_count; ++i) {
    Slot& slot = slots[i];
    if (slot.end == 0) {
      ++gone;
      if (comes_back) continue;
      comes_back = came_back(slot, image);
      if (comes_back || vacant == nullptr) vacant = &slot;
    } else if (slot.begin == image.begin && slot.end == image.end) {
      if (slot.is_pinned || is_same(slot, image)) {
        slot.is_seen = true;
        return;
      }
      mark_unloaded(slot);
      if (!comes_back) vacant = &slot;
    }
  }
  const bool is_new_slot = !comes_back && gone < kGoneSlots && slot_count < kSlots;
  if (is_new_slot) vacant = &slots[slot_count];
  if (vacant == nullptr) {
    note_limit(kLimitModules);
    return;
  }
  fill_slot(*vacant, image, pin);
  if (is_new_slot) store_release(slot_count, slot_count + 1);
}

struct Scan {
  bool at_start;
  bool is_first;
};

bool contains(const Image& image, const void* address) {
  return reinterpret_cast<uint64_t>(address) - image.begin < image.end - image.begin;
}

int scan_module(dl_phdr_info* info, size_t, void* context) {
  auto& scan = *static_cast<Scan*>(context);
  if (scan.at_start) store_release(is_listing_at_start, 1);
  const Image image = image_of(*info);
  const bool is_libc = contains(image, reinterpret_cast<const void*>(&dl_iterate_phdr));
  const bool is_loader = getauxval(AT_BASE) == image.begin && image.begin != 0;
  const bool is_vdso = getauxval(AT_SYSINFO_EHDR) == image.begin;
  if (scan.at_start) {
    if (is_loader) {
      control.loader_begin = image.begin;
      control.loader_size = image.end - image.begin;
    }
    if (is_libc && find_object == nullptr) {
      find_object = reinterpret_cast<FindObject>(defined_function(*info, "_dl_find_object"));
    }
  }
  take_image(image,
             scan.is_first || is_libc || is_loader || is_vdso || contains(image, __ehdr_start));
  scan.is_first = false;
  return 0;
}

// With the lock held.
void scan(bool at_start) {
  do {
    __atomic_store_n(&must_rescan, 0, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < slot_count; ++i) slots[i].is_seen = false;
    Scan state{at_start, true};
    dl_iterate_phdr(scan_module, &state);
    if (at_start) store_release(is_listing_at_start, 0);
    for (uint32_t i = 0; i < slot_count; ++i) {
      if (slots[i].end != 0 && !slots[i].is_seen) mark_unloaded(slots[i]);
    }
  } while (__atomic_load_n(&must_rescan, __ATOMIC_RELAXED) != 0);
}

const Slot* find_slot(uint64_t pc) {
  const uint32_t count = load_acquire(slot_count);
  for (uint32_t i = 0; i < count; ++i) {
    const Slot& slot = slots[i];
    if (pc >= load_acquire(slot.begin) && pc < load_acquire(slot.end)) return &slot;
  }
  return nullptr;
}

}  // namespace

void scan_modules_at_start() {
  if (!lock.lock()) return;
  scan(true);
  lock.unlock();
}

void make_missing_rows() {
  if (!wants_rows() || !lock.lock()) return;
  for (uint32_t i = 0; i < slot_count; ++i) {
    Slot& slot = slots[i];
    if (slot.end != 0 && !slot.tried_rows) make_rows(slot, slot.begin, slot.end);
  }
  lock.unlock();
}

RuleAt look_up_rule(uint64_t pc) {
  bool unsure = false;
  if (HEAPSNAP_UNLIKELY(__atomic_load_n(&must_rescan, __ATOMIC_RELAXED) != 0)) {
    unsure = !lock.try_lock();
    if (!unsure) {
      scan(false);
      lock.unlock();
    }
  }
  const Slot* slot = unsure ? nullptr : find_slot(pc);
  if (slot == nullptr && !unsure) {
    FoundObject found;
    if (find_object != nullptr && find_object(reinterpret_cast<void*>(pc), &found) != 0) {
      return {make_rule(RuleKind::kNoInfo), kNoModule, false};
    }
    if (!lock.try_lock()) return {make_rule(RuleKind::kSpecial), kNoModule, false};
    scan(false);
    lock.unlock();
    slot = find_slot(pc);
    if (slot == nullptr) return {make_rule(RuleKind::kNoInfo), kNoModule, false};
  }
  if (slot == nullptr) return {make_rule(RuleKind::kSpecial), kNoModule, false};
  if (HEAPSNAP_UNLIKELY(!load_acquire(slot->has_rows))) {
    if (slot->index.count == 0) return {make_rule(RuleKind::kNoInfo), slot->record, true};
    return {rule_at(*slot, pc), slot->record, true};
  }
  return {slot->rows.find(static_cast<uint32_t>(pc - slot->begin)), slot->record, true};
}

bool find_function(uint64_t pc, CfiFunction& out) {
  CfiIndex index;
  uint64_t begin = 0;
  uint64_t end = 0;
  FoundObject found;
  if (find_object != nullptr) {  // the loader's own word, which is right at any time
    if (find_object(reinterpret_cast<void*>(pc), &found) != 0) return false;
    begin = reinterpret_cast<uint64_t>(found.map_start);
    end = reinterpret_cast<uint64_t>(found.map_end);
    if (found.eh_frame_hdr == nullptr ||
        !parse_eh_frame_hdr(reinterpret_cast<uint64_t>(found.eh_frame_hdr), end, index)) {
      return false;
    }
  } else {
    const Slot* slot = find_slot(pc);
    if (slot == nullptr) return false;
    index = slot->index;
    begin = slot->begin;
    end = slot->end;
  }
  const uint64_t i = cfi_index_find(index, pc);
  return i < index.count && parse_fde(cfi_index_fde(index, i), begin, end, out) &&
         pc >= out.begin && pc < out.end;
}

void check_for_unloaded_modules() {
  if (find_object == nullptr) {
    // dl_iterate_phdr is no thing to call with whatever locks the loader holds. Later.
    __atomic_store_n(&must_rescan, 1, __ATOMIC_RELAXED);
    raise_epoch();
    return;
  }
  const uint32_t count = load_acquire(slot_count);
  for (uint32_t i = 0; i < count; ++i) {
    const Slot& slot = slots[i];
    const uint64_t begin = load_acquire(slot.begin);
    if (begin == 0 || slot.is_pinned) continue;
    FoundObject found;
    if (find_object(reinterpret_cast<void*>(begin), &found) == 0 &&
        reinterpret_cast<uint64_t>(found.map_start) == begin &&
        reinterpret_cast<uint64_t>(found.eh_frame_hdr) == slot.header) {
      continue;
    }
    if (!lock.try_lock()) {
      __atomic_store_n(&must_rescan, 1, __ATOMIC_RELAXED);
      raise_epoch();
      return;
    }
    if (slots[i].begin == begin) mark_unloaded(slots[i]);
    lock.unlock();
  }
}

// At start the lock is not lost: that thread of ours takes no signals. It waits for nobody but the
// kernel once it has ld.so's list lock, however long it gets no processor to go on with.
bool lock_modules() {
  while (!lock.lock()) {
    if (load_acquire(is_listing_at_start) == 0) return false;
  }
  return true;
}

void unlock_modules() {
  lock.unlock();
}

void reset_module_lock() {
  lock = FutexLock();
}

void forget_modules() {
  if (!lock.lock()) return;
  for (uint32_t i = 0; i < slot_count; ++i) {
    slots[i].rows.release();
    slots[i] = {};
  }
  slot_count = 0;
  paths.clear();
  lock.unlock();
}

}  // namespace heapsnap::tracker
