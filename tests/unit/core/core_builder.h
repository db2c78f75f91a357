// Writes small cores: notes as the kernel lays them out, segments of given contents.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/elf/elf_builder.h"

namespace heapsnap::test {

struct NoteOffsets {
  size_t status_size, pid, instruction_pointer, stack_pointer, fs_base, gs;
  size_t info_size, info_uid, info_pid, info_name, info_arguments;
};

// From <sys/procfs.h> and <sys/user.h> of each machine, as readelf and gdb agree on them.
inline NoteOffsets note_offsets(Machine machine) {
  if (machine == Machine::kI386) return {144, 24, 120, 132, 0, 112, 124, 8, 12, 28, 44};
  if (machine == Machine::kAarch64) return {392, 32, 368, 360, 0, 0, 136, 16, 24, 40, 56};
  return {336, 32, 240, 264, 280, 0, 136, 16, 24, 40, 56};
}

class CoreNotesBuilder {
 public:
  explicit CoreNotesBuilder(Machine machine) : machine_(machine), at_(note_offsets(machine)) {}

  CoreNotesBuilder& process(int32_t pid, uint16_t uid, std::string_view name,
                            std::string_view arguments) {
    Bytes info(at_.info_size);
    put_at(info, at_.info_uid, uid);
    put_at(info, at_.info_pid, pid);
    copy(info, at_.info_name, name);
    copy(info, at_.info_arguments, arguments);
    return note("CORE", NT_PRPSINFO, info);
  }

  CoreNotesBuilder& thread(int32_t tid, int16_t signal, uint64_t instruction_pointer,
                           uint64_t stack_pointer, uint64_t thread_pointer) {
    Bytes status(at_.status_size);
    put_at(status, 12, signal);
    put_at(status, at_.pid, tid);
    put_word(status, at_.instruction_pointer, instruction_pointer);
    put_word(status, at_.stack_pointer, stack_pointer);
    if (machine_ == Machine::kX86_64) put_word(status, at_.fs_base, thread_pointer);
    if (machine_ == Machine::kI386) put_at(status, at_.gs, uint32_t{0x63});
    note("CORE", NT_PRSTATUS, status);
    Bytes tls;
    if (machine_ == Machine::kAarch64) {
      put(tls, thread_pointer);
      note("LINUX", 0x401, tls);
    }
    if (machine_ == Machine::kI386) {
      for (const uint32_t word : {13U, 0xbadU, 0xfffffU, 0x51U}) put(tls, word);
      for (const uint32_t word : {12U, static_cast<uint32_t>(thread_pointer), 0xfffffU, 0x51U}) {
        put(tls, word);
      }
      note("LINUX", 0x200, tls);
    }
    return *this;
  }

  CoreNotesBuilder& auxiliary(const std::vector<std::pair<uint64_t, uint64_t>>& entries) {
    Bytes vector;
    for (const auto& [type, value] : entries) {
      put_word(vector, vector.size(), type);
      put_word(vector, vector.size(), value);
    }
    return note("CORE", NT_AUXV, vector);
  }

  struct File {
    uint64_t begin, end, page;
    std::string path;
  };
  CoreNotesBuilder& files(uint64_t page_size, const std::vector<File>& list) {
    Bytes content;
    put_word(content, 0, list.size());
    put_word(content, content.size(), page_size);
    for (const File& file : list) {
      put_word(content, content.size(), file.begin);
      put_word(content, content.size(), file.end);
      put_word(content, content.size(), file.page);
    }
    for (const File& file : list) {
      put_text(content, file.path);
      content.push_back(std::byte{0});
    }
    return note("CORE", NT_FILE, content);
  }

  CoreNotesBuilder& note(std::string_view owner, uint32_t type, const Bytes& content) {
    put_note(bytes_, owner, type, content);
    return *this;
  }

  const Bytes& bytes() const { return bytes_; }

 private:
  static void copy(Bytes& bytes, size_t offset, std::string_view text) {
    std::memcpy(bytes.data() + offset, text.data(), text.size());
  }
  void put_word(Bytes& bytes, size_t offset, uint64_t value) const {
    if (machine_ == Machine::kI386) {
      put_at(bytes, offset, static_cast<uint32_t>(value));
    } else {
      put_at(bytes, offset, value);
    }
  }

  Machine machine_;
  NoteOffsets at_;
  Bytes bytes_;
};

struct CoreSegment {
  uint64_t address = 0;
  uint64_t memory_size = 0;
  uint32_t flags = PF_R;
  Bytes contents;
};

inline Bytes make_core(Machine machine, const Bytes& notes,
                       const std::vector<CoreSegment>& segments) {
  ElfBuilder builder(machine, ET_CORE);
  const uint64_t notes_at = builder.append(notes);
  builder.segment({.type = PT_NOTE,
                   .flags = 0,
                   .file_offset = notes_at,
                   .address = 0,
                   .file_size = notes.size(),
                   .memory_size = 0,
                   .alignment = 4});
  for (const CoreSegment& segment : segments) {
    const uint64_t at = builder.append(segment.contents);
    builder.segment({.type = PT_LOAD,
                     .flags = segment.flags,
                     .file_offset = at,
                     .address = segment.address,
                     .file_size = segment.contents.size(),
                     .memory_size = segment.memory_size,
                     .alignment = 4096});
  }
  return builder.finish();
}

}  // namespace heapsnap::test
