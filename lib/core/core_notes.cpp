#include "core/core_notes.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>

#include "elf/elf_notes.h"
#include "target/vector_words.h"

namespace heapsnap {

namespace {

constexpr uint32_t kNoteI386Tls = 0x200;     // NT_386_TLS
constexpr uint32_t kNoteX86State = 0x202;    // NT_X86_XSTATE
constexpr uint32_t kNoteAarch64Tls = 0x401;  // NT_ARM_TLS

// Where things lie in elf_prstatus and elf_prpsinfo; register offsets are from the start of the
// note.
struct NoteLayout {
  uint64_t status_signal = 12;
  uint64_t status_pid;
  uint64_t instruction_pointer;
  uint64_t stack_pointer;
  uint64_t info_uid;
  uint64_t info_uid_size;
  uint64_t info_pid;
  uint64_t info_name;
  uint64_t info_arguments;
};
constexpr size_t kNameSize = 16;
constexpr size_t kArgumentsSize = 80;

constexpr uint64_t kRegisters64 = 112;
constexpr uint64_t kX86FsBase = kRegisters64 + uint64_t{21} * 8;
constexpr uint64_t kX86GsBase = kX86FsBase + 8;
constexpr uint64_t kX86SystemCall = kRegisters64 + uint64_t{15} * 8;  // orig_rax
constexpr uint64_t kRegistersI386 = 72;
constexpr uint64_t kI386Gs = kRegistersI386 + uint64_t{10} * 4;

// In the order of GeneralRegisters: index into the note's elf_gregset_t (sys/user.h there).
constexpr std::array<uint8_t, 16> kX86Registers = {10, 12, 11, 5, 13, 14, 4, 19,
                                                   9,  8,  7,  6, 3,  2,  1, 0};
constexpr std::array<uint8_t, 8> kI386Registers = {6, 1, 2, 0, 15, 5, 3, 4};

uint64_t register_offset(Machine machine, unsigned number) {
  switch (machine) {
    case Machine::kX86_64: return kRegisters64 + uint64_t{kX86Registers.at(number)} * 8;
    case Machine::kAarch64: return kRegisters64 + uint64_t{number} * 8;
    case Machine::kI386: break;
  }
  return kRegistersI386 + uint64_t{kI386Registers.at(number)} * 4;
}

constexpr NoteLayout layout_of(Machine machine) {
  switch (machine) {
    case Machine::kX86_64:
      return {.status_pid = 32,
              .instruction_pointer = kRegisters64 + uint64_t{16} * 8,
              .stack_pointer = kRegisters64 + uint64_t{19} * 8,
              .info_uid = 16,
              .info_uid_size = 4,
              .info_pid = 24,
              .info_name = 40,
              .info_arguments = 56};
    case Machine::kAarch64:
      return {.status_pid = 32,
              .instruction_pointer = kRegisters64 + uint64_t{32} * 8,
              .stack_pointer = kRegisters64 + uint64_t{31} * 8,
              .info_uid = 16,
              .info_uid_size = 4,
              .info_pid = 24,
              .info_name = 40,
              .info_arguments = 56};
    case Machine::kI386: break;
  }
  return {.status_pid = 24,
          .instruction_pointer = kRegistersI386 + uint64_t{12} * 4,
          .stack_pointer = kRegistersI386 + uint64_t{15} * 4,
          .info_uid = 8,
          .info_uid_size = 2,
          .info_pid = 12,
          .info_name = 28,
          .info_arguments = 44};
}

std::string fixed_text(std::span<const std::byte> bytes, uint64_t offset, size_t size) {
  const auto field = clipped(bytes, offset, size);
  std::string text(reinterpret_cast<const char*>(field.data()), field.size());
  text.resize(std::min(text.find('\0'), text.size()));
  while (text.ends_with(' ')) text.pop_back();  // the kernel ends pr_psargs so
  return text;
}

// Signals whose default action is a core. gcore also records the SIGSTOP or SIGTRAP by which the
// debugger itself stopped the process.
bool can_end_in_core(int number) {
  constexpr std::array kSignals = {SIGQUIT, SIGILL, SIGABRT, SIGBUS,  SIGFPE,
                                   SIGSEGV, SIGSYS, SIGXCPU, SIGXFSZ, SIGTRAP};
  return std::find(kSignals.begin(), kSignals.end(), number) != kSignals.end();
}

class NotesReader {
 public:
  explicit NotesReader(Machine machine) : machine_(machine), layout_(layout_of(machine)) {
    notes_.process.machine = machine;
  }

  void read(const ElfNote& note) {
    const auto bytes = note.descriptor;
    if (note.owner == "CORE") {
      switch (note.type) {
        case NT_PRSTATUS: read_status(bytes); break;
        case NT_PRPSINFO: read_info(bytes); break;
        case NT_AUXV: read_auxiliary_vector(bytes); break;
        case NT_FILE: read_files(bytes); break;
        case NT_SIGINFO: read_signal(bytes); break;
        default: break;
      }
    } else if (note.owner == "LINUX" && !notes_.threads.empty()) {
      // Follows the NT_PRSTATUS of its thread.
      if (note.type == kNoteX86State && is_in_user_code_) {
        notes_.threads.back().registers->vector = vector_words(bytes);
      }
      if (note.type == kNoteI386Tls && machine_ == Machine::kI386) read_i386_tls(bytes);
      if (note.type == kNoteAarch64Tls && machine_ == Machine::kAarch64) {
        set_thread_pointer(load_record<uint64_t>(bytes, 0).value_or(0));
      }
    }
  }

  CoreNotes take() {
    if (const auto size = notes_.auxiliary(AT_PAGESZ)) set_page_size(*size);
    return std::move(notes_);
  }

 private:
  std::optional<uint64_t> load_word(std::span<const std::byte> bytes, uint64_t offset) const {
    if (word_size(machine_) == 8) return load_record<uint64_t>(bytes, offset);
    const auto word = load_record<uint32_t>(bytes, offset);
    return word ? std::optional<uint64_t>(*word) : std::nullopt;
  }

  void read_status(std::span<const std::byte> bytes) {
    const auto tid = load_record<int32_t>(bytes, layout_.status_pid);
    const auto instruction_pointer = load_word(bytes, layout_.instruction_pointer);
    const auto stack_pointer = load_word(bytes, layout_.stack_pointer);
    if (!tid || !instruction_pointer || !stack_pointer) return;
    Thread thread;
    thread.tid = *tid;
    thread.registers = Registers{.instruction_pointer = Address(*instruction_pointer),
                                 .stack_pointer = Address(*stack_pointer),
                                 .thread_pointer = {}};
    GeneralRegisters& general = thread.registers->general;
    for (unsigned i = 0; i < general_register_count(machine_); ++i) {
      general.values.at(i) = load_word(bytes, register_offset(machine_, i)).value_or(0);
    }
    general.are_known = true;
    if (machine_ == Machine::kX86_64) {
      thread.registers->other_base = load_record<uint64_t>(bytes, kX86GsBase).value_or(0);
    }
    notes_.threads.push_back(std::move(thread));
    if (machine_ == Machine::kX86_64) {
      set_thread_pointer(load_record<uint64_t>(bytes, kX86FsBase).value_or(0));
    }
    is_in_user_code_ =
        machine_ == Machine::kX86_64 && load_record<int64_t>(bytes, kX86SystemCall).value_or(0) < 0;
    i386_gs_ = load_record<uint32_t>(bytes, kI386Gs).value_or(0);
    if (notes_.threads.size() == 1) {
      set_signal(load_record<int16_t>(bytes, layout_.status_signal).value_or(0));
    }
  }

  void read_info(std::span<const std::byte> bytes) {
    notes_.process.pid = load_record<int32_t>(bytes, layout_.info_pid).value_or(0);
    notes_.process.uid = layout_.info_uid_size == 2
                             ? load_record<uint16_t>(bytes, layout_.info_uid).value_or(0)
                             : load_record<uint32_t>(bytes, layout_.info_uid).value_or(0);
    notes_.process.comm = fixed_text(bytes, layout_.info_name, kNameSize);
    notes_.process.command_line = fixed_text(bytes, layout_.info_arguments, kArgumentsSize);
  }

  void read_auxiliary_vector(std::span<const std::byte> bytes) {
    const uint64_t word = word_size(machine_);
    for (uint64_t offset = 0;; offset += 2 * word) {
      const auto type = load_word(bytes, offset);
      const auto value = load_word(bytes, offset + word);
      if (!type || !value || *type == AT_NULL) return;
      notes_.auxiliary_vector.emplace(*type, *value);
    }
  }

  // Layout: count, page size, count times (start, end, offset in pages), then the names.
  void read_files(std::span<const std::byte> bytes) {
    const uint64_t word = word_size(machine_);
    const auto count = load_word(bytes, 0);
    const auto page_size = load_word(bytes, word);
    if (!count || !page_size || *count > bytes.size() / (3 * word)) return;
    set_page_size(*page_size);
    uint64_t name_at = (2 + 3 * *count) * word;
    for (uint64_t i = 0; i < *count; ++i) {
      const uint64_t entry = (2 + 3 * i) * word;
      const auto begin = load_word(bytes, entry);
      const auto end = load_word(bytes, entry + word);
      const auto page = load_word(bytes, entry + 2 * word);
      const auto name = text_at(bytes, name_at, bytes.size());
      uint64_t offset = 0;
      if (!begin || !end || !page || name.empty()) return;
      name_at += name.size() + 1;
      if (*begin >= *end || __builtin_mul_overflow(*page, *page_size, &offset)) continue;
      CoreNotes::File file{
          .range = {Address(*begin), Address(*end)}, .offset = offset, .path = std::string(name)};
      constexpr std::string_view kDeleted = " (deleted)";
      if (name.size() > kDeleted.size() && name.ends_with(kDeleted)) {
        file.deleted = true;
        file.path.resize(name.size() - kDeleted.size());
      }
      notes_.files.push_back(std::move(file));
    }
  }

  void read_signal(std::span<const std::byte> bytes) {
    if (notes_.process.fatal_signal == 0) {
      set_signal(load_record<int32_t>(bytes, 0).value_or(0));
    }
  }

  // struct user_desc: entry_number, base_addr, limit, flags. %gs holds the entry's number times 8.
  void read_i386_tls(std::span<const std::byte> bytes) {
    for (uint64_t offset = 0;; offset += 16) {
      const auto number = load_record<uint32_t>(bytes, offset);
      const auto base = load_record<uint32_t>(bytes, offset + 4);
      if (!number || !base) return;
      if (*number == i386_gs_ >> 3) set_thread_pointer(*base);
    }
  }

  void set_thread_pointer(uint64_t value) {
    notes_.threads.back().registers->thread_pointer = Address(value);
  }
  void set_signal(int number) {
    if (can_end_in_core(number)) notes_.process.fatal_signal = number;
  }
  void set_page_size(uint64_t size) {
    constexpr uint64_t kLargest = 1 << 20;
    if (std::has_single_bit(size) && size >= 4096 && size <= kLargest) {
      notes_.process.page_size = size;
    }
  }

  Machine machine_;
  NoteLayout layout_;
  uint32_t i386_gs_ = 0;
  bool is_in_user_code_ = false;  // the last thread, on x86-64
  CoreNotes notes_;
};

}  // namespace

std::optional<uint64_t> CoreNotes::auxiliary(uint64_t type) const {
  const auto found = auxiliary_vector.find(type);
  return found == auxiliary_vector.end() ? std::optional<uint64_t>() : found->second;
}

CoreNotes read_core_notes(const ElfHeaders& core) {
  NotesReader reader(core.machine);
  for_each_note(core, [&reader](const ElfNote& note) {
    reader.read(note);
    return true;
  });
  return reader.take();
}

}  // namespace heapsnap
