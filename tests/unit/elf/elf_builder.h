// Writes small ELF files byte by byte, so that tests know every field of what they read back.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "elf/elf_headers.h"

namespace heapsnap::test {

using Bytes = std::vector<std::byte>;

template <typename T>
void put(Bytes& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

template <typename T>
void put_at(Bytes& bytes, size_t offset, const T& value) {
  if (bytes.size() < offset + sizeof(T)) bytes.resize(offset + sizeof(T));
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

inline void put_text(Bytes& bytes, std::string_view text) {
  for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
}

// One note record, padded to four bytes.
inline void put_note(Bytes& bytes, std::string_view owner, uint32_t type, const Bytes& content) {
  put(bytes, Elf64_Nhdr{static_cast<uint32_t>(owner.size() + 1),
                        static_cast<uint32_t>(content.size()), type});
  put_text(bytes, owner);
  bytes.push_back(std::byte{0});
  while (bytes.size() % 4 != 0) bytes.push_back(std::byte{0});
  bytes.insert(bytes.end(), content.begin(), content.end());
  while (bytes.size() % 4 != 0) bytes.push_back(std::byte{0});
}

inline void put_build_id(Bytes& bytes, std::string_view id) {
  Bytes content;
  put_text(content, id);
  put_note(bytes, "GNU", NT_GNU_BUILD_ID, content);
}

// The program headers come right behind the ELF header, with room for kMostSegments of them, then
// the contents in the order of append(), then section names and section headers.
class ElfBuilder {
 public:
  static constexpr size_t kMostSegments = 16;

  ElfBuilder(Machine machine, uint16_t type) : machine_(machine), type_(type) {
    content_.resize(is_64_bit() ? sizeof(Elf64_Ehdr) + kMostSegments * sizeof(Elf64_Phdr)
                                : sizeof(Elf32_Ehdr) + kMostSegments * sizeof(Elf32_Phdr));
  }

  // Gives the file offset of the bytes; it is aligned to 16.
  uint64_t append(const Bytes& bytes) {
    while (content_.size() % 16 != 0) content_.push_back(std::byte{0});
    const uint64_t offset = content_.size();
    content_.insert(content_.end(), bytes.begin(), bytes.end());
    return offset;
  }

  ElfBuilder& segment(const ElfSegment& segment) {
    segments_.push_back(segment);
    return *this;
  }
  ElfBuilder& section(const ElfSection& section) {
    sections_.push_back(section);
    return *this;
  }

  Bytes finish() const {
    return is_64_bit() ? write<Elf64Records>(ELFCLASS64) : write<Elf32Records>(ELFCLASS32);
  }

 private:
  bool is_64_bit() const { return machine_ != Machine::kI386; }

  uint16_t machine_number() const {
    switch (machine_) {
      case Machine::kX86_64: return EM_X86_64;
      case Machine::kAarch64: return EM_AARCH64;
      case Machine::kI386: return EM_386;
    }
    return EM_NONE;
  }

  template <typename Records>
  Bytes write(unsigned char file_class) const {
    using Word = typename Records::Word;
    Bytes bytes = content_;
    typename Records::Header header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = file_class;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = type_;
    header.e_machine = machine_number();
    header.e_version = EV_CURRENT;
    header.e_ehsize = sizeof(header);
    header.e_phentsize = sizeof(typename Records::Segment);
    header.e_phnum = static_cast<uint16_t>(segments_.size());
    header.e_phoff = segments_.empty() ? 0 : sizeof(header);
    for (size_t i = 0; i < segments_.size(); ++i) {
      const ElfSegment& segment = segments_[i];
      typename Records::Segment record = {};
      record.p_type = segment.type;
      record.p_flags = segment.flags;
      record.p_offset = static_cast<Word>(segment.file_offset);
      record.p_vaddr = static_cast<Word>(segment.address);
      record.p_filesz = static_cast<Word>(segment.file_size);
      record.p_memsz = static_cast<Word>(segment.memory_size);
      record.p_align = static_cast<Word>(segment.alignment);
      put_at(bytes, sizeof(header) + i * sizeof(record), record);
    }
    if (!sections_.empty()) write_sections<Records>(bytes, header);
    put_at(bytes, 0, header);
    return bytes;
  }

  template <typename Records>
  void write_sections(Bytes& bytes, typename Records::Header& header) const {
    using Word = typename Records::Word;
    std::vector<typename Records::Section> records(1);
    const size_t names_at = bytes.size();
    bytes.push_back(std::byte{0});
    const auto add_name = [&](std::string_view name) {
      const auto offset = static_cast<uint32_t>(bytes.size() - names_at);
      put_text(bytes, name);
      bytes.push_back(std::byte{0});
      return offset;
    };
    for (const ElfSection& section : sections_) {
      typename Records::Section record = {};
      record.sh_name = add_name(section.name);
      record.sh_type = section.type;
      record.sh_flags = static_cast<Word>(section.flags);
      record.sh_addr = static_cast<Word>(section.address);
      record.sh_offset = static_cast<Word>(section.file_offset);
      record.sh_size = static_cast<Word>(section.size);
      record.sh_link = section.link;
      records.push_back(record);
    }
    typename Records::Section names = {};
    names.sh_name = add_name(".shstrtab");
    names.sh_type = SHT_STRTAB;
    names.sh_offset = static_cast<Word>(names_at);
    names.sh_size = static_cast<Word>(bytes.size() - names_at);
    records.push_back(names);
    while (bytes.size() % 8 != 0) bytes.push_back(std::byte{0});
    header.e_shoff = static_cast<Word>(bytes.size());
    header.e_shentsize = sizeof(names);
    header.e_shnum = static_cast<uint16_t>(records.size());
    header.e_shstrndx = static_cast<uint16_t>(records.size() - 1);
    for (const auto& record : records) put(bytes, record);
  }

  Machine machine_;
  uint16_t type_;
  Bytes content_;
  std::vector<ElfSegment> segments_;
  std::vector<ElfSection> sections_;  // from index 1 on; the names come last
};

}  // namespace heapsnap::test
