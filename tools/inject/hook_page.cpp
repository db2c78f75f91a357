#include "tools/inject/hook_page.h"

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "base/error.h"
#include "elf/displaced_code.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMagic = 0x314b4f4f48534e48;  // "HNSHOOK1"
constexpr size_t kHeaderSize = 64;
constexpr size_t kSlotSize = 192;
constexpr size_t kOriginalOffset = 16;
constexpr size_t kRecordOffset = 112;
constexpr size_t kUndoOffset = 160;
constexpr size_t kMostSlots = (HookPage::kSize - kHeaderSize) / kSlotSize;

struct Header {
  uint64_t magic;
  uint64_t slots;
};
struct Record {
  uint64_t entry;
  uint64_t displaced_begin;
  uint64_t displaced_end;
  std::array<std::byte, 8> before;  // kJumpSize of them
  uint64_t undo;                    // where in the slot; 0: there is nothing to undo
};
static_assert(sizeof(Header) <= kHeaderSize && kRecordOffset + sizeof(Record) <= kUndoOffset);

template <typename T>
void put(std::vector<std::byte>& bytes, size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

void put_code(std::vector<std::byte>& bytes, size_t offset, std::span<const std::byte> code) {
  std::memcpy(bytes.data() + offset, code.data(), code.size());
}

constexpr std::byte kBreakpoint{0xcc};  // int3
// jmp *(%rip): the address follows.
constexpr std::array<uint8_t, 6> kJumpToWord{0xff, 0x25, 0, 0, 0, 0};

[[noreturn]] void refuse(const std::string& name) {
  throw Error(ErrorKind::kUnsupported, "cannot hook " + name,
              "its first instructions cannot be moved",
              "start the program with the tracker instead: heapsnap run -- COMMAND");
}

[[noreturn]] void refuse_breakpoint(const std::string& name) {
  throw Error(ErrorKind::kUnsupported, "cannot hook " + name,
              "a debugger or a uprobe (perf probe, bpftrace) has a breakpoint on its first "
              "instruction",
              "try again when that has ended");
}

}  // namespace

HookPage make_hook_page(Address begin, std::span<const HookTarget> targets,
                        std::span<const std::byte> code, Address code_begin,
                        std::vector<std::byte>& bytes) {
  if (targets.size() > kMostSlots) {
    throw Error(ErrorKind::kInternal, "hook page", "there are more hooks than fit");
  }
  HookPage page;
  page.begin = begin;
  bytes.assign(HookPage::kSize, std::byte{});
  put(bytes, 0, Header{kMagic, targets.size()});
  for (const HookTarget& target : targets) {
    const size_t at = kHeaderSize + page.slots.size() * kSlotSize;
    const Address slot_at = begin + at;
    const uint64_t offset = target.entry - code_begin;
    if (!fits_within(offset, 2 * kJumpSize, code.size())) refuse(target.name);
    if (code[offset] == kBreakpoint) refuse_breakpoint(target.name);
    HookSlot slot;
    slot.entry = target.entry;
    slot.original = slot_at + kOriginalOffset;
    const auto displaced =
        displace_code(code.subspan(offset, std::min<uint64_t>(64, code.size() - offset)),
                      target.entry.value(), slot.original.value());
    if (!displaced || displaced->copy.size() > kRecordOffset - kOriginalOffset ||
        displaced->undo.size() + kJumpSize > kSlotSize - kUndoOffset ||
        jumps_into(code, code_begin.value(), displaced->guarded)) {
      refuse(target.name);
    }
    slot.displaced = displaced->displaced;
    const size_t first = displaced->undo.empty() ? 0 : kUndoOffset;
    const auto jump = encode_jump(slot.displaced.begin.value(), (slot_at + first).value());
    if (!jump) refuse(target.name);
    slot.jump = *jump;
    const auto before = code.subspan(slot.displaced.begin - code_begin, kJumpSize);
    slot.before.assign(before.begin(), before.end());

    put(bytes, at, kJumpToWord);
    put(bytes, at + kJumpToWord.size(), target.hook.value());
    put_code(bytes, at + kOriginalOffset, displaced->copy);
    if (first != 0) {
      const size_t undo_end = kUndoOffset + displaced->undo.size();
      const auto to_hook = encode_jump((slot_at + undo_end).value(), slot_at.value());
      if (!to_hook) refuse(target.name);
      put_code(bytes, at + kUndoOffset, displaced->undo);
      put_code(bytes, at + undo_end, *to_hook);
    }
    Record record{};
    record.undo = first;
    record.entry = slot.entry.value();
    record.displaced_begin = slot.displaced.begin.value();
    record.displaced_end = slot.displaced.end.value();
    std::copy(slot.before.begin(), slot.before.end(), record.before.begin());
    put(bytes, at + kRecordOffset, record);
    page.slots.push_back(std::move(slot));
  }
  return page;
}

std::optional<HookPage> read_hook_page(MemoryReader& memory, Address begin) {
  std::vector<std::byte> bytes(HookPage::kSize);
  if (begin.is_null() || !memory.read_exact(begin, bytes)) return std::nullopt;
  Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.slots > kMostSlots) return std::nullopt;
  HookPage page;
  page.begin = begin;
  for (size_t i = 0; i < header.slots; ++i) {
    const size_t at = kHeaderSize + i * kSlotSize;
    Record record{};
    std::memcpy(&record, bytes.data() + at + kRecordOffset, sizeof record);
    HookSlot slot;
    slot.entry = Address(record.entry);
    slot.displaced = {Address(record.displaced_begin), Address(record.displaced_end)};
    slot.before.assign(record.before.begin(), record.before.begin() + kJumpSize);
    slot.original = begin + at + kOriginalOffset;
    if (record.undo >= kSlotSize) return std::nullopt;
    const auto jump = encode_jump(record.displaced_begin, (begin + at + record.undo).value());
    if (!jump || slot.displaced.size() < kJumpSize) return std::nullopt;
    slot.jump = *jump;
    page.slots.push_back(std::move(slot));
  }
  return page;
}

std::vector<CodePatch> HookPage::patches_on() const {
  std::vector<CodePatch> patches;
  for (const HookSlot& slot : slots) {
    patches.push_back({slot.displaced.begin, slot.before, slot.jump, slot.displaced});
  }
  return patches;
}

std::vector<CodePatch> HookPage::patches_off() const {
  std::vector<CodePatch> patches;
  for (const HookSlot& slot : slots) {
    patches.push_back({slot.displaced.begin, slot.jump, slot.before, {}});
  }
  std::reverse(patches.begin(), patches.end());
  return patches;
}

}  // namespace heapsnap
