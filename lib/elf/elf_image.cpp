#include "elf/elf_image.h"

#include <algorithm>

#include "base/error.h"
#include "elf/elf_dynamic.h"
#include "elf/elf_headers.h"
#include "elf/elf_notes.h"
#include "elf/elf_relocations.h"
#include "elf/elf_symbols.h"
#include "elf/mini_debug_info.h"

namespace heapsnap {

struct ElfImage::Parsed {
  MappedFile file;  // owns headers.bytes when the image was made from a file
  std::string name;
  ElfHeaders headers;
  ElfDynamic dynamic;
  std::string build_id;
  std::optional<std::vector<ElfSymbol>> dynamic_symbols;
  std::optional<std::vector<ElfSymbol>> symbols;
  std::vector<std::byte> mini_debug_info;  // what some of `symbols` are views of

  void parse(std::span<const std::byte> bytes) {
    headers = ElfHeaders::parse(bytes, name);
    dynamic = ElfDynamic::parse(headers);
    build_id = find_build_id(headers);
  }

  std::vector<ElfSymbol> read_symbols() {
    auto found = read_static_symbols(headers);
    const ElfSection* section = headers.section(".gnu_debugdata");
    if (section == nullptr) return found;
    mini_debug_info = decompress_mini_debug_info(headers.contents(*section));
    try {
      const auto inner = ElfHeaders::parse(mini_debug_info, name + " (.gnu_debugdata)");
      const auto more = read_static_symbols(inner);
      found.insert(found.end(), more.begin(), more.end());
    } catch (const Error&) {
      // Damaged: the symbols outside of it stand.
    }
    return found;
  }
};

ElfImage::ElfImage(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
ElfImage::ElfImage(ElfImage&&) noexcept = default;
ElfImage& ElfImage::operator=(ElfImage&&) noexcept = default;
ElfImage::~ElfImage() = default;

ElfImage ElfImage::from_file(MappedFile file, std::string name) {
  auto parsed = std::make_unique<Parsed>();
  parsed->name = std::move(name);
  parsed->file = std::move(file);
  parsed->parse(parsed->file.bytes());
  return ElfImage(std::move(parsed));
}

ElfImage ElfImage::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto parsed = std::make_unique<Parsed>();
  parsed->name = std::move(name);
  parsed->parse(bytes);
  return ElfImage(std::move(parsed));
}

const std::string& ElfImage::name() const {
  return parsed_->name;
}
Machine ElfImage::machine() const {
  return parsed_->headers.machine;
}
uint16_t ElfImage::type() const {
  return parsed_->headers.type;
}
uint64_t ElfImage::entry() const {
  return parsed_->headers.entry;
}
const std::vector<ElfSegment>& ElfImage::segments() const {
  return parsed_->headers.segments;
}
const std::vector<ElfSection>& ElfImage::sections() const {
  return parsed_->headers.sections;
}
const ElfSection* ElfImage::section(std::string_view name) const {
  return parsed_->headers.section(name);
}
const ElfSegment* ElfImage::segment_of(uint64_t address) const {
  return parsed_->headers.segment_of(address);
}
const ElfSegment* ElfImage::tls_segment() const {
  return parsed_->headers.segment_of_type(PT_TLS);
}
bool ElfImage::has_interpreter() const {
  return parsed_->headers.segment_of_type(PT_INTERP) != nullptr;
}
const std::string& ElfImage::build_id() const {
  return parsed_->build_id;
}

std::optional<ElfImage::DebugLink> ElfImage::debug_link() const {
  const ElfSection* section = parsed_->headers.section(".gnu_debuglink");
  if (section == nullptr) return std::nullopt;
  // Name, NUL, padding up to a multiple of four, CRC.
  const auto bytes = parsed_->headers.contents(*section);
  const auto file_name = text_at(bytes, 0, bytes.size());
  const auto crc = load_record<uint32_t>(bytes, (file_name.size() + 4) & ~size_t{3});
  if (file_name.empty() || !crc) return std::nullopt;
  return DebugLink{std::string(file_name), *crc};
}

const std::vector<ElfSymbol>& ElfImage::dynamic_symbols() const {
  auto& cached = parsed_->dynamic_symbols;
  if (!cached) cached = read_dynamic_symbols(parsed_->headers, parsed_->dynamic);
  return *cached;
}

const std::vector<ElfSymbol>& ElfImage::symbols() const {
  auto& cached = parsed_->symbols;
  if (!cached) cached = parsed_->read_symbols();
  return *cached;
}

const ElfSymbol* ElfImage::find_symbol(std::string_view name) const {
  for (const auto* table : {&symbols(), &dynamic_symbols()}) {
    const auto found = std::find_if(table->begin(), table->end(), [name](const auto& symbol) {
      return symbol.is_defined && symbol.name == name;
    });
    if (found != table->end()) return &*found;
  }
  return nullptr;
}

const ElfSymbol* ElfImage::find_dynamic_symbol(std::string_view name) const {
  for (const ElfSymbol& symbol : dynamic_symbols()) {
    if (symbol.is_defined && symbol.name == name) return &symbol;
  }
  return nullptr;
}

std::vector<ElfRelocation> ElfImage::relocations() const {
  return read_relocations(parsed_->headers, parsed_->dynamic);
}

std::span<const std::byte> ElfImage::bytes_at(uint64_t address, uint64_t size) const {
  return parsed_->headers.bytes_at(address, size);
}

std::span<const std::byte> ElfImage::file_bytes() const {
  return parsed_->headers.bytes;
}

}  // namespace heapsnap
