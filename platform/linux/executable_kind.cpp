#include "platform/linux/executable_kind.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/byte_reader.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestName = 64;

template <typename T>
std::optional<T> record_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (!fits_within(offset, sizeof(T), bytes.size())) return std::nullopt;
  T record;
  std::memcpy(&record, bytes.data() + offset, sizeof(T));
  return record;
}

// The text from `offset` up to a zero byte, within `bytes`; no more than the names below need.
std::string_view text_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset >= bytes.size()) return {};
  const std::string_view rest(reinterpret_cast<const char*>(bytes.data()) + offset,
                              std::min<size_t>(bytes.size() - offset, kLongestName));
  return rest.substr(0, rest.find('\0'));
}

// The same for both word sizes; the tables have at most 65535 entries.
template <typename Header, typename Segment, typename Section>
void look_at_tables(std::span<const std::byte> bytes, ExecutableKind& kind) {
  const std::optional<Header> header = record_at<Header>(bytes, 0);
  if (!header) return;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const uint64_t offset = uint64_t{header->e_phoff} + i * sizeof(Segment);
    const std::optional<Segment> segment = record_at<Segment>(bytes, offset);
    if (!segment) break;
    kind.has_interpreter = kind.has_interpreter || segment->p_type == PT_INTERP;
  }
  const auto section_at = [&](uint64_t index) {
    return record_at<Section>(bytes, uint64_t{header->e_shoff} + index * sizeof(Section));
  };
  const std::optional<Section> names = section_at(header->e_shstrndx);
  if (!names || header->e_shstrndx == SHN_UNDEF ||
      !fits_within(names->sh_offset, names->sh_size, bytes.size())) {
    return;
  }
  const auto text = bytes.subspan(names->sh_offset, names->sh_size);
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Section> section = section_at(i);
    if (!section) break;
    const std::string_view name = text_at(text, section->sh_name);
    kind.is_go = kind.is_go || name == ".note.go.buildid" || name == ".go.buildinfo";
    // Sections of libc.a that every static program takes in with stdio or exit().
    kind.has_static_glibc = kind.has_static_glibc || name.starts_with("__libc_");
  }
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

struct KnownReplacement {
  const char* prefix;  // of the file name
  const char* name;
};
constexpr std::array<KnownReplacement, 8> kReplacements = {{{"libjemalloc", "jemalloc"},
                                                            {"libtcmalloc", "tcmalloc"},
                                                            {"libmimalloc", "mimalloc"},
                                                            {"libsnmalloc", "snmalloc"},
                                                            {"libhoard", "Hoard"},
                                                            {"librpmalloc", "rpmalloc"},
                                                            {"libtbbmalloc_proxy", "TBB malloc"},
                                                            {"libasan.", "AddressSanitizer"}}};

std::optional<AllocatorGuess::Kind> c_library(const Mapping& mapping) {
  const std::string_view name = file_name(mapping.path);
  if (name == "libc.so.6" || (name.starts_with("libc-2.") && name.ends_with(".so"))) {
    return AllocatorGuess::Kind::kGlibc;
  }
  if (name.starts_with("ld-musl-") || name.starts_with("libc.musl-")) {
    return AllocatorGuess::Kind::kMusl;
  }
  // Android: the C library has no version in its name.
  if (name == "libc.so" && mapping.path.find("/bionic/") != std::string::npos) {
    return AllocatorGuess::Kind::kBionic;
  }
  return std::nullopt;
}

}  // namespace

ExecutableKind recognize_executable(std::span<const std::byte> bytes) {
  ExecutableKind kind;
  if (bytes.size() < EI_NIDENT || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return kind;
  const auto ident = [&](size_t index) { return static_cast<unsigned>(bytes[index]); };
  if (ident(EI_DATA) != ELFDATA2LSB) return kind;
  kind.is_elf = true;
  // e_machine stands at the same place in both headers.
  kind.machine = record_at<uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine)).value_or(EM_NONE);
  if (ident(EI_CLASS) == ELFCLASS32) {
    kind.bits = 32;
    look_at_tables<Elf32_Ehdr, Elf32_Phdr, Elf32_Shdr>(bytes, kind);
  } else if (ident(EI_CLASS) == ELFCLASS64) {
    kind.bits = 64;
    look_at_tables<Elf64_Ehdr, Elf64_Phdr, Elf64_Shdr>(bytes, kind);
  }
  return kind;
}

AllocatorGuess guess_allocator(std::span<const Mapping> mappings,
                               const ExecutableKind& executable) {
  AllocatorGuess guess;
  for (const Mapping& mapping : mappings) {
    if (mapping.is_anonymous()) continue;
    if (const auto kind = c_library(mapping); kind && guess.library.empty()) {
      guess.kind = *kind;
      guess.library = mapping.path;
      guess.library_deleted = mapping.deleted;
    }
    for (const KnownReplacement& known : kReplacements) {
      if (file_name(mapping.path).starts_with(known.prefix) &&
          std::find(guess.replacements.begin(), guess.replacements.end(), known.name) ==
              guess.replacements.end()) {
        guess.replacements.push_back(known.name);
      }
    }
  }
  if (guess.library.empty() && executable.has_static_glibc) {
    guess.kind = AllocatorGuess::Kind::kStaticGlibc;
  } else if (guess.library.empty() && executable.is_go) {
    guess.kind = AllocatorGuess::Kind::kGo;
  }
  return guess;
}

}  // namespace heapsnap
